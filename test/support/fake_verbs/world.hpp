// SPDX-License-Identifier: Apache-2.0
// The double's inside: its objects, which are libibverbs' own with what the double knows of them
// behind, and the world that they live in.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "proto/base/ring.hpp"
#include "test/support/fake_verbs/fabric.hpp"

namespace hawser::test::fake {

inline constexpr std::uint32_t kGrhBytes = 40;
inline constexpr std::size_t kMaxParts = 4;

struct Device : ibv_device {
  DeviceSettings settings;
  std::vector<PortCounters> counters;
  std::vector<struct Context*> contexts;
  bool removed = false;  // its users may only let go of it
};

struct AsyncEvent {
  ibv_async_event event{};
  bool read = false;
};

struct Context : verbs_context {
  Device* device = nullptr;
  std::list<AsyncEvent> events;  // until they are acknowledged
  bool events_broken = false;
  std::size_t objects = 0;  // made of it
};

struct Domain : ibv_pd {
  std::size_t objects = 0;
};

struct Memory : ibv_mr {
  unsigned access = 0;
  std::size_t uses = 0;  // by requests that the device has
  // Of a dma-buf whose descriptor can be mapped: its bytes, wherever the addresses lead.
  std::byte* dmabuf = nullptr;
};

struct Channel : ibv_comp_channel {
  std::vector<struct Completions*> events;
  std::size_t queues = 0;
};

struct Completion {
  ibv_wc wc{};
  struct QueuePair* pair = nullptr;
  Side side = Side::send;
  std::uint64_t frees = 0;  // requests before this position leave the pair's queue
};

struct Completions : ibv_cq_ex {
  explicit Completions(std::uint32_t entries) : ibv_cq_ex{}, ring(entries), capacity(entries) {}
  proto::Ring<Completion> ring;
  std::uint32_t capacity;
  bool dead = false;
  bool armed = false;
  std::size_t pairs = 0;
  std::uint32_t unacknowledged = 0;  // completion events that were read
  Completion current{};              // of ibv_start_poll
};

struct Handle : ibv_ah {
  ibv_ah_attr attributes{};
  std::uint64_t sent = 0;
  std::size_t uses = 0;  // by requests that the device has
};

struct Request {
  std::uint64_t wr_id = 0;
  std::array<ibv_sge, kMaxParts> parts{};
  std::array<Memory*, kMaxParts> memories{};  // that the device has by this request
  std::size_t part_count = 0;
  // Of a send.
  bool signaled = false;
  bool inlined = false;
  std::vector<std::byte> inline_bytes;  // its room is never given up
  Handle* handle = nullptr;
  std::uint32_t remote_qpn = 0;
  std::uint32_t remote_qkey = 0;
  std::uint64_t digest = 0;  // of the bytes when it was posted
};

// Positions run free: freed <= next <= tail. Requests from `next` on are to be carried out, those
// from `freed` on have a place in the queue still.
struct WorkQueue {
  std::vector<Request> requests;
  std::uint64_t freed = 0;
  std::uint64_t next = 0;
  std::uint64_t tail = 0;
  [[nodiscard]] Request& at(std::uint64_t position) { return requests[position % requests.size()]; }
  [[nodiscard]] bool full() const { return tail - freed == requests.size(); }
};

struct QueuePair : ibv_qp_ex {
  WorkQueue sends;
  WorkQueue receives;
  std::uint32_t max_send_parts = 0;
  std::uint32_t max_receive_parts = 0;
  std::uint32_t max_inline_bytes = 0;
  bool signals_all = false;
  std::uint8_t port = 0;
  std::uint32_t qkey = 0;
  // Of ibv_wr_start: what is being built.
  std::vector<Request> staged;
  std::size_t staged_count = 0;
  int staged_error = 0;
};

struct World {
  mutable std::mutex mutex;
  std::condition_variable changed;
  std::vector<std::unique_ptr<Device>> devices;
  std::vector<std::unique_ptr<Device>> removed_devices;
  Faults faults;
  std::vector<std::string> violations;
  std::size_t objects = 0;
  std::vector<Memory*> memories;  // by key
  std::vector<QueuePair*> pairs;
  std::vector<Handle*> handles;
  std::uint32_t last_pair_number = 0x10;
  bool copies_on_fork = true;
  bool held = false;
  bool marked = false;
  bool handles_are_blocked = false;
  std::vector<Gid> blocked_gids;  // to these alone, if there are any
  std::size_t blocked_handles = 0;

