// SPDX-License-Identifier: Apache-2.0
// Address formats in fi_getinfo, in AVs and at endpoints.
#include <netinet/in.h>

#include <array>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "test/plugin/ofi/name_scene.hpp"

using namespace hawser::test;

namespace {

Info info_of(const char* node, const char* service_name, std::uint64_t flags, std::uint32_t format,
             int* answer = nullptr) {
  const Info wanted = hints();
  wanted->addr_format = format;
  fi_info* found = nullptr;
  const int result = fi_getinfo(FI_VERSION(1, 17), node, service_name, flags, wanted.get(), &found);
  if (answer != nullptr) *answer = result;
  return Info(result == 0 ? found : nullptr);
}

}  // namespace

TEST_CASE("NameFormats__info_has_what_node_service_and_hints_say") {
  const Variables variables({{"FI_HAWSER_NICS", "udp:127.0.0.1,udp:127.0.0.2,udp:::1"}});
  const auto socket_of = [](const void* address) {
    sockaddr_in in{};
    std::memcpy(&in, address, sizeof in);
    return in;
  };
  Info info = info_of("127.0.0.1", "7", 0, FI_SOCKADDR_IN);
  REQUIRE(info);
  CHECK(info->addr_format == FI_SOCKADDR_IN);
  REQUIRE(info->dest_addrlen == sizeof(sockaddr_in));
  CHECK(ntohs(socket_of(info->dest_addr).sin_port) == 7);
  CHECK(ntohl(socket_of(info->dest_addr).sin_addr.s_addr) == INADDR_LOOPBACK);
  REQUIRE(info->src_addrlen == sizeof(sockaddr_in));
  CHECK(socket_of(info->src_addr).sin_family == AF_INET);

  info = info_of("127.0.0.2", "7", FI_SOURCE, FI_SOCKADDR);
  REQUIRE(info);
  CHECK(info->addr_format == FI_SOCKADDR_IN);
  CHECK(std::string(info->domain_attr->name) == "udp:127.0.0.2");
  CHECK(info->dest_addr == nullptr);
  CHECK(ntohs(socket_of(info->src_addr).sin_port) == 7);
  CHECK(ntohl(socket_of(info->src_addr).sin_addr.s_addr) == INADDR_LOOPBACK + 1);
  // The returned source address also works as a hint.
  Info wanted = hints();
  wanted->addr_format = info->addr_format;
  wanted->src_addrlen = info->src_addrlen;
  wanted->src_addr = std::malloc(info->src_addrlen);
  std::memcpy(wanted->src_addr, info->src_addr, info->src_addrlen);
  const Info again = get_info(wanted.get());
  REQUIRE(again);
  CHECK(std::string(again->domain_attr->name) == "udp:127.0.0.2");
  CHECK(ntohs(socket_of(again->src_addr).sin_port) == 7);

  info = info_of("::1", "7", 0, FI_SOCKADDR);
  REQUIRE(info);
  CHECK(info->addr_format == FI_SOCKADDR_IN6);
  CHECK(info->dest_addrlen == sizeof(sockaddr_in6));
  info = info_of("fi_sockaddr_in://127.0.0.1:7", nullptr, 0, FI_ADDR_STR);
  REQUIRE(info);
  CHECK(std::string(static_cast<char*>(info->dest_addr)) == "fi_sockaddr_in://127.0.0.1:7");
  CHECK(info_of("127.0.0.1", nullptr, 0, FI_FORMAT_UNSPEC));
  CHECK(info_of(nullptr, "7", FI_SOURCE, FI_FORMAT_UNSPEC));

  const auto answer_to = [](const char* node, const char* name, std::uint64_t flags,
                            std::uint32_t format) {
    int answer = 0;
    (void)info_of(node, name, flags, format, &answer);
    return answer;
  };
  CHECK(answer_to(nullptr, nullptr, FI_SOURCE, FI_FORMAT_UNSPEC) == -FI_ENODATA);
  CHECK(answer_to("127.0.0.1", "7", 0, FI_SOCKADDR_IN6) == -FI_ENODATA);
  CHECK(answer_to("::1", "7", 0, FI_SOCKADDR_IN) == -FI_ENODATA);
  CHECK(answer_to("127.0.0.1", "no-such-service", 0, FI_FORMAT_UNSPEC) == -FI_ENODATA);
  CHECK(answer_to("localhost", "7", FI_NUMERICHOST, FI_FORMAT_UNSPEC) == -FI_ENODATA);
  CHECK(answer_to("fi_sockaddr_in://127.0.0.1:7", "7", 0, FI_ADDR_STR) == -FI_ENODATA);
  CHECK(answer_to("fi_sockaddr_in://nowhere", nullptr, 0, FI_ADDR_STR) == -FI_ENODATA);
  CHECK(answer_to("127.0.0.9", "7", FI_SOURCE, FI_SOCKADDR_IN) == -FI_ENODATA);
}

