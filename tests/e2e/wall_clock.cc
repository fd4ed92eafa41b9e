// SPDX-License-Identifier: Apache-2.0
// A machine that is not as it should be, for a process that has this library in LD_PRELOAD:
//   REDSUM_TEST_WALL_CLOCK=FILE   the wall clock is off by the 64-bit number of seconds in FILE, read at every look
//   REDSUM_TEST_NO_IPV6=1         the kernel has no IPv6
// A timed wait on a lock or condition whose clock may be the wall clock is told on stderr.
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <ctime>

#define EXPORTED extern "C" __attribute__((visibility("default")))

namespace {

const volatile std::int64_t* mapped() {
  static const volatile std::int64_t* const at = []() -> const volatile std::int64_t* {
    const char* path = std::getenv("REDSUM_TEST_WALL_CLOCK");
    const int file = path ? ::open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0) return nullptr;
    void* memory = ::mmap(nullptr, sizeof(std::int64_t), PROT_READ, MAP_SHARED, file, 0);
    ::close(file);
    return memory == MAP_FAILED ? nullptr : static_cast<const volatile std::int64_t*>(memory);
  }
  ();
  return at;
}

std::int64_t seconds_off() {
  const volatile std::int64_t* at = mapped();
  return at ? *at : 0;
}

void tell(const char* text, std::size_t bytes) {
  [[maybe_unused]] const auto written = ::write(2, text, bytes);
}

}  // namespace

EXPORTED int clock_gettime(clockid_t clock, timespec* now) noexcept {
  const auto result = static_cast<int>(::syscall(SYS_clock_gettime, clock, now));
  if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) now->tv_sec += seconds_off();
  return result;
}

EXPORTED int gettimeofday(timeval* now, void*) noexcept {
  timespec exact;
  const int result = clock_gettime(CLOCK_REALTIME, &exact);
  now->tv_sec = exact.tv_sec;
  now->tv_usec = exact.tv_nsec / 1000;
  return result;
}

EXPORTED time_t time(time_t* out) noexcept {
  timespec exact;
  clock_gettime(CLOCK_REALTIME, &exact);
  if (out) *out = exact.tv_sec;
  return exact.tv_sec;
}

EXPORTED int pthread_mutex_timedlock(pthread_mutex_t* mutex, const timespec* until) noexcept {
  constexpr char kText[] = "a timed wait on the wall clock: pthread_mutex_timedlock\n";
  tell(kText, sizeof kText - 1);
  using Real = int (*)(pthread_mutex_t*, const timespec*);
  static const auto real = reinterpret_cast<Real>(::dlsym(RTLD_NEXT, "pthread_mutex_timedlock"));
  return real(mutex, until);
}

EXPORTED int pthread_cond_timedwait(pthread_cond_t* condition, pthread_mutex_t* mutex, const timespec* until) {
  constexpr char kText[] = "a timed wait on the wall clock: pthread_cond_timedwait\n";
  tell(kText, sizeof kText - 1);
  using Real = int (*)(pthread_cond_t*, pthread_mutex_t*, const timespec*);
  static const auto real = reinterpret_cast<Real>(::dlvsym(RTLD_NEXT, "pthread_cond_timedwait", "GLIBC_2.3.2"));
  return real(condition, mutex, until);
}

EXPORTED int socket(int family, int type, int protocol) noexcept {
  static const bool no_ipv6 = std::getenv("REDSUM_TEST_NO_IPV6") != nullptr;
  if (no_ipv6 && family == AF_INET6) {
    errno = EAFNOSUPPORT;
    return -1;
  }
  return static_cast<int>(::syscall(SYS_socket, family, type, protocol));
}
