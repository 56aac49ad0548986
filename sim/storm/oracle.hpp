// SPDX-License-Identifier: Apache-2.0
// The judge of a storm. It knows the plan, the calls and the completions, and nothing of how the
// protocol works. The application tells it all that it does and sees, and the judge says what is
// wrong with that.
//
// Rules:
//  - Every operation that was taken completes: once, or twice if the first says `not released`.
//  - An operation ends ok, cancelled if the program asked for that, or with its session. In the
//    last case it has the status with which its host said before, by an event, that the session
//    ended. That is the session that it was posted in, or for. A receive from anyone ends with the
//    session of the message that it had matched since it was posted. Unmatched it ends only with
//    its endpoint.
//  - A receive ends with store_full only after peer_timeout, by its host's clock. Besides, more
//    messages than max_receive_messages must have been posted to its host, not received and not
//    cancelled.
//  - A message is received at most once, by a receive that it matches, whole or cut to the buffer,
//    with the bytes that were sent.
//  - A send that ended ok is received, whatever happened to its session, unless its receiver's
//    process has died or closed since it was posted.
//  - A send at level delivered ends well after a receive got it, and says whether it was cut,
//    whatever happened to the session. A receiver that stands in the middle of a turn may have the
//    message, though its program doesn't know yet.
//  - A cancelled send is never received, nor is one that has `surely not` arrived.
//  - Messages of one sender match in the order in which they were sent: an older message that
//    matches the same receive has gone to an older receive. For a message that was never received
//    this holds only if both are of one session, and the older one was not gone. It may be gone
//    because it was claimed or cancelled, or because an older receive that failed had it. Or only
//    part of it had arrived when the receiver's end of a session ended, before the receive got its
//    message.
//  - A receive's buffer is written where its message goes, before its completion, and nowhere else,
//    and neither are the guards on both sides of it.
//  - No NIC reads a send's buffer after it was released.
//  - A session fails only where the plan gives a reason for it. Strangers beyond max_peers are a
//    reason for the session of a caller that has not confirmed yet: its slot may be taken.
//  - Full packets of a session are as long as its ways and NICs carry (widths.hpp).
//  - An end that gives up because its epoch is not above that of a process before it has such an
//    epoch. An equal epoch is a reason for both ends not to reach each other; a lower one is none
//    for long. A process may have died while it called. An end that has answered it drops the calls
//    of a process with a lower epoch for two periods of cookies, and its answers.
//  - A session is said to be established once, and before anything in it ends well.
//  - If a session has ended at one end, the other end hears too, within a time that the tunables
//    give. This holds if that end waits for anything in it and no fault is active any more
//    (sessions.hpp).
//  - A closing process is done in time, and all of its operations have ended. If it took less than
//    1.5 close_timeout, all peers were told, and senders of delivered messages were told of that.
//  - An endpoint stays within its tunables, and after the healing it retransmits little
//    (bounds.hpp).
//  - A host's name for another one belongs to that one for ever. It stays valid as long as a
//    session lives or a whole message lies there; after that it is nobody's.
//  - A newcomer gets in as soon as a place can be had (places.hpp), and is refused for no other
//    reason. The refusing host reports refusals, at most once a second.
//  - A message comes in time while there is a way for it (liveness.hpp).
//  - Paths are probed at the pace of timers (chatter.hpp).
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

// The state of a planned message or receive.
struct SendRecord {
  bool posted = false;
  std::uint64_t life = 0;     // which process of the host
  std::uint64_t order = 0;    // of the post, among all posts of the sender
  std::uint32_t session = 0;  // with the receiver, as Sessions counts
  proto::Duration at{};       // of the post
  std::vector<std::byte> bytes;
  std::optional<Completion> completion;
  proto::Duration done{};  // when it completed first
  bool released = false;
  bool cancel_asked = false;
  bool gone = false;  // its process died before it completed
  std::uint32_t received = 0;
  bool cut = false;  // the receive that got it had a shorter buffer
  // Told to the sender of a delivered message while the receiver stood in the middle of a turn.
  std::optional<Status> early_word;
  // Until then a full store may have turned away a message ahead of this one.
  proto::Duration held_up_until{};
  // When it was claimed and put back (or kStillHeld), in the order of the receiver's posts.
  std::vector<std::pair<std::uint64_t, std::uint64_t>> held;
};

struct ReceiveRecord {
  ReceivePlan plan;  // the plan of the receive
  bool posted = false;
  std::uint64_t life = 0;
  std::uint64_t order = 0;    // of the post or claim, among all posts of the host
  std::uint32_t session = 0;  // with the one host that it waits for, as Sessions counts
  proto::Duration at{};       // of the post
  proto::Duration done{};     // of the completion
  proto::Time clock{};        // of the host, at the post
  GuardedBuffer buffer;
  std::optional<Completion> completion;
  std::uint32_t message = ~0u;  // the message that it got
  bool cancel_asked = false;
  bool gone = false;
};

