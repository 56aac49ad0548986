// SPDX-License-Identifier: Apache-2.0
// Address handles by destination: one for each flow label that packets to a port may carry.
//
// To make an address handle the kernel may have to ask the network first, for a second if nobody
// answers. The datapath therefore asks for a destination and gets `again` until it is ready. The
// resolver's threads make and destroy the handles. A destination's state tells who owns it:
//
//   free -> wanted -> making -> ready -> doomed -> destroying -> gone -> free
//             ^         |        | ^                ^
//             +------ failed     v |                |
//                       |       stale <-> remaking  |    (stale may be doomed, too)
//                       v         +-----------------+
//                      free
//
// The resolver owns wanted, making, remaking, doomed and destroying. The datapath owns free, failed
// and gone. Either may move a destination out of ready or stale, whichever is first.
//
// All queue pairs behind a port share its destination. A ready destination stays as a cache. It
// goes when another one needs its place and no send in flight carries its handles.
//
// If the local port has another GID, or is on another device, all handles are useless and are
// dropped. Ready destinations become stale: their handles are null until the resolver has made new
// ones.
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

// Returns a flow label for an entropy. Switches hash on the RoCE source port, and this label's port
// differs from that of every other entropy.
[[nodiscard]] std::uint32_t flow_label(std::uint16_t entropy);

// The service that every packet of a NIC asks of switches.
struct VerbsQuality {
  std::uint8_t traffic_class = 0;  // its low two bits belong to ECN and become ECT(0)
  std::uint8_t service_level = 0;  // 0 to 15
};

// Null while there is no handle.
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
  // Requires that the resolver has ended and the queue pairs are destroyed.
  ~VerbsDestinations();
  VerbsDestinations(const VerbsDestinations&) = delete;
  VerbsDestinations& operator=(const VerbsDestinations&) = delete;

  [[nodiscard]] std::uint16_t entropies() const { return shape_.entropies; }

  // For the datapath. Looks up the destination of `remote`. Sends before `done` have ended.
  //   `ok`: `index` is in use until a release.
  //   `again`: not ready yet, or no place is free; `wake` is set if the resolver has work.
  [[nodiscard]] Status use(const VerbsAddress& remote, const SendPositions& done,
                           std::uint32_t& index, bool& wake);
  // For the datapath. Ends one use. Its sends before `sent` may still carry the handles.
  void release(std::uint32_t index, const SendPositions& sent);
  // For the datapath, while in use. Handles by entropy.
  [[nodiscard]] std::span<const VerbsHandle> handles(std::uint32_t index) const {
    return {&handles_[std::size_t{index} * shape_.entropies], shape_.entropies};
  }

  // For the resolver, any number of its threads at once. Does one piece of work: makes a wanted
  // destination, or destroys a doomed one. With `retries` it also retries failed ones that are due.
  // Returns whether it found work, and whether that work failed. If it found none, `next` is the
  // time when some is due.
  using Clock = std::chrono::steady_clock;
  struct Looked {
    bool found = false;
    bool failed = false;
    Clock::time_point next = Clock::time_point::max();
  };
  // `claimed` is called between finding the work and doing it, so that another thread can look for
  // more.
  template <class Claimed>
  [[nodiscard]] Looked serve(bool retries, Clock::time_point now, Claimed claimed) {
    Looked looked;
    const std::uint32_t index = claim(retries, now, looked);
    if (!looked.found) return looked;
    claimed();
    looked.failed = !carry_out(index);
    return looked;
  }

  // Requires that the resolver is paused and nothing is in flight. Destroys all handles.
  // Destinations in use get new ones, made by `port` as it is then.
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
    std::uint32_t uses = 0;  // changed by the datapath
    SendPositions sent;      // changed by the datapath: the last sends with its handles
    // kAtOnce if it has not failed since it was first wanted, or since it has become stale.
    std::atomic<Clock::time_point> retry_at{kAtOnce};
  };
  static constexpr Clock::time_point kAtOnce = Clock::time_point::min();

  // Frees a place, or makes the resolver free one.
  void make_room(const SendPositions& done, bool& wake);
  void forget(std::uint32_t index);
  // Finds a piece of work and gives it to the caller.
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
  RemoteTable places_;  // by destination; each that isn't free has one opening
  std::unique_ptr<Destination[]> destinations_;
  std::unique_ptr<VerbsHandle[]> handles_;
  std::uint32_t hand_ = 0;                   // where make_room looks next
  std::atomic<std::uint32_t> look_from_{0};  // where claim looks next, so that each gets its turn
};

}  // namespace hawser::engine
