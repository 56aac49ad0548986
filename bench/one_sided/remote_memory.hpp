// SPDX-License-Identifier: Apache-2.0
// One way of reaching the memory of the other side of a comparison.
//
// Both sides make the same RemoteMemory, and each exposes memory of the same layout. One side is
// the client, which reaches the other one's memory. The server's program makes progress meanwhile,
// and no other call. Only in the exchanges of signals and of messages both sides are active.
//
// Base class of all ways: it keeps operations under way and counts the completions. An operation
// that is alone completes when its effect is in the target's memory, or its result is here. A put
// among others may complete when its bytes may be used again, and a flush follows the last one.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "bench/compare/transport.hpp"

namespace hawser::bench::one_sided {

// The transport doesn't offer that operation.
struct Refusal : Failure {
  using Failure::Failure;
};

class RemoteMemory;

// One operation under way.
struct Operation {
  std::array<void*, 8> context{};  // libfabric's. It comes first: libfabric returns its address.
  RemoteMemory* owner = nullptr;
  std::uint64_t operand = 0;
  std::uint64_t compare = 0;
  std::uint64_t result = 0;  // the word that was fetched
  bool is_alone = false;     // no other one is under way: its end is measured
};

class RemoteMemory {
 public:
  // `longest`: most bytes of a put or a get.
  explicit RemoteMemory(std::size_t longest);
  virtual ~RemoteMemory() = default;
  RemoteMemory(const RemoteMemory&) = delete;
  RemoteMemory& operator=(const RemoteMemory&) = delete;

  // This side's address, with the key to its memory. The other side passes it to connect().
  [[nodiscard]] virtual std::string address() const = 0;
  virtual void connect(const std::string& peer) = 0;

  // ---- this side's memory, which the other one reaches
  // Puts write these bytes, and gets read them.
  [[nodiscard]] std::span<std::byte> bytes() { return std::span(memory()).first(longest_); }
  // Fetch-add and compare-and-swap change this word.
  [[nodiscard]] std::atomic_ref<std::uint64_t> counter() { return word(counter_offset()); }

  // ---- the client's operations. They throw Failure, or Refusal.
  // Called on both sides before an operation is measured.
  virtual void prepare() {}
  void put(std::span<const std::byte> from, std::uint64_t count, std::uint64_t window);
  void get(std::span<std::byte> into, std::uint64_t count, std::uint64_t window);
  // Adds 1 `count` times. Returns the sum of the words that were fetched.
  [[nodiscard]] std::uint64_t fetch_add(std::uint64_t count, std::uint64_t window);
  // Swaps each number from 0 to count - 1 for the next one, and checks what it fetches.
  void compare_swap(std::uint64_t count);
  // One put of 8 bytes with its signal, which the other side does not await.
  void signal_once();

  // ---- exchanges: the client's put of 8 bytes with a signal, then the server's, `count` times.
  // Each side checks the bytes when it has the signal.
  void exchange_signals(bool is_client, std::uint64_t count);
  // The same with two-sided messages of 8 bytes.
  virtual void exchange_messages(bool is_client, std::uint64_t count);

  // The process calls this while it waits for something else, and while it is the target. If it
  // fails, the next operation does.
  void idle();

 protected:
  static constexpr std::size_t kLine = 64;  // each word has a cache line
  static constexpr std::size_t kWords = 4;
  static constexpr std::uint64_t kMostSignals = 64;

  [[nodiscard]] std::size_t counter_offset() const { return first_word_; }
  [[nodiscard]] std::size_t signal_offset() const { return first_word_ + kLine; }
  [[nodiscard]] std::size_t signalled_offset() const { return first_word_ + 2 * kLine; }
  [[nodiscard]] std::size_t unused_offset() const { return first_word_ + 3 * kLine; }
  [[nodiscard]] std::span<std::byte> memory() { return std::as_writable_bytes(std::span(lines_)); }
  [[nodiscard]] std::atomic_ref<std::uint64_t> word(std::size_t offset) {
    return std::atomic_ref(*reinterpret_cast<std::uint64_t*>(memory().data() + offset));
  }

  // Start one operation. Each ends by a call of ended().
  virtual void post_put(Operation& operation, std::span<const std::byte> from) = 0;
  virtual void post_get(Operation& operation, std::span<std::byte> into) = 0;
  virtual void post_fetch_add(Operation& operation) = 0;
  virtual void post_compare_swap(Operation& operation) = 0;
  // Puts the operand into the other side's signalled word, and then signals.
  virtual void post_signal(Operation& operation) = 0;
  // Signals that have come since the beginning.
  [[nodiscard]] virtual std::uint64_t signals() { return word(signal_offset()).load(); }
  // Waits until all puts of a stream are in the target's memory, if their ends don't say that.
  virtual void flush() {}
  // Takes completions. Returns whether there were any.
  virtual bool look() = 0;

  // Looks, and throws Failure after some seconds in vain.
  void progress();
  // May be called by C code, so it doesn't throw.
  void ended(Operation& operation) noexcept;

 private:
  struct alignas(kLine) Line {
    std::array<std::byte, kLine> bytes{};
  };
  template <class Post>
  void post(Post&& post);
  template <class Post>
  void run(std::uint64_t count, std::uint64_t window, Post&& post);
  void await_signal(std::uint64_t expected, std::uint64_t value);

  const std::size_t longest_;
  const std::size_t first_word_;
  std::vector<Line> lines_;
  std::vector<Operation> operations_;
  std::vector<Operation*> free_;
  std::uint64_t ended_ = 0;
  std::uint64_t fetched_ = 0;  // the sum of all results
  std::string failure_;        // of idle()
  Patience patience_;
};

}  // namespace hawser::bench::one_sided
