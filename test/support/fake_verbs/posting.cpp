// SPDX-License-Identifier: Apache-2.0
// Requests: which ones a device accepts or refuses, and when it carries them out.
#include <algorithm>
#include <cerrno>
#include <limits>

#include "test/support/fake_verbs/world.hpp"

namespace hawser::test::fake {
namespace {

constexpr std::uint64_t kAll = std::numeric_limits<std::uint64_t>::max();

std::size_t bytes_of(const Request& send) {
  std::size_t sum = 0;
  for_each_part(send, [&](const std::byte*, std::size_t bytes) { sum += bytes; });
  return sum;
}

// FNV-1a, but never 0, which means that there is no digest.
std::uint64_t digest_of(const Request& send) {
  std::uint64_t digest = 0xcbf29ce484222325u;
  for_each_part(send, [&](const std::byte* data, std::size_t bytes) {
    for (std::size_t i = 0; i < bytes; ++i) {
      digest = (digest ^ std::to_integer<std::uint64_t>(data[i])) * 0x100000001b3u;
    }
  });
  return digest | 1;
}

// Checks a send when the device carries it out; returns its status.
ibv_wc_status check(QueuePair& pair, const Request& send, std::size_t bytes) {
  if (!send.inlined) {
    for (std::size_t i = 0; i < send.part_count; ++i) {
      if (send.parts[i].length == 0) continue;
      if (memory_of(send.parts[i], pair.qp_base.pd, 0) == nullptr) return IBV_WC_LOC_PROT_ERR;
    }
  }
  World& all = world();
  if (send.handle->pd != pair.qp_base.pd) {
    all.violation("a send has an address handle of another domain");
    return IBV_WC_LOC_QP_OP_ERR;
  }
  if (bytes > 128u << port_of(pair).mtu) {
    all.violation("a send is longer than the MTU");
    return IBV_WC_LOC_LEN_ERR;
  }
  if (send.digest != 0 && send.digest != digest_of(send)) {
    all.violation("a buffer has changed while the device had it");
  }
  return IBV_WC_SUCCESS;
}

void carry_out(QueuePair& pair, Request& send, std::uint64_t position) {
  const DeviceSettings& settings = device_of(pair).settings;
  const bool is_up = port_of(pair).state == IBV_PORT_ACTIVE;
  const std::size_t bytes = bytes_of(send);
  ibv_wc wc{};
  wc.wr_id = send.wr_id;
  wc.opcode = IBV_WC_SEND;
  wc.qp_num = pair.qp_base.qp_num;
  wc.status = world().faults.status_of(Side::send);
  if (wc.status == IBV_WC_SUCCESS) wc.status = check(pair, send, bytes);
  if (!is_up && settings.when_down == WhenDown::fails) wc.status = IBV_WC_WR_FLUSH_ERR;
  if (wc.status == IBV_WC_SUCCESS) {
    ++send.handle->sent;
    if (is_up) deliver(pair, send, static_cast<std::uint32_t>(bytes));
  }
  let_go(send);
  if (wc.status != IBV_WC_SUCCESS) {
    complete(pair, Side::send, position, wc);
    fail_pair(pair, Side::send);
  } else if (send.signaled) {
    complete(pair, Side::send, position, wc);
  }
}

}  // namespace

void hold(Request& request) {
  for (std::size_t i = 0; i < request.part_count; ++i) {
    request.memories[i] = request.inlined ? nullptr : memory_with(request.parts[i].lkey);
    if (request.memories[i] != nullptr) ++request.memories[i]->uses;
  }
  if (request.handle != nullptr) ++request.handle->uses;
}

void let_go(Request& request) {
  for (std::size_t i = 0; i < request.part_count; ++i) {
    if (request.memories[i] != nullptr) --request.memories[i]->uses;
  }
  if (request.handle != nullptr) --request.handle->uses;
}

void run_sends(QueuePair& pair, std::uint64_t most) {
  WorkQueue& work = pair.sends;
  if (gone(base_of(pair)->context) != 0) return;
  for (; work.next < work.tail && most > 0 && pair.qp_base.state == IBV_QPS_RTS; --most) {
    const bool stalls = device_of(pair).settings.when_down == WhenDown::stalls;
    if (stalls && port_of(pair).state != IBV_PORT_ACTIVE) return;
    const std::uint64_t position = work.next++;
    carry_out(pair, work.at(position), position);
  }
}

int prepare_send(QueuePair& pair, const ibv_send_wr& from, Request& send) {
  const auto parts = static_cast<std::size_t>(std::max(from.num_sge, 0));
  if (from.opcode != IBV_WR_SEND || parts > pair.max_send_parts) return EINVAL;
  send.wr_id = from.wr_id;
  send.signaled = pair.signals_all || (from.send_flags & IBV_SEND_SIGNALED) != 0;
  send.inlined = (from.send_flags & IBV_SEND_INLINE) != 0;
  send.handle = static_cast<Handle*>(from.wr.ud.ah);
  send.remote_qpn = from.wr.ud.remote_qpn;
  send.remote_qkey = from.wr.ud.remote_qkey;
  send.digest = 0;
  send.part_count = parts;
  std::copy_n(from.sg_list, parts, send.parts.begin());
  if (!send.inlined) return 0;
  send.inline_bytes.clear();
  for (std::size_t i = 0; i < parts; ++i) {
    const auto* const data = reinterpret_cast<const std::byte*>(send.parts[i].addr);
    const std::size_t bytes = send.parts[i].length;
    if (send.inline_bytes.size() + bytes > pair.max_inline_bytes) return ENOMEM;
    send.inline_bytes.insert(send.inline_bytes.end(), data, data + bytes);
  }
  return 0;
}

void enqueue_send(QueuePair& pair) {
  Request& send = pair.sends.at(pair.sends.tail++);
  hold(send);
  if (world().held) send.digest = digest_of(send);
}

int post_send(ibv_qp* to, ibv_send_wr* requests, ibv_send_wr** refused) {
  World& all = world();
  const std::lock_guard lock(all.mutex);
  QueuePair& pair = pair_of(to);
  int error = all.faults.strike(Call::post_send);
  if (to->state == IBV_QPS_RESET || to->state == IBV_QPS_INIT || to->state == IBV_QPS_RTR) {
    error = EINVAL;
  }
  ibv_send_wr* request = requests;
  for (; request != nullptr && error == 0; request = request->next) {
    error = all.faults.refuses(Side::send);
    if (error == 0 && pair.sends.full()) error = ENOMEM;
    if (error == 0) error = prepare_send(pair, *request, pair.sends.at(pair.sends.tail));
    if (error != 0) break;
    enqueue_send(pair);
  }
  if (error != 0) *refused = request;
  if (to->state != IBV_QPS_RTS) flush(pair, Side::send);
  if (!all.held) run_sends(pair, kAll);
  return error;
}

int post_receive(ibv_qp* to, ibv_recv_wr* requests, ibv_recv_wr** refused) {
  World& all = world();
  const std::lock_guard lock(all.mutex);
  QueuePair& pair = pair_of(to);
  int error = all.faults.strike(Call::post_recv);
  if (to->state == IBV_QPS_RESET) error = EINVAL;
  ibv_recv_wr* request = requests;
  for (; request != nullptr && error == 0; request = request->next) {
    error = all.faults.refuses(Side::receive);
    if (error == 0 && pair.receives.full()) error = ENOMEM;
    const auto parts = static_cast<std::size_t>(std::max(request->num_sge, 0));
    if (error == 0 && parts > pair.max_receive_parts) error = EINVAL;
    if (error != 0) break;
    Request& receive = pair.receives.at(pair.receives.tail++);
    receive.wr_id = request->wr_id;
    receive.part_count = parts;
    std::copy_n(request->sg_list, parts, receive.parts.begin());
    hold(receive);
  }
  if (error != 0) *refused = request;
  if (to->state == IBV_QPS_ERR) flush(pair, Side::receive);
  return error;
}

}  // namespace hawser::test::fake