// The bytes of a message, given by its place in the plan.
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

  // The host has posted a receive or a claim.
  void on_receive_posted(std::uint32_t host, proto::Duration at) {
    note_freed_descriptors(host, at);
  }
  // `receiver_stands`: the receiver stands in the middle of a turn, and its program may learn only
  // afterwards what the endpoint has done.
  void on_send_completed(std::uint32_t message, const Completion& completion, bool nic_reads,
                         bool receiver_stands, proto::Duration at);
  // `clock`: that of the host, now. `from`: the host that the completion names; kAnyHost: its
  // program has no name for it.
  void on_receive_completed(std::uint32_t receive, const Completion& completion, std::uint32_t from,
                            proto::Time clock);
  // The host calls the other one, or goes on with that.
  void on_calling(std::uint32_t host, std::uint32_t other, proto::Duration at);
  void on_established(std::uint32_t host, std::uint32_t other, proto::Duration at);
  // A session between the two ended at this time of the run, as `host` says.
  void on_failure(std::uint32_t host, std::uint32_t other, Status status, Reason reason,
                  proto::Duration at);
  [[nodiscard]] std::size_t failures() const { return failures_.size(); }
  // The host says that full packets of the session just established have that payload. Returns true
  // if that is less than NICs take.
  bool on_size(std::uint32_t host, std::uint32_t other, std::uint32_t bytes, proto::Duration at);
  // Messages that the host sends from now on have that payload in full packets; the session allows
  // `most`.
  void on_message_size(std::uint32_t host, std::uint32_t other, std::uint32_t bytes,
                       std::uint32_t most, proto::Duration at);
  // A process of the host has begun, after an earlier one.
  void on_restarted(std::uint32_t host, std::uint64_t life, std::uint64_t epoch) {
    processes_[host].push_back({life, epoch, {}});
  }
  // A process is gone, and its sessions with it.
  void on_died(std::uint32_t host, proto::Duration at);
  // The host is called to close, or to disconnect the other one.
  void on_closing(std::uint32_t host, std::uint32_t other, proto::Duration at);
  // The host says that it has closed. `early`: before 1.5 close_timeout was over. A host that
  // stands in the middle of a turn may have heard something that its program doesn't know yet.
  void on_closed(std::uint32_t host, bool early, proto::Duration at,
                 const std::vector<bool>& stands);
  // Since when `host` waits for something in a session of which `other` has no part any more.
  // Nothing if it has no such session, or waits for nothing.
  [[nodiscard]] std::optional<proto::Duration> waits_in_vain(std::uint32_t host,
                                                             std::uint32_t other) const;
  // The host may never get in at the other one.
  [[nodiscard]] bool is_kept_out(std::uint32_t host, std::uint32_t other) const;
  [[nodiscard]] const Sessions& sessions() const { return sessions_; }
  [[nodiscard]] Places& places() { return places_; }
  // The host's endpoint no longer knows its newest name for the other one.
  void on_forgotten(std::uint32_t host, std::uint32_t other);
  // A message of `from` may still lie at `to`, from a session that has ended there. `surely`: it
  // does lie there, and was not claimed.
  [[nodiscard]] bool lies_there(std::uint32_t from, std::uint32_t to, bool surely) const;
  // Called when all operations of running processes have completed.
  void judge();
  // Called at the very end: nothing was written where, or when, it must not be.
  void judge_buffers();

  // The first violation; empty if there is none.
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
  [[nodiscard]] bool is_shut_out(std::uint32_t host, std::uint32_t other, proto::Duration at) const;
  void note_gone(std::uint32_t host, proto::Duration at);
  [[nodiscard]] bool was_held_off(std::uint32_t host, std::uint32_t other,
                                  proto::Duration at) const;
  [[nodiscard]] bool may_close(std::uint32_t host, std::uint32_t other) const;
  [[nodiscard]] bool parted_well(std::uint32_t closed, std::uint32_t other) const;
  void check_bytes(const ReceiveRecord& receive, const Completion& completion);
  void judge_sends();
  void judge_order();
  void judge_partings();

  struct Failure {
    std::uint32_t host = 0;  // the one that says so
    std::uint32_t other = 0;
    Status status{};
  };
  // The sessions of a closing host at the time when it began to close.
  struct Closing {
    bool began = false;
    bool early = false;
    proto::Duration at{};
    std::vector<bool> had;              // by host: whether there was a session with it
    std::vector<std::uint32_t> parted;  // the hosts that it disconnected
  };

  struct Process {
    std::uint64_t life = 0;
    std::uint64_t epoch = 0;
    std::optional<proto::Duration> gone;
  };
  // The processes of a peer with which the endpoints of a host may have had sessions. Packets of a
  // process that is gone may still complete a handshake.
  struct Verified {
    std::vector<Process> all;     // with any endpoint of the host, or named by its program
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
