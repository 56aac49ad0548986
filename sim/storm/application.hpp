// SPDX-License-Identifier: Apache-2.0
// The programs of a storm's processes. They post and cancel what the plan says, at its times, and
// tell the oracle all that they see. When all faults are over they receive whatever is left, and
// cancel the receives that nothing will match any more.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "sim/core/digest.hpp"
#include "sim/storm/one_sided.hpp"
#include "sim/storm/oracle.hpp"
#include "sim/storm/world.hpp"

namespace hawser::sim {

class Application final : public Actor {
 public:
  Application(const Plan& plan, World& world, Oracle& oracle);

  // Called after each turn of a host.
  void turned(std::uint32_t host);
  // The process dies now, and all its operations with it.
  void crashed(std::uint32_t host);
  // A process has begun after the world's start.
  void started(std::uint32_t host);
  // Reports how a process used places, before the process is gone: for the census and the judge.
  void count_places(std::uint32_t host);
  // Every message has been posted or given up, and everything that was posted has completed.
  [[nodiscard]] bool is_done() const;
  // Receives what has come since all was done, from a sender that had given up before. False if
  // there is nothing.
  [[nodiscard]] bool drain_rest();
  // Flushes a channel on which an operation has failed. False if there is none.
  [[nodiscard]] bool flush_failure();
  // Every process that runs closes.
  void close_all();
  // No process was ever gone, and every session has two ends, so a closing peer is answered.
  [[nodiscard]] bool all_have_peers() const;
  // A process needed its whole time for closing.
  [[nodiscard]] bool any_closed_late() const { return any_closed_late_; }
  // No process is closing any more.
  [[nodiscard]] bool all_left() const { return closing_ == 0; }
  [[nodiscard]] std::uint64_t completions() const { return completions_; }
  [[nodiscard]] OneSided& one_sided() { return one_sided_; }
  // A digest of every completion: when, where, and what it said.
  [[nodiscard]] std::uint64_t digest() const { return digest_.value(); }

  void on_event(proto::Time now, std::uint64_t what) override;

 private:
  enum class Act : std::uint8_t {
    send,
    receive,
    cancel_send,
    cancel_receive,
    drain,
    close,       // index: of the plan
    has_closed,  // index: the host
    call,        // index: of the plan
    end_claim,   // index: a receive
    has_heard,   // index: a host, and one that may have ended their session
    one_sided,   // index: of the plan
  };
  // The meaning of an operation's index at its endpoint.
  struct Operation {
    bool is_send = false;
    std::uint32_t record = 0;
    bool is_one_sided = false;
  };
  // A held claim of a planned receive.
  struct Claim {
    MessageId name = kNoMessage;
    std::uint64_t life = 0;
    std::uint64_t order = 0;
    std::uint32_t message = 0;
    std::uint32_t sender = 0;
  };
  static constexpr std::uint32_t kNoRecord = ~0u;
  // The first wait before an attempt that can't be made now is repeated.
  static constexpr proto::Duration kAgain = proto::microseconds(20);
  struct Process {
    std::uint64_t life = 0;
    std::vector<std::uint32_t> free;    // indices of operations
    std::vector<Operation> operations;  // by index
    std::uint64_t made = 0;
    std::uint64_t posts = 0;
    bool closing = false;
    proto::Time closing_since{};  // by the host's clock
    proto::Time told_refusal{};   // likewise
    bool was_refused = false;     // since its last success
    bool is_noted = false;        // what is left of others, as of the last event or completion
  };

  [[nodiscard]] std::uint32_t caller(Act act, std::uint32_t index);
  void later(Act act, std::uint32_t index, proto::Duration in);
  // Repeats the act after a wait that grows with `tries`.
  void again(Act act, std::uint32_t index, std::uint8_t& tries);
  [[nodiscard]] proto::SendRequest request_of(std::uint32_t message, PeerId peer);
  void do_send(std::uint32_t message);
  void do_receive(std::uint32_t receive);
  void do_cancel_send(std::uint32_t message);
  void do_cancel_receive(std::uint32_t receive);
  void drain(std::uint32_t host);
  [[nodiscard]] bool receive_unexpected(std::uint32_t host);

  // ---- closings.cpp
  void do_close(std::uint32_t closing);
  void disconnect(std::uint32_t host, std::uint32_t other);
  void close_endpoint(std::uint32_t host);
  void consider_leaving(std::uint32_t host);
  void give_up_operations(std::uint32_t host);
  void demand_closed(std::uint32_t host);
  void demand_hearing(std::uint32_t hosts);
  void note_answers(std::uint32_t host, std::uint32_t other);
  void watch_other_end(std::uint32_t host, std::uint32_t other);
  [[nodiscard]] proto::Duration longest_closing(std::uint32_t host) const;
  [[nodiscard]] proto::Duration longest_hearing(std::uint32_t host, std::uint32_t other) const;

