// SPDX-License-Identifier: Apache-2.0
// Raw UDP on loopback: what the kernel gives to a program that adds nothing. A send passes up to 15
// segments of up to 4144 bytes with UDP_SEGMENT, from one message or several; a receive uses
// UDP_GRO. Both ends compute the CRC32C of each datagram as Hawser does (or none), and the receiver
// copies the payload to its place. A window of credits keeps the sender from overrunning the
// socket. Nothing is retransmitted: a lost datagram ends the stream with an error.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <vector>

#include "bench/compare/transport.hpp"
#include "proto/wire/checksum.hpp"

namespace hawser::bench {

namespace {

constexpr std::size_t kHeader = 48;
constexpr std::size_t kPayload = 4096;
constexpr std::size_t kSegments = 15;
constexpr std::uint64_t kWindowBytes = 1 << 20;

struct Header {
  std::uint64_t message = 0;
  std::uint32_t fragment = 0;
  std::uint32_t checksum = 0;
  std::array<std::byte, kHeader - 16> rest{};
};
static_assert(sizeof(Header) == kHeader);

class UdpTransport final : public Transport {
 public:
  explicit UdpTransport(const TransportOptions& options) : options_(options), slab_(65536) {
    socket_ = ::socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    sockaddr_in local{};
    local.sin_family = AF_INET;
    local.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const int ring = 4 << 20;
    const int one = 1;
    if (::setsockopt(socket_, SOL_SOCKET, SO_RCVBUFFORCE, &ring, sizeof ring) != 0 &&
        ::setsockopt(socket_, SOL_SOCKET, SO_RCVBUF, &ring, sizeof ring) != 0) {
      fail("SO_RCVBUF failed");
    }
    if (::setsockopt(socket_, SOL_UDP, UDP_GRO, &one, sizeof one) != 0 ||
        ::bind(socket_, reinterpret_cast<sockaddr*>(&local), sizeof local) != 0) {
      fail("UDP socket failed");
    }
  }
  ~UdpTransport() override { ::close(socket_); }
  UdpTransport(const UdpTransport&) = delete;
  UdpTransport& operator=(const UdpTransport&) = delete;

  [[nodiscard]] std::string address() const override {
    sockaddr_in local{};
    socklen_t bytes = sizeof local;
    if (::getsockname(socket_, reinterpret_cast<sockaddr*>(&local), &bytes) != 0) {
      fail("getsockname failed");
    }
    return std::to_string(ntohs(local.sin_port));
  }
  void connect(const std::string& peer) override {
    sockaddr_in remote{};
    remote.sin_family = AF_INET;
    remote.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    remote.sin_port = htons(static_cast<std::uint16_t>(std::stoi(peer)));
    if (::connect(socket_, reinterpret_cast<sockaddr*>(&remote), sizeof remote) != 0) {
      fail("UDP connect failed");
    }
  }

  void stream_out(std::span<const std::byte> message, std::uint64_t count) override {
    const std::uint64_t window = window_bytes(message.size());
    const std::uint64_t total = message.size() * count;
    std::uint64_t sent = 0;
    std::uint64_t credited = 0;
    Burst burst;
    for (std::uint64_t i = 0; i < count; ++i) {
      for (std::size_t at = 0; at < message.size(); at += kPayload) {
        const auto payload = message.subspan(at, std::min(kPayload, message.size() - at));
        // Send at half of the window: the receiver may withhold credit for a quarter of it.
        const bool is_much = burst.n > 0 && burst.bytes + payload.size() > window / 2;
        if (is_much || burst.is_full(payload.size())) sent += flush(burst, sent, credited, window);
        add(burst, i, at / kPayload, payload);
      }
    }
    sent += flush(burst, sent, credited, window);
    while (credited < total) credited += take_credit();
  }

  void stream_in(std::span<std::byte> buffer, std::uint64_t count) override {
    const std::uint64_t step = window_bytes(buffer.size()) / 4;
    const std::uint64_t total = buffer.size() * count;
    std::uint64_t received = 0;
    std::uint64_t credited = 0;
    while (received < total) {
      received += receive_burst(buffer);
      if (received - credited >= step || received == total) {
        const std::uint64_t credit = received - credited;
        credited = received;
        while (::send(socket_, &credit, sizeof credit, 0) < 0 && errno == EAGAIN) {
        }
      }
    }
  }

  void ping(std::span<std::byte> buffer, std::uint64_t count) override {
    for (std::uint64_t i = 0; i < count; ++i) {
      send_message(i, buffer);
      receive_message(buffer);
    }
  }
  void pong(std::span<std::byte> buffer, std::uint64_t count) override {
    for (std::uint64_t i = 0; i < count; ++i) {
      receive_message(buffer);
      send_message(i, buffer);
    }
  }

 private:
  // The datagrams of one send call. All are as long as the first; only the last may be shorter.
  struct Burst {
    std::array<Header, kSegments> headers;
    std::array<iovec, 2 * kSegments> pieces;
    std::size_t n = 0;
    std::size_t bytes = 0;  // of payload
    [[nodiscard]] std::size_t first() const { return pieces[1].iov_len; }
    [[nodiscard]] bool is_full(std::size_t next) const {
      return n == kSegments || (n > 0 && (next > first() || pieces[2 * n - 1].iov_len < first()));
    }
  };

