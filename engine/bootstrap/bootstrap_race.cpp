// SPDX-License-Identifier: Apache-2.0
#include "engine/bootstrap/bootstrap_race.hpp"

#include <errno.h>
#include <net/if.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <system_error>

#include "engine/clock.hpp"

namespace hawser::engine::bootstrap {

using proto::kNever;
using proto::milliseconds;
using proto::Time;

namespace {

// RFC 8305's Connection Attempt Delay. A failed attempt lets the next one begin at once.
constexpr auto kStagger = milliseconds(250);
// Retry soon: the server may start after its ranks.
constexpr auto kRetry = milliseconds(20);
// Another program answers at that address, and must not be called all the time.
constexpr auto kRetryOther = milliseconds(500);
// Give up a connection after this long and make a new one. The kernel's own pauses between two SYNs
// grow to a minute.
constexpr auto kConnectWithin = milliseconds(4000);
// A route may be missing for this long, because a host that has just started is still getting its
// addresses and routes. An IPv6 address of its own is tentative for a second or two.
constexpr auto kWayMayBeMissing = milliseconds(1000);
constexpr auto kWayOfIpv6MayBeMissing = milliseconds(4000);

// True for errors of this host's own: it has no route there, or may not use it. Nothing that
// happens at the other end changes that.
bool leads_nowhere(int code) {
  return code == ENETUNREACH || code == ENETDOWN || code == EADDRNOTAVAIL || code == EAFNOSUPPORT ||
         code == EINVAL || code == EACCES || code == EPERM;
}

// True if the two ends of the connection are one. A connect to a port of this host where nobody
// listens may choose that port as its own source, and then meets itself (RFC 793, simultaneous
// open).
bool is_connected_to_itself(const Descriptor& socket) {
  Endpoint own, other;
  own.bytes = other.bytes = sizeof own.storage;
  return ::getsockname(socket.get(), own.get(), &own.bytes) == 0 &&
         ::getpeername(socket.get(), other.get(), &other.bytes) == 0 && own.bytes == other.bytes &&
         std::memcmp(&own.storage, &other.storage, own.bytes) == 0;
}

// Lets the socket's close send a reset. The port is free at once, without TIME_WAIT.
void close_by_reset(Descriptor& socket) {
  const linger at_once{.l_onoff = 1, .l_linger = 0};
  static_cast<void>(::setsockopt(socket.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once));
  socket.reset();
}

// True if the address belongs to this host itself.
bool is_own(const Endpoint& endpoint) {
  const Descriptor socket(::socket(endpoint.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  Endpoint any_port = endpoint;
  set_port(any_port, 0);
  return socket && ::bind(socket.get(), any_port.get(), any_port.bytes) == 0;
}

// True if packets to the address stay on this host: the kernel gives them the same address as their
// source. Unlike bind, this holds with ip_nonlocal_bind, too.
bool stays_here(const Endpoint& endpoint) {
  if (is_loopback(endpoint)) return true;
  const Descriptor socket(::socket(endpoint.storage.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  Endpoint own, other;
  own.bytes = other.bytes = sizeof own.storage;
  if (!socket || ::connect(socket.get(), endpoint.get(), endpoint.bytes) != 0 ||
      ::getsockname(socket.get(), own.get(), &own.bytes) != 0 ||
      ::getpeername(socket.get(), other.get(), &other.bytes) != 0) {
    return false;
  }
  set_port(own, 0);
  set_port(other, 0);
  return own.bytes == other.bytes && std::memcmp(&own.storage, &other.storage, own.bytes) == 0;
}

// True if the way to this address is lo, and lo is down. The kernel then drops all packets, and
// connect does not fail.
bool is_behind_lo_that_is_down(const Descriptor& socket, const Endpoint& endpoint) {
  ifreq request{};
  std::strcpy(request.ifr_name, "lo");
  const bool is_down = ::ioctl(socket.get(), SIOCGIFFLAGS, &request) == 0 &&
                       (static_cast<unsigned>(request.ifr_flags) & IFF_UP) == 0;
  return is_down && stays_here(endpoint);
}

}  // namespace

Race::Race(const std::vector<Endpoint>& endpoints, bool asks, std::uint64_t nonce)
    : asks_(asks), nonce_(nonce), had_way_(monotonic_now()) {
  Time start_at = had_way_;
  for (const Endpoint& endpoint : endpoints) {
    Attempt attempt;
    attempt.endpoint = endpoint;
    attempt.start_at = start_at;
    attempts_.push_back(std::move(attempt));
    start_at = start_at + kStagger;
  }
}

Descriptor Race::run(Time deadline) {
  has_way_ = true;
  for (;;) {
    const Time now = monotonic_now();
    for (Attempt& attempt : attempts_) {
      if (attempt.state == State::idle && now >= attempt.start_at) start(attempt, now);
      if (step(attempt, now)) return std::move(attempt.socket);
    }
    if (lacks_way(now)) {
      has_way_ = false;
      return {};
    }
    if (now >= deadline) return {};
    wait(now, deadline);
  }
}

void Race::start(Attempt& attempt, Time now) {
  attempt.was_started = true;
  const int family = attempt.endpoint.storage.ss_family;
  attempt.socket = Descriptor(::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  attempt.in.clear();
  if (!attempt.socket) return fail(attempt, errno, now);
  attempt.state = State::connecting;
  attempt.give_up_at = now + kConnectWithin;
  if (is_behind_lo_that_is_down(attempt.socket, attempt.endpoint)) {
    return fail(attempt, ENETDOWN, now);
  }
  if (::connect(attempt.socket.get(), attempt.endpoint.get(), attempt.endpoint.bytes) != 0 &&
      errno != EINPROGRESS) {
    fail(attempt, errno, now);
  }
}

void Race::fail(Attempt& attempt, int code, Time now) {
  attempt.state = State::idle;
  attempt.code = code;
  attempt.is_other = false;
  attempt.start_at = now + kRetry;
  attempt.give_up_at = kNever;
  attempt.socket.reset();
  const auto next = std::ranges::find(attempts_, false, &Attempt::was_started);
  if (next != attempts_.end()) next->start_at = now;
}

void Race::be_told_other(Attempt& attempt, Time now) {
  fail(attempt, 0, now);
  attempt.is_other = true;
  attempt.start_at = now + kRetryOther;
}

// Returns true when this attempt has won.
bool Race::step(Attempt& attempt, Time now) {
  if (attempt.state == State::connecting) return take_connection(attempt, now);
  return attempt.state == State::asking && take_answer(attempt, now);
}

bool Race::take_connection(Attempt& attempt, Time now) {
  pollfd fd{attempt.socket.get(), POLLOUT, 0};
  if (::poll(&fd, 1, 0) <= 0) {
    if (now >= attempt.give_up_at) fail(attempt, ETIMEDOUT, now);
    return false;
  }
  int code = 0;
  socklen_t bytes = sizeof code;
  if (::getsockopt(attempt.socket.get(), SOL_SOCKET, SO_ERROR, &code, &bytes) != 0) code = errno;
  if (code != 0) {
    fail(attempt, code, now);
    return false;
  }
  if (is_connected_to_itself(attempt.socket)) {
    close_by_reset(attempt.socket);  // the server may be about to listen at this port
    fail(attempt, ECONNREFUSED, now);
    return false;
  }
  return !asks_ || ask(attempt, now);
}

// Sends HELLO. Returns false if the answer is still to come.
bool Race::ask(Attempt& attempt, Time now) {
  BodyWriter body;
  body.text(kMagic).number(nonce_);
  std::vector<std::byte> hello;
  append_frame(hello, FrameType::hello, 0, body.body());
  // A new connection's send buffer is empty and has room for these few bytes.
  const ssize_t sent = ::send(attempt.socket.get(), hello.data(), hello.size(), MSG_NOSIGNAL);
  if (sent != static_cast<ssize_t>(hello.size())) {
    be_told_other(attempt, now);
    return false;
  }
  attempt.state = State::asking;
  attempt.give_up_at = kNever;  // a busy server may be slow, and other attempts go on meanwhile
  return take_answer(attempt, now);
}

bool Race::take_answer(Attempt& attempt, Time now) {
  Frame frame;
  std::array<std::byte, 64> bytes;
  for (;;) {
    switch (take_frame(attempt.in, kHereBytes, frame)) {
      case Parse::incomplete: break;
      case Parse::bad: be_told_other(attempt, now); return false;
      case Parse::complete: {
        BodyReader body(frame.body);
        const bool is_here =
            frame.type == FrameType::here && body.number<std::uint64_t>() == nonce_;
        if (!is_here || !body.complete()) be_told_other(attempt, now);
        return attempt.state == State::asking;
      }
    }
    const ssize_t got = ::recv(attempt.socket.get(), bytes.data(), bytes.size(), 0);
    if (got > 0) {
      attempt.in.insert(attempt.in.end(), bytes.begin(), bytes.begin() + got);
    } else if (got < 0 && errno == EAGAIN) {
      return false;
    } else if (got == 0 || errno != EINTR) {
      be_told_other(attempt, now);
      return false;
    }
  }
}

void Race::wait(Time now, Time deadline) {
  std::vector<pollfd> fds;
  Time next = deadline;
  for (const Attempt& attempt : attempts_) {
    if (attempt.state == State::idle) {
      next = proto::earlier(next, attempt.start_at);
    } else {
      const short events = attempt.state == State::connecting ? POLLOUT : POLLIN;
      fds.push_back({attempt.socket.get(), events, 0});
      next = proto::earlier(next, attempt.give_up_at);
    }
  }
  const std::int64_t ms = std::max<std::int64_t>((next - now).ns, 0) / 1'000'000 + 1;
  ::poll(fds.data(), fds.size(), static_cast<int>(std::min<std::int64_t>(ms, 1000)));
}

bool Race::lacks_way(Time now) {
  const bool is_any_on_the_way = std::ranges::any_of(attempts_, [](const Attempt& attempt) {
    return !attempt.was_started || attempt.state != State::idle || !leads_nowhere(attempt.code);
  });
  if (is_any_on_the_way) had_way_ = now;
  const bool has_v6 = std::ranges::any_of(attempts_, [](const Attempt& attempt) {
    return attempt.endpoint.storage.ss_family == AF_INET6;
  });
  return now - had_way_ > (has_v6 ? kWayOfIpv6MayBeMissing : kWayMayBeMissing);
}

std::string Race::reason_of(const Attempt& attempt) const {
  std::string text;
  if (attempt.state == State::asking) {
    text = "a program there accepts the connection but does not answer";
  } else if (attempt.is_other) {
    text = "another program answers there";
  } else if (!attempt.was_started) {
    text = "there was no time to try it";
  } else {
    const bool is_silent = attempt.state == State::connecting || attempt.code == 0;
    text = std::generic_category().message(is_silent ? ETIMEDOUT : attempt.code);
  }
  if (attempts_.size() > 1 && is_own(attempt.endpoint)) {
    text += " (this host has that address itself)";
  }
  return text;
}

std::string Race::reasons() const {
  if (attempts_.size() == 1) return reason_of(attempts_.front());
  std::string text;
  for (const Attempt& attempt : attempts_) {
    text += (text.empty() ? "" : "; ") + text_of(attempt.endpoint) + ": " + reason_of(attempt);
  }
  return text;
}

}  // namespace hawser::engine::bootstrap