TEST_CASE("NameFormats__an_endpoint_of_socket_addresses_goes_by_one") {
  const auto [node, format, size] = GENERATE(table<std::string, std::uint32_t, std::size_t>(
      {{"127.0.0.1", FI_SOCKADDR_IN, sizeof(sockaddr_in)},
       {"::1", FI_SOCKADDR_IN6, sizeof(sockaddr_in6)}}));
  const Variables variables({{"FI_HAWSER_NICS", "udp:" + node}});
  NodeOptions options;
  options.addr_format = format;
  Node unnamed(options);  // its port is the system's choice
  Node named(server_options("", format));
  std::vector<std::string> texts;
  for (Node* one : {&unnamed, &named}) {
    const auto name = one->name();
    REQUIRE(name.size() == size);
    std::array<char, 100> text{};
    std::size_t length = text.size();
    texts.emplace_back(fi_av_straddr(one->av.get(), name.data(), text.data(), &length));
    CHECK(length == texts.back().size() + 1);
    CHECK(texts.back().find(node) != std::string::npos);
    fi_addr_t inserted = FI_ADDR_NOTAVAIL;
    CHECK(fi_av_insert(unnamed.av.get(), name.data(), 1, &inserted, 0, nullptr) == 1);
    std::vector<std::byte> found(size);
    std::size_t bytes = 4;
    CHECK(fi_av_lookup(unnamed.av.get(), inserted, found.data(), &bytes) == -FI_ETOOSMALL);
    CHECK(bytes == size);
    CHECK(fi_av_lookup(unnamed.av.get(), inserted, found.data(), &bytes) == 0);
    CHECK(found == name);
  }
  CHECK(texts[1].ends_with(":" + service()));
  CHECK(texts[0] != texts[1]);
}

TEST_CASE("NameFormats__AVs_refuse_what_is_not_of_their_format") {
  const Variables variables;
  NodeOptions options;
  options.addr_format = FI_SOCKADDR_IN;
  Node node(options);
  fid_av* const av = node.av.get();
  fi_addr_t out[4]{};
  int errors[4]{};
  sockaddr_in good{};
  good.sin_family = AF_INET;
  good.sin_port = htons(7);
  good.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  std::array<sockaddr_in, 4> four{good, good, good, good};
  four[0].sin_family = AF_INET6;
  four[1].sin_port = 0;
  four[2].sin_addr.s_addr = 0;
  CHECK(fi_av_insert(av, four.data(), 4, out, FI_SYNC_ERR, errors) == 1);
  CHECK(errors[0] == FI_EINVAL);
  CHECK(errors[2] == FI_EINVAL);
  CHECK(errors[3] == 0);
  CHECK(out[1] == FI_ADDR_NOTAVAIL);
  CHECK(out[3] != FI_ADDR_NOTAVAIL);
  CHECK(fi_av_insert(av, nullptr, 1, out, 0, nullptr) == -FI_EINVAL);
  CHECK(fi_av_insert(av, four.data(), 1, out, FI_SYNC_ERR, nullptr) == -FI_EINVAL);
  CHECK(fi_av_insert(av, nullptr, 0, nullptr, 0, nullptr) == 0);

  CHECK(fi_av_insertsvc(av, nullptr, nullptr, out, 0, nullptr) == -FI_EINVAL);
  CHECK(fi_av_insertsvc(av, "127.0.0.1", nullptr, out, 0, nullptr) == -FI_EADDRNOTAVAIL);
  CHECK(fi_av_insertsvc(av, "::1", "7", out, FI_SYNC_ERR, errors) == -FI_EADDRNOTAVAIL);
  CHECK(errors[0] == FI_EADDRNOTAVAIL);
  CHECK(out[0] == FI_ADDR_NOTAVAIL);
  CHECK(fi_av_insertsvc(av, "127.0.0.1", "7", out, FI_EVENT, nullptr) == -FI_EINVAL);
  CHECK(fi_av_insertsvc(av, nullptr, "7", out, 0, nullptr) == 1);
  CHECK(fi_av_insertsvc(av, "fi_sockaddr_in://127.0.0.1:7", nullptr, out, 0, nullptr) == 1);
  CHECK(fi_av_insertsvc(av, "fi_sockaddr_in6://[::1]:7", nullptr, out, 0, nullptr) ==
        -FI_EADDRNOTAVAIL);

  // The two addresses are 127.0.0.255 and the next one, the two ports 65534 and 65535.
  CHECK(fi_av_insertsym(av, "127.0.0.255", 2, "65534", 2, out, 0, nullptr) == 4);
  sockaddr_in last{};
  std::size_t bytes = sizeof last;
  REQUIRE(fi_av_lookup(av, out[3], &last, &bytes) == 0);
  CHECK(ntohl(last.sin_addr.s_addr) == 0x7f000100);
  CHECK(ntohs(last.sin_port) == 65535);
  REQUIRE(fi_av_lookup(av, out[1], &last, &bytes) == 0);
  CHECK(ntohl(last.sin_addr.s_addr) == 0x7f0000ff);
  CHECK(fi_av_insertsym(av, "127.0.0.1", 1, "65534", 3, out, 0, nullptr) == -FI_EINVAL);
  CHECK(fi_av_insertsym(av, nullptr, 1, "7", 1, out, 0, nullptr) == -FI_EINVAL);
  CHECK(fi_av_insertsym(av, "127.0.0.1", 1, nullptr, 1, out, 0, nullptr) == -FI_EINVAL);
  CHECK(fi_av_insertsym(av, "localhost", 1, "7", 2, out, 0, nullptr) == 2);
}

