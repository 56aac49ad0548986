// How a program that reads again and again, and finds nothing, lets others have the processor.
//
// Libfabric's reads do not block, and libraries call them in a loop that ends when something came.
// Where ranks share a processor, such a loop keeps those from running that would bring it. So reads
// that follow each other closely spin for spin_us, then one yields the processor. How long that
// takes tells whether others want it. If so, yielding is no help: the scheduler soon gives the
// processor back to who always wants to run, and lets him wait for a time slice when his message
// has come. So the next reads in vain block until a packet comes or a timer is due, for 500 us at
// most: a thread that slept is run at once. After some of these a read yields once more, to see
// whether others still want the processor. A read that stands alone neither yields nor blocks: its
// program has something else to do. A thread that reads several queues in turn yields, and never
// blocks: what it waits for may come to another one.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace hawser::ofi {

// Any thread. What threads tell it at the same moment may be lost, which costs a yield.
class IdleReads {
 public:
  explicit IdleReads(std::uint64_t spin_us) : spin_(std::chrono::microseconds(spin_us)) {}

  // A read found something.
  void found();
  // A read found nothing. To be called without locks. `block(most)` waits until something may have
  // come, or for so long; false: there is nothing that it could wait for.
  template <class Block>
  void pause(Block&& block) {
    const Advice advice = advise();
    if (advice == Advice::read_on) return;
    if (advice == Advice::block && block(kMostBlocked)) return begin_anew();
    yield();
  }
  void pause() {
    pause([](std::chrono::microseconds) { return false; });
  }

 private:
  using Nanos = std::chrono::nanoseconds;
  enum class Advice : std::uint8_t { read_on, yield, block };
  static constexpr std::int64_t kNever = 0;
  // From one read's end to the next one's that follows it: more than a turn that brings nothing.
  static constexpr Nanos kClosely = std::chrono::microseconds(20);
  // Somebody else ran: the call alone takes less than 1 us.
  static constexpr Nanos kLate = std::chrono::microseconds(2);
  static constexpr std::chrono::microseconds kMostBlocked{500};
  // Reads that block after a yield that came back late. A yield costs a time slice then: as long as
  // the next ones are late, too, twice as many follow.
  static constexpr unsigned kFewBlocks = 16;
  static constexpr unsigned kManyBlocks = 1024;

  [[nodiscard]] Advice advise();
  void yield();
  void begin_anew();

  Nanos spin_;
  std::atomic<std::int64_t> last_{kNever};  // read in vain; of a steady clock
  std::atomic<std::int64_t> since_{0};      // they have followed each other
  std::atomic<unsigned> blocks_left_{0};
  std::atomic<unsigned> blocks_granted_{kFewBlocks};  // by the next late yield
};

}  // namespace hawser::ofi
