// SPDX-License-Identifier: Apache-2.0
// The judge of a storm. It knows the plan, the calls and the completions, and nothing of how the
// protocol works; it is told what the application does and sees, and says what is wrong with it.
//
// Rules:
//  - every operation that was taken completes: once, or twice if the first says `not released`;
//  - it ends ok, cancelled if somebody asked for that, or with the status with which its own
//  session
//    has ended, as its host says by an event before. That is the session that it was posted in, or
//    for; of a receive from anyone that of the message that it had matched, since it was posted
//    (unmatched it ends with no session but with its endpoint);
//  - a receive ends with store_full only after peer_timeout, by its host's clock, and if more
//    messages than max_receive_messages were posted to its host, not received and not cancelled;
//  - a message is received at most once, by a receive that it matches, whole or cut to the buffer,
//    its bytes those that were sent;
//  - a send that ended ok is received, whatever became of its session, unless its receiver's
//    process has died or closed since it was posted;
//  - a send at level delivered ends well after a receive got it, and says whether it was cut,
//    whatever became of the session;
//  - a send that was cancelled is never received, nor one that has `surely not` arrived;
//  - messages of one sender match in the order in which they were sent: whatever a receive got, an
//    older message that it matched too has gone to an older receive. Of a message that was never
//    received that is asked if both were of one session, and it was not gone: claimed, cancelled,
//    had by an older receive that failed, or in part in the receiver's end of a session that ended
//    before the receive got its message;
//  - a receive's buffer is written where its message goes, before its completion, and nowhere else,
//    nor are guards on both sides of it;
//  - nobody reads a send's buffer after it was released;
//  - a session fails only where the plan gives a reason for it (strangers beyond max_peers are one
//    for the session of a caller who has not confirmed yet: his slot may be taken);
//  - full packets of a session are as long as its ways and NICs carry (widths.hpp);
//  - whoever gives up as its epoch is not above that of a process before it, has such an epoch; one
//    whose epoch is the same is a reason for both ends not to reach each other, and one that is
//    lower is none for long;
//  - a session is said to be established once, and before anything in it ends well;
//  - of a session that has ended at one end the other one hears too, within a time that the
//    tunables give, if it waits for anything in it and nothing is at fault any more (sessions.hpp);
//  - who closes is done in time, and all of its operations have ended; if it took less than
//    1.5 close_timeout, everybody was told, and who sent what was delivered was told that;
//  - what an endpoint holds stays within the tunables, and after the healing little is sent again
//    (bounds.hpp);
//  - a name that a host has for another one is that one's for ever, and stays as long as a session
//    lives or a whole message lies there; after that it is nobody's;
//  - a newcomer gets in as soon as a place can be had (places.hpp), and is refused for no other
//    reason; of refusals their host tells, at most once a second;
//  - a message comes in time while there is a way for it (liveness.hpp);
//  - paths are asked whether they live at the pace of timers (chatter.hpp).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sim/storm/guarded_buffer.hpp"
#include "sim/storm/liveness.hpp"
#include "sim/storm/places.hpp"
#include "sim/storm/plan.hpp"
#include "sim/storm/reasons.hpp"
#include "sim/storm/sessions.hpp"
#include "sim/storm/widths.hpp"

