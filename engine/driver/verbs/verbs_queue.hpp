// SPDX-License-Identifier: Apache-2.0
// A UD queue pair with its sending and receiving side. This file sets it up, and again after a
// failure. The datapath is in the two sides.
#pragma once

#include <cstdint>
#include <optional>

#include "engine/driver/verbs/verbs_handles.hpp"
#include "engine/driver/verbs/verbs_port.hpp"
#include "engine/driver/verbs/verbs_receiver.hpp"
#include "engine/driver/verbs/verbs_sender.hpp"

namespace hawser::engine {

struct VerbsQueueConfig {
  proto::Queue queue = proto::Queue::data;
  std::uint32_t send_slots = 0;  // power of two
  std::uint32_t copy_slots = 0;
  std::uint32_t receive_slots = 0;
  std::uint32_t qkey = 0;
};

class VerbsQueue {
 public:
  // All arguments outlive this. Its sends complete on `send_completions`. Nothing is posted before
  // restart(). Throws Error.
  VerbsQueue(const VerbsPort& port, ibv_cq* send_completions, const VerbsQueueConfig& config,
             const VerbsRemotes& remotes, VerbsRegions& regions);
  ~VerbsQueue() { close(); }
  VerbsQueue(const VerbsQueue&) = delete;
  VerbsQueue& operator=(const VerbsQueue&) = delete;

  // Destroys the pair, so the device releases everything. Only reap may follow.
  void close();

  [[nodiscard]] std::uint32_t number() const { return pair_->qp_num; }
  [[nodiscard]] VerbsSender& sender() { return *sender_; }
  [[nodiscard]] VerbsReceiver& receiver() { return *receiver_; }
  [[nodiscard]] const VerbsSender& sender() const { return *sender_; }
  [[nodiscard]] const VerbsReceiver& receiver() const { return *receiver_; }
  [[nodiscard]] bool is_broken() const { return sender_->is_broken() || receiver_->is_broken(); }

  // Call it before a repair. Nothing is posted any more, and the datapath touches no object of the
  // device, until a restart.
  void stop();
  // Call it after a repair. Returns false if the device refuses.
  [[nodiscard]] bool restart();

  // The steps of a repair, while stopped. They may block, and run in the helper's thread.
  //   `reset`: takes everything from the device; number and QKey stay. False if it refuses.
  //   `discard`: empties the completion queue of receives. False if it can't be polled.
  //   `release`: destroys the pair, its completion queue and its registrations.
  //   `renew`: makes them again, with another number. Throws Error.
  //   `make_ready`: after reset or renew. False if the device refuses.
  [[nodiscard]] bool reset();
  [[nodiscard]] bool discard() { return completions_.queue.discard(); }
  void release();
  void renew(ibv_cq* send_completions);
  [[nodiscard]] bool make_ready();

 private:
  void make_pair(ibv_cq* send_completions);

  const VerbsPort& port_;
  VerbsQueueConfig config_;
  std::uint32_t max_datagram_bytes_;
  std::uint32_t inline_bytes_ = 0;
  VerbsReceiver::Completions completions_;
  VerbsQueuePair pair_;
  std::optional<VerbsSender> sender_;
  std::optional<VerbsReceiver> receiver_;
};

}  // namespace hawser::engine
