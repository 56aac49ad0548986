// SPDX-License-Identifier: Apache-2.0
// Partners that come and go: more of them over a storm's life than an endpoint has places. They
// call one host, stay for a while, and leave in each way that there is. Some of their messages are
// received later, and some messages to them come too late. The last ones come when all is healed,
// and need the places that the others have left.
#include "sim/storm/draw.hpp"

namespace hawser::sim {

namespace {

using proto::Duration;
using proto::microseconds;
using proto::milliseconds;
using proto::nanoseconds;
using proto::Random;

constexpr std::uint64_t kMostPartners = 14;
// Tags apart, so that few of the plan's other receives match these messages.
constexpr std::uint64_t kTags = 40;

class Partners {
 public:
  Partners(Random& random, Plan& plan) : random_(random), plan_(plan) {}

  void draw() {
    keep_others();
    draw_limits();
    server_ = small(random_, plan_.hosts.size());
    const auto first = static_cast<std::uint32_t>(plan_.hosts.size());
    Duration at = some_time(random_, plan_.heals_at / 2);
    for (std::uint64_t count = 3 + random_.below(kMostPartners - 2); count > 0; --count) {
      at = at + draw_gap();
      draw_partner(at);
    }
    draw_server_words(first);
    plan_.heals_at = std::max(plan_.heals_at, last_ + milliseconds(1));
    if (random_.chance(0.5)) plan_.heals_at = plan_.heals_at + patience_ * 2;
    draw_last();
  }

 private:
  // Keeps some other parts of the plan. Without its faults the judge knows well when a newcomer
  // must get in. Without its traffic all places are for partners. The judge doesn't know the places
  // that strangers take, so there are none.
  void keep_others() {
    std::erase_if(plan_.faults,
                  [](const FaultPlan& fault) { return fault.kind == FaultKind::strangers; });
    std::erase_if(plan_.calls,
                  [](const CallPlan& call) { return call.kind == CallKind::connect_nobody; });
    if (random_.chance(0.4)) return;
    plan_.faults.clear();
    plan_.closings.clear();
    are_alone_ = random_.chance(0.6);
    if (are_alone_) {
      plan_.messages.clear();
      plan_.receives.clear();
    }
    plan_.heals_at = {};
    for (const MessagePlan& message : plan_.messages) {
      plan_.heals_at = std::max(plan_.heals_at, message.at);
    }
  }

  void draw_limits() {
    Tunables& t = plan_.tunables;
    const auto others = static_cast<std::uint64_t>(plan_.hosts.size()) - 1;
    if (are_alone_) t.max_peers = 1 + random_.below(5);
    if (!are_alone_)
      t.max_peers =
          1 + (random_.chance(0.7) ? others + random_.below(3) : random_.below(others + 1));
    t.peer_timeout_ms = one_of(random_, {200, 400, 1000});
    t.handshake_retry_us = one_of(random_, {1000, 5000, 20000});
    t.max_outstanding_handshakes = std::max<std::uint64_t>(t.max_outstanding_handshakes, 64);
    t.longest_absence_ms = std::min<std::uint64_t>(t.longest_absence_ms, 300);
    if (random_.chance(0.5)) t.rest_after_ms = one_of(random_, {0, 5, 100});
    patience_ = milliseconds(t.peer_timeout_ms + t.longest_absence_ms);
  }

