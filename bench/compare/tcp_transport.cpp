// SPDX-License-Identifier: Apache-2.0
// TCP on loopback, without framing: one call for each message at both ends. The receiver returns a
// byte for each quarter of the window, or for each message if the window is small.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "bench/compare/transport.hpp"

namespace hawser::bench {

namespace {

class TcpTransport final : public Transport {
 public:
  explicit TcpTransport(const TransportOptions& options) : options_(options) {
    if (!options_.server) return;
    listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in local{};
    local.sin_family = AF_INET;
    local.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (::bind(listener_, reinterpret_cast<sockaddr*>(&local), sizeof local) != 0 ||
        ::listen(listener_, 1) != 0) {
      fail("TCP listen failed");
    }
  }
  ~TcpTransport() override {
    if (socket_ >= 0) ::close(socket_);
    if (listener_ >= 0) ::close(listener_);
  }
  TcpTransport(const TcpTransport&) = delete;
  TcpTransport& operator=(const TcpTransport&) = delete;

  [[nodiscard]] std::string address() const override {
    if (!options_.server) return "-";
    sockaddr_in local{};
    socklen_t bytes = sizeof local;
    if (::getsockname(listener_, reinterpret_cast<sockaddr*>(&local), &bytes) != 0) {
      fail("getsockname failed");
    }
    return std::to_string(ntohs(local.sin_port));
  }

  void connect(const std::string& peer) override {
    if (options_.server) {
      socket_ = ::accept(listener_, nullptr, nullptr);
    } else {
      socket_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
      sockaddr_in remote{};
      remote.sin_family = AF_INET;
      remote.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
      remote.sin_port = htons(static_cast<std::uint16_t>(std::stoi(peer)));
      if (::connect(socket_, reinterpret_cast<sockaddr*>(&remote), sizeof remote) != 0) {
        fail("TCP connect failed");
      }
    }
    const int one = 1;
    if (socket_ < 0 || ::setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one) != 0) {
      fail("TCP connection failed");
    }
  }

  void stream_out(std::span<const std::byte> message, std::uint64_t count) override {
    const std::uint64_t window = options_.window_of(message.size());
    const std::uint64_t step = std::max<std::uint64_t>(window / 4, 1);
    std::byte answer{};
    std::uint64_t answered = 0;
    for (std::uint64_t i = 0; i < count; ++i) {
      for (; i >= answered + window; answered += step) read_all({&answer, 1});
      write_all(message);
    }
    for (; answered < count; answered += step) read_all({&answer, 1});
  }
  void stream_in(std::span<std::byte> buffer, std::uint64_t count) override {
    const std::uint64_t step = std::max<std::uint64_t>(options_.window_of(buffer.size()) / 4, 1);
    for (std::uint64_t i = 1; i <= count; ++i) {
      read_all(buffer);
      if (i % step == 0 || i == count) write_all(buffer.first(1));
    }
  }
  void ping(std::span<std::byte> buffer, std::uint64_t count) override {
    for (std::uint64_t i = 0; i < count; ++i) {
      write_all(buffer);
      read_all(buffer);
    }
  }
  void pong(std::span<std::byte> buffer, std::uint64_t count) override {
    for (std::uint64_t i = 0; i < count; ++i) {
      read_all(buffer);
      write_all(buffer);
    }
  }

 private:
  void write_all(std::span<const std::byte> bytes) {
    Patience patience;
    while (!bytes.empty()) {
      const ssize_t n = ::send(socket_, bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
      if (n > 0) {
        bytes = bytes.subspan(static_cast<std::size_t>(n));
        patience.renew();
        continue;
      }
      if (n < 0 && errno != EAGAIN) fail("TCP send failed");
      patience.spend("TCP send");
    }
  }
  void read_all(std::span<std::byte> bytes) {
    Patience patience;
    while (!bytes.empty()) {
      const ssize_t n = ::recv(socket_, bytes.data(), bytes.size(), MSG_DONTWAIT);
      if (n > 0) {
        bytes = bytes.subspan(static_cast<std::size_t>(n));
        patience.renew();
        continue;
      }
      if (n == 0 || errno != EAGAIN) fail("TCP receive failed");
      patience.spend("TCP receive");
    }
  }

  TransportOptions options_;
  int listener_ = -1;
  int socket_ = -1;
};

}  // namespace

std::unique_ptr<Transport> make_tcp(const TransportOptions& options) {
  return std::make_unique<TcpTransport>(options);
}

}  // namespace hawser::bench
