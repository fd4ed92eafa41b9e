// SPDX-License-Identifier: Apache-2.0
#include "client/call.h"

#include <algorithm>
#include <cstring>

#include "kernels/convert.h"

namespace redsum::client {
namespace {

// Visits the pieces of [offset, offset + count): visit(tensor, first element within it, elements, elements before it).
template <typename Visit>
void for_pieces(const Call& call, std::uint64_t offset, std::uint64_t count, Visit visit) {
  auto tensor = std::partition_point(call.tensors.begin(), call.tensors.end(),
                                     [&](const Tensor& t) { return t.first + t.count <= offset; });
  for (std::uint64_t done = 0; done < count; ++tensor) {
    const std::uint64_t within = offset + done - tensor->first;
    const std::uint64_t take = std::min(count - done, tensor->count - within);
    visit(*tensor, within, take, done);
    done += take;
  }
}

}  // namespace

std::string Call::name() const {
  if (description.kind != wire::Kind::send)
    return "call " + std::to_string(sequence) + " (" + description.to_string() + ")";
  const std::string what =
      " of " + std::to_string(description.count) + " " + std::string(dtype_name(description.dtype));
  return outgoing.empty() ? "receive" + what + " from rank " + std::to_string(incoming.front().rank)
                          : "send" + what + " to rank " + std::to_string(outgoing.front().rank);
}

std::string ranks_text(const std::vector<std::uint32_t>& ranks, std::size_t all) {
  const std::size_t listed = std::min<std::size_t>(ranks.size(), 16);
  std::string text;
  for (std::size_t i = 0; i < listed; ++i) text += " " + std::to_string(ranks[i]);
  if (all > listed) text += " and " + std::to_string(all - listed) + " more";
  return text;
}

bool Call::wait_until(TimeNs limit) {
  if (done()) return true;
  std::unique_lock lock(mutex_);
  const auto ready = [this] { return done_.load(std::memory_order_relaxed); };
  if (limit == kNever) {
    changed_.wait(lock, ready);
    return true;
  }
  const std::chrono::steady_clock::time_point until{std::chrono::nanoseconds(limit)};
  return changed_.wait_until(lock, until, ready);
}

void Call::complete(const Status& status, std::uint32_t contributors, Epoch epoch) {
  Callback callback;
  {
    std::lock_guard lock(mutex_);
    if (done_.load(std::memory_order_relaxed)) return;
    status_ = status;
    contributors_ = contributors;
    epoch_ = epoch;
    callback = std::move(callback_);
    done_.store(true, std::memory_order_release);
    changed_.notify_all();
  }
  if (callback) callback(status_);
}

bool Call::on_complete(Callback callback) {
  {
    std::lock_guard lock(mutex_);
    if (has_callback_) return false;
    has_callback_ = true;
    if (!done_.load(std::memory_order_relaxed)) {
      callback_ = std::move(callback);
      return true;
    }
  }
  callback(status_);
  return true;
}

void gather(const Call& call, std::uint64_t offset, std::uint64_t count, DType wire, std::byte* to) {
  const DType dtype = call.description.dtype;
  const std::size_t from_bytes = dtype_bytes(dtype), to_bytes = dtype_bytes(wire);
  for_pieces(call, offset, count,
             [&](const Tensor& tensor, std::uint64_t within, std::uint64_t take, std::uint64_t done) {
               kernels::convert(wire, to + done * to_bytes, dtype, tensor.input + within * from_bytes, take);
             });
}

void scatter(const Call& call, std::uint64_t offset, std::uint64_t count, DType wire, const std::byte* from) {
  const DType dtype = call.description.dtype;
  const std::size_t from_bytes = dtype_bytes(wire), to_bytes = dtype_bytes(dtype);
  for_pieces(call, offset, count,
             [&](const Tensor& tensor, std::uint64_t within, std::uint64_t take, std::uint64_t done) {
               kernels::convert(dtype, tensor.output + within * to_bytes, wire, from + done * from_bytes, take);
             });
}

void save_in_place(const Call& call, std::uint64_t offset, std::uint64_t count, std::byte* to) {
  const std::size_t bytes = dtype_bytes(call.description.dtype);
  for_pieces(call, offset, count,
             [&](const Tensor& tensor, std::uint64_t within, std::uint64_t take, std::uint64_t done) {
               if (tensor.input == tensor.output)
                 std::memcpy(to + done * bytes, tensor.input + within * bytes, take * bytes);
             });
}

void put_back(const Call& call, std::uint64_t offset, std::uint64_t count, const std::byte* from) {
  const std::size_t bytes = dtype_bytes(call.description.dtype);
  for_pieces(call, offset, count,
             [&](const Tensor& tensor, std::uint64_t within, std::uint64_t take, std::uint64_t done) {
               if (tensor.input == tensor.output)
                 std::memcpy(tensor.output + within * bytes, from + done * bytes, take * bytes);
             });
}

bool overwrites_input(const Call& call, std::uint64_t offset, std::uint64_t count) {
  bool found = false;
  if (call.in_place)
    for_pieces(call, offset, count, [&](const Tensor& tensor, std::uint64_t, std::uint64_t, std::uint64_t) {
      found = found || tensor.input == tensor.output;
    });
  return found;
}

const std::byte* contiguous_input(const Call& call, std::uint64_t offset, std::uint64_t count) {
  const std::byte* found = nullptr;
  const std::size_t bytes = dtype_bytes(call.description.dtype);
  for_pieces(call, offset, count, [&](const Tensor& tensor, std::uint64_t within, std::uint64_t take, std::uint64_t) {
    if (take == count) found = tensor.input + within * bytes;
  });
  return found;
}

std::byte* contiguous_output(const Call& call, std::uint64_t offset, std::uint64_t count) {
  std::byte* found = nullptr;
  const std::size_t bytes = dtype_bytes(call.description.dtype);
  for_pieces(call, offset, count, [&](const Tensor& tensor, std::uint64_t within, std::uint64_t take, std::uint64_t) {
    if (take == count) found = tensor.output + within * bytes;
  });
  return found;
}

}  // namespace redsum::client
