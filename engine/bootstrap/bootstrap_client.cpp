// SPDX-License-Identifier: Apache-2.0
// A rank's side of the rendezvous.
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/bootstrap/bootstrap.hpp"
#include "engine/bootstrap/bootstrap_race.hpp"
#include "engine/bootstrap/bootstrap_wire.hpp"
#include "engine/cancellation.hpp"
#include "engine/clock.hpp"
#include "engine/system_error.hpp"

namespace hawser::engine {

using bootstrap::BodyReader;
using bootstrap::BodyWriter;
using bootstrap::Frame;
using bootstrap::FrameType;
using proto::milliseconds;
using proto::Time;

namespace {

// The server itself reports a timeout and the missing ranks. Its report may take this much longer.
constexpr auto kServerMayTake = milliseconds(3000);
constexpr auto kLeaveWithin = milliseconds(1000);
// A name's addresses may be out of date: a cluster may still publish those of a process that is
// gone. Each new look is a query of every rank to the name server.
constexpr auto kResolveAgain = milliseconds(3000);

// Returns false if the deadline passes first.
bool wait_for(const Descriptor& socket, short events, Time deadline) {
  for (;;) {
    const std::int64_t left_ms = ((deadline - monotonic_now()).ns + 999'999) / 1'000'000;
    if (left_ms <= 0) return false;
    pollfd fd{socket.get(), events, 0};
    const int ready = ::poll(&fd, 1, static_cast<int>(std::min<std::int64_t>(left_ms, 1'000'000)));
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) return false;
  }
}

// Retries until the deadline: a cluster may learn a host's name only when the process there starts.
std::vector<bootstrap::Endpoint> resolve_until(const std::string& address, Time deadline) {
  for (;;) {
    try {
      return bootstrap::resolve(address);
    } catch (const bootstrap::NameNotReady&) {
      if (monotonic_now() + milliseconds(bootstrap::kAskAgainMs) > deadline) throw;
    }
    ::poll(nullptr, 0, bootstrap::kAskAgainMs);
  }
}

// Resolves every address of the meeting.
std::vector<bootstrap::Endpoint> endpoints_of(const bootstrap::Meeting& meeting, Time deadline) {
  std::vector<bootstrap::Endpoint> all;
  for (const std::string& address : meeting.addresses) {
    std::ranges::move(resolve_until(address, deadline), std::back_inserter(all));
  }
  return all;
}

// The race for the meeting's addresses. It goes on while they stay the same, whatever their order:
// a new race would drop connections that a slow server is about to answer. A race without any way
// begins anew, as a name may lead elsewhere later.
class Search {
 public:
  Search(bootstrap::Meeting meeting, Time deadline)
      : meeting_(std::move(meeting)),
        deadline_(deadline),
        has_names_(std::ranges::any_of(meeting_.addresses, bootstrap::has_name)) {
    start(endpoints_of(meeting_, deadline_));
  }

  [[nodiscard]] Descriptor run() {
    for (;;) {
      const Time now = monotonic_now();
      const Time until = has_names_ ? proto::earlier(deadline_, now + kResolveAgain) : deadline_;
      Descriptor socket = race_->run(until);
      if (socket || until == deadline_) return socket;
      if (!race_->has_way()) rest_until(until);
      look_again();
    }
  }

  [[nodiscard]] const bootstrap::Race& race() const { return *race_; }

 private:
  void start(const std::vector<bootstrap::Endpoint>& endpoints) {
    // A name may lead to other programs: a predecessor's address, or a proxy that accepts anything.
    const bool asks = meeting_.nonce != 0 || has_names_ || endpoints.size() > 1;
    race_.emplace(endpoints, asks, meeting_.nonce);
    known_ = texts_of(endpoints);
  }

  static void rest_until(Time time) {
    const std::int64_t ms = std::max<std::int64_t>((time - monotonic_now()).ns / 1'000'000 + 1, 0);
    ::poll(nullptr, 0, static_cast<int>(ms));
  }

  void look_again() {
    try {
      const std::vector<bootstrap::Endpoint> endpoints = endpoints_of(meeting_, monotonic_now());
      if (!race_->has_way() || texts_of(endpoints) != known_) start(endpoints);
    } catch (const bootstrap::NameNotReady&) {  // the addresses so far are the best known
    }
  }

