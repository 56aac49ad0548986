// SPDX-License-Identifier: Apache-2.0
// Tests of the double itself. It behaves as the specification says of a device, and notices every
// misuse of a device. A test of the driver is worth no more than these.
#include <fcntl.h>
#include <poll.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "test/support/fake_verbs/fabric.hpp"

namespace hawser::test::fake {
namespace {

constexpr std::uint32_t kQkey = 77;
constexpr std::uint32_t kGrhBytes = 40;

// Two queue pairs on one port, which send to each other, without a driver in between.
struct Bench {
  explicit Bench(int entries = 64, bool extended = false) {
    PortSettings port;
    port.gids.push_back({0, IBV_GID_TYPE_ROCE_V2, gid_of("fe80::1")});
    DeviceSettings device;
    device.name = "one";
    device.ports.push_back(port);
    device.extended = extended;
    fabric.add(device);
    int count = 0;
    ibv_device** const list = ibv_get_device_list(&count);
    REQUIRE(count == 1);
    context = ibv_open_device(list[0]);
    ibv_free_device_list(list);
    (void)::fcntl(context->async_fd, F_SETFL, O_NONBLOCK);
    domain = ibv_alloc_pd(context);
    channel = ibv_create_comp_channel(context);
    (void)::fcntl(channel->fd, F_SETFL, O_NONBLOCK);
    queue = ibv_create_cq(context, entries, nullptr, channel, 0);
    memory = ibv_reg_mr(domain, bytes.data(), bytes.size(), IBV_ACCESS_LOCAL_WRITE);
    ibv_ah_attr attributes{};
    attributes.port_num = 1;
    attributes.is_global = 1;
    std::memcpy(attributes.grh.dgid.raw, gid_of("fe80::1").data(), 16);
    handle = ibv_create_ah(domain, &attributes);
    pair = make_pair();
    key = memory->lkey;
    REQUIRE((handle != nullptr && memory != nullptr && pair != nullptr));
  }
  ~Bench() {
    if (pair != nullptr) ibv_destroy_qp(pair);
    if (handle != nullptr) ibv_destroy_ah(handle);
    if (memory != nullptr) ibv_dereg_mr(memory);
    ibv_destroy_cq(queue);
    ibv_destroy_comp_channel(channel);
    ibv_dealloc_pd(domain);
    ibv_close_device(context);
  }
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;

  ibv_qp* make_pair() const {
    ibv_qp_init_attr attributes{};
    attributes.send_cq = attributes.recv_cq = queue;
    attributes.cap = {16, 16, 2, 1, 64};
    attributes.qp_type = IBV_QPT_UD;
    return ibv_create_qp(domain, &attributes);
  }
  int step(ibv_qp_state to, int mask = 0) const {
    ibv_qp_attr attributes{};
    attributes.qp_state = to;
    attributes.port_num = 1;
    attributes.qkey = kQkey;
    if (to == IBV_QPS_INIT && mask == 0) mask = IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY;
    if (to == IBV_QPS_RTS && mask == 0) mask = IBV_QP_SQ_PSN;
    return ibv_modify_qp(pair, &attributes, mask | IBV_QP_STATE);
  }
  void make_ready() const {
    for (const ibv_qp_state state : {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS}) {
      REQUIRE(step(state) == 0);
    }
  }
  int receive(std::uint64_t id, std::size_t at = 1024, std::uint32_t length = 256) {
    ibv_sge part{address(at), length, key};
    ibv_recv_wr request{id, nullptr, &part, 1};
    ibv_recv_wr* refused = nullptr;
    return ibv_post_recv(pair, &request, &refused);
  }
  int send(std::uint64_t id, std::uint32_t length = 32, unsigned flags = IBV_SEND_SIGNALED,
           std::uint32_t qkey = kQkey, std::size_t at = 0) {
    ibv_sge part{address(at), length, key};
    ibv_send_wr request{};
    request.wr_id = id;
    request.sg_list = &part;
    request.num_sge = 1;
    request.opcode = IBV_WR_SEND;
    request.send_flags = flags;
    request.wr.ud.ah = handle;
    request.wr.ud.remote_qpn = pair->qp_num;
    request.wr.ud.remote_qkey = qkey;
    ibv_send_wr* refused = nullptr;
    return ibv_post_send(pair, &request, &refused);
  }
  [[nodiscard]] std::uint64_t address(std::size_t at) const {
    return reinterpret_cast<std::uint64_t>(bytes.data() + at);
  }
  [[nodiscard]] std::vector<ibv_wc> poll() const {
    std::vector<ibv_wc> all(64);
    all.resize(static_cast<std::size_t>(ibv_poll_cq(queue, 64, all.data())));
    return all;
  }
  // Takes a completion event. False if there is none.
  [[nodiscard]] bool woken() const {
    ibv_cq* which = nullptr;
    void* own = nullptr;
    if (ibv_get_cq_event(channel, &which, &own) != 0) return false;
    ibv_ack_cq_events(which, 1);
    return true;
  }

