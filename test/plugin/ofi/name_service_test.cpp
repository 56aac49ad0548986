// SPDX-License-Identifier: Apache-2.0
// Endpoints that are found by an IP address and a UDP port.
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <catch2/catch.hpp>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "test/plugin/ofi/name_scene.hpp"

using namespace hawser::test;

namespace {

// Small messages with a number in them, each with its own context.
struct Numbers {
  explicit Numbers(int count) : values(static_cast<std::size_t>(count)) {
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<int>(i);
  }
  void send(Node& node, fi_addr_t to, std::uint64_t tag = 1) {
    for (int& value : values) {
      REQUIRE(fi_tsend(node.ep.get(), &value, sizeof value, nullptr, to, tag, &value) == 0);
    }
  }
  std::vector<int> values;
};

// A datagram socket that knows nothing of the provider.
class Datagrams {
 public:
  explicit Datagrams(const std::string& port, bool binds)
      : socket_(::socket(AF_INET, SOCK_DGRAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(std::stoi(port)));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const auto* const at = reinterpret_cast<const sockaddr*>(&address);
    REQUIRE((binds ? ::bind(socket_, at, sizeof address)
                   : ::connect(socket_, at, sizeof address)) == 0);
  }
  ~Datagrams() { ::close(socket_); }
  Datagrams(const Datagrams&) = delete;
  Datagrams& operator=(const Datagrams&) = delete;

  void send(const std::vector<std::byte>& bytes) {
    (void)::send(socket_, bytes.data(), bytes.size(), 0);
  }
  void answer(const std::vector<std::byte>& bytes) {
    REQUIRE(::sendto(socket_, bytes.data(), bytes.size(), 0,
                     reinterpret_cast<const sockaddr*>(&from_),
                     sizeof from_) == static_cast<ssize_t>(bytes.size()));
  }
  // Empty: nothing is there.
  std::vector<std::byte> receive() {
    std::vector<std::byte> bytes(2048);
    socklen_t length = sizeof from_;
    const ssize_t received = ::recvfrom(socket_, bytes.data(), bytes.size(), MSG_DONTWAIT,
                                        reinterpret_cast<sockaddr*>(&from_), &length);
    bytes.resize(received < 0 ? 0 : static_cast<std::size_t>(received));
    return bytes;
  }
  [[nodiscard]] bool comes() const {
    pollfd readable{socket_, POLLIN, 0};
    return ::poll(&readable, 1, kHangLimitMs) == 1;
  }

 private:
  int socket_;
  sockaddr_in from_{};
};

// As name_wire.hpp has it.
std::vector<std::byte> request() {
  std::vector<std::byte> bytes(72);
  std::memcpy(bytes.data(), "HwsN\1\1", 6);
  bytes[8] = std::byte{5};
  return bytes;
}

void turn(Node& node) { (void)fi_cq_read(node.cq.get(), nullptr, 0); }

}  // namespace

