// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>

#include <rdma/fi_rma.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>

#include "test/plugin/ofi/scene.hpp"
#include "test/support/cancellable.hpp"

using namespace hawser::test;

TEST_CASE("Objects__what_is_in_use_isn_t_closed") {
  const Variables variables;
  Node node;
  CHECK(fi_close(&node.fabric->fid) == -FI_EBUSY);
  CHECK(fi_close(&node.domain->fid) == -FI_EBUSY);
  CHECK(fi_close(&node.cq->fid) == -FI_EBUSY);
  CHECK(fi_close(&node.av->fid) == -FI_EBUSY);
  fid_poll* set = nullptr;
  REQUIRE(fi_poll_open(node.domain.get(), nullptr, &set) == 0);
  REQUIRE(fi_poll_add(set, &node.cq->fid, 0) == 0);
  node.ep.reset();
  CHECK(fi_close(&node.cq->fid) == -FI_EBUSY);
  REQUIRE(fi_close(&set->fid) == 0);
  CHECK(fi_close(&node.cq.release()->fid) == 0);
  CHECK(fi_close(&node.domain->fid) == -FI_EBUSY);
  CHECK(fi_close(&node.av.release()->fid) == 0);
  CHECK(fi_close(&node.domain.release()->fid) == 0);
  CHECK(fi_close(&node.fabric.release()->fid) == 0);
}

TEST_CASE("Objects__an_endpoint_is_enabled_once_with_an_AV_and_where_completions_go") {
  const Variables variables;
  Node node;
  fid_ep* opened = nullptr;
  REQUIRE(fi_endpoint(node.domain.get(), node.info.get(), &opened, nullptr) == 0);
  const Owned<fid_ep> ep(opened);
  std::array<char, 4> data{};
  std::size_t bytes = 64;
  std::array<std::byte, 64> name{};
  CHECK(fi_enable(ep.get()) == -FI_ENOAV);
  REQUIRE(fi_ep_bind(ep.get(), &node.av->fid, 0) == 0);
  CHECK(fi_enable(ep.get()) == -FI_ENOCQ);
  CHECK(fi_ep_bind(ep.get(), &node.cq->fid, 0) == -FI_EINVAL);
  REQUIRE(fi_ep_bind(ep.get(), &node.cq->fid, FI_TRANSMIT) == 0);
  CHECK(fi_enable(ep.get()) == -FI_ENOCQ);
  REQUIRE(fi_ep_bind(ep.get(), &node.cq->fid, FI_RECV) == 0);
  CHECK(fi_ep_bind(ep.get(), &node.cq->fid, FI_RECV) == -FI_EINVAL);
  CHECK(fi_tsend(ep.get(), data.data(), 4, nullptr, 0, 0, nullptr) == -FI_EOPBADSTATE);
  CHECK(fi_trecv(ep.get(), data.data(), 4, nullptr, 0, 0, 0, nullptr) == -FI_EOPBADSTATE);
  CHECK(fi_getname(&ep->fid, name.data(), &bytes) == -FI_EOPBADSTATE);
  REQUIRE(fi_enable(ep.get()) == 0);
  CHECK(fi_enable(ep.get()) == -FI_EOPBADSTATE);
  CHECK(fi_ep_bind(ep.get(), &node.av->fid, 0) == -FI_EOPBADSTATE);
  CHECK(fi_ep_bind(ep.get(), &node.domain->fid, 0) < 0);
}

