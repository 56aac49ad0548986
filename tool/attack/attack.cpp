// SPDX-License-Identifier: Apache-2.0
#include "tool/attack/attack.hpp"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "engine/descriptor.hpp"
#include "tool/attack/observer.hpp"
#include "tool/attack/packets.hpp"
#include "tool/attack/targets.hpp"
#include "tool/error.hpp"
#include "tool/run/child.hpp"
#include "tool/run/clock.hpp"
#include "tool/run/fault_plan.hpp"
#include "tool/run/message_sink.hpp"

namespace hawser::tool {
namespace {

constexpr std::array kKinds{AttackKind::garbage, AttackKind::truncated, AttackKind::replay,
                            AttackKind::forged};
constexpr std::size_t kBatch = 64;
// The time between two looks for new targets: the least while there are new ones, doubled while
// there are none.
constexpr std::uint64_t kLeastLookNs = 10'000'000;
constexpr std::uint64_t kMostLookNs = 500'000'000;
constexpr useconds_t kIdleUs = 2000;
// Packets that an observer keeps. Old ones are replayed too.
constexpr std::size_t kKept = 4096;

volatile std::sig_atomic_t g_stop = 0;
void on_signal(int) { g_stop = 1; }

struct Captured {
  sockaddr_in to{};
  std::vector<std::byte> bytes;
};

class Attacker {
 public:
  Attacker(const Attack& attack, std::uint64_t seed, std::uint64_t fragment_bytes)
      : attack_(attack),
        fragment_bytes_(fragment_bytes),
        forge_(seed),
        socket_(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)),
        room_(kMaxDatagramBytes + 1000) {
    if (!socket_) throw std::runtime_error("cannot open a socket");
    if (attack.observes()) observer_ = std::make_unique<Observer>();
    result_.kind = attack.kind;
  }

  AttackResult run() {
    while (g_stop == 0) {
      const std::uint64_t now = now_ns();
      look_for_targets(now);
      if (observer_) observe();
      const std::size_t count = make_batch(now);
      if (count == 0) {
        (void)::usleep(kIdleUs);
      } else {
        send(count, now);
      }
    }
    return result_;
  }

 private:
  void look_for_targets(std::uint64_t now) {
    if (now - looked_ns_ < look_again_ns_) return;
    looked_ns_ = now;
    const std::size_t before = targets_.size();
    targets_ = sockets_of_ranks(::getppid());
    const bool may_come = targets_.empty() || targets_.size() > before;
    look_again_ns_ = may_come ? kLeastLookNs : std::min(2 * look_again_ns_, kMostLookNs);
    result_.sockets = std::max<std::uint64_t>(result_.sockets, targets_.size());
  }

  [[nodiscard]] bool is_target(const sockaddr_in& address) const {
    return std::any_of(targets_.begin(), targets_.end(), [&](const sockaddr_in& target) {
      return target.sin_addr.s_addr == address.sin_addr.s_addr &&
             target.sin_port == address.sin_port;
    });
  }

  void observe() {
    for (std::size_t i = 0; i < kBatch; ++i) {
      const auto sight = observer_->next(room_);
      if (!sight) return;
      // The attacker's own packets come by as well; replays of replays would be nothing new.
      if (!is_target(sight->to)) continue;
      const std::size_t bytes = first_packet(sight->payload, fragment_bytes_);
      if (bytes == 0) continue;
      ++result_.seen;
      if (kept_.size() < kKept) kept_.emplace_back();
      newest_ = (newest_ + 1) % kept_.size();
      kept_[newest_].to = sight->to;
      kept_[newest_].bytes.assign(sight->payload.begin(),
                                  sight->payload.begin() + static_cast<std::ptrdiff_t>(bytes));
    }
  }

  // How many packets may be sent by now.
  [[nodiscard]] std::size_t allowed(std::uint64_t now) const {
    if (attack_.packets_per_s == 0) return kBatch;
    if (result_.packets == 0) return 1;
    const double due = seconds(now - first_ns_) * static_cast<double>(attack_.packets_per_s) + 1;
    const auto sent = static_cast<double>(result_.packets);
    return due <= sent ? 0 : static_cast<std::size_t>(std::min<double>(due - sent, kBatch));
  }

  std::size_t make_batch(std::uint64_t now) {
    if (targets_.empty() || (observer_ && kept_.empty())) return 0;
    const std::size_t count = allowed(now);
    for (std::size_t i = 0; i < count; ++i) make(batch_[i]);
    return count;
  }

