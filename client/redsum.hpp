// SPDX-License-Identifier: Apache-2.0
// redsum.hpp - a thin C++17 wrapper over redsum.h: ownership, exceptions, and element types taken from the pointers.
//
//   redsum::Communicator world;                              // joins the job that the environment describes
//   world.allreduce(gradients, REDSUM_AVG).wait();           // any container with data() and size(), in place
//
// Everything is inline; a program links redsum::client only. Threads and order of calls: as in redsum.h. A function
// that fails throws redsum::Error; destructors never throw and never leave a pending call behind.
#ifndef REDSUM_HPP
#define REDSUM_HPP

#include <chrono>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "redsum.h"

namespace redsum {

// What a call failed with: what() is "timeout: rank 3 did not ...", text() the part after the name.
class Error : public std::runtime_error {
 public:
  Error(redsum_status status, const std::string& text)
      : std::runtime_error(std::string(redsum_status_name(status)) + ": " + text), status_(status), text_(text) {}
  redsum_status status() const noexcept { return status_; }
  const std::string& text() const noexcept { return text_; }

 private:
  redsum_status status_;
  std::string text_;
};

// Throws what the last call of this thread failed with.
inline void throw_if_failed(redsum_status status) {
  if (status != REDSUM_OK) throw Error(status, redsum_last_error());
}

// The redsum_dtype of a C++ type. 16- and 8-bit floats have no C++ type here: use the overloads that take a dtype.
template <typename T>
constexpr redsum_dtype dtype_of() noexcept {
  using E = std::remove_cv_t<T>;
  if constexpr (std::is_same_v<E, float>)
    return REDSUM_FP32;
  else if constexpr (std::is_same_v<E, double>)
    return REDSUM_FP64;
  else if constexpr (std::is_same_v<E, std::complex<float>>)
    return REDSUM_COMPLEX64;
  else if constexpr (std::is_same_v<E, std::complex<double>>)
    return REDSUM_COMPLEX128;
  else if constexpr (std::is_same_v<E, bool>)
    return REDSUM_BOOL;
  else {
    static_assert(std::is_integral_v<E> && sizeof(E) <= 8, "redsum has no dtype for this element type");
    constexpr int kLog2 = sizeof(E) == 1 ? 0 : sizeof(E) == 2 ? 1 : sizeof(E) == 4 ? 2 : 3;
    return static_cast<redsum_dtype>((std::is_signed_v<E> ? REDSUM_INT8 : REDSUM_UINT8) + kLog2);
  }
}

// How to join a job: the defaults and what the environment says (redsum_options_init), to be changed at will.
struct Options {
  Options() {
    redsum_options c;
    redsum_options_init(&c);
    coordinator = c.coordinator ? c.coordinator : "";
    job_id = c.job_id ? c.job_id : "";
    secret_file = c.secret_file ? c.secret_file : "";
    rank = c.rank;
    world_size = c.world_size;
    chunk_bytes = c.chunk_bytes;
    window = c.window;
    connect_timeout = std::chrono::nanoseconds(c.connect_timeout_ns);
    operation_timeout = std::chrono::nanoseconds(c.operation_timeout_ns);
    heartbeat_timeout = std::chrono::nanoseconds(c.heartbeat_timeout_ns);
    mode = c.mode;
    data_address = c.data_address ? c.data_address : "";
    ring_order = c.ring_order;
    interfaces = c.interfaces ? c.interfaces : "";
    fallback = c.fallback;
    min_workers = c.min_workers;
    max_workers = c.max_workers;
  }
  std::string coordinator, job_id, secret_file, data_address, interfaces;
  // A redsum_mode, a redsum_ring_order and a redsum_fallback, or what the environment has wrong: then no value of the
  // enumeration, and redsum_init refuses it.
  std::int32_t mode, ring_order, fallback;
  int rank, world_size, min_workers, max_workers;
  std::uint32_t chunk_bytes, window;
  std::chrono::nanoseconds connect_timeout, operation_timeout, heartbeat_timeout;
};

// Options of one call; the defaults are those of redsum_call_options.
struct CallOptions {
  int wire_dtype = -1;
  double prescale = 1.0;
  double postscale = 1.0;
  std::chrono::nanoseconds timeout{0};
  std::string key;
  bool rollback = true;
  bool ring = false;
};

// One submitted collective. Its buffers must stay until it is complete; the destructor therefore waits for it (and
// drops its error), which ends at the latest with the operation timeout. detach() lets the call go on without the
// handle.
class [[nodiscard]] Handle {
 public:
  Handle() = default;
  explicit Handle(redsum_handle* handle) noexcept : handle_(handle) {}
  Handle(Handle&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Handle& operator=(Handle&& other) noexcept {
    if (this != &other) {
      finish();
      handle_ = std::exchange(other.handle_, nullptr);
    }
    return *this;
  }
  ~Handle() { finish(); }

  // Returns when the call is complete; throws the error it ended with.
  void wait() {
    if (redsum_wait(handle_, -1) != REDSUM_OK) throw_call_error();
  }
  // Waits at most `limit`. False: not complete yet. Throws the error the call ended with.
  bool wait_for(std::chrono::nanoseconds limit) {
    const redsum_status status = redsum_wait(handle_, limit.count() < 0 ? 0 : limit.count());
    if (status == REDSUM_OK) return true;
    if (status == REDSUM_TIMEOUT && redsum_test(handle_) == 0) return false;
    throw_call_error();
  }
  bool done() const noexcept { return redsum_test(handle_) != 0; }
  // `function(status)` runs once, on a thread of the library or, when the call is complete already, on this one. It
  // must neither block nor throw nor submit. One per handle.
  void on_complete(std::function<void(redsum_status)> function) {
    auto owned = std::make_unique<std::function<void(redsum_status)>>(std::move(function));
    throw_if_failed(redsum_on_complete(handle_, &Handle::run_callback, owned.get()));
    (void)owned.release();  // run_callback owns it now
  }
  std::uint64_t sequence() const noexcept { return redsum_handle_sequence(handle_); }
  std::uint64_t epoch() const noexcept { return redsum_handle_epoch(handle_); }
  std::uint32_t contributors() const noexcept { return redsum_handle_contributors(handle_); }
  void detach() noexcept { redsum_handle_free(std::exchange(handle_, nullptr)); }
  redsum_handle* c_handle() const noexcept { return handle_; }

 private:
  static void run_callback(void* user, redsum_status status) {
    const std::unique_ptr<std::function<void(redsum_status)>> owned(
        static_cast<std::function<void(redsum_status)>*>(user));
    (*owned)(status);
  }
  [[noreturn]] void throw_call_error() {
    const redsum_status status = redsum_wait(handle_, 0);
    const std::string text = redsum_handle_error(handle_);
    throw Error(status, text.empty() ? redsum_last_error() : text);
  }
  void finish() noexcept {
    if (handle_ == nullptr) return;
    (void)redsum_wait(handle_, -1);
    detach();
  }
  redsum_handle* handle_ = nullptr;
};

// An ordered group of workers. The one made from Options is the whole job's: destroy those made by create() before it.
class Communicator {
 public:
  explicit Communicator(const Options& options = Options()) {
    redsum_options c;
    redsum_options_init(&c);
    c.coordinator = options.coordinator.c_str();
    c.job_id = options.job_id.c_str();
    c.secret_file = options.secret_file.c_str();
    c.rank = options.rank;
    c.world_size = options.world_size;
    c.chunk_bytes = options.chunk_bytes;
    c.window = options.window;
    c.connect_timeout_ns = options.connect_timeout.count();
    c.operation_timeout_ns = options.operation_timeout.count();
    c.heartbeat_timeout_ns = options.heartbeat_timeout.count();
    c.mode = options.mode;
    c.data_address = options.data_address.c_str();
    c.ring_order = options.ring_order;
    c.interfaces = options.interfaces.c_str();
    c.fallback = options.fallback;
    c.min_workers = options.min_workers;
    c.max_workers = options.max_workers;
    throw_if_failed(redsum_init(&c, &comm_));
  }
  static Communicator init(const Options& options = Options()) { return Communicator(options); }
  Communicator(Communicator&& other) noexcept : comm_(std::exchange(other.comm_, nullptr)) {}
  Communicator& operator=(Communicator&& other) noexcept {
    if (this != &other) {
      (void)redsum_comm_close(comm_);
      comm_ = std::exchange(other.comm_, nullptr);
    }
    return *this;
  }
  ~Communicator() { (void)redsum_comm_close(comm_); }

