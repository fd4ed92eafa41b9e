// SPDX-License-Identifier: Apache-2.0
// The admin port: what people and monitoring look at, over HTTP/1.1, on a thread of its own, so that it answers while
// every shard is busy. It tells and changes nothing.
//   /metrics  Prometheus text      /livez   200, or 503 when work is pending and nothing moves
//   /readyz   200 when jobs are taken, else 503 with the reason
//   /status   JSON                 /version JSON                 /  a page for people
#pragma once
#include <functional>
#include <memory>
#include <string>

#include "server/admin_status.h"
#include "transport/base/status.h"
#include "transport/base/time.h"

namespace redsum::server {

struct AdminConfig {
  std::string address = "127.0.0.1:7402";
  DurationNs request_timeout = 5 * kSecond;  // from the first wait for a request to the end of its answer
  std::size_t max_connections = 64;          // one more: the one that was idle for longest is closed
};
inline constexpr std::size_t kMaxAdminHeaderBytes = 8192;

class AdminServer {
 public:
  virtual ~AdminServer() = default;         // closes every connection and joins the thread
  virtual std::string address() const = 0;  // as bound, with the real port
};

// Called on the admin's thread, once per request. It must not wait for long for a shard or the coordinator: their being
// stuck is what /livez tells (see StatusSampler).
using StatusSource = std::function<DaemonStatus()>;

// resource_exhausted when the address is in use, invalid_argument when it is no address of this machine.
Result<std::unique_ptr<AdminServer>> start_admin(const AdminConfig& config, StatusSource source);

// -- the part without sockets
struct AdminAnswer {
  int status = 200;
  std::string content_type = "text/plain; charset=utf-8";
  std::string body;
};
AdminAnswer admin_answer(std::string_view path, const DaemonStatus& status);  // GET; 404 for an unknown path

}  // namespace redsum::server