namespace hawser::sim {

constexpr std::uint64_t kStillHeld = ~std::uint64_t{0};

// What became of a planned message or receive.
struct SendRecord {
  bool posted = false;
  std::uint64_t life = 0;     // which process of the host
  std::uint64_t order = 0;    // of the post, among all of the sender
  std::uint32_t session = 0;  // with the receiver, as Sessions counts
  proto::Duration at{};       // of the post
  std::vector<std::byte> bytes;
  std::optional<Completion> completion;
  proto::Duration done{};  // when it completed first
  bool released = false;
  bool cancel_asked = false;
  bool gone = false;  // the process died with it
  std::uint32_t received = 0;
  bool cut = false;  // by the receive that got it
  // Until then a full store may have turned away a message that it waits behind.
  proto::Duration held_up_until{};
  // When it was claimed and put back (or kStillHeld), among the posts of the receiver.
  std::vector<std::pair<std::uint64_t, std::uint64_t>> held;
};

struct ReceiveRecord {
  ReceivePlan plan;  // what was asked for
  bool posted = false;
  std::uint64_t life = 0;
  std::uint64_t order = 0;    // of the post or claim, among all of the host
  std::uint32_t session = 0;  // with the one host that it waits for, as Sessions counts
  proto::Duration at{};       // of the post
  proto::Duration done{};     // of the completion
  proto::Time clock{};        // of the host, at the post
  GuardedBuffer buffer;
  std::optional<Completion> completion;
  std::uint32_t message = ~0u;  // that it got
  bool cancel_asked = false;
  bool gone = false;
};

// The bytes of a message, by its place in the plan.
[[nodiscard]] std::vector<std::byte> bytes_of_message(std::uint64_t seed, std::uint32_t message,
                                                      std::size_t bytes);

class Oracle {
 public:
  explicit Oracle(const Plan& plan)
      : plan_(plan),
        reasons_(plan),
        liveness_(plan, reasons_),
        sessions_(plan.hosts.size()),
        places_(plan, reasons_, sessions_),
        widths_(plan),
        processes_(plan.hosts.size(), {Process{0, first_epoch(plan), {}}}),
        verified_(plan.hosts.size() * plan.hosts.size()),
        sends_(plan.messages.size()),
        closings_(plan.hosts.size()),
        gone_(plan.hosts.size(), proto::Duration{-1}) {}

  [[nodiscard]] SendRecord& send(std::uint32_t message) { return sends_[message]; }
  [[nodiscard]] std::vector<ReceiveRecord>& receives() { return receives_; }

  void on_send_completed(std::uint32_t message, const Completion& completion, bool nic_reads,
                         proto::Duration at);
  // `clock`: of the host, now. `from`: the host that the completion names; kAnyHost: its caller
  // has no name for it.
  void on_receive_completed(std::uint32_t receive, const Completion& completion, std::uint32_t from,
                            proto::Time clock);
  void on_established(std::uint32_t host, std::uint32_t other, proto::Duration at);
  // A session between the two ended, as one of them says, at this time of the run.
  void on_failure(std::uint32_t host, std::uint32_t other, Status status, Reason reason,
                  proto::Duration at);
  [[nodiscard]] std::size_t failures() const { return failures_.size(); }
  // Full packets of the session that was just established have that payload, says the host. True:
  // that is less than NICs take.
  bool on_size(std::uint32_t host, std::uint32_t other, std::uint32_t bytes, proto::Duration at);
  // A process of the host has begun, after another one.
  void on_restarted(std::uint32_t host, std::uint64_t life, std::uint64_t epoch) {
    processes_[host].push_back({life, epoch, {}});
  }
  // A process is gone, whatever it had with others.
  void on_died(std::uint32_t host, proto::Duration at);
  // It is called to close, or to disconnect the other one.
  void on_closing(std::uint32_t host, std::uint32_t other, proto::Duration at);
  // It says that it has closed. `early`: before 1.5 close_timeout was over. Who stands in the
  // middle of a turn may have heard what its program is not told yet.
  void on_closed(std::uint32_t host, bool early, proto::Duration at,
                 const std::vector<bool>& stands);
  // Since when `host`, which has a session of which `other` has no part any more, waits for
  // something in it. Nothing: it has no such session, or waits for nothing.
  [[nodiscard]] std::optional<proto::Duration> waits_in_vain(std::uint32_t host,
                                                             std::uint32_t other) const;
  [[nodiscard]] const Sessions& sessions() const { return sessions_; }
  [[nodiscard]] Places& places() { return places_; }
  // The host's endpoint does not know its newest name of the other one any more.
  void on_forgotten(std::uint32_t host, std::uint32_t other);
  // A message of `from` may still lie at `to`, from a session that has ended there. `surely`: it
  // does, and was not claimed.
  [[nodiscard]] bool lies_there(std::uint32_t from, std::uint32_t to, bool surely) const;
  // When everything that lives has completed.
  void judge();
  // At the very end: nothing was written where, or when, it must not be.
  void judge_buffers();