TEST_CASE("NameService__a_server_that_starts_after_its_client_gets_all_in_order") {
  using Row = std::tuple<std::string, std::uint32_t>;
  const auto [node, format] = GENERATE(table<std::string, std::uint32_t>(
      {Row{"127.0.0.1", FI_FORMAT_UNSPEC}, Row{"127.0.0.1", FI_SOCKADDR_IN},
       Row{"127.0.0.1", FI_SOCKADDR}, Row{"127.0.0.1", FI_ADDR_STR}, Row{"::1", FI_FORMAT_UNSPEC},
       Row{"::1", FI_SOCKADDR_IN6}, Row{"::1", FI_ADDR_STR}}));
  const std::string threads = GENERATE("0", "1");
  INFO(node << ", format " << format << ", threads " << threads);
  const Variables variables({{"FI_HAWSER_NICS", "udp:" + node}, {"FI_HAWSER_THREADS", threads}});
  Node client(client_options(node, format));
  const fi_addr_t to_server = insert_destination(client);
  int answered = -1;
  REQUIRE(fi_trecv(client.ep.get(), &answered, sizeof answered, nullptr, to_server, 2, 0,
                   &answered) == 0);
  Numbers numbers(100);
  numbers.send(client, to_server);
  CHECK(client.look().answer == -FI_EAGAIN);

  Node server(server_options(node, format));
  for (int i = 0; i < 100; ++i) CHECK(receive_one(server, client) == i);
  // The client's name is good for an answer, and the server's for who it came from.
  fi_addr_t to_client = FI_ADDR_NOTAVAIL;
  REQUIRE(insert_address(server, client.name().data(), to_client) == 1);
  int number = 4711;
  REQUIRE(fi_tsend(server.ep.get(), &number, sizeof number, nullptr, to_client, 2, &number) == 0);
  int sent = 0;
  Entry entry;
  do {
    entry = client.next(&server);
    REQUIRE(entry.answer == 1);
    sent += entry.entry.op_context != &answered ? 1 : 0;
  } while (entry.entry.op_context != &answered);
  CHECK(answered == 4711);
  CHECK(entry.source == to_server);
  for (; sent < 100; ++sent) REQUIRE(client.next(&server).answer == 1);
}

TEST_CASE("NameService__a_name_and_a_full_address_are_the_same_peer") {
  const Variables variables;
  Node server(server_options("127.0.0.1"));
  Node client(client_options("127.0.0.1"));
  const fi_addr_t by_address = client.insert(server.name());
  const fi_addr_t by_name = insert_destination(client);
  CHECK(by_address != by_name);
  const fi_addr_t to_client = server.insert(client.name());
  int first = 0, second = 0, one = 1, two = 2;
  REQUIRE(fi_trecv(client.ep.get(), &first, 4, nullptr, by_name, 1, 0, &first) == 0);
  REQUIRE(fi_trecv(client.ep.get(), &second, 4, nullptr, by_address, 2, 0, &second) == 0);
  REQUIRE(fi_tsend(server.ep.get(), &one, 4, nullptr, to_client, 1, &one) == 0);
  REQUIRE(fi_tsend(server.ep.get(), &two, 4, nullptr, to_client, 2, &two) == 0);
  for (int i = 0; i < 2; ++i) REQUIRE(client.next(&server).answer == 1);
  CHECK(first == 1);
  CHECK(second == 2);
  // The name is still the name.
  std::array<std::byte, 56> inserted{};
  std::size_t bytes = inserted.size();
  REQUIRE(fi_av_lookup(client.av.get(), by_name, inserted.data(), &bytes) == 0);
  CHECK(std::memcmp(inserted.data(), client.info->dest_addr, 56) == 0);
}

// It is asked for as soon as it is inserted.
TEST_CASE("NameService__who_sends_from_a_name_is_known_by_it") {
  const Variables variables;
  Node server(server_options("127.0.0.1"));
  Node client(client_options("127.0.0.1"));
  const fi_addr_t to_server = insert_destination(client);
  const fi_addr_t to_client = server.insert(client.name());
  // A peek finds nothing, and nothing of somebody who hasn't answered.
  fi_msg_tagged peek{};
  peek.addr = to_server;
  REQUIRE(fi_trecvmsg(client.ep.get(), &peek, FI_PEEK) == 0);
  const Entry none = client.look();
  REQUIRE(none.answer == -FI_EAVAIL);
  CHECK(none.error.err == FI_ENOMSG);
  for (int i = 0; i < 2; ++i) {
    int number = i, got = -1;
    REQUIRE(fi_trecv(client.ep.get(), &got, 4, nullptr, FI_ADDR_UNSPEC, 1, 0, &got) == 0);
    REQUIRE(fi_tsend(server.ep.get(), &number, 4, nullptr, to_client, 1, &number) == 0);
    const Entry entry = client.next(&server);
    REQUIRE(entry.answer == 1);
    REQUIRE(server.next(&client).answer == 1);
    if (i == 0) continue;  // it may have come before the answer
    CHECK(entry.source == to_server);
  }
}