  [[nodiscard]] std::uint64_t window_bytes(std::size_t message) const {
    return std::min<std::uint64_t>(kWindowBytes, options_.window_of(message) * message);
  }

  void add(Burst& burst, std::uint64_t message, std::size_t fragment,
           std::span<const std::byte> payload) {
    const std::size_t n = burst.n++;
    burst.headers[n] = Header{message, static_cast<std::uint32_t>(fragment), 0, {}};
    if (options_.checksum) burst.headers[n].checksum = sum(burst.headers[n], payload);
    burst.pieces[2 * n] = {&burst.headers[n], kHeader};
    burst.pieces[2 * n + 1] = {const_cast<std::byte*>(payload.data()), payload.size()};
    burst.bytes += payload.size();
  }

  // Waits until the window has room, sends, and returns the payload bytes that went out.
  std::uint64_t flush(Burst& burst, std::uint64_t sent, std::uint64_t& credited,
                      std::uint64_t window) {
    const std::size_t bytes = burst.bytes;
    while (sent + bytes > credited + window) credited += take_credit();
    send_burst(burst);
    return bytes;
  }

  void send_message(std::uint64_t number, std::span<const std::byte> message) {
    Burst burst;
    for (std::size_t at = 0; at < message.size(); at += kPayload) {
      if (burst.is_full(std::min(kPayload, message.size() - at))) send_burst(burst);
      add(burst, number, at / kPayload,
          message.subspan(at, std::min(kPayload, message.size() - at)));
    }
    send_burst(burst);
  }

  void receive_message(std::span<std::byte> buffer) {
    for (std::size_t received = 0; received < buffer.size();) received += receive_burst(buffer);
  }

  void send_burst(Burst& burst) {
    msghdr out{};
    out.msg_iov = burst.pieces.data();
    out.msg_iovlen = 2 * burst.n;
    alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(std::uint16_t))> control{};
    if (burst.n > 1) {
      out.msg_control = control.data();
      out.msg_controllen = control.size();
      cmsghdr* segment = CMSG_FIRSTHDR(&out);
      segment->cmsg_level = SOL_UDP;
      segment->cmsg_type = UDP_SEGMENT;
      segment->cmsg_len = CMSG_LEN(sizeof(std::uint16_t));
      const auto size = static_cast<std::uint16_t>(kHeader + burst.first());
      std::memcpy(CMSG_DATA(segment), &size, sizeof size);
    }
    while (::sendmsg(socket_, &out, 0) < 0) {
      if (errno != EAGAIN && errno != ENOBUFS) fail("UDP send failed");
    }
    burst.n = burst.bytes = 0;
  }

  // Checks one aggregate, copies its payload to its places, and returns the payload bytes.
  std::uint64_t receive_burst(std::span<std::byte> buffer) {
    const auto [bytes, segment] = receive();
    std::uint64_t payload_bytes = 0;
    for (std::size_t at = 0; at < bytes; at += segment) {
      const std::size_t size = std::min(segment, bytes - at);
      Header header;
      std::memcpy(&header, slab_.data() + at, kHeader);
      const std::span payload(slab_.data() + at + kHeader, size - kHeader);
      const std::uint32_t expected = header.checksum;
      header.checksum = 0;
      if (options_.checksum && sum(header, payload) != expected) fail("UDP: a checksum is wrong");
      const std::size_t place = std::size_t{header.fragment} * kPayload;
      if (place + payload.size() > buffer.size()) fail("UDP: a fragment is out of place");
      std::memcpy(buffer.data() + place, payload.data(), payload.size());
      payload_bytes += payload.size();
    }
    return payload_bytes;
  }

  std::uint64_t take_credit() {
    (void)receive();
    std::uint64_t credit = 0;
    std::memcpy(&credit, slab_.data(), sizeof credit);
    return credit;
  }

  struct Received {
    std::size_t bytes;
    std::size_t segment;
  };
  Received receive() {
    iovec piece{slab_.data(), slab_.size()};
    alignas(cmsghdr) std::array<char, 64> control{};
    for (Patience patience;;) {
      msghdr in{};
      in.msg_iov = &piece;
      in.msg_iovlen = 1;
      in.msg_control = control.data();
      in.msg_controllen = control.size();
      const ssize_t n = ::recvmsg(socket_, &in, 0);
      if (n < 0 && errno == EAGAIN) {
        patience.spend("UDP: a datagram was lost");
        continue;
      }
      if (n < 0) fail("UDP receive failed");
      auto segment = static_cast<std::size_t>(n);
      for (cmsghdr* c = CMSG_FIRSTHDR(&in); c != nullptr; c = CMSG_NXTHDR(&in, c)) {
        if (c->cmsg_level != SOL_UDP || c->cmsg_type != UDP_GRO) continue;
        int size = 0;
        std::memcpy(&size, CMSG_DATA(c), sizeof size);
        segment = static_cast<std::size_t>(size);
      }
      return {static_cast<std::size_t>(n), segment};
    }
  }

  static std::uint32_t sum(const Header& header, std::span<const std::byte> payload) {
    return proto::crc32c(payload, proto::crc32c(std::as_bytes(std::span(&header, 1))));
  }

  TransportOptions options_;
  int socket_ = -1;
  std::vector<std::byte> slab_;
};

}  // namespace

std::unique_ptr<Transport> make_udp(const TransportOptions& options) {
  return std::make_unique<UdpTransport>(options);
}

}  // namespace hawser::bench