TEST_CASE("Objects__an_endpoint_has_one_counter_for_each_direction") {
  const Variables variables;
  Node node;
  std::array<Owned<fid_cntr>, 2> counters;
  for (Owned<fid_cntr>& counter : counters) {
    fi_cntr_attr attr{};
    fid_cntr* opened = nullptr;
    REQUIRE(fi_cntr_open(node.domain.get(), &attr, &opened, nullptr) == 0);
    counter.reset(opened);
  }
  fid_ep* opened = nullptr;
  REQUIRE(fi_endpoint(node.domain.get(), node.info.get(), &opened, nullptr) == 0);
  Owned<fid_ep> ep(opened);
  REQUIRE(fi_ep_bind(ep.get(), &counters[0]->fid, FI_SEND) == 0);
  CHECK(fi_ep_bind(ep.get(), &counters[1]->fid, FI_SEND) == -FI_EINVAL);
  CHECK(fi_ep_bind(ep.get(), &counters[1]->fid, FI_SEND | FI_RECV) == -FI_EINVAL);
  CHECK(fi_ep_bind(ep.get(), &counters[1]->fid, FI_WRITE) == 0);  // it counts nothing
  REQUIRE(fi_ep_bind(ep.get(), &counters[0]->fid, FI_RECV) == 0);
  ep.reset();
  for (Owned<fid_cntr>& counter : counters) CHECK(fi_close(&counter.release()->fid) == 0);
}

TEST_CASE("Objects__a_peer_is_known_by_the_addresses_that_are_left") {
  Pair pair;
  const fi_addr_t second = pair.a.insert(pair.b.name());
  REQUIRE(fi_av_remove(pair.a.av.get(), &pair.to_b, 1, 0) == 0);
  std::array<char, 4> out{};
  REQUIRE(fi_trecv(pair.a.ep.get(), out.data(), 4, nullptr, FI_ADDR_UNSPEC, 1, 0, &out) == 0);
  REQUIRE(fi_tinject(pair.b.ep.get(), "abc", 4, pair.to_a, 1) == 0);
  const Entry entry = pair.next_a();
  REQUIRE(entry.answer == 1);
  CHECK(entry.source == second);
}

TEST_CASE("Objects__an_address_that_this_host_hasn_t_is_told_by_fi_enable") {
  const Variables variables({{"FI_HAWSER_NICS", "udp:203.0.113.1"}});
  CHECK_THROWS_WITH(Node(), Catch::Contains("fi_enable"));
}

TEST_CASE("Objects__addresses_have_56_bytes_of_ours_alone") {
  const Variables variables;
  Node node, other;
  std::array<std::byte, 8> few{};
  std::size_t bytes = few.size();
  CHECK(fi_getname(&node.ep->fid, few.data(), &bytes) == -FI_ETOOSMALL);
  CHECK(bytes == 56);
  std::vector<std::byte> three;
  const auto good = other.name();
  auto padded = good;
  padded.back() = std::byte{1};
  for (const auto& address : {good, std::vector<std::byte>(56, std::byte{0x55}), padded}) {
    three.insert(three.end(), address.begin(), address.end());
  }
  std::array<fi_addr_t, 3> out{};
  std::array<int, 3> errors{9, 9, 9};
  CHECK(fi_av_insert(node.av.get(), three.data(), 3, out.data(), FI_SYNC_ERR, errors.data()) == 1);
  CHECK(errors == std::array<int, 3>{0, FI_EINVAL, FI_EINVAL});
  CHECK(out[0] != FI_ADDR_NOTAVAIL);
  CHECK(out[1] == FI_ADDR_NOTAVAIL);
  CHECK(fi_av_insert(node.av.get(), three.data(), 3, nullptr, 0, nullptr) == 1);
  CHECK(fi_av_insert(node.av.get(), three.data(), 1, out.data(), FI_EVENT, nullptr) == -FI_EINVAL);
  fi_addr_t named = FI_ADDR_NOTAVAIL;
  CHECK(fi_av_insertsvc(node.av.get(), "localhost", "7", &named, 0, nullptr) == 1);
  CHECK(named != FI_ADDR_NOTAVAIL);

  std::array<std::byte, 56> found{};
  bytes = found.size();
  REQUIRE(fi_av_lookup(node.av.get(), out[0], found.data(), &bytes) == 0);
  CHECK(std::equal(found.begin(), found.end(), good.begin()));
  CHECK(fi_av_lookup(node.av.get(), 77, found.data(), &bytes) == -FI_EINVAL);
  std::array<char, 64> text{};
  std::size_t length = text.size();
  CHECK(std::string(fi_av_straddr(node.av.get(), good.data(), text.data(), &length))
            .starts_with("hawser:"));
  CHECK(length == std::strlen(text.data()) + 1);

  REQUIRE(fi_av_remove(node.av.get(), out.data(), 1, 0) == 0);
  CHECK(fi_av_remove(node.av.get(), out.data(), 1, 0) == -FI_EINVAL);
  CHECK(fi_tsend(node.ep.get(), "abc", 4, nullptr, out[0], 1, nullptr) == -FI_EINVAL);
}

