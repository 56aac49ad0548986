#include "engine/driver/verbs_queue.hpp"

#include <cerrno>
#include <cstring>
#include <string>

#include "hawser/engine.hpp"

namespace hawser::engine {
namespace {

constexpr std::uint32_t kPartsPerSend = 2;
// Datagrams up to this travel inside their requests: acks, probes and small messages. More would
// make every request longer.
constexpr std::uint32_t kInlineBytes = 128;

ibv_qp_init_attr attributes_of(const VerbsQueueConfig& config, ibv_cq* send, ibv_cq* receive,
                               std::uint32_t inline_bytes) {
  ibv_qp_init_attr attributes{};
  attributes.send_cq = send;
  attributes.recv_cq = receive;
  attributes.cap.max_send_wr = config.send_slots;
  attributes.cap.max_recv_wr = config.receive_slots;
  attributes.cap.max_send_sge = kPartsPerSend;
  attributes.cap.max_recv_sge = 1;
  attributes.cap.max_inline_data = inline_bytes;
  attributes.qp_type = IBV_QPT_UD;
  return attributes;
}

// Reset, Init, Ready to Receive, Ready to Send. Zero or an error number.
int make_ready(ibv_qp* pair, std::uint8_t port, std::uint32_t qkey) {
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_INIT;
  attributes.port_num = port;
  attributes.qkey = qkey;
  if (const int error = ibv_modify_qp(
          pair, &attributes, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY)) {
    return error;
  }
  attributes.qp_state = IBV_QPS_RTR;
  if (const int error = ibv_modify_qp(pair, &attributes, IBV_QP_STATE)) return error;
  attributes.qp_state = IBV_QPS_RTS;
  return ibv_modify_qp(pair, &attributes, IBV_QP_STATE | IBV_QP_SQ_PSN);
}

}  // namespace

VerbsQueue::VerbsQueue(const VerbsPort& port, ibv_cq* send_completions,
                       const VerbsQueueConfig& config, const VerbsRemotes& remotes,
                       VerbsRegions& regions)
    : port_(port),
      qkey_(config.qkey),
      completions_(VerbsReceiver::make_completions(port, config.receive_slots)) {
  std::uint32_t inline_bytes = kInlineBytes;
  for (; !pair_; inline_bytes = 0) {
    auto attributes =
        attributes_of(config, send_completions, completions_.queue.get(), inline_bytes);
    pair_.reset(ibv_create_qp(port.domain.get(), &attributes));
    if (pair_) break;
    if (inline_bytes > 0) continue;  // a device may have no room inside requests
    throw Error(port.name + ": no UD queue pair of " + std::to_string(config.send_slots) +
                " sends and " + std::to_string(config.receive_slots) +
                " receives can be made: " + std::strerror(errno));
  }
  if (const int error = make_ready(pair_.get(), port.number, qkey_)) {
    throw Error(port.name + ": its queue pair doesn't get ready: " + std::strerror(error));
  }
  const VerbsSendLimits limits{config.send_slots, config.copy_slots, port.mtu_bytes, inline_bytes};
  sender_.emplace(pair_.get(), port, config.queue, limits, remotes, regions);
  const bool ipv4 = port.link == VerbsAddress::Link::ethernet && is_ipv4(port.gid.gid);
  receiver_.emplace(
      pair_.get(), port, completions_,
      VerbsReceiver::Shape{config.queue, config.receive_slots, port.mtu_bytes,
                           ipv4 ? VerbsReceiver::Route::ipv4 : VerbsReceiver::Route::other});
}

// Before the memory that it reads and writes.
void VerbsQueue::close() {
  if (!pair_) return;
  pair_.reset();
  sender_->restart();
}

bool VerbsQueue::reset() {
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_RESET;
  return ibv_modify_qp(pair_.get(), &attributes, IBV_QP_STATE) == 0 &&
         make_ready(pair_.get(), port_.number, qkey_) == 0;
}

void VerbsQueue::stop() {
  sender_->stop();
  receiver_->stop();
}

bool VerbsQueue::restart() {
  sender_->restart();
  return receiver_->restart();
}

}  // namespace hawser::engine
