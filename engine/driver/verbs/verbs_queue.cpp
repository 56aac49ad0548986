// SPDX-License-Identifier: Apache-2.0
#include "engine/driver/verbs/verbs_queue.hpp"

#include <cerrno>
#include <cstring>
#include <string>

#include "engine/driver/verbs/verbs_locking.hpp"
#include "hawser/engine.hpp"

namespace hawser::engine {
namespace {

constexpr std::uint32_t kPartsPerSend = 2;
// Datagrams up to this length travel inside their requests: acknowledgements, probes and small
// messages. A higher limit would make every request longer.
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

// Brings the pair through Init and Ready to Receive to Ready to Send. Returns zero or an error
// number.
int bring_up(ibv_qp* pair, std::uint8_t port, std::uint32_t qkey) {
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
      config_(config),
      max_datagram_bytes_(port.facts.mtu_bytes),
      inline_bytes_(kInlineBytes),
      completions_(VerbsReceiver::make_completions(port, config.receive_slots)) {
  make_pair(send_completions);
  if (const int error = bring_up(pair_.get(), port.number(), config.qkey)) {
    throw Error(port.name + ": its queue pair can't be brought up: " + std::strerror(error) +
                "; check its link (`rdma link`) and its driver (`dmesg`)");
  }
  const VerbsSendLimits limits{config.send_slots, config.copy_slots, max_datagram_bytes_,
                               inline_bytes_};
  sender_.emplace(pair_.get(), port, config.queue, limits, remotes, regions);
  receiver_.emplace(pair_.get(), port, completions_,
                    VerbsReceiver::Shape{config.queue, config.receive_slots, max_datagram_bytes_});
}

// A device may not support inline data. A replacement device must support as much as the first.
void VerbsQueue::make_pair(ibv_cq* send_completions) {
  for (;;) {
    const ibv_qp_init_attr attributes =
        attributes_of(config_, send_completions, completions_.queue.get(), inline_bytes_);
    pair_.reset(VerbsPoster::make_pair(port_, attributes));
    if (pair_) return;
    if (inline_bytes_ == 0 || sender_) break;
    inline_bytes_ = 0;
  }
  throw Error(port_.name + ": a UD queue pair of " + std::to_string(config_.send_slots) +
              " sends and " + std::to_string(config_.receive_slots) +
              " receives can't be created: " + reason_of_refusal(errno));
}

// Must run before the memory is freed that the pair reads and writes.
void VerbsQueue::close() {
  stop();
  pair_.reset();
  sender_->give_up();
}

void VerbsQueue::stop() {
  sender_->stop();
  receiver_->stop();
}

bool VerbsQueue::restart() {
  using Route = VerbsReceiver::Route;
  sender_->restart();
  const VerbsPortFacts& facts = port_.facts;
  const bool ipv4 = facts.link == VerbsAddress::Link::ethernet && is_ipv4(facts.gid.gid);
  return receiver_->restart(ipv4 ? Route::ipv4 : Route::other);
}

bool VerbsQueue::reset() {
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_RESET;
  return ibv_modify_qp(pair_.get(), &attributes, IBV_QP_STATE) == 0;
}

bool VerbsQueue::make_ready() { return bring_up(pair_.get(), port_.number(), config_.qkey) == 0; }

void VerbsQueue::release() {
  pair_.reset();
  sender_->detach();
  receiver_->detach();
  completions_.queue.reset();
  completions_.channel.reset();
}

void VerbsQueue::renew(ibv_cq* send_completions) {
  completions_ = VerbsReceiver::make_completions(port_, config_.receive_slots);
  make_pair(send_completions);
  sender_->attach(pair_.get(), port_);
  receiver_->attach(pair_.get(), port_);
}

}  // namespace hawser::engine
