// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>

#include <cstdlib>
#include <cstring>

#include "test/plugin/ofi/scene.hpp"

using namespace hawser::test;

namespace {

std::size_t count(const fi_info* info) {
  std::size_t n = 0;
  for (; info != nullptr; info = info->next) ++n;
  return n;
}

// The status that fi_getinfo returns for hints that `change` has modified.
template <class Change>
int answer_to(Change&& change) {
  const Info wanted = hints();
  change(*wanted);
  int answer = 0;
  (void)get_info(wanted.get(), &answer);
  return answer;
}

}  // namespace

TEST_CASE("Info__all_NICs_together_come_first_then_each_by_itself") {
  const Variables variables;
  Info wanted = hints();
  wanted->caps = 0;
  const Info info = get_info(wanted.get());
  REQUIRE(info);
  REQUIRE(count(info.get()) == 3);
  CHECK(std::string(info->domain_attr->name) == "hawser");
  CHECK(info->nic == nullptr);
  const fi_info& second = *info->next;
  CHECK(std::string(second.domain_attr->name) == "udp:127.0.0.1");
  REQUIRE(second.nic != nullptr);
  CHECK(std::string(second.nic->device_attr->name) == "lo");
  CHECK(std::string(second.nic->link_attr->address) == "127.0.0.1");
  CHECK(second.nic->link_attr->mtu > 1000);
  CHECK(second.nic->link_attr->state == FI_LINK_UP);
  // A copy has a NIC of its own.
  const Info copy(fi_dupinfo(&second));
  REQUIRE(copy->nic != nullptr);
  CHECK(copy->nic != second.nic);
  CHECK(std::string(copy->nic->link_attr->address) == "127.0.0.1");
  // A program that gives hints, and names no domain, gets the first one.
  CHECK(count(get_info(hints().get()).get()) == 1);
  wanted = hints();
  wanted->domain_attr->name = ::strdup("udp:127.0.0.2");
  CHECK(count(get_info(wanted.get()).get()) == 1);
}

TEST_CASE("Info__the_source_names_the_domain") {
  const Variables variables;
  Info wanted = hints();
  wanted->caps = 0;
  const Info info = get_info(wanted.get());
  REQUIRE(count(info.get()) == 3);
  for (const fi_info* i = info.get(); i != nullptr; i = i->next) {
    CHECK(i->src_addrlen == 56);
    REQUIRE(i->src_addr != nullptr);
    // The source address alone selects the domain it came from.
    Info by_source = hints();
    by_source->src_addrlen = i->src_addrlen;
    by_source->src_addr = std::malloc(i->src_addrlen);
    std::memcpy(by_source->src_addr, i->src_addr, i->src_addrlen);
    const Info found = get_info(by_source.get());
    REQUIRE(count(found.get()) == 1);
    CHECK(std::string(found->domain_attr->name) == i->domain_attr->name);
    static_cast<char*>(by_source->src_addr)[1] ^= 1;
    CHECK(get_info(by_source.get()) == nullptr);
  }
  // A source address is not the address of any endpoint.
  Node node;
  fi_addr_t inserted = 0;
  CHECK(fi_av_insert(node.av.get(), info->src_addr, 1, &inserted, 0, nullptr) == 0);
  CHECK(inserted == FI_ADDR_NOTAVAIL);
}

TEST_CASE("Info__attributes_tell_what_there_is") {
  const Variables variables;
  const Info info = get_info(hints().get());
  REQUIRE(info);
  CHECK(info->ep_attr->type == FI_EP_RDM);
  CHECK(info->mode == 0);
  CHECK(info->domain_attr->mr_mode == 0);
  CHECK(info->domain_attr->cq_data_size == 4);
  CHECK(info->domain_attr->data_progress == FI_PROGRESS_MANUAL);
  CHECK(info->domain_attr->resource_mgmt == FI_RM_ENABLED);
  CHECK(info->domain_attr->av_type == FI_AV_UNSPEC);  // either does
  CHECK(info->tx_attr->msg_order == FI_ORDER_SAS);
  CHECK(info->tx_attr->comp_order == 0);
  CHECK(info->ep_attr->max_msg_size == (std::uint64_t{1} << 40) - 1);
  CHECK((info->caps & (FI_LOCAL_COMM | FI_REMOTE_COMM)) == (FI_LOCAL_COMM | FI_REMOTE_COMM));
  CHECK((info->caps & (FI_SEND | FI_RECV)) == (FI_SEND | FI_RECV));
  CHECK(info->fabric_attr->api_version == FI_VERSION(1, 17));
  CHECK(std::string(info->fabric_attr->prov_name) == "hawser");
}

