// A UD queue pair with its two sides. Setting it up, and again after a failure, is apart from what
// goes through it.
#pragma once

#include <cstdint>
#include <optional>

#include "engine/driver/verbs_handles.hpp"
#include "engine/driver/verbs_port.hpp"
#include "engine/driver/verbs_receiver.hpp"
#include "engine/driver/verbs_sender.hpp"

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
  // All arguments outlive this. Its sends complete on `send_completions`. Throws Error.
  VerbsQueue(const VerbsPort& port, ibv_cq* send_completions, const VerbsQueueConfig& config,
             const VerbsRemotes& remotes, VerbsRegions& regions);
  ~VerbsQueue() { close(); }
  VerbsQueue(const VerbsQueue&) = delete;
  VerbsQueue& operator=(const VerbsQueue&) = delete;

  // Destroys the pair: the device has let go of everything. Only reap may follow.
  void close();

  [[nodiscard]] std::uint32_t number() const { return pair_->qp_num; }
  [[nodiscard]] VerbsSender& sender() { return *sender_; }
  [[nodiscard]] VerbsReceiver& receiver() { return *receiver_; }
  [[nodiscard]] const VerbsSender& sender() const { return *sender_; }
  [[nodiscard]] const VerbsReceiver& receiver() const { return *receiver_; }
  [[nodiscard]] bool is_broken() const { return sender_->is_broken() || receiver_->is_broken(); }

  // Blocks. Takes everything from the device and makes the pair ready again, number and QKey as
  // before; nobody else uses the pair meanwhile. False if the device refuses.
  [[nodiscard]] bool reset();
  // Before a reset: nothing is posted any more until a restart.
  void stop();
  // After a reset and once `send_completions` is empty: sends are over, receives are posted anew.
  // False if the completion queue of receives is of no use any more.
  [[nodiscard]] bool restart();

 private:
  const VerbsPort& port_;
  std::uint32_t qkey_;
  VerbsReceiver::Completions completions_;
  VerbsQueuePair pair_;
  std::optional<VerbsSender> sender_;
  std::optional<VerbsReceiver> receiver_;
};

}  // namespace hawser::engine