  // Sometimes nothing, else up to the time in which silence is noticed.
  Duration draw_gap() {
    if (random_.chance(0.2)) return {};
    if (random_.chance(0.5)) return some_time(random_, patience_ / 2);
    return nanoseconds(logarithmic(random_, 10'000, static_cast<std::uint64_t>(patience_.ns)));
  }

  std::uint32_t add_host(Duration starts) {
    HostPlan host = plan_.hosts[random_.below(plan_.hosts.size())];
    host.takes_over = kAnyHost;
    host.starts = starts;
    host.clock = nanoseconds(random_.below(std::uint64_t{1} << 40));
    // A NIC that all others can address stays.
    if (host.nics.size() > 1 && random_.chance(0.7)) {
      const auto found = std::ranges::find(host.nics, 0u, &PortPlan::network);
      std::iter_swap(host.nics.begin(), found);
      host.nics.resize(1 + random_.below(2));
    }
    plan_.hosts.push_back(std::move(host));
    return static_cast<std::uint32_t>(plan_.hosts.size()) - 1;
  }

  void draw_partner(Duration at) {
    const std::uint32_t host = add_host(at);
    if (random_.chance(0.4)) take_over(host);
    for (std::uint64_t count = 1 + random_.below(4); count > 0; --count) {
      draw_message(host, server_, at + some_time(random_, milliseconds(3)));
    }
    if (random_.chance(0.3)) draw_message(server_, host, at + some_time(random_, milliseconds(5)));
    draw_leaving(host, at + microseconds(100) +
                           nanoseconds(logarithmic(random_, 10'000,
                                                   static_cast<std::uint64_t>(patience_.ns))));
  }

  // Gives it the addresses of a partner that has died before.
  void take_over(std::uint32_t host) {
    HostPlan& plan = plan_.hosts[host];
    for (const FaultPlan& fault : plan_.faults) {
      const bool fits = fault.kind == FaultKind::crash && fault.host != server_ &&
                        fault.at < plan.starts &&
                        plan_.hosts[fault.host].nics.size() == plan.nics.size();
      const bool taken = std::ranges::any_of(
          plan_.hosts, [&](const HostPlan& other) { return other.takes_over == fault.host; });
      if (!fits || taken) continue;
      plan.takes_over = fault.host;
      return;
    }
  }

  void draw_message(std::uint32_t from, std::uint32_t to, Duration at) {
    MessagePlan message;
    message.at = at;
    message.from = from;
    message.to = to;
    message.tag = kTags + random_.below(3);
    message.bytes = random_.below(plan_.tunables.fragment_bytes * (random_.chance(0.2) ? 20 : 3));
    if (random_.chance(0.3)) message.level = Level::delivered;
    if (random_.chance(0.05)) message.cancelled_after = some_time(random_, milliseconds(2));
    plan_.messages.push_back(message);
    last_ = std::max(last_, at);
    draw_receive(message);
  }

  // Without a receive the message waits until all is healed, and keeps its sender's place.
  void draw_receive(const MessagePlan& message) {
    if (random_.chance(0.2)) return;
    ReceivePlan receive;
    const bool late = random_.chance(0.3);
    receive.at = message.at + (late ? some_time(random_, patience_) : Duration{});
    receive.host = message.to;
    receive.from = random_.chance(0.6) ? kAnyHost : message.from;
    receive.tag = message.tag;
    if (random_.chance(0.2)) receive.mask = 0;
    receive.bytes = message.bytes;
    if (random_.chance(0.1)) receive.bytes = random_.below(message.bytes + 1);
    receive.claims = random_.chance(0.2);
    receive.puts_back = !receive.claims && random_.chance(0.1);
    if ((receive.claims || receive.puts_back) && random_.chance(0.7)) {
      receive.held = some_time(random_, patience_);
    }
    plan_.receives.push_back(receive);
    last_ = std::max(last_, receive.at);
  }

  void draw_leaving(std::uint32_t host, Duration at) {
    last_ = std::max(last_, at);
    const std::uint64_t way = random_.below(20);
    if (way < 6) return plan_.closings.push_back({at, host, kAnyHost});
    if (way >= 18) return;  // it stays
    if (way < 12) {
      const bool by_server = way >= 9;
      plan_.closings.push_back({at, by_server ? server_ : host, by_server ? host : server_});
      // The partner comes back, often when another one has its place.
      if (random_.chance(0.6)) draw_message(host, server_, at + some_time(random_, patience_ * 2));
      return;
    }
    FaultPlan fault;
    fault.kind = way < 17 ? FaultKind::crash : FaultKind::restart;
    fault.at = at;
    fault.host = host;
    fault.lasts = microseconds(100 + random_.below(2000));
    plan_.faults.push_back(fault);
    last_ = std::max(last_, fault.at + fault.lasts);
    if (fault.kind == FaultKind::restart) {
      draw_message(host, server_, fault.at + fault.lasts + some_time(random_, milliseconds(5)));
    }
  }

  // The server's messages to some partners, by names that may no longer be valid, and its calls
  // with old names.
  void draw_server_words(std::uint32_t first) {
    const auto partners = static_cast<std::uint64_t>(plan_.hosts.size()) - first;
    for (std::uint64_t count = random_.below(4); count > 0; --count) {
      draw_message(server_, first + small(random_, partners), some_time(random_, last_));
    }
    for (std::uint64_t count = 1 + random_.below(6); count > 0; --count) {
      CallPlan call;
      call.kind = random_.chance(0.7) ? CallKind::old_name : CallKind::look;
      call.at = some_time(random_, last_ + patience_ * 2);
      call.host = server_;
      call.other = first + small(random_, partners);
      call.dice = static_cast<std::uint32_t>(random_.below(1 << 20));
      plan_.calls.push_back(call);
    }
  }

  // At most as many as there are places, when those that died have been silent for long.
  void draw_last() {
    Duration at = plan_.heals_at + patience_ * 2 + some_time(random_, patience_);
    for (std::uint64_t count = 1 + random_.below(plan_.tunables.max_peers); count > 0; --count) {
      const std::uint32_t host = add_host(at);
      draw_message(host, server_, at + some_time(random_, milliseconds(1)));
      if (random_.chance(0.3)) at = at + draw_gap();
    }
  }

  Random& random_;
  Plan& plan_;
  bool are_alone_ = false;
  std::uint32_t server_ = 0;
  Duration patience_{};
  Duration last_{};
};

}  // namespace

void draw_partners(Random& random, Plan& plan) { Partners(random, plan).draw(); }

}  // namespace hawser::sim
