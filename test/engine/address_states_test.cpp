// SPDX-License-Identifier: Apache-2.0
// The states of addresses as parsed from netlink messages the test builds, and the wait for one.
#include "engine/driver/udp/address_states.hpp"

#include <arpa/inet.h>
#include <linux/if_addr.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>

#include <catch2/catch.hpp>
#include <cstring>
#include <deque>
#include <string>
#include <vector>

#include "engine/host/address_wait.hpp"
#include "hawser/engine.hpp"

namespace hawser::engine {
namespace {

using Bytes = std::vector<std::byte>;
using Catch::Contains;

in6_addr ip(const char* text) {
  in6_addr address{};
  REQUIRE(::inet_pton(AF_INET6, text, &address) == 1);
  return address;
}

template <class Value>
void append(Bytes& out, const Value& value) {
  const auto bytes = std::as_bytes(std::span(&value, 1));
  out.insert(out.end(), bytes.begin(), bytes.end());
}

template <class Value>
void append_attribute(Bytes& out, unsigned short type, const Value& value) {
  append(out, rtattr{static_cast<unsigned short>(RTA_LENGTH(sizeof value)), type});
  append(out, value);
}

Bytes message(unsigned short type, const Bytes& body) {
  Bytes out;
  nlmsghdr header{};
  header.nlmsg_len = static_cast<std::uint32_t>(sizeof header + body.size());
  header.nlmsg_type = type;
  append(out, header);
  out.insert(out.end(), body.begin(), body.end());
  return out;
}

ifaddrmsg head(std::uint32_t interface, unsigned char flags = 0) {
  ifaddrmsg head{};
  head.ifa_family = AF_INET6;
  head.ifa_flags = flags;
  head.ifa_index = interface;
  return head;
}

Bytes address_message(const char* address, std::uint32_t interface, std::uint32_t flags) {
  Bytes body;
  append(body, head(interface));
  append_attribute(body, IFA_ADDRESS, ip(address));
  append_attribute(body, IFA_FLAGS, flags);
  return message(RTM_NEWADDR, body);
}

Bytes operator+(Bytes a, const Bytes& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

TEST_CASE("address_states__flags_of_the_kernel") {
  const auto [flags, state] = GENERATE(table<std::uint32_t, AddressState>(
      {{IFA_F_PERMANENT, AddressState::preferred},
       {IFA_F_PERMANENT | IFA_F_NODAD, AddressState::preferred},
       {IFA_F_PERMANENT | IFA_F_TENTATIVE, AddressState::tentative},
       {IFA_F_PERMANENT | IFA_F_TENTATIVE | IFA_F_DADFAILED, AddressState::duplicate},
       {IFA_F_TENTATIVE | IFA_F_OPTIMISTIC, AddressState::preferred},
       {IFA_F_DEPRECATED | IFA_F_NOPREFIXROUTE, AddressState::deprecated}}));
  const Bytes messages = address_message("fd00::1", 2, IFA_F_PERMANENT) +
                         address_message("fd00::2", 3, flags) + message(NLMSG_DONE, {});
  const std::vector<StatedAddress> addresses = parse_address_states(messages);
  REQUIRE(addresses.size() == 2);
  CHECK(state_in(addresses, ip("fd00::2"), 0) == state);
  CHECK(state_in(addresses, ip("fd00::2"), 3) == state);
  CHECK(state_in(addresses, ip("fd00::2"), 2) == std::nullopt);  // of another interface
  CHECK(state_in(addresses, ip("fd00::3"), 0) == std::nullopt);
}

TEST_CASE("address_states__an_old_kernel_has_eight_flags_and_a_tunnel_two_addresses") {
  Bytes body;
  append(body, head(2, IFA_F_TENTATIVE));
  append_attribute(body, IFA_ADDRESS, ip("fd00::ff"));  // the other end's
  append_attribute(body, IFA_LOCAL, ip("fd00::1"));
  const std::vector<StatedAddress> addresses = parse_address_states(message(RTM_NEWADDR, body));
  REQUIRE(addresses.size() == 1);
  CHECK(state_in(addresses, ip("fd00::1"), 0) == AddressState::tentative);
}

TEST_CASE("address_states__what_is_malformed_ends_the_reading") {
  const Bytes whole = address_message("fd00::1", 2, IFA_F_TENTATIVE);
  for (std::size_t bytes = 0; bytes < whole.size(); ++bytes) {
    INFO(bytes);
    // The cut message has its own storage, so that a sanitizer sees any read beyond its end.
    const Bytes cut(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(bytes));
    CHECK(parse_address_states(cut).empty());
  }
  Bytes wrong = whole;
  const unsigned short length = 3;  // of an attribute, less than its head
  std::memcpy(wrong.data() + sizeof(nlmsghdr) + sizeof(ifaddrmsg), &length, sizeof length);
  CHECK(parse_address_states(wrong).empty());
  CHECK(parse_address_states(message(RTM_NEWADDR, Bytes(3))).empty());
}

// A wait whose looks see the given states in order, and the last state from then on.
struct Wait {
  std::deque<std::optional<AddressState>> states;
  int pauses = 0;
  std::vector<std::string> lines;

  void run() {
    AddressWaitHooks hooks;
    hooks.look = [this] {
      const std::optional<AddressState> state = states.front();
      if (states.size() > 1) states.pop_front();
      return state;
    };
    hooks.pause = [this] { ++pauses; };
    hooks.tell = [this](const std::string& line) { lines.push_back(line); };
    await_address("udp:fd00::1", hooks);
  }
};

TEST_CASE("await_address__waits_for_a_tentative_address_with_one_line") {
  Wait wait;
  wait.states = {AddressState::tentative, AddressState::tentative, AddressState::preferred};
  wait.run();
  CHECK(wait.pauses == 2);
  REQUIRE(wait.lines.size() == 1);
  CHECK_THAT(wait.lines[0], Contains("udp:fd00::1 is tentative") && Contains("5 s at most"));
}

TEST_CASE("await_address__an_end_to_waiting") {
  Wait wait;
  wait.states = {AddressState::tentative};
  CHECK_THROWS_WITH(wait.run(), Contains("udp:fd00::1: the address is still tentative after 5 s"));
  CHECK(wait.pauses == 50);
}

TEST_CASE("await_address__a_duplicate_is_refused_as_one_found_while_waiting_too") {
  Wait wait;
  wait.states = {AddressState::duplicate};
  CHECK_THROWS_WITH(wait.run(), Contains("another host on the link has this address"));
  CHECK(wait.pauses == 0);
  wait.states = {AddressState::tentative, AddressState::duplicate};
  CHECK_THROWS_AS(wait.run(), Error);
  CHECK(wait.pauses == 1);
}

TEST_CASE("await_address__does_not_wait_for_what_can_be_had_or_is_not_there") {
  for (const std::optional<AddressState> state :
       {std::optional<AddressState>(), std::optional(AddressState::preferred),
        std::optional(AddressState::deprecated)}) {
    Wait wait;
    wait.states = {state};
    wait.run();
    CHECK(wait.pauses == 0);
    CHECK(wait.lines.empty());
  }
}

// The kernel's real answer: loopback has no duplicate address detection.
TEST_CASE("address_states__of_this_host") {
  const std::vector<StatedAddress> addresses = read_address_states();
  const auto state = state_in(addresses, ip("::1"), 0);
  CHECK((addresses.empty() || !state || *state == AddressState::preferred));
  CHECK_NOTHROW(await_address("127.0.0.1"));
  CHECK_NOTHROW(await_address("::1"));
}

}  // namespace
}  // namespace hawser::engine
