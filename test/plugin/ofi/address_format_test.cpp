// SPDX-License-Identifier: Apache-2.0
#include "plugin/ofi/address_format.hpp"

#include <rdma/fabric.h>

#include <catch2/catch.hpp>
#include <cstring>

#include "plugin/ofi/name_wire.hpp"

using namespace hawser::ofi;

namespace {

PortName named(const char* uri) {
  const auto name = from_uri(uri);
  REQUIRE(name);
  return *name;
}

AddressBytes filled(int byte) {
  AddressBytes bytes;
  bytes.fill(static_cast<std::byte>(byte));
  return bytes;
}

}  // namespace

TEST_CASE("AddressFormat__a_port_name_survives_each_format_of_its_family") {
  const auto [uri, formats] = GENERATE(table<const char*, std::vector<std::uint32_t>>(
      {{"fi_sockaddr_in://10.1.2.3:9228", {FI_FORMAT_UNSPEC, FI_SOCKADDR_IN, FI_ADDR_STR}},
       {"fi_sockaddr_in6://[fd00::7]:65535", {FI_FORMAT_UNSPEC, FI_SOCKADDR_IN6, FI_ADDR_STR}},
       {"fi_sockaddr_in6://[fe80::7%3]:1", {FI_FORMAT_UNSPEC, FI_SOCKADDR_IN6, FI_ADDR_STR}}}));
  const AddressBytes packed = pack_name(named(uri));
  CHECK(to_string(packed) == uri);
  for (const std::uint32_t format : formats) {
    INFO(uri << " in " << format);
    const auto written = write_address(format, packed);
    REQUIRE(written.size() >= least_bytes(format));
    CHECK(read_address(format, written.data()) == packed);
  }
  const std::uint32_t other = formats[1] == FI_SOCKADDR_IN ? FI_SOCKADDR_IN6 : FI_SOCKADDR_IN;
  CHECK(write_address(other, packed).empty());
}

TEST_CASE("AddressFormat__strings_that_are_no_address_are_refused") {
  for (const char* const text : {"",
                                 "127.0.0.1:9",
                                 "fi_sockaddr_in://",
                                 "fi_sockaddr_in://127.0.0.1",
                                 "fi_sockaddr_in://:9",
                                 "fi_sockaddr_in://127.0.0.1:",
                                 "fi_sockaddr_in://127.0.0.1:0",
                                 "fi_sockaddr_in://127.0.0.1:65536",
                                 "fi_sockaddr_in://127.0.0.1:9x",
                                 "fi_sockaddr_in://127.0.0.1:-1",
                                 "fi_sockaddr_in://0.0.0.0:9",
                                 "fi_sockaddr_in://224.0.0.1:9",
                                 "fi_sockaddr_in://255.255.255.255:9",
                                 "fi_sockaddr_in://[::1]:9",
                                 "fi_sockaddr_in6://127.0.0.1:9",
                                 "fi_sockaddr_in6://[::1",
                                 "fi_sockaddr_in6://[::]:9",
                                 "fi_sockaddr_in6://[ff02::1]:9",
                                 "fi_sockaddr_in6://[::1%no-such-nic]:9",
                                 "fi_sockaddr_ib://127.0.0.1:9",
                                 "hawser://",
                                 "hawser://7",
                                 "hawser://7/",
                                 "hawser://7/0",
                                 "hawser://7/0102",
                                 "hawser://7/xy",
                                 "hawser://x/0102"}) {
    INFO(text);
    CHECK(!from_string(text));
  }
  CHECK(!from_string(nullptr));
  CHECK(from_string("fi_sockaddr://127.0.0.1:9"));
  CHECK(!from_string(("hawser://7/" + std::string(2 * kAddressBytes, '0')).c_str()));
}

TEST_CASE("AddressFormat__bytes_that_are_no_address_are_refused") {
  for (const int byte : {0x00, 0x01, 0x37, 0x55, 0xff}) {
    CHECK(!read_address(FI_FORMAT_UNSPEC, filled(byte).data()));
    CHECK(!read_address(FI_SOCKADDR_IN, filled(byte).data()));
    CHECK(!read_address(FI_SOCKADDR_IN6, filled(byte).data()));
  }
  // Sets each byte of a port name that must be zero.
  const AddressBytes good = pack_name(named("fi_sockaddr_in://10.1.2.3:9228"));
  for (std::size_t i = 8; i < good.size(); ++i) {
    AddressBytes bad = good;
    bad[i] = std::byte{1};
    INFO("byte " << i);
    CHECK(!read_address(FI_FORMAT_UNSPEC, bad.data()));
  }
  CHECK(!read_address(FI_FORMAT_UNSPEC, nullptr));
  CHECK(!from_socket(good.data(), 1));
  CHECK(!from_socket(nullptr, 100));
}

TEST_CASE("AddressFormat__a_source_survives_each_format_and_is_no_address") {
  Source source{.domain = "udp:127.0.0.1", .at = named("fi_sockaddr_in://127.0.0.1:9228")};
  for (const std::uint32_t format : {FI_FORMAT_UNSPEC, FI_SOCKADDR_IN, FI_ADDR_STR}) {
    const auto written = write_source(format, source);
    const auto read = read_source(format, written.data(), written.size());
    REQUIRE(read);
    CHECK(read->at == source.at);
    CHECK(read->is_of("udp:127.0.0.1"));
    CHECK(read->is_of("udp:127.0.0.2") == (format != FI_FORMAT_UNSPEC));
    CHECK(!read_source(format, nullptr, written.size()));
  }
  const auto ours = write_source(FI_FORMAT_UNSPEC, source);
  CHECK(!read_address(FI_FORMAT_UNSPEC, ours.data()));
  CHECK(!read_source(FI_FORMAT_UNSPEC, ours.data(), ours.size() - 1));
  CHECK(!read_source(FI_SOCKADDR_IN6, ours.data(), ours.size()));
  source.domain = std::string(60, 'x');
  const auto longest = write_source(FI_FORMAT_UNSPEC, source);
  CHECK(read_source(FI_FORMAT_UNSPEC, longest.data(), longest.size())->is_of(source.domain));
  CHECK(!read_source(FI_FORMAT_UNSPEC, filled('x').data(), kAddressBytes));
}

TEST_CASE("AddressFormat__a_packet_with_any_byte_of_its_head_changed_is_none") {
  const NamePacket request{.nonce = 7};
  const auto bytes = std::as_bytes(std::span(&request, 1));
  NamePacket read;
  CHECK(read_name_packet(bytes, NameKind::request, read));
  CHECK(read.nonce == 7);
  CHECK(!read_name_packet(bytes, NameKind::answer, read));
  CHECK(!read_name_packet(bytes.first(bytes.size() - 1), NameKind::request, read));
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    std::vector<std::byte> changed(bytes.begin(), bytes.end());
    changed[i] ^= std::byte{0x80};
    INFO("byte " << i);
    const bool is_nonce = i >= offsetof(NamePacket, nonce) && i < offsetof(NamePacket, address);
    CHECK(read_name_packet(changed, NameKind::request, read) == is_nonce);
  }
}
