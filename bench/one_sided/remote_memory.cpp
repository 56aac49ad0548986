// SPDX-License-Identifier: Apache-2.0
#include "bench/one_sided/remote_memory.hpp"

namespace hawser::bench::one_sided {

namespace {

constexpr std::size_t kOperations = 1024;  // the longest window, and some spare

}  // namespace

RemoteMemory::RemoteMemory(std::size_t longest)
    : longest_(longest),
      first_word_((longest + kLine - 1) / kLine * kLine),
      lines_(first_word_ / kLine + kWords),
      operations_(kOperations) {
  free_.reserve(operations_.size());
  for (Operation& operation : operations_) {
    operation.owner = this;
    free_.push_back(&operation);
  }
}

// Starts one operation, and gives its place back if that fails.
template <class Post>
void RemoteMemory::post(Post&& post) {
  while (free_.empty()) progress();
  Operation& operation = *free_.back();
  free_.pop_back();
  operation.operand = operation.compare = operation.result = 0;
  try {
    post(operation);
  } catch (...) {
    free_.push_back(&operation);
    throw;
  }
}

template <class Post>
void RemoteMemory::run(std::uint64_t count, std::uint64_t window, Post&& post_one) {
  const std::uint64_t before = ended_;
  for (std::uint64_t posted = 0; ended_ - before < count;) {
    for (; posted < count && posted < ended_ - before + window; ++posted) {
      post([&](Operation& operation) {
        operation.is_alone = window == 1;
        post_one(operation);
      });
    }
    if (ended_ - before < posted) progress();
  }
  if (window > 1) flush();
}

void RemoteMemory::put(std::span<const std::byte> from, std::uint64_t count, std::uint64_t window) {
  run(count, window, [&](Operation& operation) { post_put(operation, from); });
}

void RemoteMemory::get(std::span<std::byte> into, std::uint64_t count, std::uint64_t window) {
  run(count, window, [&](Operation& operation) { post_get(operation, into); });
}

std::uint64_t RemoteMemory::fetch_add(std::uint64_t count, std::uint64_t window) {
  const std::uint64_t before = fetched_;
  run(count, window, [&](Operation& operation) {
    operation.operand = 1;
    post_fetch_add(operation);
  });
  return fetched_ - before;
}

void RemoteMemory::compare_swap(std::uint64_t count) {
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint64_t before = fetched_;
    run(1, 1, [&](Operation& operation) {
      operation.compare = i;
      operation.operand = i + 1;
      post_compare_swap(operation);
    });
    if (fetched_ - before != i) fail("a compare-and-swap fetched another word than was there");
  }
}

void RemoteMemory::signal_once() {
  run(1, 1, [&](Operation& operation) { post_signal(operation); });
}

void RemoteMemory::exchange_signals(bool is_client, std::uint64_t count) {
  const std::uint64_t ended_before = ended_;
  const std::uint64_t signals_before = signals();
  const auto signal = [&](std::uint64_t value) {
    while (ended_ - ended_before + kMostSignals < value) progress();
    post([&](Operation& operation) {
      operation.operand = value;
      post_signal(operation);
    });
  };
  for (std::uint64_t i = 1; i <= count; ++i) {
    if (is_client) signal(i);
    await_signal(signals_before + i, i);
    if (!is_client) signal(i);
  }
  while (ended_ - ended_before < count) progress();
}

void RemoteMemory::await_signal(std::uint64_t expected, std::uint64_t value) {
  while (signals() < expected) progress();
  patience_.renew();
  if (signals() != expected) fail("a signal came twice");
  if (word(signalled_offset()).load() != value) fail("a signal came without its bytes");
}

void RemoteMemory::exchange_messages(bool, std::uint64_t) {
  throw Refusal("only Hawser's own messages are measured here");
}

void RemoteMemory::idle() {
  try {
    (void)look();
  } catch (const Failure& error) {
    failure_ = error.what();
  }
}

void RemoteMemory::progress() {
  if (!failure_.empty()) fail(failure_);
  if (look()) {
    patience_.renew();
  } else {
    patience_.spend("one-sided");
  }
}

void RemoteMemory::ended(Operation& operation) noexcept {
  ++ended_;
  fetched_ += operation.result;
  free_.push_back(&operation);  // its place is reserved
}

}  // namespace hawser::bench::one_sided
