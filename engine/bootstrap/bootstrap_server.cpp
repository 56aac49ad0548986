// SPDX-License-Identifier: Apache-2.0
// The server of a rendezvous: one thread, one poll loop, a handful of bytes per rank.
#include <errno.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <list>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "engine/background_thread.hpp"
#include "engine/bootstrap/bootstrap.hpp"
#include "engine/bootstrap/bootstrap_wire.hpp"
#include "engine/bootstrap/send_queue.hpp"
#include "engine/cancellation.hpp"
#include "engine/clock.hpp"
#include "engine/entropy.hpp"
#include "engine/log.hpp"
#include "engine/system_error.hpp"

namespace hawser::engine {

using bootstrap::BodyReader;
using bootstrap::BodyWriter;
using bootstrap::Frame;
using bootstrap::FrameType;
using bootstrap::kNoRank;
using proto::kNever;
using proto::milliseconds;
using proto::Time;

namespace {

// A connection that has not joined within this time does not belong to this job.
constexpr auto kJoinWithin = milliseconds(10000);
// Time that the destructor waits for answers to leave.
constexpr auto kFlushWithin = milliseconds(2000);
// Time that it then waits for ranks that were told to go.
constexpr auto kGoWithin = milliseconds(200);
// Connections beyond the job's own: strangers, and ranks that reconnect.
constexpr std::size_t kExtraConnections = 64;
// Descriptors of this process beyond its connections.
constexpr std::size_t kOtherDescriptors = 64;
// After a connection could not be accepted, the next attempt waits for this long: the listener
// stays readable meanwhile.
constexpr auto kAcceptAgain = milliseconds(100);
// Reads of one connection per turn. A rank's longest frame takes fewer.
constexpr int kMostReads = 16;
constexpr std::size_t kReadBytes = 16384;
static_assert(kMostReads * kReadBytes >= bootstrap::kHeadBytes + bootstrap::kMaxBodyFromRank);

// "Rank 3", "Ranks 0, 2 and 5", "Ranks 0, 1, 2 and 29 more".
std::string name_ranks(const std::vector<std::uint32_t>& ranks) {
  constexpr std::size_t kNamed = 8;
  const std::size_t named = ranks.size() > kNamed + 1 ? kNamed : ranks.size();
  std::string text = ranks.size() == 1 ? "Rank " : "Ranks ";
  for (std::size_t i = 0; i < named; ++i) {
    if (i > 0) text += i + 1 == named && named == ranks.size() ? " and " : ", ";
    text += std::to_string(ranks[i]);
  }
  if (named < ranks.size()) text += " and " + std::to_string(ranks.size() - named) + " more";
  return text;
}

void check_size(std::uint32_t size) {
  if (size > 0 && size <= kMaxJobSize) return;
  throw BootstrapError(
      BootstrapFailure::size_mismatch,
      "A job has 1 to " + std::to_string(kMaxJobSize) + " ranks, not " + std::to_string(size));
}

// Raises the soft limit of open files to the hard one if the job may need more. A launcher also has
// a pipe per rank.
void make_room_for(std::uint32_t ranks) {
  const rlim_t needed = 2 * rlim_t{ranks} + kExtraConnections + kOtherDescriptors;
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= needed) return;
  limit.rlim_cur = limit.rlim_max;
  static_cast<void>(::setrlimit(RLIMIT_NOFILE, &limit));
}

}  // namespace

class RendezvousServer::Service {
 public:
  Service(Descriptor listener, bootstrap::Meeting meeting, std::uint32_t size,
          const std::vector<std::uint32_t>& may_return);
  ~Service();
  [[nodiscard]] const std::string& address() const { return address_; }
  void will_not_return(std::uint32_t rank);

 private:
  struct Connection {
    Descriptor socket;
    std::uint32_t rank = kNoRank;
    bool ending = false;    // its last frame is queued
    Time gone_by = kNever;  // closed at this time at the latest, or when the rank has closed
    bool gone = false;
    bool has_asked = false;  // has sent HELLO
    std::vector<std::byte> in;
    bootstrap::SendQueue out;
  };
  struct Rank {
    Connection* connection = nullptr;
    bool left = false;
    std::uint32_t lives = 0;       // number of processes of this rank that have ended
    std::uint32_t may_return = 0;  // how often the rank may still join again
    bool posted = false;           // in the present round
    bool needs_blobs = true;       // those of the present round
    Time deadline = kNever;
    std::uint32_t timeout_ms = 0;
    std::vector<std::byte> blob;
  };

