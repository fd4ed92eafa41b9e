// SPDX-License-Identifier: Apache-2.0
#include "server/launch.h"

#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <csignal>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

namespace redsum::server {

Status notify_service_manager(const std::string& text) {
  const char* path = std::getenv("NOTIFY_SOCKET");
  if (!path || !*path) return {};
  const auto wrong = [&](const std::string& why) {
    return Status(Code::invalid_argument, "NOTIFY_SOCKET '" + std::string(path) + "': " + why);
  };
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::size_t length = std::strlen(path);
  if ((path[0] != '/' && path[0] != '@') || length >= sizeof address.sun_path) return wrong("not a socket's path");
  std::memcpy(address.sun_path, path, length);
  if (path[0] == '@') address.sun_path[0] = '\0';  // abstract
  const int fd = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return wrong(std::strerror(errno));
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + length);
  const ssize_t sent =
      ::sendto(fd, text.data(), text.size(), MSG_NOSIGNAL, reinterpret_cast<const sockaddr*>(&address), size);
  const int error = errno;
  ::close(fd);
  return sent == static_cast<ssize_t>(text.size()) ? Status() : wrong(std::strerror(error));
}

void forget_ports_file(const std::string& path) noexcept {
  std::error_code ignored;
  if (!path.empty()) std::filesystem::remove(path, ignored);
}

Status write_ports_file(const std::string& path, const BoundAddresses& addresses, bool ready) {
  nlohmann::ordered_json json = {{"ready", ready}, {"pid", ::getpid()}};
  if (!addresses.control.empty()) json["control"] = addresses.control;
  if (!addresses.data.empty()) json["data"] = addresses.data;
  if (!addresses.admin.empty()) json["admin"] = addresses.admin;
  const std::string scratch = path + ".part";
  std::ofstream file(scratch, std::ios::binary | std::ios::trunc);
  file << json.dump() << "\n";
  file.close();
  if (!file)
    return {Code::invalid_argument,
            "ports_file '" + path + "': '" + scratch + "' cannot be written: " + std::strerror(errno)};
  std::error_code error;
  std::filesystem::rename(scratch, path, error);
  if (error) return {Code::invalid_argument, "ports_file '" + path + "': " + error.message()};
  return {};
}

Status follow_parent_death() {
  const pid_t parent = ::getppid();
  if (::prctl(PR_SET_PDEATHSIG, SIGTERM) != 0)
    return {Code::unsupported, std::string("--parent-death: prctl: ") + std::strerror(errno)};
  if (::getppid() != parent) return {Code::closed, "--parent-death: the parent process has ended"};
  return {};
}

void raise_descriptor_limit() noexcept {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace redsum::server