TEST_CASE("Objects__an_address_that_comes_back_is_the_same_peer") {
  Pair pair;
  std::array<char, 4> out{};
  REQUIRE(fi_tinject(pair.a.ep.get(), "abc", 4, pair.to_b, 1) == 0);
  REQUIRE(fi_av_remove(pair.a.av.get(), &pair.to_b, 1, 0) == 0);
  const fi_addr_t again = pair.a.insert(pair.b.name());
  CHECK(again != pair.to_b);
  REQUIRE(fi_tinject(pair.a.ep.get(), "def", 4, again, 1) == 0);
  for (const char* text : {"abc", "def"}) {
    REQUIRE(fi_trecv(pair.b.ep.get(), out.data(), 4, nullptr, pair.to_a, 1, 0, &out) == 0);
    REQUIRE(pair.next_b().answer == 1);
    CHECK(std::string(out.data()) == text);
  }
}

// A vector's addresses say to whom the program sends. Anybody may send to it, also a peer whose
// address it has removed, and what was under way at that moment arrives.
TEST_CASE("Objects__a_peer_whose_address_is_removed_loses_no_message") {
  Pair pair;
  const std::vector<std::uint8_t> sent = pattern(1'000'000, 1);
  std::vector<std::uint8_t> received(sent.size());
  std::array<char, 6> early{}, late{};
  // Neither of these has a receive.
  REQUIRE(fi_tsend(pair.a.ep.get(), sent.data(), sent.size(), nullptr, pair.to_b, 1, nullptr) == 0);
  REQUIRE(fi_tinject(pair.b.ep.get(), "early", 6, pair.to_a, 2) == 0);
  REQUIRE(pair.until([&] {
    fi_msg_tagged peek{};
    peek.tag = 2;
    peek.addr = FI_ADDR_UNSPEC;
    return fi_trecvmsg(pair.a.ep.get(), &peek, FI_PEEK) == 0 && pair.next_a().answer == 1;
  }));
  REQUIRE(fi_av_remove(pair.a.av.get(), &pair.to_b, 1, 0) == 0);
  REQUIRE(fi_trecv(pair.b.ep.get(), received.data(), received.size(), nullptr, pair.to_a, 1, 0,
                   nullptr) == 0);
  REQUIRE(pair.next_b().answer == 1);
  CHECK(received == sent);
  REQUIRE(pair.next_a().answer == 1);
  REQUIRE(fi_tsend(pair.b.ep.get(), "later", 6, nullptr, pair.to_a, 3, nullptr) == 0);
  for (std::array<char, 6>* const into : {&early, &late}) {
    const std::uint64_t tag = into == &early ? 2 : 3;
    REQUIRE(fi_trecv(pair.a.ep.get(), into->data(), 6, nullptr, FI_ADDR_UNSPEC, tag, 0, nullptr) ==
            0);
    const Entry entry = pair.next_a();
    REQUIRE(entry.answer == 1);
    CHECK(entry.source == FI_ADDR_NOTAVAIL);
  }
  CHECK(pair.next_b().answer == 1);
  CHECK(std::string(early.data()) == "early");
  CHECK(std::string(late.data()) == "later");
}