  void run();
  void wait(Time now);
  void accept_all(Time now);
  void rest_from_accepting(Time now, int code);
  void read(Connection& connection, Time now);
  void write(Connection& connection);
  void handle(Connection& connection, const Frame& frame, Time now);
  void answer_hello(Connection& connection, BodyReader body);
  void join(Connection& connection, BodyReader body);
  void post(Connection& connection, const Frame& frame, Time now);
  void leave(Connection& connection);
  void end(Connection& connection);
  void lose(Connection& connection);
  [[nodiscard]] std::vector<std::uint32_t> take_gone();
  void give_up_process(std::uint32_t number);
  void give_up(std::uint32_t number);
  void wake();
  void answer_round();
  void expire(Time now);
  void refuse(Connection& connection, BootstrapFailure failure, std::uint32_t rank,
              const std::string& text);
  void fail_job(BootstrapFailure failure, std::uint32_t rank, const std::string& text);
  [[nodiscard]] bool done(proto::Duration after) const;

  std::uint64_t nonce_;
  std::string address_;
  std::uint32_t size_;
  std::uint64_t epoch_;
  std::array<std::byte, bootstrap::kSecretBytes> secret_{};
  Descriptor listener_;
  Time accepts_at_{};  // not before
  bool told_shortage_ = false;
  Descriptor wake_event_;
  std::list<Connection> connections_;
  std::vector<Rank> ranks_;
  bootstrap::SharedFrame last_gathered_;  // with all blobs; null before the first round
  std::size_t posted_ = 0;
  bool failed_ = false;
  BootstrapFailure failure_kind_{};
  std::uint32_t failed_rank_ = kNoRank;
  std::string failure_text_;
  std::atomic<bool> stop_{false};
  std::mutex told_mutex_;
  std::vector<std::uint32_t> told_gone_;  // by other threads; under told_mutex_
  std::thread thread_;
};

// The addresses of the meeting get the listener's port.
RendezvousServer::Service::Service(Descriptor listener, bootstrap::Meeting meeting,
                                   std::uint32_t size, const std::vector<std::uint32_t>& may_return)
    : nonce_(meeting.nonce),
      size_(size),
      epoch_(wall_clock_ns()),
      listener_(std::move(listener)),
      wake_event_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)),
      ranks_(size) {
  if (!wake_event_) throw system_error("An event descriptor can't be opened");
  make_room_for(size);
  for (std::string& address : meeting.addresses) {
    address = bootstrap::with_port(address, bootstrap::port_of(listener_));
  }
  address_ = text_of(meeting);
  fill_random(secret_);
  for (const std::uint32_t rank : may_return) ++ranks_.at(rank).may_return;
  thread_ = start_background_thread("hawser-rendez", [this] { run(); });
}

RendezvousServer::Service::~Service() {
  const CancellationHold hold;
  stop_.store(true);
  wake();
  thread_.join();
}

void RendezvousServer::Service::wake() {
  const CancellationHold hold;
  const std::uint64_t one = 1;
  static_cast<void>(!::write(wake_event_.get(), &one, sizeof one));
}

void RendezvousServer::Service::will_not_return(std::uint32_t rank) {
  if (rank >= size_) return;
  {
    const std::scoped_lock lock(told_mutex_);
    told_gone_.push_back(rank);
  }
  wake();
}

void RendezvousServer::Service::run() {
  Time now = monotonic_now();
  Time stopped = kNever;
  bool stopping = false;  // value before the last reading: all that was sent until then is known
  for (;;) {
    if (stopping && stopped == kNever) {
      stopped = now;
      listener_.reset();
      if (posted_ > 0) {
        fail_job(BootstrapFailure::unreachable, kNoRank,
                 "The rendezvous at " + address_ + " ended" + std::string(bootstrap::kWhereToLook));
      }
    }
    if (stopped != kNever && (now >= stopped + kFlushWithin || done(now - stopped))) return;
    wait(now);
    now = monotonic_now();
    stopping = stop_.load();
    if (listener_) accept_all(now);
    const std::vector<std::uint32_t> gone = take_gone();  // before reading: some have sent LEAVE
    for (Connection& connection : connections_) read(connection, now);
    for (const std::uint32_t rank : gone) give_up_process(rank);
    expire(now);
    for (Connection& connection : connections_) write(connection);
    connections_.remove_if([](const Connection& connection) { return connection.gone; });
  }
}

