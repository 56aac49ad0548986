// SPDX-License-Identifier: Apache-2.0
// Thousands of partners over UDP, at one endpoint that has few places. The last ones cost as many
// packets and system calls as the first, and the process does not grow.
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "hawser/engine.hpp"
#include "test/engine/endpoint_pair.hpp"
#include "test/support/own_process_view.hpp"

namespace {
// System calls of this process that moved datagrams. Calls that found nothing depend on the speed
// of the machine, so they don't count.
std::uint64_t calls_counted = 0;

int counted(long moved) {
  if (moved > 0) ++calls_counted;
  return static_cast<int>(moved);
}
}  // namespace

// These functions replace those of the C library.
extern "C" int sendmmsg(int fd, mmsghdr* messages, unsigned count, int flags) {
  return counted(::syscall(SYS_sendmmsg, fd, messages, count, flags));
}
extern "C" int recvmmsg(int fd, mmsghdr* messages, unsigned count, int flags, timespec* timeout) {
  return counted(::syscall(SYS_recvmmsg, fd, messages, count, flags, timeout));
}

namespace hawser::engine {
namespace {

using test::resident_kib;

constexpr std::uint64_t kPlaces = 32;
constexpr int kAtOnce = 16;
constexpr int kPartners = 5000;
constexpr int kSettled = 1000;
// The test measures the cost of this many partners, at the beginning and at the end.
constexpr int kLookedAt = 500;
// As much as a kilobyte kept for each of the 4,000 partners in between.
constexpr std::size_t kMostGrowthKib = 4 * 1024;

// One endpoint and its clients, all polled by this thread.
class Visits {
 public:
  Visits()
      : at_server_({{"udp:127.0.0.1"}, 0, few_places(), ""}),
        at_clients_({{"udp:127.0.0.11"}, 0, few_places(), ""}),
        server_(at_server_.create_endpoint({})) {}

  // Serves `count` clients that come together, and lets them leave.
  void serve(int count) {
    std::vector<Client> clients(static_cast<std::size_t>(count));
    for (Client& client : clients) come(client);
    const HangLimit limit;
    for (int done = 0; done < count * 3;) {
      REQUIRE_FALSE(limit.is_over());
      done += turn_server();
      for (Client& client : clients) done += turn(client);
    }
    for (Client& client : clients) {
      CHECK(client.answered == answer_);
      REQUIRE(client.endpoint->disconnect(client.to) == Status::ok);
    }
    const std::uint64_t gone = left_ + clients.size();
    while (left_ < gone) {
      REQUIRE_FALSE(limit.is_over());
      (void)turn_server();
      for (Client& client : clients) (void)turn(client);
    }
  }

  struct Cost {
    std::uint64_t packets = 0;
    std::uint64_t calls = 0;
  };
  [[nodiscard]] Cost cost() const {
    Cost sum{0, calls_counted};
    for (const NicStats& nic : server_->nic_stats()) {
      sum.packets += nic.packets_sent + nic.packets_received;
    }
    return sum;
  }
  [[nodiscard]] EndpointStats stats() const { return server_->stats(); }

 private:
  struct Client {
    std::unique_ptr<Endpoint> endpoint;
    PeerId to = kAnyPeer;
    std::vector<std::byte> answered;
  };

  static Tunables few_places() {
    Tunables tunables = short_close();
    tunables.max_peers = kPlaces;
    return tunables;
  }

  void come(Client& client) {
    client.endpoint = at_clients_.create_endpoint({});
    REQUIRE(client.endpoint->connect(server_->address(), client.to) == Status::ok);
    client.answered.resize(answer_.size());
    post_receive(*server_, kAnyPeer, 1, asked_);
    post_receive(*client.endpoint, client.to, 2, client.answered);
    post_send(*client.endpoint, client.to, 1, question_);
  }

  // Polls both endpoints. Returns the completions that count: two of each client, and one of the
  // server for each client.
  int turn(Client& client) {
    std::array<Completion, 4> completions;
    const std::size_t n = client.endpoint->poll(completions);
    for (std::size_t i = 0; i < n; ++i) REQUIRE(completions[i].status == Status::ok);
    return static_cast<int>(n);
  }
  int turn_server() {
    std::array<Completion, 16> completions;
    int sent = 0;
    const std::size_t n = server_->poll(completions);
    for (std::size_t i = 0; i < n; ++i) {
      REQUIRE(completions[i].status == Status::ok);
      if (completions[i].kind == OperationKind::send) {
        ++sent;
      } else {
        post_send(*server_, completions[i].peer, 2, answer_);
      }
    }
    std::array<Event, 16> events;
    for (std::size_t count = server_->poll_events(events); count > 0; --count) {
      const Event& event = events[count - 1];
      if (event.kind != Event::Kind::peer_failed) continue;
      REQUIRE(event.status == Status::peer_closed);
      ++left_;
    }
    return sent;
  }

  Engine at_server_;
  Engine at_clients_;
  std::unique_ptr<Endpoint> server_;
  std::vector<std::byte> question_ = pattern(100, 1);
  std::vector<std::byte> answer_ = pattern(3000, 2);
  std::vector<std::byte> asked_ = std::vector<std::byte>(question_.size());
  std::uint64_t left_ = 0;
};

// Half of the clients come one after the other, the rest in groups.
void serve_many(Visits& visits, int partners) {
  for (int served = 0; served < partners;) {
    const int count = served % (2 * kAtOnce) < kAtOnce ? 1 : std::min(kAtOnce, partners - served);
    visits.serve(count);
    served += count;
  }
}

TEST_CASE("partners__five_thousand_over_udp_leave_nothing", "[long][S29]") {
  Visits visits;
  serve_many(visits, 2 * static_cast<int>(kPlaces));  // from here on each gets the place of another
  const auto cost_of = [&] {
    const Visits::Cost before = visits.cost();
    serve_many(visits, kLookedAt);
    const Visits::Cost after = visits.cost();
    return Visits::Cost{after.packets - before.packets, after.calls - before.calls};
  };
  const Visits::Cost first = cost_of();
  serve_many(visits, kSettled - kLookedAt);
  const std::size_t settled_kib = resident_kib();
  REQUIRE(settled_kib > 0);
  serve_many(visits, kPartners - kSettled - kLookedAt);
  const Visits::Cost last = cost_of();
  const std::size_t end_kib = resident_kib();
  INFO("resident: " << settled_kib << " KiB, then " << end_kib << " KiB");
  INFO("packets: " << first.packets << ", then " << last.packets);
  INFO("system calls: " << first.calls << ", then " << last.calls);
  CHECK(end_kib < settled_kib + kMostGrowthKib);
  // A stall of the machine may cost a probe more or less.
  CHECK(last.packets < first.packets + first.packets / 8);
  CHECK(last.calls < first.calls + first.calls / 8);
  CHECK(visits.stats().calls_refused == 0);
  CHECK(visits.stats().peers_forgotten >= static_cast<std::uint64_t>(kPartners) - kPlaces);
}

}  // namespace
}  // namespace hawser::engine
