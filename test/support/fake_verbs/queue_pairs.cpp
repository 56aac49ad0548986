// SPDX-License-Identifier: Apache-2.0
// Queue pairs: how they are made, change state, fail, are reset and destroyed.
#include <algorithm>
#include <cerrno>

#include "test/support/fake_verbs/world.hpp"

namespace hawser::test::fake {

QueuePair& pair_of(ibv_qp* pair) {
  return static_cast<QueuePair&>(*reinterpret_cast<ibv_qp_ex*>(pair));
}

Device& device_of(QueuePair& pair) { return *context_of(base_of(pair)->context).device; }

PortSettings& port_of(QueuePair& pair) {
  return device_of(pair).settings.ports[std::size_t{pair.port} - 1];
}

QueuePair* find_pair(std::uint32_t number) {
  const auto& pairs = world().pairs;
  const auto found = std::ranges::find_if(
      pairs, [number](const QueuePair* pair) { return pair->qp_base.qp_num == number; });
  return found == pairs.end() ? nullptr : *found;
}

void complete(QueuePair& pair, Side side, std::uint64_t position, const ibv_wc& wc) {
  ibv_cq* const queue = side == Side::send ? pair.qp_base.send_cq : pair.qp_base.recv_cq;
  push(completions_of(queue), {wc, &pair, side, position + 1});
}

void flush(QueuePair& pair, Side side) {
  WorkQueue& work = side == Side::send ? pair.sends : pair.receives;
  for (; work.next < work.tail; ++work.next) {
    Request& request = work.at(work.next);
    ibv_wc wc{};
    wc.wr_id = request.wr_id;
    wc.status = IBV_WC_WR_FLUSH_ERR;
    wc.qp_num = pair.qp_base.qp_num;
    let_go(request);
    complete(pair, side, work.next, wc);
  }
}

void fail_pair(QueuePair& pair, Side side) {
  if (side == Side::send && device_of(pair).settings.errors_stop_sends_only) {
    pair.qp_base.state = IBV_QPS_SQE;
    flush(pair, Side::send);
    return;
  }
  pair.qp_base.state = IBV_QPS_ERR;
  flush(pair, Side::send);
  flush(pair, Side::receive);
}

namespace {

// The kernel's table for UD: the attributes that a step needs, and those it may have besides.
struct Step {
  ibv_qp_state from;
  ibv_qp_state to;
  int required;
  int allowed;
};
constexpr Step kSteps[] = {
    {IBV_QPS_RESET, IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY, 0},
    {IBV_QPS_INIT, IBV_QPS_INIT, 0, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY},
    {IBV_QPS_INIT, IBV_QPS_RTR, 0, IBV_QP_PKEY_INDEX | IBV_QP_QKEY},
    {IBV_QPS_RTR, IBV_QPS_RTS, IBV_QP_SQ_PSN, IBV_QP_CUR_STATE | IBV_QP_QKEY},
    {IBV_QPS_RTS, IBV_QPS_RTS, 0, IBV_QP_CUR_STATE | IBV_QP_QKEY},
    {IBV_QPS_SQE, IBV_QPS_RTS, 0, IBV_QP_CUR_STATE | IBV_QP_QKEY},
};

bool is_step(ibv_qp_state from, ibv_qp_state to, int mask) {
  const int others = mask & ~IBV_QP_STATE;
  if (to == IBV_QPS_RESET || to == IBV_QPS_ERR) return others == 0;
  return std::ranges::any_of(kSteps, [&](const Step& step) {
    return step.from == from && step.to == to && (others & step.required) == step.required &&
           (others & ~(step.required | step.allowed)) == 0;
  });
}

// Takes the pair's completions out of the queue, or makes them belong to no pair.
void forget(Completions& queue, const QueuePair& pair, bool take_out) {
  for (std::uint32_t left = queue.ring.size(); left > 0; --left) {
    Completion completion = queue.ring.pop();
    if (completion.pair == &pair) {
      if (take_out) continue;
      completion.pair = nullptr;
    }
    (void)queue.ring.push(std::move(completion));
  }
}

void drop_requests(QueuePair& pair) {
  for (WorkQueue* const work : {&pair.sends, &pair.receives}) {
    for (; work->next < work->tail; ++work->next) let_go(work->at(work->next));
    work->freed = work->tail;
  }
  const bool take_out = device_of(pair).settings.reset_cleans;
  forget(completions_of(pair.qp_base.send_cq), pair, take_out);
  forget(completions_of(pair.qp_base.recv_cq), pair, take_out);
}

void make_room(WorkQueue& work, std::uint32_t requests, std::uint32_t inline_bytes) {
  work.requests.resize(requests);
  for (Request& request : work.requests) request.inline_bytes.reserve(inline_bytes);
}

}  // namespace

QueuePair* make_pair(Domain& domain, const ibv_qp_init_attr& attributes) {
  World& all = world();
  const std::lock_guard lock(all.mutex);
  const DeviceSettings& settings = context_of(domain.context).device->settings;
  const ibv_qp_cap& cap = attributes.cap;
  int error = all.faults.strike(Call::create_qp);
  if (attributes.qp_type != IBV_QPT_UD || attributes.srq != nullptr) error = EOPNOTSUPP;
  if (cap.max_send_sge > kMaxParts || cap.max_recv_sge > kMaxParts || cap.max_send_wr == 0 ||
      cap.max_recv_wr == 0 || cap.max_inline_data > settings.max_inline_bytes) {
    error = EINVAL;
  }
  if (error == 0) error = gone(domain.context);
  if (error != 0) {
    errno = error;
    return nullptr;
  }
  auto* const pair = new QueuePair{};
  ibv_qp& base = pair->qp_base;
  base.context = domain.context;
  base.qp_context = attributes.qp_context;
  base.pd = &domain;
  base.send_cq = attributes.send_cq;
  base.recv_cq = attributes.recv_cq;
  base.qp_num = ++all.last_pair_number;
  base.state = IBV_QPS_RESET;
  base.qp_type = IBV_QPT_UD;
  pair->signals_all = attributes.sq_sig_all != 0;
  pair->max_send_parts = cap.max_send_sge;
  pair->max_receive_parts = cap.max_recv_sge;
  pair->max_inline_bytes = cap.max_inline_data;
  make_room(pair->sends, cap.max_send_wr, cap.max_inline_data);
  make_room(pair->receives, cap.max_recv_wr, 0);
  ++completions_of(base.send_cq).pairs;
  ++completions_of(base.recv_cq).pairs;
  all.pairs.push_back(pair);
  ++domain.objects;
  ++all.objects;
  return pair;
}

}  // namespace hawser::test::fake