  // A communicator of some of this one's ranks, in that order; every member calls it with the same list.
  Communicator create(const std::vector<std::int32_t>& ranks) const {
    redsum_comm* made = nullptr;
    throw_if_failed(redsum_comm_create(open(), ranks.data(), ranks.size(), &made));
    return Communicator(made);
  }
  // Leaves, and says so when that fails; the destructor does it silently.
  void close() { throw_if_failed(redsum_comm_close(std::exchange(comm_, nullptr))); }

  int rank() const noexcept { return redsum_comm_rank(comm_); }
  int size() const noexcept { return redsum_comm_size(comm_); }
  // The workers change: see redsum_resume(), redsum_admit() and redsum_comm_membership(). This communicator, the one
  // made from Options, is then that of the new membership; others are closed, make them again.
  redsum_membership resume() { return membership_by(redsum_resume); }
  redsum_membership admit() { return membership_by(redsum_admit); }
  redsum_membership membership() const { return membership_by(redsum_comm_membership); }
  redsum_statistics stats() const {
    redsum_statistics statistics{};
    statistics.struct_bytes = sizeof statistics;
    throw_if_failed(redsum_stats(open(), &statistics));
    return statistics;
  }
  redsum_comm* c_comm() const noexcept { return comm_; }

  // All-reduce of a list of tensors as one collective, of any dtype.
  Handle allreduce(const redsum_tensor* tensors, std::size_t tensor_count, redsum_dtype dtype,
                   redsum_op op = REDSUM_SUM, const CallOptions& options = {}) {
    return start(redsum_allreduce, options, tensors, tensor_count, dtype, op);
  }
  Handle allreduce(const std::vector<redsum_tensor>& tensors, redsum_dtype dtype, redsum_op op = REDSUM_SUM,
                   const CallOptions& options = {}) {
    return allreduce(tensors.data(), tensors.size(), dtype, op, options);
  }
  // Out of place, then in place, then in place over anything with data() and size(): std::vector, std::array,
  // std::span.
  template <typename T>
  Handle allreduce(const T* input, T* output, std::size_t count, redsum_op op = REDSUM_SUM,
                   const CallOptions& options = {}) {
    const redsum_tensor tensor{input, output, count};
    return allreduce(&tensor, 1, dtype_of<T>(), op, options);
  }
  template <typename T>
  Handle allreduce(T* data, std::size_t count, redsum_op op = REDSUM_SUM, const CallOptions& options = {}) {
    return allreduce(static_cast<const T*>(data), data, count, op, options);
  }
  template <typename Container, typename = decltype(std::declval<Container&>().size())>
  Handle allreduce(Container& data, redsum_op op = REDSUM_SUM, const CallOptions& options = {}) {
    return allreduce(data.data(), data.size(), op, options);
  }

