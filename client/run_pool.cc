// SPDX-License-Identifier: Apache-2.0
#include "client/run_pool.h"

#include <fcntl.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

namespace redsum::run {
namespace {

constexpr std::size_t kSecretDigits = 64;

std::string find_redsumd() {
  for (const std::string& folder :
       {std::string(std::getenv("REDSUM_BINDIR") ? std::getenv("REDSUM_BINDIR") : ""), own_folder()}) {
    const std::string path = folder + "/redsumd";
    if (!folder.empty() && ::access(path.c_str(), X_OK) == 0) return path;
  }
  return "redsumd";  // from PATH
}

Status write_private(const std::string& path, const std::string& text) {
  const int fd = ::open(path.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
  const bool written = fd >= 0 && ::write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  const std::string why = std::strerror(errno);
  if (fd >= 0) ::close(fd);
  return written ? Status() : Status(Code::resource_exhausted, "cannot write " + path + ": " + why);
}

}  // namespace

std::string random_hex(std::size_t digits) {
  std::string bytes(digits, '\0');
  std::size_t have = 0;
  while (have < bytes.size()) {
    const ssize_t got = ::getrandom(bytes.data() + have, bytes.size() - have, 0);
    if (got > 0) have += static_cast<std::size_t>(got);
  }
  for (char& byte : bytes) byte = "0123456789abcdef"[static_cast<unsigned char>(byte) & 15];
  return bytes;
}

std::string own_folder() {
  std::error_code error;
  return std::filesystem::read_symlink("/proc/self/exe", error).parent_path().string();
}

Pool::~Pool() {
  std::error_code ignored;
  if (!folder_.empty()) std::filesystem::remove_all(folder_, ignored);
}

Status Pool::prepare() {
  const char* base = std::getenv("TMPDIR");
  std::string folder = std::string(base != nullptr && *base != '\0' ? base : "/tmp") + "/redsumrun.XXXXXX";
  if (::mkdtemp(folder.data()) == nullptr) {  // mode 0700
    return {Code::resource_exhausted, "cannot make a folder " + folder + ": " + std::strerror(errno) + "; set TMPDIR"};
  }
  folder_ = folder;
  secret_file_ = options_.secret_file;
  if (!secret_file_.empty()) return {};
  secret_file_ = folder_ + "/secret";
  return write_private(secret_file_, random_hex(kSecretDigits) + "\n");
}

SpawnSpec Pool::daemon(const std::string& name, const std::string& role, const std::string& ports_file) const {
  SpawnSpec spec{name,
                 {find_redsumd(), "--role", role, "--control.address", "127.0.0.1:0", "--data.address", "127.0.0.1:0",
                  "--data.interfaces", "",  // REDSUM_INTERFACES is meant for the workers
                  "--admin.address", "127.0.0.1:0", "--control.secret_file", secret_file_, "--ports-file",
                  folder_ + "/" + ports_file, "--log.format", "text", "--parent-death"},
                 {}};
  spec.arguments.insert(spec.arguments.end(), options_.daemon_arguments.begin(), options_.daemon_arguments.end());
  return spec;
}

SpawnSpec Pool::coordinator() const {
  SpawnSpec spec = daemon("coordinator", "coordinator", "coordinator.json");
  for (const std::string& word :
       {std::string("--coordinator.min_reducers"), std::to_string(std::max(options_.reducers, 1))}) {
    spec.arguments.push_back(word);
  }
  return spec;
}

SpawnSpec Pool::reducer(int index, const std::string& coordinator_address) const {
  const std::string number = std::to_string(index);
  SpawnSpec spec = daemon("reducer " + number, "reducer", "reducer-" + number + ".json");
  for (const std::string& word :
       {std::string("--control.coordinators"), coordinator_address, std::string("--reducer.name"), "reducer-" + number,
        std::string("--reducer.shards"), std::to_string(options_.shards)}) {
    spec.arguments.push_back(word);
  }
  return spec;
}

Pool::Report Pool::read_report(const std::string& file) const {
  Report report;
  std::ifstream stream(folder_ + "/" + file);
  const nlohmann::json json = nlohmann::json::parse(stream, nullptr, false);
  if (!json.is_object()) return report;  // not written yet
  if (const auto ready = json.find("ready"); ready != json.end() && ready->is_boolean()) report.ready = *ready;
  if (const auto control = json.find("control"); control != json.end() && control->is_string()) {
    report.control_address = *control;
  }
  return report;
}

}  // namespace redsum::run