TEST_CASE("Objects__vectors_queues_and_counters_that_are_not_ours_are_refused") {
  const Variables variables;
  Node node;
  fid_av* av = nullptr;
  fi_av_attr named{};
  named.name = "shared";
  CHECK(fi_av_open(node.domain.get(), &named, &av, nullptr) == -FI_ENOSYS);
  fi_av_attr with_events{};
  with_events.flags = FI_EVENT;
  CHECK(fi_av_open(node.domain.get(), &with_events, &av, nullptr) == -FI_ENOSYS);
  fi_av_attr read_only{};
  read_only.flags = FI_READ;
  CHECK(fi_av_open(node.domain.get(), &read_only, &av, nullptr) == -FI_EINVAL);
  fi_av_attr map{};
  map.type = FI_AV_MAP;
  REQUIRE(fi_av_open(node.domain.get(), &map, &av, nullptr) == 0);
  REQUIRE(fi_close(&av->fid) == 0);
  fid_cq* cq = nullptr;
  fi_cq_attr on_set{};
  on_set.wait_obj = FI_WAIT_SET;
  CHECK(fi_cq_open(node.domain.get(), &on_set, &cq, nullptr) == -FI_ENOSYS);
  on_set.wait_obj = FI_WAIT_MUTEX_COND;
  CHECK(fi_cq_open(node.domain.get(), &on_set, &cq, nullptr) == -FI_ENOSYS);
  fid_ep* ep = nullptr;
  CHECK(fi_scalable_ep(node.domain.get(), node.info.get(), &ep, nullptr) == -FI_ENOSYS);
  fid_wait* wait = nullptr;
  fi_wait_attr wait_attr{};
  CHECK(fi_wait_open(node.fabric.get(), &wait_attr, &wait) == -FI_ENOSYS);
  char byte = 0;
  CHECK(fi_read(node.ep.get(), &byte, 1, nullptr, 0, 0, 0, nullptr) == -FI_ENOSYS);
  CHECK(fi_write(node.ep.get(), &byte, 1, nullptr, 0, 0, 0, nullptr) == -FI_ENOSYS);
}

TEST_CASE("Objects__memory_may_be_registered_which_changes_nothing") {
  const Variables variables;
  Node node;
  std::vector<char> data(100000);
  fid_mr* region = nullptr;
  REQUIRE(fi_mr_reg(node.domain.get(), data.data(), data.size(), FI_SEND | FI_RECV, 0, 0, 0,
                    &region, nullptr) == 0);
  CHECK(fi_mr_desc(region) != nullptr);
  CHECK(fi_mr_bind(region, &node.ep->fid, 0) == 0);
  CHECK(fi_mr_enable(region) == 0);
  CHECK(fi_close(&node.domain->fid) == -FI_EBUSY);
  REQUIRE(fi_close(&region->fid) == 0);
  // MPI registers its windows like this. No peer can reach the memory, as no endpoint has FI_RMA.
  REQUIRE(fi_mr_reg(node.domain.get(), data.data(), 1, FI_REMOTE_READ | FI_REMOTE_WRITE, 0, 7, 0,
                    &region, nullptr) == 0);
  CHECK(fi_mr_key(region) != FI_KEY_NOTAVAIL);
  REQUIRE(fi_close(&region->fid) == 0);
  // libfabric's own test registers with every combination of rights, none among them.
  REQUIRE(fi_mr_reg(node.domain.get(), data.data(), 1, 0, 0, 0, 0, &region, nullptr) == 0);
  REQUIRE(fi_close(&region->fid) == 0);
  constexpr std::uint64_t kUnknown = FI_HMEM;
  CHECK(fi_mr_reg(node.domain.get(), data.data(), 1, kUnknown, 0, 0, 0, &region, nullptr) ==
        -FI_EINVAL);
  CHECK(fi_mr_reg(node.domain.get(), nullptr, 1, FI_SEND, 0, 0, 0, &region, nullptr) == -FI_EINVAL);
  fi_mr_attr device{};
  device.iface = FI_HMEM_CUDA;
  CHECK(fi_mr_regattr(node.domain.get(), &device, 0, &region) == -FI_ENOSYS);
}