using namespace hawser::test::fake;  // NOLINT: what follows are libibverbs' own functions

extern "C" {

ibv_qp* ibv_create_qp(ibv_pd* pd, ibv_qp_init_attr* attributes) {
  QueuePair* const made = hawser::test::fake::make_pair(*static_cast<Domain*>(pd), *attributes);
  return made == nullptr ? nullptr : base_of(*made);
}

int ibv_modify_qp(ibv_qp* which, ibv_qp_attr* attributes, int mask) {
  World& all = world();
  const std::lock_guard lock(all.mutex);
  if (const int error = all.faults.strike(Call::modify_qp)) return error;
  if (const int error = gone(which->context)) return error;
  QueuePair& pair = pair_of(which);
  const ibv_qp_state to = (mask & IBV_QP_STATE) != 0 ? attributes->qp_state : which->state;
  if (!is_step(which->state, to, mask)) return EINVAL;
  if ((mask & IBV_QP_PORT) != 0) {
    if (attributes->port_num < 1 || attributes->port_num > device_of(pair).settings.ports.size()) {
      return EINVAL;
    }
    pair.port = attributes->port_num;
  }
  if ((mask & IBV_QP_PKEY_INDEX) != 0 && attributes->pkey_index != 0) return EINVAL;
  if ((mask & IBV_QP_QKEY) != 0) pair.qkey = attributes->qkey;
  which->state = to;
  if (to == IBV_QPS_RESET) drop_requests(pair);
  if (to == IBV_QPS_ERR) {
    flush(pair, Side::send);
    flush(pair, Side::receive);
  }
  return 0;
}

int ibv_query_qp(ibv_qp* which, ibv_qp_attr* attributes, int, ibv_qp_init_attr* made) {
  const std::lock_guard lock(world().mutex);
  *attributes = {};
  *made = {};
  attributes->qp_state = attributes->cur_qp_state = which->state;
  attributes->qkey = pair_of(which).qkey;
  attributes->port_num = pair_of(which).port;
  return 0;
}

int ibv_destroy_qp(ibv_qp* which) {
  World& all = world();
  const std::lock_guard lock(all.mutex);
  QueuePair& pair = pair_of(which);
  drop_requests(pair);
  for (ibv_cq* const queue : {which->send_cq, which->recv_cq}) --completions_of(queue).pairs;
  for (const AsyncEvent& event : context_of(which->context).events) {
    const bool of_pair =
        event.event.element.qp == which && (event.event.event_type == IBV_EVENT_QP_FATAL ||
                                            event.event.event_type == IBV_EVENT_QP_REQ_ERR ||
                                            event.event.event_type == IBV_EVENT_QP_ACCESS_ERR);
    if (of_pair && event.read) all.violation("a queue pair goes with its event unacknowledged");
  }
  std::erase(all.pairs, &pair);
  --static_cast<Domain*>(which->pd)->objects;
  --all.objects;
  delete &pair;
  return 0;
}

ibv_qp_ex* ibv_qp_to_qp_ex(ibv_qp* pair) {
  return pair_of(pair).wr_start == nullptr ? nullptr : &pair_of(pair);
}

}  // extern "C"