// True if all answers have left, and ranks that got their last frame have had time to close.
bool RendezvousServer::Service::done(proto::Duration after) const {
  return std::ranges::all_of(connections_, [&](const Connection& connection) {
    return connection.out.empty() && (!connection.ending || after >= kGoWithin);
  });
}

void RendezvousServer::Service::wait(Time now) {
  std::vector<pollfd> fds;
  fds.push_back({wake_event_.get(), POLLIN, 0});
  const bool full = connections_.size() >= size_ + kExtraConnections;
  Time next = stop_.load() ? now + milliseconds(50) : kNever;
  if (listener_ && now < accepts_at_) {
    next = proto::earlier(next, accepts_at_);
  } else if (listener_ && !full) {
    fds.push_back({listener_.get(), POLLIN, 0});
  }
  for (const Connection& connection : connections_) {
    const auto events = static_cast<short>(POLLIN | (connection.out.empty() ? 0 : POLLOUT));
    fds.push_back({connection.socket.get(), events, 0});
    next = proto::earlier(next, connection.gone_by);
  }
  for (const Rank& rank : ranks_) next = proto::earlier(next, rank.deadline);
  std::int64_t timeout_ms = -1;
  if (next != kNever) timeout_ms = std::max<std::int64_t>(0, (next - now).ns / 1'000'000 + 1);
  ::poll(fds.data(), fds.size(), static_cast<int>(std::min<std::int64_t>(timeout_ms, 3'600'000)));
  std::uint64_t wakes = 0;
  static_cast<void>(!::read(wake_event_.get(), &wakes, sizeof wakes));
}

void RendezvousServer::Service::accept_all(Time now) {
  if (now < accepts_at_) return;
  while (connections_.size() < size_ + kExtraConnections) {
    Descriptor socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!socket) return rest_from_accepting(now, errno);
    connections_.emplace_back();
    connections_.back().socket = std::move(socket);
    connections_.back().gone_by = now + kJoinWithin;
  }
}

void RendezvousServer::Service::rest_from_accepting(Time now, int code) {
  if (code == EAGAIN || code == EINTR || code == ECONNABORTED) return;
  accepts_at_ = now + kAcceptAgain;
  if (std::exchange(told_shortage_, true)) return;
  log_warning("The rendezvous at " + address_ + " can't accept a connection, and tries again: " +
              std::generic_category().message(code) + advice_on(code));
}

void RendezvousServer::Service::read(Connection& connection, Time now) {
  std::array<std::byte, kReadBytes> bytes;
  for (int i = 0; i < kMostReads && !connection.gone; ++i) {
    const ssize_t got = ::recv(connection.socket.get(), bytes.data(), bytes.size(), 0);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (got <= 0) return lose(connection);
    // Drop input after our last frame. Closing with unread input resets the connection, and the
    // frame could be lost.
    if (connection.ending) continue;
    connection.in.insert(connection.in.end(), bytes.begin(), bytes.begin() + got);
    Frame frame;
    auto parsed = bootstrap::Parse::complete;
    while (!connection.ending && !connection.gone &&
           (parsed = bootstrap::take_frame(connection.in, bootstrap::kMaxBodyFromRank, frame)) ==
               bootstrap::Parse::complete) {
      handle(connection, frame, now);
    }
    if (parsed == bootstrap::Parse::bad) return lose(connection);
  }
}

