// SPDX-License-Identifier: Apache-2.0
// A naive model of hawser::Endpoint for tests of the layers above it: N endpoints in one process
// and one thread, in virtual time (a tick per poll), with one seed for everything.
//
// The model keeps the contract as loosely as it may. A message leaves with its endpoint's next poll
// or flush. Completions come after random delays and in random order. Calls return `again` at
// random. Unexpected payload beyond a limit stays with its sender. The model also checks its user:
// a send's bytes must not change before its completion, nobody may write to a posted receive's
// buffer, and hints must add up. The buffer holds junk meanwhile, so that reading it early shows.
// The model collects complaints for the test to check.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "hawser/engine.hpp"

namespace hawser::test {

struct LoopbackOptions {
  std::uint64_t seed = 1;
  double again = 0;             // probability that a send or receive is refused
  std::uint32_t max_delay = 0;  // the most ticks that a message or a completion takes
  std::uint32_t max_operations = 8192;
  std::uint32_t max_messages_per_peer = 2048;
  std::uint64_t unexpected_bytes = 1 << 20;  // of an endpoint
  std::uint32_t peer_timeout = 200;          // ticks from a death until operations fail
};

class LoopbackEndpoint;

class LoopbackNetwork {
 public:
  LoopbackNetwork(std::size_t endpoints, const LoopbackOptions& options);
  ~LoopbackNetwork();

  [[nodiscard]] Endpoint& endpoint(std::size_t index);
  // The name of endpoint `to` at endpoint `from`. It isn't the index, so that mixing them up shows.
  [[nodiscard]] PeerId peer(std::size_t from, std::size_t to) const;

  // Stops the endpoint. Its messages in flight are lost, and others notice after peer_timeout.
  void kill(std::size_t index);

  // Endpoint `from` gives up its session with `to`, which learns of it.
  void give_up(std::size_t from, std::size_t to) { end_session(from, to, true); }

  // Gives an endpoint its NICs; the first `down` of them don't work.
  void set_nics(std::size_t index, std::size_t count, std::size_t down);

  // The status with which operations of `from` with `to` end. `ok`: the session stands.
  [[nodiscard]] Status session_end(std::size_t from, std::size_t to) const;

  // Runs in an endpoint's wait, so that a test can run the other endpoints meanwhile.
  std::function<void(std::size_t index)> on_wait;

  // The mistakes of users so far.
  [[nodiscard]] const std::vector<std::string>& complaints() const { return complaints_; }
  void complain(const std::string& text);

  // Complains about each group of which fewer messages came than it has members.
  void check_groups();

  // Messages that arrived but were not received, at all living endpoints.
  [[nodiscard]] std::size_t unmatched() const;
  [[nodiscard]] std::size_t operations_pending(std::size_t index) const;
  // The largest number that was pending at an endpoint at once.
  [[nodiscard]] std::size_t most_sends() const { return most_sends_; }
  [[nodiscard]] std::size_t most_receives() const { return most_receives_; }
  [[nodiscard]] std::uint64_t bytes_sent(std::size_t index) const;
  [[nodiscard]] std::uint64_t now() const { return now_; }

 private:
  friend class LoopbackEndpoint;

  static constexpr std::size_t kAny = ~std::size_t{0};

  struct Operation {
    OperationId id = kNoOperation;
    OperationKind kind = OperationKind::send;
    std::size_t owner = 0;
    std::size_t other = 0;  // kAny for a receive from anyone
    std::uint16_t channel = 0;
    std::uint64_t tag = 0;
    std::uint64_t mask = ~std::uint64_t{0};
    std::byte* target = nullptr;        // receive
    const std::byte* source = nullptr;  // send
    std::uint64_t bytes = 0;
    std::uint64_t hash = 0;           // of the buffer while the endpoint has it
    std::vector<std::byte> before{};  // receive: what the junk replaced
    SendRequest send{};
    ReceiveRequest receive{};
    bool matched = false;
    bool ended = false;  // its (last) completion is scheduled
  };
  using OperationPointer = std::shared_ptr<Operation>;

  struct Message {
    OperationPointer send;
    std::uint64_t arrives_at = 0;
    bool stored = false;  // the payload is here
    std::vector<std::byte> payload{};
  };

  struct Ending {
    OperationPointer operation;
    Completion completion;
    std::vector<std::byte> payload{};  // written to the receive's buffer when it is polled
  };

  // A session that one end has ended.
  struct Cut {
    std::size_t by = kAny;
    std::uint64_t noticed_at = 0;  // by the other end
    bool is_given_up = false;
  };

  struct Group {
    Hint hint;
    std::uint32_t count = 0;
  };

  struct Node {
    std::unique_ptr<LoopbackEndpoint> endpoint;
    bool alive = true;
    bool closed = false;
    std::uint64_t killed_at = 0;
    std::vector<OperationPointer> queued{};  // sends that have not left
    std::list<OperationPointer> pending{};   // no final completion is scheduled yet
    std::list<OperationPointer> receives{};  // unmatched, in order of posting
    std::list<Message> unexpected{};         // in order of arrival
    std::map<MessageId, Message> claimed{};
    std::uint64_t unexpected_bytes = 0;
    std::multimap<std::uint64_t, Ending> endings{};  // by due time
    std::map<std::uint32_t, Group> groups{};
    std::size_t operations = 0;  // accepted and not yet completed for good
    std::size_t sends = 0;
    std::uint64_t bytes_sent = 0;  // of payload
    std::vector<NicStats> nics{};
  };
  [[nodiscard]] std::size_t index_of(std::size_t from, PeerId peer) const;
  [[nodiscard]] bool chance(double probability);
  [[nodiscard]] std::uint64_t delay();
  void leave(std::size_t index);
  void tick();
  void deliver_arrivals();
  void arrive(Message&& message);
  void match(const OperationPointer& receive, Message& message);
  void decide_cancels();
  void count_group(const Operation& receive, const Operation& send);
  void fail_operations(std::size_t index);
  void end_session(std::size_t from, std::size_t to, bool is_given_up);
  [[nodiscard]] Reason failure_reason(std::size_t from, std::size_t to) const;
  void end(const OperationPointer& operation, Status status, std::uint64_t after,
           bool released = true);
  void finish(const Ending& ending);
  void check_buffer(const Operation& operation);

  LoopbackOptions options_;
  std::mt19937_64 random_;
  std::uint64_t now_ = 0;
  std::uint64_t next_operation_ = 1;
  std::uint64_t next_message_ = 1;
  std::vector<Node> nodes_;
  std::vector<std::deque<Message>> flying_;                 // [from * n + to], in order
  std::vector<Cut> cuts_;                                   // the same
  std::multimap<std::uint64_t, OperationPointer> cancels_;  // of sends, by the time of the decision
  std::vector<std::string> complaints_;
  std::size_t most_sends_ = 0;
  std::size_t most_receives_ = 0;
};

}  // namespace hawser::test
