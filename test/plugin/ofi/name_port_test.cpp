// SPDX-License-Identifier: Apache-2.0
#include "plugin/ofi/name_port.hpp"

#include <poll.h>
#include <sys/socket.h>

#include <catch2/catch.hpp>
#include <random>
#include <vector>

#include "plugin/ofi/asker.hpp"
#include "plugin/ofi/name_wire.hpp"
#include "test/support/hang_limit.hpp"

using namespace hawser::ofi;

namespace {

// A socket that the provider doesn't know.
class Stranger {
 public:
  explicit Stranger(const PortName& to) : socket_(::socket(to.family(), SOCK_DGRAM, 0)) {
    const SocketAddress address = to_socket(to);
    REQUIRE(::connect(socket_.get(), address.get(), address.length) == 0);
  }
  void send(std::span<const std::byte> bytes) {
    REQUIRE(::send(socket_.get(), bytes.data(), bytes.size(), 0) ==
            static_cast<ssize_t>(bytes.size()));
  }
  void send(const NamePacket& packet) { send(std::as_bytes(std::span(&packet, 1))); }
  // Returns an empty vector if no datagram is there.
  std::vector<std::byte> receive() {
    std::vector<std::byte> bytes(2048);
    const ssize_t length = ::recv(socket_.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
    bytes.resize(length < 0 ? 0 : static_cast<std::size_t>(length));
    return bytes;
  }

 private:
  Descriptor socket_;
};

PortName loopback(const char* uri) { return from_uri(uri).value(); }

// The port doesn't look at the address.
AddressBytes some_address() { return {}; }

void comes(int descriptor) {
  pollfd readable{descriptor, POLLIN, 0};
  REQUIRE(::poll(&readable, 1, hawser::test::kHangLimitMs) == 1);
}

}  // namespace

TEST_CASE("NamePort__answers_a_request_with_as_many_bytes_and_strangers_with_none") {
  const char* const uri = GENERATE("fi_sockaddr_in://127.0.0.1:0", "fi_sockaddr_in6://[::1]:0");
  NamePort port(loopback(uri), true);
  REQUIRE(port.at().port != 0);
  Stranger stranger(port.at());
  std::mt19937 random(11);
  int garbage = 0;
  for (const std::size_t size : {0u, 1u, 8u, 71u, 72u, 73u, 1400u}) {
    std::vector<std::byte> bytes(size);
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random() & 0xff);
    stranger.send(bytes);
    ++garbage;
  }
  for (const NamePacket& packet :
       {NamePacket{.version = 2}, NamePacket{.kind = NameKind::answer}, NamePacket{.zero = 1},
        NamePacket{.magic = {'H', 'T', 'T', 'P'}}}) {
    stranger.send(packet);
    ++garbage;
  }
  comes(port.fd());
  port.answer(some_address());
  CHECK(stranger.receive().empty());
  CHECK(port.dropped() == static_cast<std::uint64_t>(garbage));
  CHECK(port.answered() == 0);

  stranger.send(NamePacket{.nonce = 42});
  comes(port.fd());
  port.answer(some_address());
  const auto answer = stranger.receive();
  REQUIRE(answer.size() == sizeof(NamePacket));
  NamePacket packet;
  std::memcpy(&packet, answer.data(), sizeof packet);
  CHECK(packet.kind == NameKind::answer);
  CHECK(packet.nonce == 42);
  CHECK(port.answered() == 1);
}

TEST_CASE("NamePort__a_flood_is_answered_64_at_a_time") {
  NamePort port(loopback("fi_sockaddr_in://127.0.0.1:0"), true);
  Stranger stranger(port.at());
  for (int i = 0; i < 100; ++i) stranger.send(NamePacket{.nonce = 1});
  comes(port.fd());
  port.answer(some_address());
  CHECK(port.answered() == 64);
  port.answer(some_address());
  CHECK(port.answered() == 100);
}

