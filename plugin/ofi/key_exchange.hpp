// SPDX-License-Identifier: Apache-2.0
// Turns the 64-bit keys of libfabric into Hawser's keys of 32 bytes, for one endpoint.
//
// A program hands a 64-bit key to its peers. The first operation that names it asks the owner of
// the region, by a message of 0 bytes whose tag is the key. The owner exposes the memory to that
// endpoint, if it has not done so yet, and answers with Hawser's key and the region's base address.
// The initiator keeps the answer. docs/internals/ofi_provider.md gives the reasons.
//
// Timers: a question that a live peer leaves open for twice the patience ends with `unsupported`.
// Its endpoint offers no one-sided operations. A dead peer is found out earlier.
//
// Invariants: at most one question is open for a peer and a key. The receives for questions are
// posted or have a question to answer. The class does not lock: the endpoint's lock guards it.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <unordered_map>

#include "hawser/engine.hpp"
#include "plugin/ofi/region_table.hpp"

namespace hawser::ofi {

inline constexpr std::uint16_t kQuestionChannel = kAdapterChannel + 2;
inline constexpr std::uint16_t kAnswerChannel = kAdapterChannel + 3;

// The answer on the wire, in the byte order of all hosts that Hawser runs on.
struct KeyAnswer {
  RegionKey key{};
  std::uint64_t base = 0;      // the address of the region's first byte
  std::uint64_t is_known = 0;  // 0: no region has that key
};
static_assert(sizeof(KeyAnswer) == 48);

class KeyExchange {
 public:
  using Clock = std::chrono::steady_clock;

  // `endpoint` must not be polled yet.
  KeyExchange(hawser::Endpoint& endpoint, const RegionTable& regions, Clock::duration patience);

  // Finds the region that a peer calls `key`, and asks for it at the first time.
  //   `ok`: `answer` is set.
  //   `again`: the peer is being asked.
  //   `access_denied`: the peer has no region of that key.
  //   `unsupported`: the peer does not answer questions.
  //   `unknown_peer`, or the status with which the session ended.
  [[nodiscard]] Status find(PeerId peer, std::uint64_t key, KeyAnswer& answer);
  // The same for a region of this endpoint.
  [[nodiscard]] Status find_own(std::uint64_t key, KeyAnswer& answer);
  // Forgets an answer with this secret, so that the next `find` asks again.
  void forget(PeerId peer, std::uint64_t key, std::uint64_t secret);
  // Forgets what peers refused. Call it once no waiting operation needs to hear of it.
  void forget_refusals();

  // Ends the exposure of a region. False: call it again after a turn. True: nothing touches the
  // memory through this endpoint any more.
  [[nodiscard]] bool withdraw(std::uint64_t key);

  // Takes a completion that belongs to this class. False: it belongs to an operation.
  [[nodiscard]] bool finish(const Completion& completion);
  // Goes on with what found no room before. Call it in every turn.
  void advance();
  // True if something waits for room, so that it needs turns.
  [[nodiscard]] bool is_stuck() const { return is_stuck_; }

 private:
  static constexpr std::size_t kQuestions = 16;  // of peers, received at a time
  static constexpr std::size_t kAsked = 64;      // of ours, open at a time

  struct PeerKey {
    PeerId peer = kAnyPeer;
    std::uint64_t key = 0;
    friend bool operator==(const PeerKey&, const PeerKey&) = default;
  };
  struct HashPeerKey {
    std::size_t operator()(const PeerKey& k) const noexcept {
      return std::hash<std::uint64_t>()(
          (k.key ^ (k.key >> 29) ^ static_cast<std::uint64_t>(k.peer)) * 0x9e3779b97f4a7c15ULL);
    }
  };
  struct Known {
    Status status = Status::ok;  // other than ok: a refusal
    KeyAnswer answer{};
  };
  // A receive for questions.
  struct Question {
    bool is_posted = false;
    bool is_open = false;  // received and not answered yet
    PeerId peer = kAnyPeer;
    std::uint64_t key = 0;
  };
  // A question of ours. Its receive for the answer is posted as long as it is open.
  struct Asked {
    bool is_open = false;
    bool is_sent = false;
    PeerKey what{};
    KeyAnswer answer{};
    OperationId receive = kNoOperation;
    Clock::time_point since{};
    bool is_late = false;  // given up: its receive is being cancelled
  };
  struct Exposed {
    RegionId region = kNoRegion;
    KeyAnswer answer{};
    bool is_leaving = false;  // being withdrawn
  };

  [[nodiscard]] Status ask(const PeerKey& what);
  [[nodiscard]] Status send_question(Asked& asked);
  void finish_question(Question& question, const Completion& completion);
  void finish_asked(Asked& asked, const Completion& completion);
  void answer_question(Question& question);
  void post(Question& question);
  void keep(const PeerKey& what, const Known& known);

  hawser::Endpoint& endpoint_;
  const RegionTable& regions_;
  Clock::duration patience_;
  std::array<Question, kQuestions> questions_{};
  std::array<Asked, kAsked> asked_{};
  std::size_t open_ = 0;  // of `asked_`
  bool is_stuck_ = false;
  bool has_refusals_ = false;
  std::unordered_map<PeerKey, Known, HashPeerKey> known_;
  std::unordered_map<std::uint64_t, Exposed> exposed_;
};

}  // namespace hawser::ofi
