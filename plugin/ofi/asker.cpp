// SPDX-License-Identifier: Apache-2.0
#include "plugin/ofi/asker.hpp"

#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/timerfd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <system_error>

#include "plugin/ofi/name_wire.hpp"
#include "plugin/ofi/uncancelled.hpp"

namespace hawser::ofi {
namespace {

constexpr std::chrono::milliseconds kFirstWait{20};
constexpr std::chrono::milliseconds kLongestWait{500};
constexpr std::size_t kRoom = sizeof(NamePacket) + 1;  // one byte more, to notice longer datagrams
constexpr int kMostDropped = 64;                       // per turn
constexpr std::size_t kMostRequests = 256;             // per turn
constexpr std::chrono::milliseconds kBurstWait{5};

Descriptor open_socket(bool& is_mapped) {
  constexpr int kType = SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC;
  Descriptor both(::socket(AF_INET6, kType, 0));
  const int no = 0;
  is_mapped =
      both.get() >= 0 && ::setsockopt(both.get(), IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof no) == 0;
  return is_mapped ? std::move(both) : Descriptor(::socket(AF_INET, kType, 0));
}

}  // namespace

Asker::Asker(Clock::duration patience)
    : patience_(patience),
      is_mapped_(false),
      socket_(open_socket(is_mapped_)),
      timer_(::timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC)),
      epoll_(::epoll_create1(EPOLL_CLOEXEC)) {
  bool good = socket_.get() >= 0 && timer_.get() >= 0 && epoll_.get() >= 0;
  for (const int descriptor : {socket_.get(), timer_.get()}) {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.fd = descriptor;
    good = good && ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, descriptor, &event) == 0;
  }
  if (!good) throw std::system_error(errno, std::generic_category(), "asking for a port name");
}

// Unpredictable, so that an outsider who sees no request can't guess it.
std::uint64_t Asker::new_nonce() {
  std::uint64_t nonce = 0;
  do {
    if (::getrandom(&nonce, sizeof nonce, 0) != sizeof nonce) {
      throw std::system_error(errno, std::generic_category(), "getrandom");
    }
  } while (by_nonce_.contains(nonce));
  return nonce;
}

void Asker::ask(fi_addr_t address, const PortName& name, Clock::time_point now) {
  if (is_asking(address)) return;
  const Uncancelled uncancelled;
  Asked asked{.name = name, .nonce = new_nonce(), .next_at = now, .wait = kFirstWait};
  asked.give_up_at = now + patience_;
  // Send it at once, because the program may compute for long.
  if (asked_.size() < kMostRequests) send_request(asked, now);
  by_nonce_.emplace(asked.nonce, address);
  asked_.emplace(address, asked);
  due_at_ = std::min(due_at_, asked.next_at);
  set_timer(now);
}

void Asker::push(fi_addr_t address, Operation& operation, Clock::time_point now) {
  Asked& asked = asked_.at(address);
  // The patience begins with the first waiting operation. A request sent ahead of need doesn't
  // count.
  if (asked.waiting.empty()) asked.give_up_at = now + patience_;
  asked.waiting.push(operation);
}

OperationQueue Asker::stop(fi_addr_t address) {
  const auto found = asked_.find(address);
  if (found == asked_.end()) return {};
  const OperationQueue waiting = found->second.waiting;
  by_nonce_.erase(found->second.nonce);
  asked_.erase(found);
  return waiting;
}

Operation* Asker::take(void* op_context) {
  Operation* found = nullptr;
  for (auto& [address, asked] : asked_) {
    asked.waiting.remove_if([&](Operation& operation) {
      if (found != nullptr || operation.is_silent || operation.context != op_context) return false;
      found = &operation;
      return true;
    });
  }
  return found;
}

bool Asker::has_sends() const {
  return std::ranges::any_of(asked_, [](const auto& entry) {
    return entry.second.waiting.any_of(
        [](const Operation& operation) { return operation.is_send; });
  });
}

void Asker::send_request(Asked& asked, Clock::time_point now) {
  NamePacket packet;
  packet.nonce = asked.nonce;
  const SocketAddress to = is_mapped_ ? to_mapped_socket(asked.name) : to_socket(asked.name);
  // A request that can't be sent is repeated, like one that was lost.
  (void)::sendto(socket_.get(), &packet, sizeof packet, MSG_NOSIGNAL, to.get(), to.length);
  asked.next_at = now + asked.wait;
  asked.wait = std::min<Clock::duration>(2 * asked.wait, kLongestWait);
}

void Asker::send_due(Clock::time_point now) {
  const Uncancelled uncancelled;
  std::size_t sent = 0;
  due_at_ = Clock::time_point::max();
  for (auto& [address, asked] : asked_) {
    if (asked.next_at <= now && sent < kMostRequests) {
      send_request(asked, now);
      ++sent;
    }
    const Clock::time_point next = std::max<Clock::time_point>(asked.next_at, now + kBurstWait);
    due_at_ = std::min({due_at_, next, std::max(asked.give_up_at, now)});
  }
}

bool Asker::read_answer(fi_addr_t& address, AddressBytes& bytes) {
  if (asked_.empty()) return false;
  const Uncancelled uncancelled;
  std::array<std::byte, kRoom> received;
  for (int i = 0; i < kMostDropped;) {
    const ssize_t length = ::recv(socket_.get(), received.data(), received.size(), 0);
    if (length < 0 && errno == EAGAIN) return false;
    ++i;
    if (length < 0) continue;  // nobody listens there yet
    NamePacket packet;
    const bool good = read_name_packet({received.data(), static_cast<std::size_t>(length)},
                                       NameKind::answer, packet);
    const auto found = good ? by_nonce_.find(packet.nonce) : by_nonce_.end();
    if (found == by_nonce_.end()) {
      ++dropped_;
      continue;
    }
    address = found->second;
    bytes = packet.address;
    return true;
  }
  return false;
}

std::vector<fi_addr_t> Asker::find_hopeless(Clock::time_point now) const {
  std::vector<fi_addr_t> hopeless;
  for (const auto& [address, asked] : asked_) {
    if (asked.give_up_at <= now) hopeless.push_back(address);
  }
  return hopeless;
}

void Asker::set_timer(Clock::time_point now) {
  const Uncancelled uncancelled;
  std::uint64_t expired = 0;
  [[maybe_unused]] const ssize_t taken = ::read(timer_.get(), &expired, sizeof expired);
  itimerspec timer{};
  if (due_at_ != Clock::time_point::max()) {
    const auto left =
        std::max<std::chrono::nanoseconds>(due_at_ - now, std::chrono::nanoseconds(1));
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(left);
    timer.it_value.tv_sec = seconds.count();
    timer.it_value.tv_nsec = (left - seconds).count();
  }
  ::timerfd_settime(timer_.get(), 0, &timer, nullptr);
}

}  // namespace hawser::ofi
