// SPDX-License-Identifier: Apache-2.0
// Messages between the nodes of a World. It checks everything that can be checked from outside:
// bytes, exactly-once delivery, the order of matching, statuses, and buffers that must not be used
// any more.
//
// Each message carries its serial number as `immediate`, and its bytes are a pattern of that
// number. A receive's buffer is poisoned when its completion is seen, and a send's is overwritten.
// This exposes an endpoint that still writes or reads there.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "test/support/virtual_world.hpp"

namespace hawser::test {

inline constexpr std::uint32_t kAnyNode = 0xffffffffu;
inline constexpr std::uint64_t kWholeTag = ~std::uint64_t{0};

class Exchange {
 public:
  explicit Exchange(World& world) : world_(world) {}

  struct Sent {
    std::uint32_t from = 0;
    std::uint32_t to = 0;
    std::uint64_t tag = 0;
    std::uint64_t serial = 0;
    proto::SendOptions options{};
    OperationId operation = kNoOperation;
    std::string bytes;
    std::size_t size = 0;
    std::optional<Completion> completion;
    std::uint32_t deliveries = 0;
    std::uint64_t received_by = 0;  // index of the receive, if there was a delivery
    bool was_claimed = false;       // other messages may have overtaken it meanwhile
  };
  struct Received {
    std::uint32_t node = 0;
    std::uint32_t from = kAnyNode;
    std::uint64_t tag = 0;
    std::uint64_t mask = kWholeTag;
    std::uint64_t posted = 0;  // order of posting at that node
    bool by_claim = false;     // received a claimed message
    OperationId operation = kNoOperation;
    std::string buffer;
    std::optional<Completion> completion;
    std::optional<std::uint64_t> serial;
  };

  // These post an operation and return its index for sent() or received(), or nothing on `again`.
  std::optional<std::size_t> try_send(std::uint32_t from, std::uint32_t to, std::uint64_t tag,
                                      std::size_t bytes, const proto::SendOptions& options = {});
  std::optional<std::size_t> try_receive(std::uint32_t node, std::uint32_t from, std::uint64_t tag,
                                         std::size_t bytes, std::uint64_t mask = kWholeTag);
  // The same, but the status must be ok.
  std::size_t send(std::uint32_t from, std::uint32_t to, std::uint64_t tag, std::size_t bytes,
                   const proto::SendOptions& options = {});
  std::size_t receive(std::uint32_t node, std::uint32_t from, std::uint64_t tag, std::size_t bytes,
                      std::uint64_t mask = kWholeTag);

  // Posts the receive, then the send of one message.
  void message(std::uint32_t from, std::uint32_t to, std::uint64_t tag, std::size_t bytes,
               const proto::SendOptions& options = {});
  // One message from each node to each other, with tag 1.
  void all_to_all(std::size_t bytes, const proto::SendOptions& options = {});
  // `count` messages from node 0 to node 1 and as many back, received in order, with the tags from
  // `first_tag` on.
  void both_ways(std::uint64_t count, std::size_t bytes, std::size_t bytes_back,
                 std::uint64_t first_tag = 0);

  // Receives a claimed message into a buffer of `bytes` bytes.
  std::size_t receive_claimed(std::uint32_t node, MessageId message, std::size_t bytes);
  // Notes that the message with that serial number was claimed, whatever then becomes of it.
  void note_claim(std::uint64_t serial) { sends_[serial - 1].was_claimed = true; }

  [[nodiscard]] const Sent& sent(std::size_t i) const { return sends_[i]; }
  [[nodiscard]] const Received& received(std::size_t i) const { return receives_[i]; }
  [[nodiscard]] std::size_t sends() const { return sends_.size(); }
  [[nodiscard]] std::size_t receives() const { return receives_.size(); }

  // Takes over new completions and checks each by itself.
  void collect();
  // Every operation has its completion.
  [[nodiscard]] bool settled();
  [[nodiscard]] bool run(proto::Duration limit);
  // Runs until `done` is true or the time is up; `done` sees all completions so far. Returns
  // whether it became true.
  [[nodiscard]] bool run_until(const std::function<bool()>& done, proto::Duration limit);
  // Every operation ended ok.
  void check_all_ok();
  // Checks the order of matching and the buffers, at the end.
  void check();
  // Checks that no endpoint holds anything. For worlds that are healed and settled.
  void check_quiet(proto::Duration rest = proto::milliseconds(50));
  // Completions that are already there belong to another exchange.
  void ignore_what_was();
  // The node crashed: its operations have no completions.
  void forget(std::uint32_t node);

 private:
  void judge(Received& receive, std::size_t index);
  void tell_open() const;

  World& world_;
  std::deque<Sent> sends_;
  std::deque<Received> receives_;
  std::unordered_map<std::uint64_t, std::size_t> by_operation_;  // with the node in the top bits
  std::vector<std::size_t> seen_;                                // completions, per node
  std::size_t open_ = 0;
};

}  // namespace hawser::test