  static std::vector<std::string> texts_of(const std::vector<bootstrap::Endpoint>& endpoints) {
    std::vector<std::string> texts;
    for (const bootstrap::Endpoint& endpoint : endpoints) texts.push_back(text_of(endpoint));
    std::ranges::sort(texts);
    return texts;
  }

  bootstrap::Meeting meeting_;
  Time deadline_;
  bool has_names_;
  std::optional<bootstrap::Race> race_;
  std::vector<std::string> known_;
};

Descriptor connect_to(const std::string& text, std::uint32_t timeout_ms) {
  const bootstrap::Meeting meeting = bootstrap::parse_meeting(text);
  const std::string shown = text_of(bootstrap::Meeting{meeting.addresses, 0});
  Search search(meeting, monotonic_now() + milliseconds(timeout_ms));
  if (Descriptor socket = search.run()) {
    const int on = 1;
    static_cast<void>(::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on));
    return socket;
  }
  const bootstrap::Race& race = search.race();
  if (!race.has_way()) {
    throw BootstrapError(BootstrapFailure::unreachable,
                         "This host has no route to the rendezvous at " + shown + ": " +
                             race.reasons() +
                             "; check its interfaces (is lo up?), routes and firewall");
  }
  throw BootstrapError(BootstrapFailure::unreachable, "No rendezvous answers at " + shown +
                                                          " within " + std::to_string(timeout_ms) +
                                                          " ms: " + race.reasons() +
                                                          std::string(bootstrap::kWhereToLook));
}

[[noreturn]] void throw_failure(const Frame& frame) {
  BodyReader body(frame.body);
  const auto rank = body.number<std::uint32_t>();
  const std::string text = bootstrap::text_of(body.rest());
  throw BootstrapError(BootstrapFailure{frame.detail}, text,
                       rank == bootstrap::kNoRank ? std::optional<std::uint32_t>() : rank);
}

}  // namespace

Rendezvous::Rendezvous(const std::string& address, std::uint32_t rank, std::uint32_t size,
                       std::uint32_t timeout_ms)
    : address_(address), size_(size), socket_(connect_to(address, timeout_ms)) {
  const Time deadline = monotonic_now() + milliseconds(timeout_ms) + kServerMayTake;
  BodyWriter join;
  join.text(bootstrap::kMagic).number(rank).number(size);
  send(FrameType::join, 0, join.body(), deadline);
  const Frame welcome = receive(FrameType::welcome, deadline);
  BodyReader body(welcome.body);
  epoch_ = body.number<std::uint64_t>();
  const auto secret = body.bytes(bootstrap::kSecretBytes);
  secret_.assign(secret.begin(), secret.end());
  if (!body.good()) throw_gone("sent an invalid answer");
  if (const auto gathered = body.rest(); !gathered.empty()) last_round_ = blobs_of(gathered);
}

Rendezvous::~Rendezvous() {
  try {
    send(FrameType::leave, 0, {}, monotonic_now() + kLeaveWithin);
  } catch (const BootstrapError&) {  // the server is gone already
  }
}

std::vector<std::vector<std::byte>> Rendezvous::all_gather(std::span<const std::byte> blob,
                                                           std::uint32_t timeout_ms) {
  begin_all_gather(blob, timeout_ms);
  return blobs_of(receive(FrameType::gathered, round_deadline_).body);
}

std::optional<std::vector<std::vector<std::byte>>> Rendezvous::try_all_gather() {
  if (const auto gathered = take(FrameType::gathered)) return blobs_of(gathered->body);
  if (monotonic_now() > round_deadline_) throw_gone("doesn't answer");
  return std::nullopt;
}

void Rendezvous::begin_all_gather(std::span<const std::byte> blob, std::uint32_t timeout_ms) {
  post(0, blob, timeout_ms);
}

void Rendezvous::contribute(std::span<const std::byte> blob, std::uint32_t timeout_ms) {
  post(bootstrap::kNeedsNoBlobs, blob, timeout_ms);
  if (!receive(FrameType::gathered, round_deadline_).body.empty()) {
    throw_gone("sent an invalid answer");
  }
}

