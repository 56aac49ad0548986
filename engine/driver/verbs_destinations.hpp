// Address handles by destination: one for each flow label that packets to a port may carry.
//
// Making an address handle asks the kernel, which may have to ask the network first (a second if
// nobody answers). So the datapath asks for a destination and gets `again` until it is ready, and
// the helper thread makes and destroys the handles. A destination's state says whose it is:
//
//   free -> wanted -> ready -> doomed -> gone -> free     wanted and doomed: the helper's
//             |  ^                                        all others: the datapath's
//             v  |
//            failed -> free
//
// All queue pairs behind a port share its destination. What is ready stays, as a cache, until its
// place is needed by another and no send is in flight that carries its handles.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine/driver/remote_table.hpp"
#include "engine/driver/verbs_address.hpp"
#include "engine/driver/verbs_port.hpp"
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

class VerbsDestinations {
 public:
  // `port` outlives this. Up to `capacity` destinations with `entropies` handles each.
  VerbsDestinations(const VerbsPort& port, std::uint32_t capacity, std::uint16_t entropies);
  // After the helper has ended and the queue pairs are destroyed.
  ~VerbsDestinations();
  VerbsDestinations(const VerbsDestinations&) = delete;
  VerbsDestinations& operator=(const VerbsDestinations&) = delete;

  [[nodiscard]] std::uint16_t entropies() const { return entropies_; }

  // Datapath. Looks up where `remote` is.
  //   ok: `index` is used until a release · again: not yet, or no place; `wake` is set if the
  //   helper has work. Sends before `done` are over.
  [[nodiscard]] Status use(const VerbsAddress& remote, const SendPositions& done,
                           std::uint32_t& index, bool& wake);
  // Datapath. Ends one use; sends before `sent` may still carry the handles.
  void release(std::uint32_t index, const SendPositions& sent);
  // Datapath, while used. By entropy.
  [[nodiscard]] std::span<ibv_ah* const> handles(std::uint32_t index) const {
    return std::span(handles_).subspan(std::size_t{index} * entropies_, entropies_);
  }

  // Helper. Makes what is wanted and destroys what is doomed; what has failed before only if
  // `retry`. True if something waits for a retry: call again in a while.
  [[nodiscard]] bool serve(bool retry);

 private:
  enum class State : std::uint8_t { free, wanted, ready, failed, doomed, gone };
  struct Destination {
    std::atomic<State> state{State::free};
    VerbsAddress address;
    std::uint32_t uses = 0;      // the datapath's
    SendPositions sent;          // the datapath's: when it was released last
    bool failed_before = false;  // the helper's while wanted
  };

  // Frees a place, or has the helper free one.
  void make_room(const SendPositions& done, bool& wake);
  void forget(std::uint32_t index);
  [[nodiscard]] bool make(std::uint32_t index);
  void destroy(std::uint32_t index);

  const VerbsPort& port_;
  std::uint16_t entropies_;
  RemoteTable places_;  // by destination; one opening for as long as it isn't free
  std::unique_ptr<Destination[]> destinations_;
  std::vector<ibv_ah*> handles_;
  std::uint32_t hand_ = 0;  // where make_room looks next
};

}  // namespace hawser::engine