TEST_CASE("Objects__options_and_default_flags") {
  const Variables variables;
  Node node;
  std::size_t least = 4321, bytes = sizeof least;
  REQUIRE(fi_setopt(&node.ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &least, bytes) == 0);
  least = 0;
  REQUIRE(fi_getopt(&node.ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &least, &bytes) == 0);
  CHECK(least == 4321);
  CHECK(fi_setopt(&node.ep->fid, FI_OPT_ENDPOINT, FI_OPT_BUFFERED_MIN, &least, bytes) ==
        -FI_ENOPROTOOPT);
  std::uint64_t flags = FI_TRANSMIT | FI_DELIVERY_COMPLETE;
  REQUIRE(fi_control(&node.ep->fid, FI_SETOPSFLAG, &flags) == 0);
  flags = FI_TRANSMIT;
  REQUIRE(fi_control(&node.ep->fid, FI_GETOPSFLAG, &flags) == 0);
  CHECK(flags == FI_DELIVERY_COMPLETE);
  flags = FI_TRANSMIT | FI_RECV;
  CHECK(fi_control(&node.ep->fid, FI_GETOPSFLAG, &flags) == -FI_EINVAL);
}

TEST_CASE("Objects__an_event_queue_holds_what_is_written_to_it_and_nothing_else") {
  const Variables variables;
  Node node;
  fi_eq_attr attr{};
  attr.size = 1;
  attr.wait_obj = FI_WAIT_FD;
  fid_eq* eq = nullptr;
  CHECK(fi_eq_open(node.fabric.get(), &attr, &eq, nullptr) == -FI_ENOSYS);
  attr.wait_obj = FI_WAIT_UNSPEC;
  REQUIRE(fi_eq_open(node.fabric.get(), &attr, &eq, nullptr) == 0);
  std::uint32_t kind = 0;
  std::uint64_t value = 0;
  const std::uint64_t told = 77;
  CHECK(fi_eq_read(eq, &kind, &value, sizeof value, 0) == -FI_EAGAIN);
  CHECK(fi_eq_sread(eq, &kind, &value, sizeof value, 10, 0) == -FI_EAGAIN);
  REQUIRE(fi_eq_write(eq, FI_NOTIFY, &told, sizeof told, 0) == sizeof told);
  CHECK(fi_eq_write(eq, FI_NOTIFY, &told, sizeof told, 0) == -FI_EAGAIN);
  CHECK(fi_eq_read(eq, &kind, &value, 4, 0) == -FI_ETOOSMALL);
  CHECK(fi_eq_read(eq, &kind, &value, sizeof value, FI_PEEK) == sizeof value);
  CHECK(fi_eq_sread(eq, &kind, &value, sizeof value, -1, 0) == sizeof value);
  CHECK(kind == FI_NOTIFY);
  CHECK(value == told);
  fi_eq_err_entry error{};
  CHECK(fi_eq_readerr(eq, &error, 0) == -FI_EAGAIN);
  CHECK(fi_close(&node.fabric->fid) == -FI_EBUSY);
  CHECK(fi_close(&eq->fid) == 0);
}

TEST_CASE("Objects__a_child_of_fork_may_close_an_event_queue_in_which_a_thread_waits") {
  const Variables variables;
  Node node;
  fi_eq_attr attr{};
  attr.wait_obj = FI_WAIT_UNSPEC;
  fid_eq* eq = nullptr;
  REQUIRE(fi_eq_open(node.fabric.get(), &attr, &eq, nullptr) == 0);
  std::uint64_t value = 77;
  {
    const Cancellable waiter([&] {
      std::uint32_t kind = 0;
      std::uint64_t read = 0;
      (void)fi_eq_sread(eq, &kind, &read, sizeof read, -1, 0);
    });
    CHECK(waiter.blocks_in_kernel());
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      ::alarm(kHangLimitMs / 1000);
      ::_exit(fi_close(&eq->fid) == 0 ? 0 : 1);
    }
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    CHECK(status == 0);
    CHECK(fi_eq_write(eq, FI_NOTIFY, &value, sizeof value, 0) == sizeof value);
  }
  CHECK(fi_close(&eq->fid) == 0);
}
