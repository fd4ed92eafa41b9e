// SPDX-License-Identifier: Apache-2.0
// What a backend of the seam gives to the conformance suite. A backend's test program links the suite and one file that
// defines backends().
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "transport/base/time.h"
#include "transport/base/types.h"
#include "transport/transport.h"

namespace redsum::test {

// Two processes, "side" 0 and 1, with a transport each, on one thread.
class Backend {
 public:
  virtual ~Backend() = default;
  // Called once for each side, before everything else. The sink outlives the backend.
  virtual transport::Transport& open(int side, transport::LaneSink& sink) = 0;
  // The two ends of a new link: for the transport of side 0 and of side 1.
  virtual std::pair<std::unique_ptr<transport::Link>, std::unique_ptr<transport::Link>> connect() = 0;
  // Polls both transports and lets time go on a little. A test gives up after a bounded number of turns, so a turn in
  // which nothing moved should wait for a moment or for the next event.
  virtual void turn() = 0;
  // Arms side's transport, and if it agrees lets its loop sleep until woken or `limit_ns` have passed; then polls that
  // side only. Returns what arm() said.
  virtual bool sleep(int side, DurationNs limit_ns) = 0;

  // A link for side 0 whose other end is raw: `write` puts bytes on the wire as they are, `cut` ends it. Backends
  // without a byte stream return no link and those tests are skipped by name.
  struct Raw {
    std::unique_ptr<transport::Link> link;
    std::function<void(ConstBytes)> write;
    std::function<void()> cut;
  };
  virtual Raw connect_raw() { return {}; }
};

struct BackendFactory {
  std::string name;  // letters, digits and _
  std::function<std::unique_ptr<Backend>()> make;
};
std::vector<BackendFactory> backends();  // defined by the backend's file

}  // namespace redsum::test
