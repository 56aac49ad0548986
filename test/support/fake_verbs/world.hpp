// SPDX-License-Identifier: Apache-2.0
// The inside of the double: its objects, each of which is libibverbs' own struct followed by the
// double's fields, and the world that they live in.
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
  bool removed = false;  // its users may only free its objects
};

struct AsyncEvent {
  ibv_async_event event{};
  bool read = false;
};

struct Context : verbs_context {
  Device* device = nullptr;
  std::list<AsyncEvent> events;  // until they are acknowledged
  bool events_broken = false;
  std::size_t objects = 0;  // made with it
};

struct Domain : ibv_pd {
  std::size_t objects = 0;
};

struct Memory : ibv_mr {
  unsigned access = 0;
  std::size_t uses = 0;  // by requests at the device
  // A dma-buf with a descriptor that can be mapped: its bytes, wherever the addresses lead.
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
  std::size_t uses = 0;  // by requests at the device
};

struct Request {
  std::uint64_t wr_id = 0;
  std::array<ibv_sge, kMaxParts> parts{};
  std::array<Memory*, kMaxParts> memories{};  // that this request uses at the device
  std::size_t part_count = 0;
  // The rest is for sends.
  bool signaled = false;
  bool inlined = false;
  std::vector<std::byte> inline_bytes;  // never shrinks
  Handle* handle = nullptr;
  std::uint32_t remote_qpn = 0;
  std::uint32_t remote_qkey = 0;
  std::uint64_t digest = 0;  // of the bytes when it was posted
};

// Positions only grow: freed <= next <= tail. The device still has to carry out the requests from
// `next` on. Those from `freed` on still have a place in the queue.
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
  // The requests since ibv_wr_start.
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
  std::vector<Gid> blocked_gids;  // if not empty, only these are blocked
  std::size_t blocked_handles = 0;

  void violation(std::string what) { violations.push_back(std::move(what)); }
};

[[nodiscard]] World& world();

// The double's objects behind libibverbs' types.
[[nodiscard]] Context& context_of(ibv_context* context);
[[nodiscard]] Completions& completions_of(ibv_cq* queue);
[[nodiscard]] QueuePair& pair_of(ibv_qp* pair);
// The error of any call that needs the device: EIO if it was removed, else zero.
[[nodiscard]] int gone(ibv_context* context);
[[nodiscard]] inline ibv_qp* base_of(QueuePair& pair) { return &pair.qp_base; }
[[nodiscard]] Device& device_of(QueuePair& pair);
[[nodiscard]] PortSettings& port_of(QueuePair& pair);
[[nodiscard]] QueuePair* find_pair(std::uint32_t number);

[[nodiscard]] Memory* memory_with(std::uint32_t key);         // null if none
[[nodiscard]] const std::byte* data_of(const ibv_sge& part);  // what the device reads
// The memory with the key of `part`. Null, and a violation, unless it has all of `part` in
// `domain`.
[[nodiscard]] Memory* memory_of(const ibv_sge& part, const ibv_pd* domain, unsigned access);

// The caller of each of these holds the lock.
void push(Completions& queue, Completion completion);
// Takes the next completion; false if there is none.
[[nodiscard]] bool pop(Completions& queue, Completion& completion);
// Completes the request at `position`.
void complete(QueuePair& pair, Side side, std::uint64_t position, const ibv_wc& wc);
void raise_event(Context& context, const ibv_async_event& event);
void wake(int fd);
// Takes the pair to the error state, or only one side if the device does that, and flushes it.
void fail_pair(QueuePair& pair, Side side);
void flush(QueuePair& pair, Side side);
// Marks the request's memory and handle as used by the device; and as no longer used.
void hold(Request& request);
void let_go(Request& request);
// Carries out at most `most` sends that may run.
void run_sends(QueuePair& pair, std::uint64_t most);
// Copies a send's description; returns zero or an error number. enqueue_send then queues it.
[[nodiscard]] int prepare_send(QueuePair& pair, const ibv_send_wr& from, Request& send);
void enqueue_send(QueuePair& pair);
// Delivers a datagram to its receiver, if there is one.
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
// Null, and errno is set, if it can't be made.
[[nodiscard]] QueuePair* make_pair(Domain& domain, const ibv_qp_init_attr& attributes);
[[nodiscard]] Completions* make_completions(ibv_context* context, std::uint32_t entries, void* own,
                                            ibv_comp_channel* channel);

}  // namespace hawser::test::fake
