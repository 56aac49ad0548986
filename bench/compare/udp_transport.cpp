// Raw UDP on loopback: what the kernel gives to one that adds nothing. Sends of 15 segments of 4144
// bytes with UDP_SEGMENT, receives with UDP_GRO, CRC32C over each datagram at both ends as Hawser
// has it, a copy to the place in the message, and a window of credits so that the socket isn't
// overrun. Nothing is retransmitted: a lost datagram ends the run with an error.
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
#include "proto/checksum.hpp"

namespace hawser::bench {

namespace {

constexpr std::size_t kHeader = 48;
constexpr std::size_t kPayload = 4096;
constexpr std::size_t kSegments = 15;
constexpr std::uint64_t kWindowBytes = 1 << 20;
constexpr std::uint64_t kCreditBytes = 1 << 18;
constexpr std::uint64_t kMostIdleReads = 200000000;

struct Header {
  std::uint64_t message = 0;
  std::uint32_t fragment = 0;
  std::uint32_t checksum = 0;
  std::array<std::byte, kHeader - 16> rest{};
};
static_assert(sizeof(Header) == kHeader);

class UdpTransport final : public Transport {
 public:
  explicit UdpTransport(const TransportOptions& options)
      : checksum_(options.checksum), slab_(65536) {
    socket_ = ::socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0);
    sockaddr_in local{};
    local.sin_family = AF_INET;
    local.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const int ring = 4 << 20;
    const int one = 1;
    if (::setsockopt(socket_, SOL_SOCKET, SO_RCVBUFFORCE, &ring, sizeof ring) != 0 &&
        ::setsockopt(socket_, SOL_SOCKET, SO_RCVBUF, &ring, sizeof ring) != 0) {
      fail("SO_RCVBUF");
    }
    if (::setsockopt(socket_, SOL_UDP, UDP_GRO, &one, sizeof one) != 0 ||
        ::bind(socket_, reinterpret_cast<sockaddr*>(&local), sizeof local) != 0) {
      fail("UDP socket");
    }
  }
  ~UdpTransport() override { ::close(socket_); }
  UdpTransport(const UdpTransport&) = delete;
  UdpTransport& operator=(const UdpTransport&) = delete;

  [[nodiscard]] std::string address() const override {
    sockaddr_in local{};
    socklen_t bytes = sizeof local;
    if (::getsockname(socket_, reinterpret_cast<sockaddr*>(&local), &bytes) != 0) {
      fail("getsockname");
    }
    return std::to_string(ntohs(local.sin_port));
  }
  void connect(const std::string& peer) override {
    sockaddr_in remote{};
    remote.sin_family = AF_INET;
    remote.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    remote.sin_port = htons(static_cast<std::uint16_t>(std::stoi(peer)));
    if (::connect(socket_, reinterpret_cast<sockaddr*>(&remote), sizeof remote) != 0) {
      fail("UDP connect");
    }
  }

  void stream_out(std::span<const std::byte> message, std::uint64_t count) override {
    std::uint64_t sent = 0;
    std::uint64_t credited = 0;
    const std::uint64_t total = message.size() * count;
    for (std::uint64_t i = 0; i < count; ++i) {
      for (std::size_t at = 0; at < message.size(); at += kSegments * kPayload) {
        const std::size_t bytes = std::min(kSegments * kPayload, message.size() - at);
        while (sent + bytes > credited + kWindowBytes) credited += take_credit();
        send_burst(i, message.subspan(at, bytes), at / kPayload);
        sent += bytes;
      }
    }
    while (credited < total) credited += take_credit();
  }

  void stream_in(std::span<std::byte> buffer, std::uint64_t count) override {
    const std::uint64_t total = buffer.size() * count;
    std::uint64_t received = 0;
    std::uint64_t credited = 0;
    while (received < total) {
      received += receive_burst(buffer);
      if (received - credited >= kCreditBytes || received == total) {
        const std::uint64_t credit = received - credited;
        credited = received;
        while (::send(socket_, &credit, sizeof credit, 0) < 0 && errno == EAGAIN) {
        }
      }
    }
  }