  // ---- calls.cpp
  void do_call(std::uint32_t call);
  void expect(const CallPlan& call, Status got, Status wanted);
  void look(const CallPlan& call);
  void connect_again(const CallPlan& call);
  void connect_nowhere(const CallPlan& call);
  void connect_nobody(const CallPlan& call);
  void send_wrong(const CallPlan& call);
  [[nodiscard]] std::optional<std::uint32_t> open_operation(const Process& process);
  void receive_wrong(const CallPlan& call);
  void ask_wrong(const CallPlan& call);
  void cancel_again(const CallPlan& call);
  void use_old_name(const CallPlan& call);

  // ---- partners.cpp
  void learn_name(std::uint32_t at, PeerId peer, std::uint32_t other);
  void note_event(std::uint32_t at, const Event& event);
  [[nodiscard]] bool is_forgotten(std::uint32_t at, std::uint32_t other, PeerId name);
  [[nodiscard]] bool has_forgotten(std::uint32_t at, std::uint32_t other);
  [[nodiscard]] bool gives_up(proto::Duration planned) const;
  void note_what_is_left(std::uint32_t at);
  void check_name(std::uint32_t at, const Envelope& envelope);

  // ---- claims.cpp
  void hold_claim(std::uint32_t receive, const Envelope& envelope, MessageId name);
  void end_claim(std::uint32_t receive);

  // ---- one_sided_calls.cpp
  void do_one_sided(std::uint32_t index);
  void retry_one_sided(std::uint32_t index, PeerId peer, Status status, bool is_vain);
  [[nodiscard]] bool is_kept_out(std::uint32_t from, std::uint32_t to, Status status) const;
  void on_one_sided(std::uint32_t record, const Completion& completion);
  void take_notices(std::uint32_t host);

  void make_record(std::uint32_t receive);
  [[nodiscard]] bool post_receive(std::uint32_t record, MessageId claimed);
  void connect(std::uint32_t from, std::uint32_t to);
  [[nodiscard]] PeerId reach(std::uint32_t from, std::uint32_t to);
  [[nodiscard]] Process& process(std::uint32_t host);
  [[nodiscard]] OperationId name(Process& process, bool is_send, std::uint32_t record);
  void take_completions(std::uint32_t host);
  void mix(std::uint32_t host, const Completion& completion);
  void take_events(std::uint32_t host);
  void note(Happening::Kind kind, std::uint32_t host, std::uint32_t index,
            const TraceRecord& record = {}) {
    world_.scribe().note(kind, host, index, record);
  }
  void note_send(std::uint32_t message, OperationId operation) {
    note(Happening::Kind::posted_send, plan_.messages[message].from, message,
         {.operation = static_cast<std::uint64_t>(operation)});
  }
  void note_size(std::uint32_t at, std::uint32_t other, PeerId peer);
  void note_message_size(std::uint32_t at, std::uint32_t other, PeerId peer);
  [[nodiscard]] bool all_sends_ended() const;

  const Plan& plan_;
  World& world_;
  Oracle& oracle_;
  OneSided one_sided_;
  std::vector<Process> processes_;
  std::vector<std::uint32_t> record_of_;  // by planned receive
  std::vector<std::uint8_t> send_tries_;  // in vain, by message
  std::vector<std::uint8_t> receive_tries_;
  std::vector<std::uint8_t> drain_tries_;  // that found nothing, by host
  std::vector<std::uint8_t> one_sided_tries_;
  std::vector<OneSided::Channel> flushed_;  // by flush_failure
  std::vector<bool> sends_short_;           // by pair of hosts: the last message was shortened
  std::vector<OperationId> sent_as_;        // by message
  std::vector<OperationId> received_as_;    // by record
  // The lists of operations that have one; each stays as long as the storm.
  std::map<std::uint32_t, proto::GatherList> gathers_;    // by message
  std::map<std::uint32_t, proto::ScatterList> scatters_;  // by record
  std::map<std::uint32_t, Claim> claims_;                 // by planned receive
  std::uint64_t undecided_;    // messages and receives not posted and not given up
  std::uint64_t open_ = 0;     // operations that have not completed
  std::uint32_t closing_ = 0;  // processes
  bool any_closed_late_ = false;
  // For a host that ended a session and the other host of it: the process that ended it, if it has
  // not called the other one since.
  std::vector<std::uint64_t> answers_;
  std::uint64_t completions_ = 0;
  Digest digest_;
  std::array<Completion, 64> done_;  // of one poll
  std::array<Event, 64> events_;
};

}  // namespace hawser::sim