  void violation(std::string what) { violations.push_back(std::move(what)); }
};

[[nodiscard]] World& world();

// What the test's objects are behind libibverbs' types.
[[nodiscard]] Context& context_of(ibv_context* context);
[[nodiscard]] Completions& completions_of(ibv_cq* queue);
[[nodiscard]] QueuePair& pair_of(ibv_qp* pair);
// What any call that needs the device fails with: EIO if it was removed, else zero.
[[nodiscard]] int gone(ibv_context* context);
[[nodiscard]] inline ibv_qp* base_of(QueuePair& pair) { return &pair.qp_base; }
[[nodiscard]] Device& device_of(QueuePair& pair);
[[nodiscard]] PortSettings& port_of(QueuePair& pair);
[[nodiscard]] QueuePair* find_pair(std::uint32_t number);

[[nodiscard]] Memory* memory_with(std::uint32_t key);         // null if none
[[nodiscard]] const std::byte* data_of(const ibv_sge& part);  // what the device reads
// Null, and a violation, unless all of `part` is registered under its key in `domain`.
[[nodiscard]] Memory* memory_of(const ibv_sge& part, const ibv_pd* domain, unsigned access);

// All of these under the lock.
void push(Completions& queue, Completion completion);
// Takes the next completion; false if there is none.
[[nodiscard]] bool pop(Completions& queue, Completion& completion);
// The request at `position` is over.
void complete(QueuePair& pair, Side side, std::uint64_t position, const ibv_wc& wc);
void raise_event(Context& context, const ibv_async_event& event);
void wake(int fd);
// Takes the pair to the error state, as far as the device does, and flushes what it still has.
void fail_pair(QueuePair& pair, Side side);
void flush(QueuePair& pair, Side side);
// The device has the request's memory and handle; and has let go of them.
void hold(Request& request);
void let_go(Request& request);
// Carries out what may be, up to `most`.
void run_sends(QueuePair& pair, std::uint64_t most);
// Writes down what a send is; zero or an error number. Then puts it at the tail of the queue.
[[nodiscard]] int prepare_send(QueuePair& pair, const ibv_send_wr& from, Request& send);
void enqueue_send(QueuePair& pair);
// Brings a datagram to whom it is for, if anybody.
void deliver(QueuePair& from, const Request& send, std::uint32_t bytes);
// Calls `visit(data, bytes)` for each part of a send.
template <class Visit>
void for_each_part(const Request& request, Visit visit) {
  if (request.inlined) {
    visit(request.inline_bytes.data(), request.inline_bytes.size());
    return;
  }
  for (std::size_t i = 0; i < request.part_count; ++i) {
    visit(data_of(request.parts[i]), std::size_t{request.parts[i].length});
  }
}
void offer_extended(Context& context);

// Entry points of the context's operations.
int post_send(ibv_qp* pair, ibv_send_wr* requests, ibv_send_wr** refused);
int post_receive(ibv_qp* pair, ibv_recv_wr* requests, ibv_recv_wr** refused);
int poll(ibv_cq* queue, int most, ibv_wc* completions);
int request_notification(ibv_cq* queue, int solicited_only);
// Null, and errno, if it can't be.
[[nodiscard]] QueuePair* make_pair(Domain& domain, const ibv_qp_init_attr& attributes);
[[nodiscard]] Completions* make_completions(ibv_context* context, std::uint32_t entries, void* own,
                                            ibv_comp_channel* channel);

}  // namespace hawser::test::fake