  Fabric fabric;
  std::vector<std::byte> bytes = std::vector<std::byte>(16384);
  ibv_context* context = nullptr;
  ibv_pd* domain = nullptr;
  ibv_comp_channel* channel = nullptr;
  ibv_cq* queue = nullptr;
  ibv_mr* memory = nullptr;
  std::uint32_t key = 0;  // that requests have
  ibv_ah* handle = nullptr;
  ibv_qp* pair = nullptr;
};

}  // namespace

TEST_CASE("double: a queue pair takes what its state allows") {
  Bench bench;
  CHECK(bench.receive(1) == EINVAL);  // Reset
  CHECK(bench.send(1) == EINVAL);
  CHECK(bench.step(IBV_QPS_RTR) == EINVAL);
  CHECK(bench.step(IBV_QPS_RTS) == EINVAL);
  CHECK(bench.step(IBV_QPS_INIT, IBV_QP_PORT) == EINVAL);  // some attributes are missing
  REQUIRE(bench.step(IBV_QPS_INIT) == 0);
  CHECK(bench.receive(1) == 0);
  CHECK(bench.send(1) == EINVAL);
  REQUIRE(bench.step(IBV_QPS_RTR) == 0);
  CHECK(bench.send(1) == EINVAL);
  CHECK(bench.step(IBV_QPS_RTS, IBV_QP_QKEY) == EINVAL);  // without a sequence number
  REQUIRE(bench.step(IBV_QPS_RTS) == 0);
  CHECK(bench.send(2) == 0);
  const auto completions = bench.poll();
  REQUIRE(completions.size() == 2);
  CHECK(completions[0].opcode == IBV_WC_RECV);
  CHECK(completions[0].byte_len == 32 + kGrhBytes);
  CHECK(completions[0].wc_flags == IBV_WC_GRH);
  CHECK(completions[1].wr_id == 2);
  REQUIRE(bench.step(IBV_QPS_ERR) == 0);
  CHECK(bench.receive(5) == 0);  // taken, and flushed
  CHECK(bench.send(6, 32, 0) == 0);
  for (const ibv_wc& completion : bench.poll()) {
    CHECK(completion.status == IBV_WC_WR_FLUSH_ERR);
  }
  CHECK(bench.step(IBV_QPS_RTS) == EINVAL);
  CHECK(bench.step(IBV_QPS_RESET) == 0);
}

TEST_CASE("double: bytes arrive behind a route header, small ones are copied when posted") {
  Bench bench;
  bench.make_ready();
  for (std::size_t i = 0; i < 32; ++i) bench.bytes[i] = static_cast<std::byte>(i + 1);
  const std::vector<std::byte> sent(bench.bytes.begin(), bench.bytes.begin() + 32);
  bench.fabric.hold(true);
  REQUIRE(bench.receive(1) == 0);
  REQUIRE(bench.send(2, 32, IBV_SEND_INLINE) == 0);
  std::fill_n(bench.bytes.begin(), 32, std::byte{0});
  bench.fabric.hold(false);
  CHECK(std::equal(sent.begin(), sent.end(), bench.bytes.begin() + 1024 + kGrhBytes));
  CHECK(bench.bytes[1024] >> 4 == std::byte{6});
  CHECK(bench.poll().size() == 1);  // the send asked for no completion
  CHECK(bench.send(3, 65, IBV_SEND_INLINE) == ENOMEM);
}

TEST_CASE("double: what finds no buffer, or knows no QKey, is gone without a word") {
  Bench bench;
  bench.make_ready();
  CHECK(bench.send(1) == 0);
  REQUIRE(bench.receive(1) == 0);
  CHECK(bench.send(2, 32, IBV_SEND_SIGNALED, kQkey + 1) == 0);
  CHECK(bench.poll().size() == 2);  // of the sends
  const PortCounters counters = bench.fabric.counters("one");
  CHECK(counters.without_buffer == 1);
  CHECK(counters.qkey_violations == 1);
  CHECK(counters.delivered == 0);
}

TEST_CASE("double: a queue is full until completions were polled, for those before them too") {
  Bench bench;
  bench.make_ready();
  for (std::uint64_t id = 0; id < 16; ++id) REQUIRE(bench.send(id, 32, id == 15 ? 2 : 0) == 0);
  CHECK(bench.send(16) == ENOMEM);
  CHECK(bench.poll().size() == 1);
  CHECK(bench.send(16) == 0);
  for (std::uint64_t id = 0; id < 15; ++id) REQUIRE(bench.send(id, 32, 0) == 0);
  CHECK(bench.send(16) == ENOMEM);
}

TEST_CASE("double: a completion queue wakes once for what comes after it was armed") {
  Bench bench;
  bench.make_ready();
  CHECK(bench.send(1) == 0);
  CHECK(ibv_req_notify_cq(bench.queue, 0) == 0);
  CHECK_FALSE(bench.woken());  // the completion came before the arming
  CHECK(bench.send(2) == 0);
  CHECK(bench.send(3) == 0);
  CHECK(bench.woken());
  CHECK_FALSE(bench.woken());
  CHECK(bench.poll().size() == 3);
}

TEST_CASE("double: a completion queue that overruns is dead, and says so in an event") {
  Bench bench(4);
  bench.make_ready();
  for (std::uint64_t id = 0; id < 5; ++id) CHECK(bench.send(id) == 0);
  CHECK(bench.poll().empty());
  ibv_async_event event{};
  REQUIRE(ibv_get_async_event(bench.context, &event) == 0);
  CHECK(event.event_type == IBV_EVENT_CQ_ERR);
  CHECK(event.element.cq == bench.queue);
  ibv_ack_async_event(&event);
}

TEST_CASE("double: memory that isn't registered so is noticed") {
  Bench bench;
  bench.make_ready();
  const auto misuse = [&](auto&& how) {
    how();
    const auto completions = bench.poll();
    const bool failed = std::any_of(completions.begin(), completions.end(), [](const ibv_wc& wc) {
      return wc.status == IBV_WC_LOC_PROT_ERR;
    });
    CHECK(failed);
    CHECK(bench.fabric.take_violations().size() == 1);
    CHECK(bench.pair->state == IBV_QPS_ERR);
    REQUIRE(bench.step(IBV_QPS_RESET) == 0);
    bench.make_ready();
  };
  misuse([&] { CHECK(bench.send(1, 1000, IBV_SEND_SIGNALED, kQkey, 15'500) == 0); });
  misuse([&] {
    ++bench.key;
    CHECK(bench.send(1) == 0);
    --bench.key;
  });
  misuse([&] {
    ibv_mr* const other = ibv_reg_mr(bench.domain, bench.bytes.data(), bench.bytes.size(), 0);
    bench.key = other->lkey;
    CHECK(bench.receive(1) == 0);  // into memory that is registered for reading only
    bench.key = bench.memory->lkey;
    CHECK(bench.send(2) == 0);
    ibv_dereg_mr(other);
  });
}

TEST_CASE("double: what the device has may not change, and not go") {
  Bench bench;
  bench.make_ready();
  bench.fabric.hold(true);
  SECTION("bytes") {
    CHECK(bench.send(1) == 0);
    bench.bytes[7] = std::byte{1};
    bench.fabric.hold(false);
    CHECK(bench.fabric.take_violations() ==
          std::vector<std::string>{"a buffer has changed while the device had it"});
  }
  SECTION("a length beyond the MTU") {
    CHECK(bench.send(1, 5000) == 0);
    bench.fabric.hold(false);
    CHECK(bench.fabric.take_violations().size() == 1);
  }
}

TEST_CASE("double: objects go in their order") {
  Bench bench;
  CHECK(ibv_dealloc_pd(bench.domain) == EBUSY);
  CHECK(ibv_destroy_cq(bench.queue) == EBUSY);
  CHECK(ibv_destroy_comp_channel(bench.channel) == EBUSY);
  CHECK(bench.fabric.take_violations().size() == 3);
  CHECK(bench.fabric.objects() == 7);
}

TEST_CASE("double: events of queues are acknowledged before these go") {
  Bench bench;
  bench.fabric.raise_of_pair(bench.pair->qp_num, IBV_EVENT_QP_FATAL);
  ibv_async_event event{};
  REQUIRE(ibv_get_async_event(bench.context, &event) == 0);
  ibv_destroy_qp(bench.pair);
  bench.pair = nullptr;
  CHECK(bench.fabric.take_violations().size() == 1);
  ibv_ack_async_event(&event);
}

TEST_CASE("double: calls fail where they are told to") {
  Bench bench;
  bench.fabric.fail(Call::alloc_pd, ENOMEM, 1, 2);
  std::vector<ibv_pd*> domains;
  for (int i = 0; i < 4; ++i) domains.push_back(ibv_alloc_pd(bench.context));
  CHECK(domains[0] != nullptr);
  CHECK(domains[1] == nullptr);
  CHECK(domains[2] == nullptr);
  CHECK(domains[3] != nullptr);
  for (ibv_pd* const domain : {domains[0], domains[3]}) ibv_dealloc_pd(domain);
}

TEST_CASE("double: the newer calls send and complete as the older ones, where they are offered") {
  ibv_qp_init_attr_ex attributes{};
  attributes.cap = {4, 4, 2, 1, 64};
  attributes.qp_type = IBV_QPT_UD;
  attributes.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
  attributes.send_ops_flags = IBV_QP_EX_WITH_SEND;
  {
    Bench bench;
    attributes.pd = bench.domain;
    CHECK(ibv_create_qp_ex(bench.context, &attributes) == nullptr);
    CHECK(errno == EOPNOTSUPP);
    CHECK(ibv_qp_to_qp_ex(bench.pair) == nullptr);
  }
  Bench bench(64, true);
  bench.make_ready();
  ibv_cq_init_attr_ex queue_attributes{};
  queue_attributes.cqe = 8;
  ibv_cq_ex* const queue = ibv_create_cq_ex(bench.context, &queue_attributes);
  REQUIRE(queue != nullptr);
  attributes.pd = bench.domain;
  attributes.send_cq = attributes.recv_cq = ibv_cq_ex_to_cq(queue);
  ibv_qp* pair = ibv_create_qp_ex(bench.context, &attributes);
  REQUIRE(pair != nullptr);
  std::swap(bench.pair, pair);
  bench.make_ready();
  std::swap(bench.pair, pair);
  ibv_qp_ex* const sender = ibv_qp_to_qp_ex(pair);
  REQUIRE(sender != nullptr);
  REQUIRE(bench.receive(1) == 0);
  REQUIRE(bench.receive(2) == 0);
  bench.bytes[0] = std::byte{42};
  ibv_wr_start(sender);
  sender->wr_id = 8;
  sender->wr_flags = 0;
  ibv_wr_send(sender);
  ibv_wr_set_ud_addr(sender, bench.handle, bench.pair->qp_num, kQkey);
  ibv_wr_set_sge(sender, bench.memory->lkey, bench.address(0), 16);
  sender->wr_id = 9;
  sender->wr_flags = IBV_SEND_SIGNALED;
  ibv_wr_send(sender);
  ibv_wr_set_ud_addr(sender, bench.handle, bench.pair->qp_num, kQkey);
  ibv_wr_set_inline_data(sender, bench.bytes.data(), 1);
  CHECK(ibv_wr_complete(sender) == 0);
  ibv_poll_cq_attr none{};
  REQUIRE(ibv_start_poll(queue, &none) == 0);
  CHECK(queue->wr_id == 9);
  CHECK(queue->status == IBV_WC_SUCCESS);
  CHECK(ibv_wc_read_opcode(queue) == IBV_WC_SEND);
  CHECK(ibv_next_poll(queue) == ENOENT);
  ibv_end_poll(queue);
  CHECK(ibv_start_poll(queue, &none) == ENOENT);
  CHECK(bench.poll().size() == 2);
  CHECK(bench.bytes[1024 + kGrhBytes] == std::byte{42});
  ibv_wr_start(sender);
  for (int i = 0; i < 5; ++i) ibv_wr_send(sender);  // one too many
  CHECK(ibv_wr_complete(sender) == ENOMEM);
  ibv_destroy_qp(pair);
  ibv_destroy_cq(ibv_cq_ex_to_cq(queue));
}

}  // namespace hawser::test::fake