TEST_CASE("NamePort__one_that_is_in_use_or_elsewhere_is_an_error") {
  const NamePort port(loopback("fi_sockaddr_in://127.0.0.1:0"), true);
  const auto error_of = [](const PortName& at, bool is_of_one_family) {
    try {
      const NamePort other(at, is_of_one_family);
      return 0;
    } catch (const PortError& error) {
      CHECK(std::string(error.what()).find(to_text(at)) != std::string::npos);
      return error.number();
    }
  };
  CHECK(error_of(port.at(), true) == EADDRINUSE);
  CHECK(error_of({.port = port.at().port}, false) == EADDRINUSE);
  CHECK(error_of(loopback("fi_sockaddr_in://192.0.2.1:0"), true) == EADDRNOTAVAIL);
}

TEST_CASE("NamePort__without_an_address_is_asked_by_both_families") {
  NamePort port({}, false);
  for (const char* const uri : {"fi_sockaddr_in://127.0.0.1:0", "fi_sockaddr_in6://[::1]:0"}) {
    PortName to = loopback(uri);
    to.port = port.at().port;
    Stranger stranger(to);
    stranger.send(NamePacket{});
    comes(port.fd());
    port.answer(some_address());
    CHECK(stranger.receive().size() == sizeof(NamePacket));
  }
}

TEST_CASE("NamePort__its_thread_answers_by_itself") {
  NamePort port(loopback("fi_sockaddr_in://127.0.0.1:0"), true);
  const NameThread thread(port, some_address());
  Stranger stranger(port.at());
  stranger.send(NamePacket{.nonce = 9});
  CHECK(hawser::test::comes_true([&] { return !stranger.receive().empty(); }));
}

TEST_CASE("Asker__waits_twice_as_long_each_time_and_gives_up") {
  using namespace std::chrono_literals;
  using Time = Asker::Clock::time_point;
  const NamePort silent(loopback("fi_sockaddr_in://127.0.0.1:0"), true);
  Asker asker(2s);
  const Time begin{1h};
  asker.ask(5, silent.at(), begin);
  asker.ask(5, silent.at(), begin);  // the same question again
  int ended = 0;
  const auto turn = [&](Time now) {
    asker.turn(now, [&](fi_addr_t address, const std::optional<AddressBytes>& bytes,
                        OperationQueue waiting) {
      CHECK(address == 5);
      CHECK(!bytes);
      CHECK(waiting.empty());
      ++ended;
    });
    int requests = 0;
    std::array<std::byte, 100> bytes{};
    while (::recv(silent.fd(), bytes.data(), bytes.size(), MSG_DONTWAIT) > 0) ++requests;
    return requests;
  };
  std::vector<long> times;
  for (Time now = begin; now <= begin + 3s; now += 10ms) {
    for (int requests = turn(now); requests > 0; --requests) {
      times.push_back(std::chrono::duration_cast<std::chrono::milliseconds>(now - begin).count());
    }
  }
  CHECK(times == std::vector<long>{0, 20, 60, 140, 300, 620, 1120, 1620});
  CHECK(ended == 1);
  CHECK(asker.is_empty());
}

TEST_CASE("Asker__heeds_no_answer_but_that_to_its_request") {
  const auto now = Asker::Clock::now();
  const NamePort fake(loopback("fi_sockaddr_in://127.0.0.1:0"), true);
  Asker asker(std::chrono::hours(1));
  asker.ask(5, fake.at(), now);
  bool any = false;
  const auto turn = [&] {
    asker.turn(now,
               [&](fi_addr_t, const std::optional<AddressBytes>&, OperationQueue) { any = true; });
  };
  turn();
  comes(fake.fd());
  SocketAddress from;
  from.length = sizeof from.storage;
  NamePacket packet;
  REQUIRE(::recvfrom(fake.fd(), &packet, sizeof packet, 0,
                     reinterpret_cast<sockaddr*>(&from.storage), &from.length) == sizeof packet);
  const auto send = [&](const NamePacket& answer) {
    REQUIRE(::sendto(fake.fd(), &answer, sizeof answer, 0, from.get(), from.length) ==
            sizeof answer);
    comes(asker.fd());
    turn();
  };
  send(packet);  // a request
  NamePacket answer = packet;
  answer.kind = NameKind::answer;
  send(answer);  // without an address
  answer.address.fill(std::byte{0xff});
  send(answer);
  answer.address = pack_name(fake.at());  // an address that had to be asked for
  send(answer);
  CHECK(asker.dropped() == 4);
  CHECK(!any);
  CHECK(asker.is_asking(5));
}