  // Rank `root`'s elements arrive in every rank's.
  Handle broadcast(const redsum_tensor* tensors, std::size_t tensor_count, redsum_dtype dtype, int root = 0,
                   const CallOptions& options = {}) {
    return start(redsum_broadcast, options, tensors, tensor_count, dtype, root);
  }
  template <typename T, typename = std::enable_if_t<!std::is_same_v<std::remove_cv_t<T>, redsum_tensor>>>
  Handle broadcast(T* data, std::size_t count, int root = 0, const CallOptions& options = {}) {
    const redsum_tensor tensor{data, data, count};
    return broadcast(&tensor, 1, dtype_of<T>(), root, options);
  }
  template <typename Container, typename = decltype(std::declval<Container&>().size())>
  Handle broadcast(Container& data, int root = 0, const CallOptions& options = {}) {
    return broadcast(data.data(), data.size(), root, options);
  }

  // The reduction arrives in rank `root`'s elements alone.
  Handle reduce(const redsum_tensor* tensors, std::size_t tensor_count, redsum_dtype dtype, redsum_op op = REDSUM_SUM,
                int root = 0, const CallOptions& options = {}) {
    return start(redsum_reduce, options, tensors, tensor_count, dtype, op, root);
  }
  template <typename Container, typename = decltype(std::declval<Container&>().size())>
  Handle reduce(Container& data, redsum_op op = REDSUM_SUM, int root = 0, const CallOptions& options = {}) {
    const redsum_tensor tensor{data.data(), data.data(), data.size()};
    return reduce(&tensor, 1, dtype_of<typename Container::value_type>(), op, root, options);
  }

