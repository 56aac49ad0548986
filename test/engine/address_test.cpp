// SPDX-License-Identifier: Apache-2.0
// Short addresses, and which addresses this host has for NICs.
#include "hawser/address.hpp"

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cstring>

#include "engine/driver/verbs/verbs_address.hpp"
#include "hawser/hawser.h"
#include "hawser/nics.hpp"
#include "proto/wire/address_blob.hpp"
#include "test/engine/endpoint_pair.hpp"

namespace hawser::engine {
namespace {

struct Ends {
  explicit Ends(std::size_t nics) {
    EngineConfig config;
    for (std::size_t i = 0; i < nics; ++i) {
      config.nics.push_back("udp:127.0.0." + std::to_string(1 + i));
    }
    config.tunables = short_close();
    engine = std::make_unique<Engine>(config);
    a = engine->create_endpoint({});
    b = engine->create_endpoint({});
  }
  std::unique_ptr<Engine> engine;
  std::unique_ptr<Endpoint> a, b;
};

std::vector<std::byte> shortened(const Address& address, std::size_t room) {
  std::vector<std::byte> out(room);
  out.resize(shorten_address(address, out));
  return out;
}

void exchange(Endpoint& from, PeerId to, Endpoint& at) {
  std::array<char, 4> out{};
  OperationId operation{};
  REQUIRE(at.receive({.channel = 1, .ignore = kAnyTag, .data = out.data(), .bytes = 4},
                     operation) == Status::ok);
  REQUIRE(from.send({.peer = to, .channel = 1, .data = "abc", .bytes = 4}, operation) ==
          Status::ok);
  REQUIRE(next_of(at, from).status == Status::ok);
  REQUIRE(next_of(from, at).status == Status::ok);
  CHECK(std::string(out.data()) == "abc");
}

// Counts the peer's NICs that an endpoint knows, from its path statistics while it sends bulk.
std::size_t remote_nics(const Endpoint& endpoint, PeerId peer) {
  PeerStats stats;
  REQUIRE(endpoint.peer_stats(peer, stats) == Status::ok);
  std::array<bool, 16> seen{};
  for (const PathStats& path : stats.paths) seen[path.remote_nic] = true;
  return static_cast<std::size_t>(std::ranges::count(seen, true));
}

}  // namespace

TEST_CASE("Address__a_short_one_has_as_many_nics_as_fit_and_the_handshake_tells_the_rest") {
  const Ends ends(4);
  const std::size_t nics = GENERATE(1u, 2u, 4u);
  const std::vector<std::byte> address = shortened(ends.b->address(), 11 + 11 * nics + 10);
  REQUIRE(address.size() == 11 + 11 * (nics == 4 ? 4 : nics));
  CHECK(endpoint_id_of(address) == endpoint_id_of(ends.b->address()));
  CHECK(endpoint_id_of(address) != 0);
  PeerId b{}, again{};
  REQUIRE(ends.a->connect(address, b) == Status::ok);
  exchange(*ends.a, b, *ends.b);
  // Bulk uses every path there is.
  std::vector<std::byte> in(4'000'000), out(in.size());
  OperationId operation{};
  REQUIRE(
      ends.b->receive({.channel = 1, .ignore = kAnyTag, .data = out.data(), .bytes = out.size()},
                      operation) == Status::ok);
  REQUIRE(ends.a->send({.peer = b, .channel = 1, .data = in.data(), .bytes = in.size()},
                       operation) == Status::ok);
  REQUIRE(next_of(*ends.b, *ends.a).status == Status::ok);
  CHECK(remote_nics(*ends.a, b) == 4);
  // The long and the short address name the same peer.
  REQUIRE(ends.a->connect(ends.b->address(), again) == Status::ok);
  CHECK(again == b);
}

TEST_CASE("Address__two_that_call_each_other_by_short_ones_know_all_nics") {
  const Ends ends(4);
  PeerId b{}, a{};
  REQUIRE(ends.a->connect(shortened(ends.b->address(), 22), b) == Status::ok);
  // A short address doesn't make the endpoint forget what its caller told it.
  for (int i = 0; i < 3; ++i) (void)ends.a->poll({});
  (void)ends.b->poll({});
  REQUIRE(ends.b->connect(shortened(ends.a->address(), 22), a) == Status::ok);
  exchange(*ends.a, b, *ends.b);
  exchange(*ends.b, a, *ends.a);
  std::vector<std::byte> in(4'000'000), out(in.size());
  OperationId operation{};
  REQUIRE(
      ends.a->receive({.channel = 1, .ignore = kAnyTag, .data = out.data(), .bytes = out.size()},
                      operation) == Status::ok);
  REQUIRE(ends.b->send({.peer = a, .channel = 1, .data = in.data(), .bytes = in.size()},
                       operation) == Status::ok);
  REQUIRE(next_of(*ends.a, *ends.b).status == Status::ok);
  CHECK(remote_nics(*ends.b, a) == 4);
}

TEST_CASE("Address__what_does_not_fit_or_is_none_is_refused") {
  const Ends ends(2);
  const Address& address = ends.b->address();
  std::array<std::byte, 64> out{};
  CHECK(shorten_address(address, std::span(out).first(21)) == 0);
  CHECK(shorten_address(address, {}) == 0);
  CHECK(shorten_address({}, out) == 0);
  const auto small = shortened(address, 64);
  REQUIRE(small.size() == 33);
  CHECK(shorten_address(small, out) == 33);
  CHECK(std::equal(small.begin(), small.end(), out.begin()));
  CHECK(shorten_address(small, std::span(out).first(32)) == 0);
  PeerId peer{};
  for (std::size_t length = 0; length < small.size(); ++length) {
    const auto part = std::span(small).first(length);
    CHECK(endpoint_id_of(part) == 0);
    CHECK(ends.a->connect(part, peer) == Status::invalid_argument);
  }
  auto longer = small;
  longer.push_back(std::byte{0});
  CHECK(ends.a->connect(longer, peer) == Status::invalid_argument);
  CHECK(ends.b->connect(small, peer) == Status::invalid_argument);  // its own
  // Changing any byte gives another address or none, and breaks nothing.
  for (std::size_t i = 0; i < small.size(); ++i) {
    for (const int value : {0, 1, 17, 40, 41, 255}) {
      auto changed = small;
      changed[i] = std::byte(static_cast<unsigned char>(value));
      (void)shorten_address(changed, out);
      (void)endpoint_id_of(changed);
      CHECK_FALSE(describe_address(changed).empty());
    }
  }
}

TEST_CASE("Address__is_told_in_words") {
  const Ends ends(2);
  const Address& address = ends.b->address();
  const std::string words = describe_address(address);
  INFO(words);
  CHECK(words.starts_with("endpoint " + std::to_string(endpoint_id_of(address)) +
                          ": udp:127.0.0.1 (ports "));
  CHECK(words.find("), udp:127.0.0.2 (ports ") != std::string::npos);
  CHECK(describe_address(shortened(address, 64)) == words);
  CHECK(describe_address({}) == "not an endpoint's address");
  // This host need not have these NICs.
  VerbsAddress infiniband;
  infiniband.link = VerbsAddress::Link::infiniband;
  infiniband.lid = 12;
  infiniband.data_qpn = 17;
  infiniband.control_qpn = 18;
  infiniband.gid[15] = std::byte{1};
  VerbsAddress roce;
  roce.data_qpn = 19;
  roce.control_qpn = 20;
  for (const int at : {10, 11}) roce.gid[static_cast<std::size_t>(at)] = std::byte{0xff};
  roce.gid[12] = std::byte{10};
  roce.gid[15] = std::byte{7};
  proto::AddressHead head;
  head.endpoint_id = 7;
  head.nics = 2;
  std::array<proto::wire::NicRecord, 2> records{};
  records[0].address = to_nic_address(infiniband);
  records[1].address = to_nic_address(roce);
  records[1].index = 1;
  std::vector<std::byte> made(sizeof head + sizeof records);
  std::memcpy(made.data(), &head, sizeof head);
  std::memcpy(made.data() + sizeof head, records.data(), sizeof records);
  CHECK(describe_address(made) == "endpoint 7: InfiniBand LID 12, RoCE 10.0.0.7");
}

TEST_CASE("Address__the_environment_can_be_left_to_the_adapter") {
  const auto open = [](bool ignore) {
    EngineConfig config;
    config.nics = {"memory:environment"};
    config.ignore_environment = ignore;
    const Engine engine(config);
  };
  ::setenv("HAWSER_MAX_PEERS", "none", 1);
  CHECK_THROWS_AS(open(false), Error);
  CHECK_NOTHROW(open(true));
  ::unsetenv("HAWSER_MAX_PEERS");
}

TEST_CASE("Engine__a_variable_that_is_nearly_a_tunable_is_refused") {
  const auto open = [](bool ignore = false) {
    EngineConfig config;
    config.nics = {"memory:environment"};
    config.ignore_environment = ignore;
    const Engine engine(config);
  };
  for (const char* misspelt :
       {"HAWSER_PEER_TIMEOUT", "HAWSER_PEER_TIMOUT_MS", "HAWSER_MAX_PEER", "HAWSER_RANKS"}) {
    INFO(misspelt);
    ::setenv(misspelt, "64", 1);
    CHECK_THROWS_WITH(open(), Catch::StartsWith("There is no variable " + std::string(misspelt)));
    CHECK_NOTHROW(open(true));
    ::unsetenv(misspelt);
  }
  ::setenv("HAWSER_HOME", "/opt/hawser", 1);  // another program's variable
  CHECK_NOTHROW(open());
  ::unsetenv("HAWSER_HOME");
}

TEST_CASE("Nics__this_host_has_loopback_and_one_uses_others_if_there_are_any") {
  const std::vector<HostNic> all = host_nics();
  const auto loopback = std::ranges::find(all, "udp:127.0.0.1", &HostNic::name);
  REQUIRE(loopback != all.end());
  CHECK(loopback->loopback);
  CHECK(loopback->up);
  CHECK(loopback->device == "lo");
  CHECK(loopback->mtu >= 1500);
  const std::vector<std::string> usable = usable_nics();
  REQUIRE(!usable.empty());
  CHECK(usable.size() <= 16);
  const bool others =
      std::ranges::any_of(all, [](const HostNic& n) { return n.up && !n.loopback; });
  CHECK((std::ranges::count(usable, "udp:127.0.0.1") == 0) == others);
  for (const std::string& name : usable) CHECK(std::ranges::count(all, name, &HostNic::name) == 1);
}

TEST_CASE("CApi__short_addresses_and_nics_of_this_host") {
  const Ends ends(2);
  const Address& address = ends.a->address();
  std::array<std::byte, 56> out{};
  CHECK(hawser_shorten_address(address.data(), address.size(), out.data(), out.size()) == 33);
  CHECK(hawser_endpoint_id_of(out.data(), 33) == endpoint_id_of(address));
  CHECK(hawser_shorten_address(nullptr, 5, out.data(), out.size()) == 0);
  std::array<char, 16> text{};
  CHECK(hawser_describe_address(address.data(), address.size(), text.data(), text.size()) ==
        describe_address(address).size());
  CHECK(std::string(text.data()) == describe_address(address).substr(0, text.size() - 1));
  CHECK(hawser_describe_address(nullptr, 5, nullptr, 0) == describe_address({}).size());
  CHECK(hawser_shorten_address(address.data(), address.size(), nullptr, 5) == 0);
  std::array<hawser_host_nic, 64> nics{};
  const std::size_t count = hawser_host_nics(nics.data(), nics.size());
  CHECK(count == host_nics().size());
  CHECK(hawser_host_nics(nullptr, 0) == count);
  const std::size_t shown = std::min(count, nics.size());
  const auto usable = std::count_if(nics.begin(), nics.begin() + static_cast<std::ptrdiff_t>(shown),
                                    [](const hawser_host_nic& nic) { return nic.usable != 0; });
  CHECK(static_cast<std::size_t>(usable) == usable_nics().size());
}

}  // namespace hawser::engine