TEST_CASE("NameService__names_of_one_process_reach_each_other_and_oneself") {
  const auto format = GENERATE(as<std::uint32_t>(), FI_FORMAT_UNSPEC, FI_SOCKADDR_IN);
  const Variables variables;
  Node a(server_options("127.0.0.1", format, 0));
  Node b(server_options("127.0.0.1", format, 1));
  const auto name_in = [](Node& node, int port) {
    fi_addr_t to = FI_ADDR_NOTAVAIL;
    REQUIRE(fi_av_insertsvc(node.av.get(), "127.0.0.1", service(port).c_str(), &to, 0, nullptr) ==
            1);
    return to;
  };
  const fi_addr_t to_b = name_in(a, 1), to_a = name_in(b, 0), to_itself = name_in(a, 0);
  int one = 1, two = 2, three = 3;
  REQUIRE(fi_tsend(a.ep.get(), &one, 4, nullptr, to_b, 1, &one) == 0);
  REQUIRE(fi_tsend(b.ep.get(), &two, 4, nullptr, to_a, 1, &two) == 0);
  CHECK(receive_one(b, a, to_a) == 1);
  while (b.next(&a).entry.op_context != &two) continue;
  REQUIRE(a.next(&b).answer == 1);  // its send
  CHECK(receive_one(a, b, to_b) == 2);
  int got = -1;
  REQUIRE(fi_trecv(a.ep.get(), &got, 4, nullptr, to_itself, 2, 0, &got) == 0);
  REQUIRE(fi_tsend(a.ep.get(), &three, 4, nullptr, to_itself, 2, &three) == 0);
  for (int i = 0; i < 2; ++i) REQUIRE(a.next().answer == 1);
  CHECK(got == 3);
}

TEST_CASE("NameService__a_port_in_use_is_an_error_that_says_so") {
  const std::string threads = GENERATE("0", "1");
  const Variables variables({{"FI_HAWSER_THREADS", threads}});
  auto first = std::make_unique<Node>(server_options("127.0.0.1"));
  CHECK_THROWS_WITH(Node(server_options("127.0.0.1")), Catch::Contains(fi_strerror(FI_EADDRINUSE)));
  // Any address is that one, too.
  CHECK_THROWS_WITH(Node(server_options("")), Catch::Contains(fi_strerror(FI_EADDRINUSE)));
  CHECK_NOTHROW(Node(server_options("127.0.0.2")));
  first.reset();
  CHECK_NOTHROW(Node(server_options("127.0.0.1")));
}

TEST_CASE("NameService__strangers_get_no_answer_and_do_no_harm") {
  const Variables variables;
  Node server(server_options("127.0.0.1"));
  Datagrams stranger(service(), false);
  std::vector<std::byte> bytes = request();
  for (const std::size_t size : {0u, 1u, 71u, 73u, 2000u}) {
    bytes.resize(size);
    stranger.send(bytes);
  }
  for (const std::size_t at : {0u, 4u, 5u, 6u, 16u, 71u}) {
    bytes = request();
    bytes[at] ^= std::byte{0x40};
    stranger.send(bytes);
  }
  stranger.send(request());
  CHECK(comes_true([&] {
    turn(server);
    return !(bytes = stranger.receive()).empty();
  }));
  CHECK(bytes.size() == request().size());
  CHECK(std::memcmp(bytes.data() + 16, server.name().data(), 56) == 0);
  CHECK(stranger.receive().empty());
}

TEST_CASE("NameService__an_engine_thread_s_endpoint_answers_while_the_program_is_elsewhere") {
  const Variables variables({{"FI_HAWSER_THREADS", "1"}});
  Node server(server_options("127.0.0.1"));
  Datagrams stranger(service(), false);
  stranger.send(request());
  CHECK(stranger.comes());
}