  // The reduction of size() x count elements, of which this rank gets its part; of any dtype, then of the type's.
  Handle reduce_scatter(const void* input, void* output, std::size_t count, redsum_dtype dtype,
                        redsum_op op = REDSUM_SUM, const CallOptions& options = {}) {
    return start(redsum_reduce_scatter, options, input, output, count, dtype, op);
  }
  template <typename T>
  Handle reduce_scatter(const T* input, T* output, std::size_t count, redsum_op op = REDSUM_SUM,
                        const CallOptions& options = {}) {
    return reduce_scatter(input, output, count, dtype_of<T>(), op, options);
  }
  // With counts[r] elements for rank r, one count for each rank.
  template <typename T>
  Handle reduce_scatter_v(const T* input, T* output, const std::vector<std::uint64_t>& counts,
                          redsum_op op = REDSUM_SUM, const CallOptions& options = {}) {
    throw_if_not_one_each(counts);
    return start(redsum_reduce_scatter_v, options, input, output, counts.data(), dtype_of<T>(), op);
  }

  // Every rank's elements arrive in every rank's output, in the order of the ranks.
  Handle all_gather(const void* input, void* output, std::size_t count, redsum_dtype dtype,
                    const CallOptions& options = {}) {
    return start(redsum_all_gather, options, input, output, count, dtype);
  }
  template <typename T>
  Handle all_gather(const T* input, T* output, std::size_t count, const CallOptions& options = {}) {
    return all_gather(input, output, count, dtype_of<T>(), options);
  }
  // With counts[r] elements of rank r, one count for each rank.
  template <typename T>
  Handle all_gather_v(const T* input, T* output, const std::vector<std::uint64_t>& counts,
                      const CallOptions& options = {}) {
    throw_if_not_one_each(counts);
    return start(redsum_all_gather_v, options, input, output, counts.data(), dtype_of<T>());
  }

  // Elements [r x count, (r + 1) x count) of the input arrive at rank r; of any dtype, then of the type's.
  Handle all_to_all(const void* input, void* output, std::size_t count, redsum_dtype dtype,
                    const CallOptions& options = {}) {
    return start(redsum_all_to_all, options, input, output, count, dtype);
  }
  template <typename T>
  Handle all_to_all(const T* input, T* output, std::size_t count, const CallOptions& options = {}) {
    return all_to_all(input, output, count, dtype_of<T>(), options);
  }
  // With input_counts[r] elements for rank r and output_counts[s] of rank s, one count for each rank.
  template <typename T>
  Handle all_to_all_v(const T* input, const std::vector<std::uint64_t>& input_counts, T* output,
                      const std::vector<std::uint64_t>& output_counts, const CallOptions& options = {}) {
    throw_if_not_one_each(input_counts);
    throw_if_not_one_each(output_counts);
    return start(redsum_all_to_all_v, options, input, input_counts.data(), output, output_counts.data(), dtype_of<T>());
  }