void Rendezvous::post(std::uint8_t detail, std::span<const std::byte> blob,
                      std::uint32_t timeout_ms) {
  if (blob.size() > kMaxBlobBytes) {
    throw BootstrapError(BootstrapFailure::size_mismatch,
                         "The rendezvous accepts blobs of " + std::to_string(kMaxBlobBytes) +
                             " bytes at most, not " + std::to_string(blob.size()));
  }
  round_deadline_ = monotonic_now() + milliseconds(timeout_ms) + kServerMayTake;
  BodyWriter body;
  body.number(timeout_ms).bytes(blob);
  send(FrameType::post, detail, body.body(), round_deadline_);
}

std::vector<std::vector<std::byte>> Rendezvous::blobs_of(
    std::span<const std::byte> gathered) const {
  BodyReader body(gathered);
  std::vector<std::vector<std::byte>> blobs(size_);
  for (std::vector<std::byte>& one : blobs) {
    const auto bytes = body.bytes(body.number<std::uint32_t>());
    one.assign(bytes.begin(), bytes.end());
  }
  if (!body.complete()) throw_gone("sent an invalid answer");
  return blobs;
}

void Rendezvous::abort(std::string_view reason) noexcept {
  const CancellationHold hold;
  try {
    BodyWriter body;
    body.text(reason.substr(0, kMaxBlobBytes));
    send(FrameType::abort, 0, body.body(), monotonic_now() + kLeaveWithin);
  } catch (...) {  // the other ranks will notice by themselves
  }
}

void Rendezvous::throw_gone(const std::string& what) const {
  throw BootstrapError(BootstrapFailure::unreachable, "The rendezvous at " + address_ + " " + what);
}

void Rendezvous::send(FrameType type, std::uint8_t detail, std::span<const std::byte> body,
                      Time deadline) {
  std::vector<std::byte> bytes;
  bootstrap::append_frame(bytes, type, detail, body);
  std::span<const std::byte> left(bytes);
  while (!left.empty()) {
    const ssize_t sent = ::send(socket_.get(), left.data(), left.size(), MSG_NOSIGNAL);
    if (sent >= 0) {
      left = left.subspan(static_cast<std::size_t>(sent));
    } else if (errno == EAGAIN) {
      if (!wait_for(socket_, POLLOUT, deadline)) throw_gone("accepts no more data");
    } else if (errno != EINTR) {
      // The server may have sent the reason before it closed.
      static_cast<void>(receive(FrameType::failed, monotonic_now() + kLeaveWithin));
    }
  }
}

// Waits for the next frame, which must be of this type. Throws the error that a FAILED frame
// reports.
Frame Rendezvous::receive(FrameType type, Time deadline) {
  for (;;) {
    if (auto frame = take(type)) return std::move(*frame);
    if (!wait_for(socket_, POLLIN, deadline)) throw_gone("doesn't answer");
  }
}

// The same without waiting: nothing if no whole frame is here.
std::optional<Frame> Rendezvous::take(FrameType type) {
  const std::size_t longest = std::size_t{size_} * (kMaxBlobBytes + 4) + 64;
  Frame frame;
  std::array<std::byte, 16384> bytes;
  for (;;) {
    const bootstrap::Parse parsed = bootstrap::take_frame(in_, longest, frame);
    if (parsed == bootstrap::Parse::bad) throw_gone("sent an invalid answer");
    if (parsed == bootstrap::Parse::complete) break;
    const ssize_t got = ::recv(socket_.get(), bytes.data(), bytes.size(), 0);
    if (got > 0) {
      in_.insert(in_.end(), bytes.begin(), bytes.begin() + got);
    } else if (got < 0 && errno == EAGAIN) {
      return std::nullopt;
    } else if (got == 0 || errno != EINTR) {
      throw_gone("closed the connection" + std::string(bootstrap::kWhereToLook));
    }
  }
  if (frame.type == FrameType::failed) throw_failure(frame);
  if (frame.type != type) throw_gone("sent an invalid answer");
  return frame;
}

}  // namespace hawser::engine