TEST_CASE("NameService__a_lost_answer_is_asked_for_again_and_a_false_one_is_not_believed") {
  const Variables variables;
  Node server;  // without a port: the datagrams are answered here
  Datagrams fake(service(), true);
  Node client(client_options("127.0.0.1"));
  const fi_addr_t to_server = insert_destination(client);
  int number = 7, got = -1;
  REQUIRE(fi_tsend(client.ep.get(), &number, 4, nullptr, to_server, 1, &number) == 0);
  REQUIRE(fi_trecv(server.ep.get(), &got, 4, nullptr, FI_ADDR_UNSPEC, 1, 0, &got) == 0);
  std::vector<std::byte> asked;
  const auto next_request = [&] {
    REQUIRE(comes_true([&] {
      turn(client);
      return !(asked = fake.receive()).empty();
    }));
    CHECK(asked.size() == request().size());
    asked[5] = std::byte{2};
    const auto name = server.name();
    std::copy(name.begin(), name.end(), asked.begin() + 16);
  };
  next_request();  // and is lost
  next_request();
  auto wrong = asked;
  wrong[8] ^= std::byte{1};  // the nonce
  fake.answer(wrong);
  wrong = asked;
  std::fill(wrong.begin() + 16, wrong.end(), std::byte{0});
  fake.answer(wrong);
  next_request();
  CHECK(server.look().answer == -FI_EAGAIN);
  fake.answer(asked);
  fake.answer(asked);
  REQUIRE(server.next(&client).answer == 1);
  CHECK(got == 7);
}

TEST_CASE("NameService__who_never_answers_is_unreachable_and_may_be_asked_again") {
  const Variables variables({{"FI_HAWSER_PEER_TIMEOUT_MS", "100"}});
  NodeOptions options = client_options("127.0.0.1");
  options.counts = true;
  Node client(options);
  const fi_addr_t to_server = insert_destination(client);
  std::array<char, 4> bytes{"abc"}, in{};
  for (int round = 0; round < 2; ++round) {
    REQUIRE(fi_tsend(client.ep.get(), bytes.data(), 4, nullptr, to_server, 1, &bytes) == 0);
    REQUIRE(fi_tinject(client.ep.get(), bytes.data(), 4, to_server, 1) == 0);
    REQUIRE(fi_trecv(client.ep.get(), in.data(), 4, nullptr, to_server, 1, 0, &in) == 0);
    for (void* const context : {static_cast<void*>(&bytes), static_cast<void*>(&in)}) {
      const Entry entry = client.next();
      REQUIRE(entry.answer == -FI_EAVAIL);
      CHECK(entry.error.err == FI_EHOSTUNREACH);
      CHECK(entry.error.op_context == context);
      INFO(entry.text);
      CHECK(entry.text.find("127.0.0.1:" + service()) != std::string::npos);
    }
    CHECK(fi_cntr_readerr(client.sent.get()) == static_cast<std::uint64_t>(2 * (round + 1)));
  }
  Node server(server_options("127.0.0.1"));
  int number = 9, got = 0;
  REQUIRE(fi_trecv(server.ep.get(), &got, 4, nullptr, FI_ADDR_UNSPEC, 2, 0, &got) == 0);
  const auto ask = [&] {
    return fi_tsend(client.ep.get(), &number, 4, nullptr, to_server, 2, &number) == 0;
  };
  REQUIRE(ask());
  // On a busy machine the server may be silent for the whole peer timeout again.
  CHECK(comes_true([&] {
    const Entry of_send = client.look();
    if (of_send.answer == -FI_EAVAIL) {
      CHECK(of_send.error.err == FI_EHOSTUNREACH);
      REQUIRE(ask());
    }
    return server.look().answer == 1;
  }));
  CHECK(got == 9);
}