// A libfabric passes no calls on to a provider that is too old for them.
TEST_CASE("Info__programs_that_ask_for_newer_interfaces_are_served") {
  const Variables variables;
  const fi_provider* const ours = provider();
  CHECK(ours->fi_version >= FI_VERSION(2, 6));
  fi_info* found = nullptr;
  REQUIRE(ours->getinfo(FI_VERSION(2, 6), nullptr, nullptr, 0, hints().get(), &found) == 0);
  const Info owner(found);
  CHECK(found->fabric_attr->api_version == FI_VERSION(2, 6));
  // libfabric sets the name, and would append its own word to one that is already there.
  CHECK(found->fabric_attr->prov_name == nullptr);
}

TEST_CASE("Info__what_is_not_there_is_not_listed") {
  const Variables variables;
  const int none = -FI_ENODATA;
  CHECK(answer_to([](fi_info&) {}) == 0);
  CHECK(answer_to([](fi_info& i) { i.caps |= FI_RMA | FI_RMA_EVENT; }) == none);
  CHECK(answer_to([](fi_info& i) { i.tx_attr->rma_iov_limit = 9; }) == none);
  CHECK(answer_to([](fi_info& i) { i.domain_attr->mr_mode = 1 | 2; }) == none);
  CHECK(answer_to([](fi_info& i) { i.caps |= FI_HMEM; }) == none);
  CHECK(answer_to([](fi_info& i) { i.caps |= FI_COLLECTIVE; }) == none);
  CHECK(answer_to([](fi_info& i) { i.ep_attr->type = FI_EP_MSG; }) == none);
  CHECK(answer_to([](fi_info& i) { i.ep_attr->type = FI_EP_DGRAM; }) == none);
  CHECK(answer_to([](fi_info& i) { i.ep_attr->tx_ctx_cnt = 2; }) == none);
  CHECK(answer_to([](fi_info& i) { i.ep_attr->rx_ctx_cnt = FI_SHARED_CONTEXT; }) == none);
  CHECK(answer_to([](fi_info& i) { i.ep_attr->max_msg_size = std::size_t{1} << 40; }) == none);
  CHECK(answer_to([](fi_info& i) { i.tx_attr->msg_order = 0x1ff; }) == none);
  CHECK(answer_to([](fi_info& i) { i.tx_attr->msg_order = FI_ORDER_SAS; }) == 0);
  CHECK(answer_to([](fi_info& i) { i.rx_attr->comp_order = 0x1ff; }) == none);
  CHECK(answer_to([](fi_info& i) { i.tx_attr->inject_size = 16384; }) == 0);
  CHECK(answer_to([](fi_info& i) { i.tx_attr->inject_size = 16385; }) == none);
  CHECK(answer_to([](fi_info& i) { i.tx_attr->iov_limit = 9; }) == none);
  CHECK(answer_to([](fi_info& i) { i.tx_attr->size = (1 << 20) + 1; }) == none);
  CHECK(answer_to([](fi_info& i) { i.tx_attr->op_flags = FI_COMMIT_COMPLETE; }) == none);
  CHECK(answer_to([](fi_info& i) { i.domain_attr->cq_data_size = 8; }) == none);
  CHECK(answer_to([](fi_info& i) { i.addr_format = FI_SOCKADDR_IB; }) == none);
  CHECK(answer_to([](fi_info& i) { i.addr_format = FI_SOCKADDR_IN; }) == 0);
  CHECK(answer_to([](fi_info& i) { i.domain_attr->name = ::strdup("eth7"); }) == none);
  CHECK(answer_to([](fi_info& i) { i.domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_ENDPOINT; }) == 0);
  CHECK(answer_to([](fi_info& i) { i.mode = FI_CONTEXT | FI_CONTEXT2; }) == 0);
}

TEST_CASE("Info__progress_by_itself_takes_an_engine_thread_unless_that_was_ruled_out") {
  const auto asks = [](fi_info& info) { info.domain_attr->data_progress = FI_PROGRESS_AUTO; };
  {
    const Variables variables;
    CHECK(answer_to(asks) == 0);
  }
  const Variables variables({{"FI_HAWSER_THREADS", "0"}});
  CHECK(answer_to(asks) == -FI_ENODATA);
}

