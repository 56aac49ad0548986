// SPDX-License-Identifier: Apache-2.0
// Address handles by destination: one for each flow label that packets to a port may carry.
//
// Making an address handle asks the kernel, which may have to ask the network first (a second if
// nobody answers). So the datapath asks for a destination and gets `again` until it is ready, and
// the resolver's threads make and destroy the handles. A destination's state says whose it is:
//
//   free -> wanted -> making -> ready -> doomed -> destroying -> gone -> free
//             ^         |        | ^                ^
//             +------ failed     v |                |
//                       |       stale <-> remaking  |    (stale may be doomed, too)
//                       v         +-----------------+
//                      free
//
// wanted, making, remaking, doomed and destroying are the resolver's, free, failed and gone the
// datapath's; ready and stale are left by whoever is first.
//
// All queue pairs behind a port share its destination. What is ready stays, as a cache, until its
// place is needed by another and no send is in flight that carries its handles.
//
// Where the port has another GID, or its device is another one, the handles are of no use: they are
// dropped, and those of destinations that are ready become stale: they are made anew, and are null
// until then.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine/driver/remote_table.hpp"
#include "engine/driver/verbs/verbs_address.hpp"
#include "engine/driver/verbs/verbs_port.hpp"
#include "hawser/status.hpp"

namespace hawser::engine {

// Positions in the send rings of both queues (verbs_sender.hpp).
struct SendPositions {
  std::uint64_t data = 0;
  std::uint64_t control = 0;
  [[nodiscard]] bool covers(const SendPositions& other) const {
    return data >= other.data && control >= other.control;
  }
};

// A flow label whose RoCE source port, which switches hash on, differs from that of every other
// entropy.
[[nodiscard]] std::uint32_t flow_label(std::uint16_t entropy);

// What every packet of a NIC asks of switches.
struct VerbsQuality {
  std::uint8_t traffic_class = 0;  // its low two bits are ECN's, and replaced by ECT(0)
  std::uint8_t service_level = 0;  // 0 to 15
};

// Null while there is none.
using VerbsHandle = std::atomic<ibv_ah*>;

class VerbsDestinations {
 public:
  struct Shape {
    std::uint32_t capacity = 0;  // destinations
    std::uint16_t entropies = 1;
    VerbsQuality quality{};
  };
  // `port` outlives this.
  VerbsDestinations(const VerbsPort& port, const Shape& shape);
  // After the resolver has ended and the queue pairs are destroyed.
  ~VerbsDestinations();
  VerbsDestinations(const VerbsDestinations&) = delete;
  VerbsDestinations& operator=(const VerbsDestinations&) = delete;

  [[nodiscard]] std::uint16_t entropies() const { return shape_.entropies; }

  // Datapath. Looks up where `remote` is.
  //   ok: `index` is used until a release · again: not yet, or no place; `wake` is set if the
  //   resolver has work. Sends before `done` are over.
  [[nodiscard]] Status use(const VerbsAddress& remote, const SendPositions& done,
                           std::uint32_t& index, bool& wake);
  // Datapath. Ends one use; of its sends those before `sent` may still carry the handles.
  void release(std::uint32_t index, const SendPositions& sent);
  // Datapath, while used. By entropy.
  [[nodiscard]] std::span<const VerbsHandle> handles(std::uint32_t index) const {
    return {&handles_[std::size_t{index} * shape_.entropies], shape_.entropies};
  }

  // Resolver, any of its threads at once. Does one thing that is to be done: makes what is wanted,
  // or destroys what is doomed. What has failed is tried again, if `retries`, once it is due.
  // Returns whether anything was found to do, and whether that failed; if nothing was, `next` is
  // when something is due.
  using Clock = std::chrono::steady_clock;
  struct Looked {
    bool found = false;
    bool failed = false;
    Clock::time_point next = Clock::time_point::max();
  };
  // Between finding something and doing it `claimed` is called: another thread may look on.
  template <class Claimed>
  [[nodiscard]] Looked serve(bool retries, Clock::time_point now, Claimed claimed) {
    Looked looked;
    const std::uint32_t index = claim(retries, now, looked);
    if (!looked.found) return looked;
    claimed();
    looked.failed = !carry_out(index);
    return looked;
  }

  // While the resolver rests, and with nothing in flight: destroys all handles. What is in use is
  // made anew, by `port` as it is then.
  void drop_handles();

 private:
  enum class State : std::uint8_t {
    free,
    wanted,
    making,
    failed,
    ready,
    stale,
    remaking,
    doomed,
    destroying,
    gone
  };
  struct Destination {
    std::atomic<State> state{State::free};
    VerbsAddress address;
    std::uint32_t uses = 0;  // the datapath's
    SendPositions sent;      // the datapath's: the last that may carry the handles
    // kAtOnce if it has not failed since it was wanted first, or has become stale.
    std::atomic<Clock::time_point> retry_at{kAtOnce};
  };
  static constexpr Clock::time_point kAtOnce = Clock::time_point::min();

  // Frees a place, or has the resolver free one.
  void make_room(const SendPositions& done, bool& wake);
  void forget(std::uint32_t index);
  // Finds something to be done and makes it the caller's.
  [[nodiscard]] std::uint32_t claim(bool retries, Clock::time_point now, Looked& looked);
  [[nodiscard]] static bool try_claim(Destination& destination, bool retries, Clock::time_point now,
                                      Looked& looked);
  [[nodiscard]] bool carry_out(std::uint32_t index);
  [[nodiscard]] bool make(std::uint32_t index);
  void destroy(std::uint32_t index);
  [[nodiscard]] VerbsHandle& handle(std::uint32_t index, std::uint16_t entropy) {
    return handles_[std::size_t{index} * shape_.entropies + entropy];
  }

  const VerbsPort& port_;
  Shape shape_;
  RemoteTable places_;  // by destination; one opening for as long as it isn't free
  std::unique_ptr<Destination[]> destinations_;
  std::unique_ptr<VerbsHandle[]> handles_;
  std::uint32_t hand_ = 0;                   // where make_room looks next
  std::atomic<std::uint32_t> look_from_{0};  // where claim does: so that each gets its turn
};

}  // namespace hawser::engine