  void ping(std::span<std::byte> buffer, std::uint64_t count) override {
    for (std::uint64_t i = 0; i < count; ++i) {
      send_burst(i, buffer, 0);
      (void)receive_burst(buffer);
    }
  }
  void pong(std::span<std::byte> buffer, std::uint64_t count) override {
    for (std::uint64_t i = 0; i < count; ++i) {
      (void)receive_burst(buffer);
      send_burst(i, buffer, 0);
    }
  }

 private:
  void send_burst(std::uint64_t message, std::span<const std::byte> bytes, std::size_t fragment) {
    std::array<Header, kSegments> headers;
    std::array<iovec, 2 * kSegments> pieces;
    std::size_t n = 0;
    for (std::size_t at = 0; at < bytes.size(); at += kPayload, ++n) {
      const auto payload = bytes.subspan(at, std::min(kPayload, bytes.size() - at));
      headers[n] = Header{message, static_cast<std::uint32_t>(fragment + n), 0, {}};
      if (checksum_) headers[n].checksum = sum(headers[n], payload);
      pieces[2 * n] = {&headers[n], kHeader};
      pieces[2 * n + 1] = {const_cast<std::byte*>(payload.data()), payload.size()};
    }
    msghdr out{};
    out.msg_iov = pieces.data();
    out.msg_iovlen = 2 * n;
    alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(std::uint16_t))> control{};
    if (n > 1) {
      out.msg_control = control.data();
      out.msg_controllen = control.size();
      cmsghdr* segment = CMSG_FIRSTHDR(&out);
      segment->cmsg_level = SOL_UDP;
      segment->cmsg_type = UDP_SEGMENT;
      segment->cmsg_len = CMSG_LEN(sizeof(std::uint16_t));
      const std::uint16_t size = kHeader + kPayload;
      std::memcpy(CMSG_DATA(segment), &size, sizeof size);
    }
    while (::sendmsg(socket_, &out, 0) < 0) {
      if (errno != EAGAIN && errno != ENOBUFS) fail("UDP send");
    }
  }

  // Payload bytes of one aggregate, checked and copied to their places.
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
      if (checksum_ && sum(header, payload) != expected) fail("UDP checksum");
      const std::size_t place = std::size_t{header.fragment} * kPayload;
      if (place + payload.size() > buffer.size()) fail("UDP fragment");
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
    for (std::uint64_t tries = 0; tries < kMostIdleReads; ++tries) {
      msghdr in{};
      in.msg_iov = &piece;
      in.msg_iovlen = 1;
      in.msg_control = control.data();
      in.msg_controllen = control.size();
      const ssize_t n = ::recvmsg(socket_, &in, 0);
      if (n < 0 && errno == EAGAIN) continue;
      if (n < 0) fail("UDP receive");
      auto segment = static_cast<std::size_t>(n);
      for (cmsghdr* c = CMSG_FIRSTHDR(&in); c != nullptr; c = CMSG_NXTHDR(&in, c)) {
        if (c->cmsg_level != SOL_UDP || c->cmsg_type != UDP_GRO) continue;
        int size = 0;
        std::memcpy(&size, CMSG_DATA(c), sizeof size);
        segment = static_cast<std::size_t>(size);
      }
      return {static_cast<std::size_t>(n), segment};
    }
    fail("UDP: a datagram was lost");
  }

  static std::uint32_t sum(const Header& header, std::span<const std::byte> payload) {
    return proto::crc32c(payload, proto::crc32c(std::as_bytes(std::span(&header, 1))));
  }

  bool checksum_;
  int socket_ = -1;
  std::vector<std::byte> slab_;
};

}  // namespace

std::unique_ptr<Transport> make_udp(const TransportOptions& options) {
  return std::make_unique<UdpTransport>(options);
}

}  // namespace hawser::bench