void RendezvousServer::Service::write(Connection& connection) {
  while (!connection.out.empty() && !connection.gone) {
    const std::span<const std::byte> next = connection.out.next();
    const ssize_t sent = ::send(connection.socket.get(), next.data(), next.size(), MSG_NOSIGNAL);
    if (sent < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (sent <= 0) return lose(connection);
    connection.out.drop(static_cast<std::size_t>(sent));
  }
}

void RendezvousServer::Service::handle(Connection& connection, const Frame& frame, Time now) {
  BodyReader body(frame.body);
  if (frame.type == FrameType::hello && connection.rank == kNoRank) {
    return answer_hello(connection, body);
  }
  if (frame.type == FrameType::join && connection.rank == kNoRank) return join(connection, body);
  if (connection.rank == kNoRank) return lose(connection);
  switch (frame.type) {
    case FrameType::post: return post(connection, frame, now);
    case FrameType::leave: return leave(connection);
    case FrameType::abort:
      return fail_job(
          BootstrapFailure::aborted, connection.rank,
          name_ranks({connection.rank}) + " gave up: " + bootstrap::text_of(body.rest()));
    default: return lose(connection);
  }
}

void RendezvousServer::Service::answer_hello(Connection& connection, BodyReader body) {
  const std::string magic = bootstrap::text_of(body.bytes(bootstrap::kMagic.size()));
  const auto nonce = body.number<std::uint64_t>();
  const bool is_meant =
      magic == bootstrap::kMagic && body.complete() && (nonce == 0 || nonce == nonce_);
  if (!is_meant || std::exchange(connection.has_asked, true)) return lose(connection);
  connection.out.append(FrameType::here, 0, BodyWriter().number(nonce).body());
}

void RendezvousServer::Service::join(Connection& connection, BodyReader body) {
  const std::string magic = bootstrap::text_of(body.bytes(bootstrap::kMagic.size()));
  const auto rank = body.number<std::uint32_t>();
  const auto size = body.number<std::uint32_t>();
  if (magic != bootstrap::kMagic || !body.complete()) return lose(connection);
  if (size != size_) {
    return refuse(connection, BootstrapFailure::size_mismatch, rank,
                  name_ranks({rank}) + " expects a job of " + std::to_string(size) +
                      " ranks, but the rendezvous at " + address_ + " serves " +
                      std::to_string(size_));
  }
  if (rank >= size_) {
    return refuse(connection, BootstrapFailure::rank_out_of_range, rank,
                  "A job of " + std::to_string(size_) + " has no rank " + std::to_string(rank));
  }
  if (failed_) return refuse(connection, failure_kind_, failed_rank_, failure_text_);
  if (ranks_[rank].connection != nullptr || ranks_[rank].left) {
    return refuse(connection, BootstrapFailure::rank_taken, rank,
                  "Another process is rank " + std::to_string(rank) + " at the rendezvous at " +
                      address_ + " already");
  }
  connection.rank = rank;
  connection.gone_by = kNever;
  ranks_[rank].connection = &connection;
  BodyWriter welcome;
  welcome.number(epoch_ + ranks_[rank].lives).bytes(secret_);
  if (ranks_[rank].lives > 0 && last_gathered_) {
    welcome.bytes(std::span(*last_gathered_).subspan(bootstrap::kHeadBytes));
  }
  connection.out.append(FrameType::welcome, 0, welcome.body());
}

void RendezvousServer::Service::post(Connection& connection, const Frame& frame, Time now) {
  Rank& rank = ranks_[connection.rank];
  BodyReader body(frame.body);
  rank.timeout_ms = body.number<std::uint32_t>();
  const auto blob = body.rest();
  if (!body.good() || rank.posted) return lose(connection);
  rank.posted = true;
  rank.needs_blobs = frame.detail != bootstrap::kNeedsNoBlobs;
  rank.deadline = now + milliseconds(rank.timeout_ms);
  rank.blob.assign(blob.begin(), blob.end());
  ++posted_;
  for (std::uint32_t other = 0; other < size_; ++other) {
    if (!ranks_[other].left) continue;
    return fail_job(BootstrapFailure::rank_left, other,
                    name_ranks({other}) + " has left, but other ranks wait for it");
  }
  if (posted_ == size_) answer_round();
}

void RendezvousServer::Service::answer_round() {
  BodyWriter all;
  for (const Rank& rank : ranks_) {
    all.number(static_cast<std::uint32_t>(rank.blob.size())).bytes(rank.blob);
  }
  auto gathered = std::make_shared<std::vector<std::byte>>();
  bootstrap::append_frame(*gathered, FrameType::gathered, 0, all.body());
  last_gathered_ = std::move(gathered);
  for (Rank& rank : ranks_) {
    if (rank.needs_blobs) {
      rank.connection->out.append(last_gathered_);
    } else {
      rank.connection->out.append(FrameType::gathered, 0, {});
    }
    rank.posted = false;
    rank.deadline = kNever;
    rank.blob = std::vector<std::byte>();  // gives its memory back
  }
  posted_ = 0;
}

void RendezvousServer::Service::leave(Connection& connection) {
  Rank& rank = ranks_[connection.rank];
  rank.left = true;
  rank.connection = nullptr;
  const std::uint32_t number = std::exchange(connection.rank, kNoRank);
  end(connection);
  if (posted_ > 0) {
    fail_job(BootstrapFailure::rank_left, number,
             name_ranks({number}) + " has left, but other ranks wait for it");
  }
}

// Ends a connection that has closed, or that carried bytes outside of this format.
void RendezvousServer::Service::lose(Connection& connection) {
  connection.gone = true;
  if (connection.rank == kNoRank) return;
  const std::uint32_t number = std::exchange(connection.rank, kNoRank);
  Rank& rank = ranks_[number];
  rank.connection = nullptr;
  if (std::exchange(rank.posted, false)) --posted_;
  rank.deadline = kNever;
  if (rank.may_return > 0) {
    --rank.may_return;
    ++rank.lives;
    return;  // its place is free; ranks that need it wait until their timeout
  }
  give_up(number);
}

void RendezvousServer::Service::give_up(std::uint32_t number) {
  ranks_[number].left = true;
  fail_job(BootstrapFailure::rank_left, number,
           name_ranks({number}) + " ended without leaving the rendezvous");
}

std::vector<std::uint32_t> RendezvousServer::Service::take_gone() {
  const std::scoped_lock lock(told_mutex_);
  return std::exchange(told_gone_, {});
}

void RendezvousServer::Service::give_up_process(std::uint32_t number) {
  Rank& rank = ranks_[number];
  rank.may_return = 0;
  if (rank.connection != nullptr) {
    lose(*rank.connection);
  } else if (!rank.left) {
    give_up(number);
  }
}

void RendezvousServer::Service::expire(Time now) {
  for (Connection& connection : connections_) {
    if (now >= connection.gone_by) connection.gone = true;
  }
  const auto waiting =
      std::ranges::find_if(ranks_, [&](const Rank& rank) { return now >= rank.deadline; });
  if (waiting == ranks_.end()) return;
  std::vector<std::uint32_t> missing;
  for (std::uint32_t rank = 0; rank < size_; ++rank) {
    if (!ranks_[rank].posted) missing.push_back(rank);
  }
  fail_job(BootstrapFailure::timeout, missing.front(),
           name_ranks(missing) + " did not reach the rendezvous at " + address_ + " within " +
               std::to_string(waiting->timeout_ms) + " ms");
}

void RendezvousServer::Service::refuse(Connection& connection, BootstrapFailure failure,
                                       std::uint32_t rank, const std::string& text) {
  BodyWriter body;
  body.number(rank).text(text);
  connection.out.append(FrameType::failed, static_cast<std::uint8_t>(failure), body.body());
  end(connection);
}

void RendezvousServer::Service::end(Connection& connection) {
  connection.ending = true;
  connection.gone_by = monotonic_now() + kFlushWithin;
}

// Fails the job, once. All ranks that are here, and all that come later, get FAILED.
void RendezvousServer::Service::fail_job(BootstrapFailure failure, std::uint32_t rank,
                                         const std::string& text) {
  if (failed_) return;
  failed_ = true;
  failure_kind_ = failure;
  failed_rank_ = rank;
  failure_text_ = text;
  for (Rank& member : ranks_) {
    member.posted = false;
    member.deadline = kNever;
    if (member.connection == nullptr) continue;
    refuse(*member.connection, failure, rank, text);
    member.connection->rank = kNoRank;
    member.connection = nullptr;
    member.left = true;
  }
  posted_ = 0;
}

RendezvousServer::RendezvousServer(const std::string& address, std::uint32_t size,
                                   const std::vector<std::uint32_t>& may_return,
                                   std::uint32_t timeout_ms) {
  check_size(size);
  service_ = std::make_unique<Service>(bootstrap::listen_at(address, timeout_ms),
                                       bootstrap::Meeting{{address}, 0}, size, may_return);
}

RendezvousServer::RendezvousServer(const Everywhere& where, std::uint32_t size) {
  check_size(size);
  bootstrap::Meeting meeting;
  for (const std::string& host : where.hosts) {
    const bool is_v6 = host.find(':') != std::string::npos;
    meeting.addresses.push_back(is_v6 ? "[" + host + "]:0" : host + ":0");
  }
  while (meeting.nonce == 0) {
    fill_random(std::as_writable_bytes(std::span(&meeting.nonce, 1)));
  }
  service_ = std::make_unique<Service>(bootstrap::listen_everywhere(), std::move(meeting), size,
                                       std::vector<std::uint32_t>());
}

RendezvousServer::~RendezvousServer() = default;

const std::string& RendezvousServer::address() const { return service_->address(); }

void RendezvousServer::will_not_return(std::uint32_t rank) { service_->will_not_return(rank); }

}  // namespace hawser::engine