TEST_CASE("Info__a_variable_with_a_wrong_name_or_value_is_refused") {
  const auto [name, value] =
      GENERATE(table<std::string, std::string>({{"FI_HAWSER_THREAD", "1"},
                                                {"FI_HAWSER_THREADS", "7"},
                                                {"FI_HAWSER_FLUSH", "yes"},
                                                {"FI_HAWSER_PEER_TIMEOUT_MS", "soon"},
                                                {"FI_HAWSER_PEER_TIMEOUT_MS", "1"},
                                                {"HAWSER_PEER_TIMEOUT_MS", "1"},
                                                {"FI_HAWSER_NICS", "no-such-interface"},
                                                {"FI_HAWSER_NICS", ""},
                                                {"FI_HAWSER_FAULT_PLAN", "later:0:kill"},
                                                {"FI_HAWSER_FAULT_PLAN", "1s:2:kill"},
                                                {"FI_HAWSER_FAULT_PLAN", "1s:1:die"},
                                                {"FI_HAWSER_FAULTS", "loss=much"},
                                                {"FI_HAWSER_NICS", "udp:127.0.0.1,udp:127.0.0.1"},
                                                {"FI_HAWSER_STATS", "/nonexistent/stats"},
                                                {"FI_HAWSER_STATS", "/"},
                                                {"FI_HAWSER_JOB_SECRET", std::string(65, 'x')}}));
  const Variables variables({{name, value}});
  CHECK(answer_to([](fi_info&) {}) == -FI_ENODATA);
}

TEST_CASE("Info__ours_outweighs_Hawser_s_own_variable") {
  // 1 is out of range, but the other variable comes first.
  const Variables variables(
      {{"HAWSER_PEER_TIMEOUT_MS", "1"}, {"FI_HAWSER_PEER_TIMEOUT_MS", "5000"}});
  CHECK(answer_to([](fi_info&) {}) == 0);
  CHECK_NOTHROW(Node());
}

TEST_CASE("Info__NICs_are_chosen_by_a_list_of_either_variable") {
  const auto domains = [](const Variables&) {
    fi_info* found = nullptr;
    Info wanted(fi_allocinfo());
    wanted->fabric_attr->prov_name = ::strdup("hawser");
    REQUIRE(fi_getinfo(FI_VERSION(1, 17), nullptr, nullptr, 0, wanted.get(), &found) == 0);
    const Info owner(found);
    std::vector<std::string> names;
    for (; found != nullptr; found = found->next) names.emplace_back(found->domain_attr->name);
    return names;
  };
  using Names = std::vector<std::string>;
  CHECK(domains(Variables({{"FI_HAWSER_NICS", "if:lo"}})) == Names{"hawser", "udp:127.0.0.1"});
  CHECK(domains(Variables({{"FI_HAWSER_NICS", "udp:127.0.0.2,net:127.0.0.0/8,!eth*"}})) ==
        Names{"hawser", "udp:127.0.0.2", "udp:127.0.0.1"});
  const Variables both({{"HAWSER_NICS", "udp:127.0.0.7,udp:127.0.0.8"}});
  ::unsetenv("FI_HAWSER_NICS");
  CHECK(domains(both) == Names{"hawser", "udp:127.0.0.7", "udp:127.0.0.8"});
  CHECK(domains(Variables({{"FI_HAWSER_NICS", "udp:127.0.0.9"},
                           {"HAWSER_NICS", "udp:127.0.0.7"}})) == Names{"hawser", "udp:127.0.0.9"});
}

TEST_CASE("Info__a_source_is_the_NIC_to_use_and_a_destination_is_where_to_ask") {
  const Variables variables;
  fi_info* found = nullptr;
  const Info wanted = hints();
  REQUIRE(fi_getinfo(FI_VERSION(1, 17), "127.0.0.2", nullptr, FI_SOURCE, wanted.get(), &found) ==
          0);
  const Info owner(found);
  CHECK(std::string(found->domain_attr->name) == "udp:127.0.0.2");
  CHECK(fi_getinfo(FI_VERSION(1, 17), "127.0.0.9", nullptr, FI_SOURCE, wanted.get(), &found) ==
        -FI_ENODATA);
  CHECK(owner->dest_addr == nullptr);
  REQUIRE(fi_getinfo(FI_VERSION(1, 17), "127.0.0.1", "7", 0, wanted.get(), &found) == 0);
  const Info reaching(found);
  CHECK(std::string(found->domain_attr->name) == "hawser");
  CHECK(found->dest_addrlen == 56);
}