TEST_CASE("NameFormats__strings_are_addresses_that_can_be_passed_on") {
  const Variables variables;
  NodeOptions options;
  options.addr_format = FI_ADDR_STR;
  Node a(options), b(options);
  const auto name = b.name();
  const auto* const text = reinterpret_cast<const char*>(name.data());
  CHECK(std::string(text).starts_with("hawser://"));
  CHECK(std::strlen(text) + 1 == name.size());
  fi_addr_t to_b = FI_ADDR_NOTAVAIL;
  REQUIRE(insert_address(a, text, to_b) == 1);
  int number = 8;
  REQUIRE(fi_tsend(a.ep.get(), &number, 4, nullptr, to_b, 1, &number) == 0);
  CHECK(receive_one(b, a) == 8);
  // The text also works as a destination.
  const Info info = info_of(text, nullptr, 0, FI_ADDR_STR);
  REQUIRE(info);
  CHECK(std::string(static_cast<char*>(info->dest_addr)) == text);
  std::array<const char*, 2> bad{nullptr, "nonsense"};
  std::array<fi_addr_t, 2> out{};
  CHECK(fi_av_insert(a.av.get(), bad.data(), 2, out.data(), 0, nullptr) == 0);
  std::array<char, 8> few{};
  std::size_t length = few.size();
  CHECK(std::string(fi_av_straddr(a.av.get(), text, few.data(), &length)) == "hawser:");
  CHECK(length == name.size());
}

TEST_CASE("NameFormats__a_source_that_is_none_opens_no_endpoint") {
  const Variables variables;
  NodeOptions options;
  options.addr_format = FI_SOCKADDR_IN;
  Node node(options);
  fid_ep* ep = nullptr;
  auto* const source = static_cast<sockaddr_in*>(node.info->src_addr);
  source->sin_family = AF_INET6;
  CHECK(fi_endpoint(node.domain.get(), node.info.get(), &ep, nullptr) == -FI_EINVAL);
  source->sin_family = AF_INET;
  node.info->src_addrlen = 2;
  CHECK(fi_endpoint(node.domain.get(), node.info.get(), &ep, nullptr) == -FI_EINVAL);
  node.info->src_addrlen = sizeof *source;
  node.info->addr_format = FI_FORMAT_UNSPEC;
  CHECK(fi_endpoint(node.domain.get(), node.info.get(), &ep, nullptr) == -FI_EINVAL);
}