  // Every rank's elements arrive at rank `root`, in the order of the ranks; other ranks' outputs may be nullptr.
  Handle gather(const void* input, void* output, std::size_t count, redsum_dtype dtype, int root = 0,
                const CallOptions& options = {}) {
    return start(redsum_gather, options, input, output, count, dtype, root);
  }
  template <typename T>
  Handle gather(const T* input, T* output, std::size_t count, int root = 0, const CallOptions& options = {}) {
    return gather(input, output, count, dtype_of<T>(), root, options);
  }
  // Rank r gets the r-th part of rank `root`'s elements; other ranks' inputs may be nullptr.
  Handle scatter(const void* input, void* output, std::size_t count, redsum_dtype dtype, int root = 0,
                 const CallOptions& options = {}) {
    return start(redsum_scatter, options, input, output, count, dtype, root);
  }
  template <typename T>
  Handle scatter(const T* input, T* output, std::size_t count, int root = 0, const CallOptions& options = {}) {
    return scatter(input, output, count, dtype_of<T>(), root, options);
  }

  // Elements for one other rank, which receives as many.
  Handle send(const void* input, std::size_t count, redsum_dtype dtype, int to, const CallOptions& options = {}) {
    return start(redsum_send, options, input, count, dtype, to);
  }
  template <typename T>
  Handle send(const T* input, std::size_t count, int to, const CallOptions& options = {}) {
    return send(input, count, dtype_of<T>(), to, options);
  }
  Handle recv(void* output, std::size_t count, redsum_dtype dtype, int from, const CallOptions& options = {}) {
    return start(redsum_recv, options, output, count, dtype, from);
  }
  template <typename T>
  Handle recv(T* output, std::size_t count, int from, const CallOptions& options = {}) {
    return recv(output, count, dtype_of<T>(), from, options);
  }

  // Returns when every rank is here and all earlier collectives are complete everywhere.
  void barrier(const CallOptions& options = {}) { start(redsum_barrier, options).wait(); }

 private:
  void throw_if_not_one_each(const std::vector<std::uint64_t>& counts) const {
    if (counts.size() != static_cast<std::size_t>(size()))
      throw Error(REDSUM_INVALID_ARGUMENT,
                  "counts has " + std::to_string(counts.size()) + " entries for " + std::to_string(size()) + " ranks");
  }
  // Calls function(comm, arguments ..., options, handle) of the C interface.
  template <typename Function, typename... Arguments>
  Handle start(Function function, const CallOptions& options, Arguments... arguments) {
    const redsum_call_options c = to_c(options);
    redsum_handle* handle = nullptr;
    throw_if_failed(function(open(), arguments..., &c, &handle));
    return Handle(handle);
  }
  explicit Communicator(redsum_comm* comm) noexcept : comm_(comm) {}
  template <typename Function>
  redsum_membership membership_by(Function* function) const {
    redsum_membership membership{};
    membership.struct_bytes = sizeof membership;
    throw_if_failed(function(open(), &membership));
    return membership;
  }
  static redsum_call_options to_c(const CallOptions& options) noexcept {
    redsum_call_options c;
    redsum_call_options_init(&c);
    c.wire_dtype = options.wire_dtype;
    c.prescale = options.prescale;
    c.postscale = options.postscale;
    c.timeout_ns = options.timeout.count();
    c.key = options.key.empty() ? nullptr : options.key.c_str();
    c.no_rollback = options.rollback ? 0 : 1;
    c.ring = options.ring ? 1 : 0;
    return c;
  }
  // The communicator, for a call on it; after close() there is none.
  redsum_comm* open() const {
    if (comm_ == nullptr) throw Error(REDSUM_CLOSED, "the communicator was closed");
    return comm_;
  }
  redsum_comm* comm_ = nullptr;
};

}  // namespace redsum

#endif  // REDSUM_HPP