  void make(Captured& packet) {
    std::size_t bytes = 0;
    switch (attack_.kind) {
      case AttackKind::garbage: bytes = forge_.garbage(room_); break;
      case AttackKind::truncated: bytes = forge_.truncated(room_); break;
      case AttackKind::replay:
      case AttackKind::forged: {
        // Half of them are the newest packets, which may not have arrived yet; half are older ones.
        const Captured& seen = kept_[forge_.below(2) == 0 ? newest_ : forge_.below(kept_.size())];
        packet.bytes = seen.bytes;
        packet.to = seen.to;
        if (attack_.kind == AttackKind::forged) forge_.forge(packet.bytes);
        return;
      }
    }
    packet.bytes.assign(room_.begin(), room_.begin() + static_cast<std::ptrdiff_t>(bytes));
    packet.to = targets_[forge_.below(targets_.size())];
  }

  void send(std::size_t count, std::uint64_t now) {
    std::array<mmsghdr, kBatch> messages{};
    std::array<iovec, kBatch> pieces{};
    for (std::size_t i = 0; i < count; ++i) {
      pieces[i] = {batch_[i].bytes.data(), batch_[i].bytes.size()};
      messages[i].msg_hdr.msg_iov = &pieces[i];
      messages[i].msg_hdr.msg_iovlen = 1;
      messages[i].msg_hdr.msg_name = &batch_[i].to;
      messages[i].msg_hdr.msg_namelen = sizeof batch_[i].to;
    }
    const int sent = ::sendmmsg(socket_.get(), messages.data(), static_cast<unsigned>(count), 0);
    if (sent <= 0) {  // a socket that has just gone, for example
      (void)::usleep(kIdleUs);
      return;
    }
    if (result_.packets == 0) first_ns_ = now;
    result_.packets += static_cast<std::uint64_t>(sent);
    for (int i = 0; i < sent; ++i) result_.bytes += messages[static_cast<std::size_t>(i)].msg_len;
    result_.ns = now_ns() - first_ns_;
  }

  Attack attack_;
  std::uint64_t fragment_bytes_;
  PacketForge forge_;
  engine::Descriptor socket_;
  std::unique_ptr<Observer> observer_;
  std::vector<std::byte> room_;
  std::vector<sockaddr_in> targets_;
  std::uint64_t looked_ns_ = 0;
  std::uint64_t look_again_ns_ = kLeastLookNs;
  std::array<Captured, kBatch> batch_;
  std::vector<Captured> kept_;
  std::size_t newest_ = 0;
  std::uint64_t first_ns_ = 0;
  AttackResult result_;
};

}  // namespace

std::string_view to_string(AttackKind kind) {
  switch (kind) {
    case AttackKind::garbage: return "garbage";
    case AttackKind::truncated: return "truncated";
    case AttackKind::replay: return "replay";
    case AttackKind::forged: return "forged";
  }
  return "?";
}

Attack parse_attack(std::string_view text) {
  const std::size_t colon = text.find(':');
  Attack attack;
  const auto kind = std::find_if(kKinds.begin(), kKinds.end(), [&](AttackKind some) {
    return to_string(some) == text.substr(0, colon);
  });
  std::optional<std::uint64_t> rate = 0;
  if (colon != std::string_view::npos) rate = parse_rate(text.substr(colon + 1));
  if (kind == kKinds.end() || !rate) {
    throw InputError(
        fmt::format("--attack {}: expected garbage, truncated, replay or forged, optionally with a "
                    "rate in packets per second, such as garbage:50k",
                    text));
  }
  attack.kind = *kind;
  attack.packets_per_s = *rate;
  return attack;
}

std::string to_text(const Attack& attack) {
  return attack.packets_per_s == 0
             ? std::string(to_string(attack.kind))
             : fmt::format("{}:{}", to_string(attack.kind), attack.packets_per_s);
}

void to_json(nlohmann::json& json, const AttackResult& result) {
  json = {{"kind", to_string(result.kind)}, {"packets", result.packets},
          {"bytes", result.bytes},          {"seen", result.seen},
          {"sockets", result.sockets},      {"ns", result.ns}};
}

void from_json(const nlohmann::json& json, AttackResult& result) {
  const auto name = json.at("kind").get<std::string>();
  for (const AttackKind kind : kKinds) {
    if (to_string(kind) == name) result.kind = kind;
  }
  json.at("packets").get_to(result.packets);
  json.at("bytes").get_to(result.bytes);
  json.at("seen").get_to(result.seen);
  json.at("sockets").get_to(result.sockets);
  json.at("ns").get_to(result.ns);
}

void run_attacker(const Attack& attack, std::uint64_t seed, std::uint64_t fragment_bytes) {
  end_with_launcher();
  struct sigaction action {};
  action.sa_handler = on_signal;
  (void)::sigaction(SIGTERM, &action, nullptr);
  PipeSink sink(kReportFd);
  RankMessage message;
  message.attack = Attacker(attack, seed, fragment_bytes).run();
  sink.send(message);
}

}  // namespace hawser::tool