// An fi_addr stands for the endpoint that answered first: what was meant for it reaches no other.
TEST_CASE("NameService__a_new_endpoint_at_the_same_port_is_found_by_inserting_it_anew") {
  const Variables variables;
  Node client(client_options("127.0.0.1"));
  const fi_addr_t to_first = insert_destination(client);
  {
    Node server(server_options("127.0.0.1"));
    int number = 1;
    REQUIRE(fi_tsend(client.ep.get(), &number, 4, nullptr, to_first, 1, &number) == 0);
    CHECK(receive_one(server, client) == 1);
    REQUIRE(client.next(&server).answer == 1);
  }
  Node server(server_options("127.0.0.1"));
  int number = 2;
  iovec iov{&number, 4};
  const fi_msg_tagged message{&iov, nullptr, 1, to_first, 1, 0, &number, 0};
  const ssize_t answer = fi_tsendmsg(client.ep.get(), &message, FI_TRANSMIT_COMPLETE);
  if (answer == 0) {
    CHECK(client.next(&server).answer == -FI_EAVAIL);
  } else {
    CHECK(answer == -FI_ESHUTDOWN);
  }
  const fi_addr_t to_second = insert_destination(client);
  CHECK(to_second != to_first);
  number = 3;
  REQUIRE(fi_tsend(client.ep.get(), &number, 4, nullptr, to_second, 1, &number) == 0);
  CHECK(receive_one(server, client) == 3);
}

TEST_CASE("NameService__a_name_that_is_removed_while_asked_for_cancels_what_waits") {
  const Variables variables;
  Node client(client_options("127.0.0.1"));
  fi_addr_t to_server = insert_destination(client);
  std::array<char, 4> out{"abc"}, in{}, cancelled{}, many{};
  REQUIRE(fi_tsend(client.ep.get(), out.data(), 4, nullptr, to_server, 1, &out) == 0);
  REQUIRE(fi_trecv(client.ep.get(), in.data(), 4, nullptr, to_server, 1, 0, &in) == 0);
  REQUIRE(fi_trecv(client.ep.get(), cancelled.data(), 4, nullptr, to_server, 1, 0, &cancelled) ==
          0);
  iovec buffer{many.data(), many.size()};
  fi_msg message{};
  message.msg_iov = &buffer;
  message.iov_count = 1;
  message.addr = to_server;
  message.context = &many;
  REQUIRE(fi_recvmsg(client.ep.get(), &message, FI_MULTI_RECV) == 0);
  REQUIRE(fi_cancel(&client.ep->fid, &cancelled) == 0);
  CHECK(fi_cancel(&client.ep->fid, &cancelled) == -FI_ENOENT);
  REQUIRE(fi_av_remove(client.av.get(), &to_server, 1, 0) == 0);
  for (void* const context : {static_cast<void*>(&cancelled), static_cast<void*>(&out),
                              static_cast<void*>(&in), static_cast<void*>(&many)}) {
    const Entry entry = client.next();
    REQUIRE(entry.answer == -FI_EAVAIL);
    CHECK(entry.error.err == FI_ECANCELED);
    CHECK(entry.error.op_context == context);
    CHECK(((entry.error.flags & FI_MULTI_RECV) != 0) == (context == &many));
  }
  CHECK(fi_tsend(client.ep.get(), out.data(), 4, nullptr, to_server, 1, &out) == -FI_EINVAL);
  // Nobody is told that comes now.
  Node server(server_options("127.0.0.1"));
  const fi_addr_t to_it = insert_destination(client);
  int number = 5;
  REQUIRE(fi_tsend(client.ep.get(), &number, 4, nullptr, to_it, 1, &number) == 0);
  CHECK(receive_one(server, client) == 5);
}

TEST_CASE("NameService__closing_waits_no_longer_for_who_never_answers_than_for_a_peer") {
  const std::string threads = GENERATE("0", "1");
  const Variables variables({{"FI_HAWSER_THREADS", threads}});
  Node client(client_options("127.0.0.1"));
  const fi_addr_t to_server = insert_destination(client);
  std::array<char, 4> bytes{"abc"};
  REQUIRE(fi_tsend(client.ep.get(), bytes.data(), 4, nullptr, to_server, 1, &bytes) == 0);
  REQUIRE(fi_tinject(client.ep.get(), bytes.data(), 4, to_server, 1) == 0);
  REQUIRE(fi_trecv(client.ep.get(), bytes.data(), 4, nullptr, to_server, 1, 0, &bytes) == 0);
}

