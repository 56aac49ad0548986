// SPDX-License-Identifier: Apache-2.0
// The newer calls, if a device's settings offer them: ibv_wr_*, and polling one completion at a
// time. They do the same as the older calls.
#include <algorithm>
#include <cerrno>

#include "test/support/fake_verbs/world.hpp"

namespace hawser::test::fake {
namespace {

QueuePair& building(ibv_qp_ex* pair) { return static_cast<QueuePair&>(*pair); }

Request* newest(ibv_qp_ex* pair) {
  QueuePair& own = building(pair);
  return own.staged_count == 0 ? nullptr : &own.staged[own.staged_count - 1];
}

// The lock is held from ibv_wr_start to ibv_wr_complete, as a provider holds the queue pair's.
void start(ibv_qp_ex* pair) {
  world().mutex.lock();
  building(pair).staged_count = 0;
  building(pair).staged_error = 0;
}

void stage_send(ibv_qp_ex* pair) {
  QueuePair& own = building(pair);
  const std::uint64_t waiting = own.sends.tail - own.sends.freed;
  if (own.staged_count + waiting >= own.sends.requests.size()) {
    own.staged_error = ENOMEM;
    return;
  }
  Request& send = own.staged[own.staged_count++];
  send.wr_id = pair->wr_id;
  send.signaled = own.signals_all || (pair->wr_flags & IBV_SEND_SIGNALED) != 0;
  send.inlined = false;
  send.inline_bytes.clear();
  send.part_count = 0;
  send.handle = nullptr;
  send.digest = 0;
}

void set_address(ibv_qp_ex* pair, ibv_ah* handle, std::uint32_t qpn, std::uint32_t qkey) {
  Request* const send = newest(pair);
  if (send == nullptr) return;
  send->handle = static_cast<Handle*>(handle);
  send->remote_qpn = qpn;
  send->remote_qkey = qkey;
}

void set_inline_list(ibv_qp_ex* pair, std::size_t count, const ibv_data_buf* list) {
  Request* const send = newest(pair);
  if (send == nullptr) return;
  send->inlined = true;
  for (std::size_t i = 0; i < count; ++i) {
    const auto* const data = static_cast<const std::byte*>(list[i].addr);
    if (send->inline_bytes.size() + list[i].length > building(pair).max_inline_bytes) {
      building(pair).staged_error = ENOMEM;
      return;
    }
    send->inline_bytes.insert(send->inline_bytes.end(), data, data + list[i].length);
  }
}

void set_inline(ibv_qp_ex* pair, void* data, std::size_t bytes) {
  const ibv_data_buf one{data, bytes};
  set_inline_list(pair, 1, &one);
}

void set_parts(ibv_qp_ex* pair, std::size_t count, const ibv_sge* list) {
  Request* const send = newest(pair);
  if (send == nullptr) return;
  if (count > building(pair).max_send_parts) {
    building(pair).staged_error = EINVAL;
    return;
  }
  send->part_count = count;
  std::copy_n(list, count, send->parts.begin());
}

void set_part(ibv_qp_ex* pair, std::uint32_t key, std::uint64_t address, std::uint32_t bytes) {
  const ibv_sge one{address, bytes, key};
  set_parts(pair, 1, &one);
}

// Posts all requests or none.
int finish(ibv_qp_ex* pair) {
  QueuePair& own = building(pair);
  World& all = world();
  int error = all.faults.strike(Call::post_send);
  const ibv_qp_state state = own.qp_base.state;
  if (state == IBV_QPS_RESET || state == IBV_QPS_INIT || state == IBV_QPS_RTR) error = EINVAL;
  if (error == 0) error = own.staged_error;
  for (std::size_t i = 0; i < own.staged_count && error == 0; ++i) {
    error = all.faults.refuses(Side::send);
    if (own.staged[i].handle == nullptr) error = EINVAL;
  }
  for (std::size_t i = 0; i < own.staged_count && error == 0; ++i) {
    std::swap(own.sends.at(own.sends.tail), own.staged[i]);
    enqueue_send(own);
  }
  if (state != IBV_QPS_RTS) flush(own, Side::send);
  if (!all.held) run_sends(own, own.sends.requests.size());
  all.mutex.unlock();
  return error;
}

void abort_build(ibv_qp_ex*) { world().mutex.unlock(); }

void give_operations(QueuePair& pair, std::uint32_t requests, std::uint32_t inline_bytes) {
  pair.staged.resize(requests);
  for (Request& request : pair.staged) request.inline_bytes.reserve(inline_bytes);
  pair.wr_start = start;
  pair.wr_send = stage_send;
  pair.wr_set_ud_addr = set_address;
  pair.wr_set_inline_data = set_inline;
  pair.wr_set_inline_data_list = set_inline_list;
  pair.wr_set_sge = set_part;
  pair.wr_set_sge_list = set_parts;
  pair.wr_complete = finish;
  pair.wr_abort = abort_build;
}

ibv_qp* create_pair(ibv_context*, ibv_qp_init_attr_ex* attributes) {
  constexpr std::uint32_t kKnown = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
  const bool sends_only = (attributes->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) == 0 ||
                          attributes->send_ops_flags == IBV_QP_EX_WITH_SEND;
  if ((attributes->comp_mask & ~kKnown) != 0 || !sends_only || attributes->pd == nullptr) {
    errno = EOPNOTSUPP;
    return nullptr;
  }
  ibv_qp_init_attr plain{};
  plain.qp_context = attributes->qp_context;
  plain.send_cq = attributes->send_cq;
  plain.recv_cq = attributes->recv_cq;
  plain.srq = attributes->srq;
  plain.cap = attributes->cap;
  plain.qp_type = attributes->qp_type;
  plain.sq_sig_all = attributes->sq_sig_all;
  QueuePair* const made = make_pair(*static_cast<Domain*>(attributes->pd), plain);
  if (made == nullptr) return nullptr;
  if ((attributes->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) != 0) {
    give_operations(*made, plain.cap.max_send_wr, plain.cap.max_inline_data);
  }
  return base_of(*made);
}

Completions& polling(ibv_cq_ex* queue) { return static_cast<Completions&>(*queue); }

int next_poll(ibv_cq_ex* queue) {
  Completions& own = polling(queue);
  if (!pop(own, own.current)) return ENOENT;
  queue->status = own.current.wc.status;
  queue->wr_id = own.current.wc.wr_id;
  return 0;
}

// The lock is held from a successful start to the end.
int start_poll(ibv_cq_ex* queue, ibv_poll_cq_attr*) {
  World& all = world();
  all.mutex.lock();
  int error = all.faults.strike(Call::poll_cq);
  const Completions& own = polling(queue);
  if (own.dead && context_of(queue->context).device->settings.dead_queues_say_so) error = EIO;
  if (error == 0) error = next_poll(queue);
  if (error != 0) all.mutex.unlock();
  return error;
}

void end_poll(ibv_cq_ex*) { world().mutex.unlock(); }

ibv_cq_ex* create_completions(ibv_context* context, ibv_cq_init_attr_ex* attributes) {
  Completions* const made =
      make_completions(context, attributes->cqe, attributes->cq_context, attributes->channel);
  if (made == nullptr) return nullptr;
  made->start_poll = start_poll;
  made->next_poll = next_poll;
  made->end_poll = end_poll;
  made->read_opcode = [](ibv_cq_ex* queue) { return polling(queue).current.wc.opcode; };
  made->read_vendor_err = [](ibv_cq_ex* queue) { return polling(queue).current.wc.vendor_err; };
  made->read_byte_len = [](ibv_cq_ex* queue) { return polling(queue).current.wc.byte_len; };
  made->read_qp_num = [](ibv_cq_ex* queue) { return polling(queue).current.wc.qp_num; };
  made->read_src_qp = [](ibv_cq_ex* queue) { return polling(queue).current.wc.src_qp; };
  made->read_wc_flags = [](ibv_cq_ex* queue) { return polling(queue).current.wc.wc_flags; };
  made->read_slid = [](ibv_cq_ex* queue) -> std::uint32_t {
    return polling(queue).current.wc.slid;
  };
  return made;
}

}  // namespace

void offer_extended(Context& context) {
  context.create_qp_ex = create_pair;
  context.create_cq_ex = create_completions;
}

}  // namespace hawser::test::fake