  // The first thing that was wrong; empty: nothing.
  [[nodiscard]] const std::string& verdict() const { return verdict_; }
  void accuse(std::string what) {
    if (verdict_.empty()) verdict_ = std::move(what);
  }

 private:
  [[nodiscard]] bool matches(const ReceiveRecord& receive, const MessagePlan& message) const;
  [[nodiscard]] bool lost_by_receiver(std::uint32_t message) const;
  [[nodiscard]] bool had_its_turn(std::uint32_t message, const ReceiveRecord& got) const;
  [[nodiscard]] bool session_ended_so(const ReceiveRecord& receive, const Completion& completion,
                                      std::uint32_t from) const;
  [[nodiscard]] bool store_was_full(const ReceiveRecord& receive, proto::Time clock) const;

  // ---- oracle_store.cpp
  [[nodiscard]] bool may_take_descriptor(std::uint32_t message) const;
  [[nodiscard]] bool is_wanted(std::uint32_t message) const;
  [[nodiscard]] bool waits_behind_full_store(std::uint32_t message) const;
  [[nodiscard]] bool any_cancel_is_under_way(std::uint32_t host) const;
  void note_freed_descriptors(std::uint32_t host, proto::Duration at);

  void check_got(std::uint32_t receive, const Completion& completion, std::uint32_t from);
  void check_time(const ReceiveRecord& receive);
  void check_got_nothing(std::uint32_t receive, const Completion& completion, std::uint32_t from,
                         proto::Time clock);
  void check_word(std::uint32_t message, Status status);
  [[nodiscard]] bool may_have_forgotten(std::uint32_t host, std::uint32_t caller) const;
  [[nodiscard]] bool has_stale_epoch(std::uint32_t host, std::uint32_t other) const;
  [[nodiscard]] bool had_same_epoch(std::uint32_t host, std::uint32_t other) const;
  [[nodiscard]] bool is_kept_out(std::uint32_t host, std::uint32_t other) const;
  [[nodiscard]] bool was_held_off(std::uint32_t host, std::uint32_t other,
                                  proto::Duration at) const;
  [[nodiscard]] bool may_close(std::uint32_t host, std::uint32_t other) const;
  [[nodiscard]] bool parted_well(std::uint32_t closed, std::uint32_t other) const;
  void check_bytes(const ReceiveRecord& receive, const Completion& completion);
  void judge_sends();
  void judge_order();
  void judge_partings();

  struct Failure {
    std::uint32_t host = 0;  // says so
    std::uint32_t other = 0;
    Status status{};
  };
  // What the process of a host that closes had then.
  struct Closing {
    bool began = false;
    bool early = false;
    proto::Duration at{};
    std::vector<bool> had;              // by host: a session with it
    std::vector<std::uint32_t> parted;  // disconnected
  };

  struct Process {
    std::uint64_t life = 0;
    std::uint64_t epoch = 0;
    std::optional<proto::Duration> gone;
  };
  // The processes of a peer with which the endpoints of a host may have had sessions. Packets of
  // one that is gone may still complete a handshake.
  struct Verified {
    std::vector<Process> all;     // with any endpoint of the host
    std::vector<Process> newest;  // with the present one, the last time
  };
  [[nodiscard]] Verified& verified(std::uint32_t by, std::uint32_t host) {
    return verified_[by * plan_.hosts.size() + host];
  }
  [[nodiscard]] const Verified& verified(std::uint32_t by, std::uint32_t host) const {
    return verified_[by * plan_.hosts.size() + host];
  }

  const Plan& plan_;
  Reasons reasons_;
  Liveness liveness_;
  Sessions sessions_;
  Places places_;
  Widths widths_;
  std::vector<std::vector<Process>> processes_;  // by host: the last one runs, or is gone
  std::vector<Verified> verified_;
  std::vector<SendRecord> sends_;
  std::vector<ReceiveRecord> receives_;
  std::vector<Failure> failures_;
  std::vector<Closing> closings_;
  std::vector<proto::Duration> gone_;  // by host: when its process died or closed last
  std::string verdict_;
};

}  // namespace hawser::sim
