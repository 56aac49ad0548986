// SPDX-License-Identifier: Apache-2.0
// A process group's communicator, and the operations that wait for it. Knows nothing of PyTorch.
//
// Collectives start in the order in which they were submitted, one behind the other if the
// communicator takes no more. Messages don't count in that order.
#pragma once

#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "plugin/torch/transport.hpp"

namespace hawser::torch_plugin {

// An operation failed because of a rank. The text ends with the rank's name in the world and the
// status, as in "[rank 2, peer_timeout]".
class RankFailure : public std::runtime_error {
 public:
  RankFailure(const std::string& text, std::uint32_t rank, Status status);
};

// Work that a program submits. It ends once, and keeps its buffers until the engine has let go of
// them.
class Operation {
 public:
  using Start = std::function<Status(coll::Communicator&, coll::Request&)>;

  Operation() = default;
  virtual ~Operation() = default;
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;

  // Called once, with the transport's Guard. Null: success.
  virtual void on_end(std::exception_ptr failure) = 0;

  std::string name;           // for people
  std::vector<Start> starts;  // collectives or messages that end together
  bool is_message = false;
  Clock::time_point deadline = Clock::time_point::max();
  std::optional<coll::Rank> from;              // of a received message
  std::optional<std::uint64_t> awaited_bytes;  // the length that a received message must have

 private:
  friend class Group;
  std::vector<coll::Request> requests_;  // of the starts so far
  std::size_t ended_ = 0;                // of those
  Status refusal_ = Status::ok;          // of the next start
};

class Group final : public Client {
 public:
  // Gives the bytes of all members for the own ones.
  using Exchange =
      std::function<std::vector<std::vector<std::byte>>(std::span<const std::byte> own)>;

  // `ranks` are the members' names in the world, by their rank here. Blocks until all members have
  // come. Throws Error.
  Group(std::shared_ptr<Transport> transport, coll::Rank rank, std::vector<std::uint32_t> ranks,
        const Exchange& exchange);
  ~Group() override;

  [[nodiscard]] const std::shared_ptr<Transport>& transport() const noexcept { return transport_; }
  [[nodiscard]] coll::Rank rank() const noexcept { return rank_; }
  [[nodiscard]] const std::vector<std::uint32_t>& ranks() const noexcept { return ranks_; }

  // Makes a group of the members that are left, but not of those of `without`. It revokes this one
  // first if need be. Blocks until all that live have called it. Throws RankFailure if the others
  // go on without this member, and Error.
  [[nodiscard]] std::shared_ptr<Group> shrink(std::span<const coll::Rank> without);

  void submit(const std::shared_ptr<Operation>& operation);
  // Revokes the communicator: all operations of all members fail.
  void abort();

  void advance() override;
  void release() override;

 private:
  using Operations = std::list<std::shared_ptr<Operation>>;

  // The members of `communicator`, which are among those of `former`. With a Guard.
  Group(const Group& former, std::unique_ptr<coll::Communicator> communicator,
        const std::vector<coll::Rank>& members);

  // False: the rest starts later.
  [[nodiscard]] bool start(Operation& operation);
  void start_what_is_possible();
  // Whether it has ended.
  [[nodiscard]] bool look_at(Operation& operation);
  void look_at_deadline(const Operation& operation, Clock::time_point now);
  [[nodiscard]] std::exception_ptr failure_of(const Operation& operation, Status status) const;
  [[nodiscard]] std::string reason_of(coll::Rank rank, Status status) const;
  [[nodiscard]] bool is_released(const Operation& operation) const;

  std::shared_ptr<Transport> transport_;
  coll::Rank rank_;
  std::vector<std::uint32_t> ranks_;
  std::vector<PeerId> peers_;
  std::unique_ptr<coll::Communicator> communicator_;  // null after the transport's end
  Operations collectives_;                            // not started, or not whole
  Operations messages_;                               // the same
  Operations running_;
  Operations held_;      // ended, but the engine may still use the buffers
  std::string timeout_;  // the operation whose deadline has passed
};

}  // namespace hawser::torch_plugin