TEST_CASE("NameService__a_thread_that_sleeps_is_woken_by_requests_and_answers") {
  const std::string threads = GENERATE("0", "1");
  const fi_wait_obj object = GENERATE(FI_WAIT_UNSPEC, FI_WAIT_FD);
  const Variables variables({{"FI_HAWSER_THREADS", threads}});
  NodeOptions from = client_options("127.0.0.1");
  NodeOptions to = server_options("127.0.0.1");
  from.wait_obj = to.wait_obj = object;
  Node client(from);
  const fi_addr_t to_server = insert_destination(client);
  int number = 6, got = -1;
  REQUIRE(fi_tsend(client.ep.get(), &number, 4, nullptr, to_server, 1, &number) == 0);
  std::atomic<ssize_t> answer{0};
  std::thread server([&] {
    Node node(to);
    if (fi_trecv(node.ep.get(), &got, 4, nullptr, FI_ADDR_UNSPEC, 1, 0, &got) != 0) return;
    fi_cq_tagged_entry entry{};
    answer = fi_cq_sread(node.cq.get(), &entry, 1, nullptr, kHangLimitMs);
  });
  fi_cq_tagged_entry entry{};
  CHECK(fi_cq_sread(client.cq.get(), &entry, 1, nullptr, kHangLimitMs) == 1);
  server.join();
  CHECK(answer == 1);
  CHECK(got == 6);
}

// The second endpoint hears of the answer to the first, and keeps its order.
TEST_CASE("NameService__endpoints_of_one_AV_share_what_was_answered") {
  const Variables variables;
  Node client(client_options("127.0.0.1"));
  fi_cq_attr attr{};
  attr.format = FI_CQ_FORMAT_TAGGED;
  fid_cq* opened_cq = nullptr;
  REQUIRE(fi_cq_open(client.domain.get(), &attr, &opened_cq, nullptr) == 0);
  const Owned<fid_cq> cq(opened_cq);
  fid_ep* opened = nullptr;
  REQUIRE(fi_endpoint(client.domain.get(), client.info.get(), &opened, nullptr) == 0);
  const Owned<fid_ep> second(opened);
  REQUIRE(fi_ep_bind(second.get(), &client.av->fid, 0) == 0);
  REQUIRE(fi_ep_bind(second.get(), &cq->fid, FI_TRANSMIT | FI_RECV) == 0);
  REQUIRE(fi_enable(second.get()) == 0);
  const fi_addr_t to_server = insert_destination(client);
  Numbers numbers(20);
  const auto send = [&](int i) {
    int& value = numbers.values[static_cast<std::size_t>(i)];
    REQUIRE(fi_tsend(second.get(), &value, 4, nullptr, to_server, 1, &value) == 0);
  };
  for (int i = 0; i < 10; ++i) send(i);
  int first = 99;
  REQUIRE(fi_tsend(client.ep.get(), &first, 4, nullptr, to_server, 2, &first) == 0);
  Node server(server_options("127.0.0.1"));
  CHECK(receive_one(server, client, FI_ADDR_UNSPEC, 2) == 99);
  for (int i = 10; i < 20; ++i) send(i);
  for (int i = 0; i < 20; ++i) {
    int got = -1;
    REQUIRE(fi_trecv(server.ep.get(), &got, 4, nullptr, FI_ADDR_UNSPEC, 1, 0, &got) == 0);
    CHECK(comes_true([&] {
      fi_cq_tagged_entry entry{};
      (void)fi_cq_read(cq.get(), &entry, 1);
      return server.look().answer == 1;
    }));
    CHECK(got == i);
  }
}
