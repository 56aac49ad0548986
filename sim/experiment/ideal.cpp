// SPDX-License-Identifier: Apache-2.0
#include "sim/experiment/ideal.hpp"

#include <algorithm>
#include <map>
#include <queue>
#include <tuple>
#include <utility>

#include "sim/fabric/wiring.hpp"
#include "sim/traffic/triggers.hpp"

namespace hawser::experiment {

namespace {

using fabric::Connection;
using fabric::ConnectionMatrix;
using fabric::Instant;
using fabric::kNever;
using fabric::Pace;
using fabric::Span;
using fabric::Wiring;

// A set of cables that share the traffic that passes it: a host's, a leaf's or a pod's, one way.
struct Cut {
  std::uint32_t number = 0;
  std::uint64_t bits_per_s = 0;  // of all its cables together
};

// The way from a host to another one.
struct Way {
  std::vector<Cut> cuts;
  std::vector<std::uint32_t> links;  // of one NIC's packets
};

Span time_of(std::uint64_t bytes, std::uint64_t bits_per_s) {
  // Aggregates may be faster than any link that Pace is made for.
  constexpr double kPsOfByte = 8e12;
  if (bits_per_s <= fabric::kFastest) return Pace::of(bits_per_s).time_of(bytes);
  return {static_cast<std::int64_t>(static_cast<double>(bytes) * kPsOfByte /
                                    static_cast<double>(bits_per_s))};
}

// The cables between two hosts. Equal NICs carry equal shares. A cable set that carries one NIC's
// part of a flow therefore counts as `nics_` times as fast, with the whole flow on it.
class Ways {
 public:
  Ways(const fabric::Shape& shape, std::uint32_t hosts)
      : wiring_(shape), nics_(shape.nics), hosts_(hosts) {}

  [[nodiscard]] const Wiring& wiring() const { return wiring_; }
  [[nodiscard]] std::uint32_t cuts() const { return first_of_pods() + 2 * pods(); }

  [[nodiscard]] Way between(std::uint32_t from, std::uint32_t to) const {
    Way way;
    const std::uint32_t port = wiring_.port(from, 0);
    const std::uint64_t rate = wiring_.settings(port).bits_per_s;
    way.cuts = {{from, rate * nics_}, {hosts_ + to, rate * nics_}};
    way.links = links_of(port, wiring_.port(to, 0));
    for (std::uint32_t nic = 0; nic < nics_; ++nic) {
      add_cuts(wiring_.place(wiring_.port(from, nic)), wiring_.place(wiring_.port(to, nic)), way);
    }
    return way;
  }

 private:
  [[nodiscard]] std::uint32_t leaves() const { return wiring_.count_of_tier(0); }
  [[nodiscard]] std::uint32_t pods() const { return wiring_.place(wiring_.ports() - 1).pod + 1; }
  [[nodiscard]] std::uint32_t first_of_pods() const { return 2 * hosts_ + 2 * leaves(); }
  [[nodiscard]] std::uint32_t first_up(std::uint32_t one) const { return wiring_.up(one, 0); }

  [[nodiscard]] std::vector<std::uint32_t> links_of(std::uint32_t from, std::uint32_t to) const {
    const fabric::PortPlace& here = wiring_.place(from);
    const fabric::PortPlace& there = wiring_.place(to);
    std::vector<std::uint32_t> links{wiring_.from_port(from)};
    if (here.leaf != there.leaf) {
      const std::uint32_t above = first_up(here.leaf);
      links.push_back(above);
      if (here.pod != there.pod) {
        const std::uint32_t top = first_up(wiring_.end(above));
        links.push_back(top);
        links.push_back(wiring_.back(top));
      }
      links.push_back(wiring_.back(above));  // as fast and long as that of the other leaf
    }
    links.push_back(wiring_.to_port(to));
    return links;
  }

  void add_cuts(const fabric::PortPlace& from, const fabric::PortPlace& to, Way& way) const {
    if (from.leaf == to.leaf) return;
    const std::uint32_t above = first_up(from.leaf);
    const std::uint64_t rate =
        wiring_.settings(above).bits_per_s * wiring_.at(from.leaf).up * nics_;
    const std::uint32_t first_leaf = 2 * hosts_;
    way.cuts.push_back({first_leaf + from.leaf, rate});
    way.cuts.push_back({first_leaf + leaves() + to.leaf, rate});
    if (from.pod == to.pod) return;
    const std::uint32_t upper = wiring_.end(above);
    const std::uint64_t of_pod = wiring_.settings(first_up(upper)).bits_per_s *
                                 wiring_.at(upper).up * nics_ * (wiring_.count_of_tier(1) / pods());
    way.cuts.push_back({first_of_pods() + from.pod, of_pod});
    way.cuts.push_back({first_of_pods() + pods() + to.pod, of_pod});
  }

  Wiring wiring_;
  std::uint32_t nics_;
  std::uint32_t hosts_;
};

// The part of a flow's time that doesn't depend on its step's bytes. It consists of latencies, the
// storing of the first packet at each switch, and the way back of the packet that tells the sender.
struct Fixed {
  Span there{};
  Span back{};
  std::uint64_t first_packet = 0;
};

class Calculation {
 public:
  Calculation(const ConnectionMatrix& matrix, const fabric::Shape& shape,
              const PacketFormat& format)
      : matrix_(matrix), format_(format), ways_(shape, std::max(matrix.nodes, 1u)) {
    for (const Connection& one : matrix.connections) {
      way_of_.push_back(ways_.between(one.from, one.to));
      bytes_.push_back(wire_bytes(one.bytes, format));
      fixed_.push_back(fixed_of(one, way_of_.back()));
    }
  }

  Ideal run() {
    // The first pass treats each flow as if it were alone, to find the steps. The second adds the
    // bytes of its step.
    std::vector<Span> durations(bytes_.size());
    for (std::uint32_t i = 0; i < bytes_.size(); ++i) {
      for (const Cut& cut : way_of_[i].cuts) {
        durations[i] = std::max(durations[i], rest(i, bytes_[i], cut));
      }
    }
    Ideal ideal = follow(durations);
    ideal = follow(of_steps(ideal));
    for (const FlowIdeal& flow : ideal.flows) {
      if (flow.ended == kNever) continue;
      ideal.steps.resize(std::max<std::size_t>(ideal.steps.size(), flow.step + 1));
      StepIdeal& step = ideal.steps[flow.step];
      step.started = std::min(step.started, flow.started);
      step.ended = std::max(step.ended, flow.ended);
      ideal.last = std::max(ideal.last, flow.ended);
    }
    ideal.last = std::max(ideal.last, by_all_bytes(ideal));
    return ideal;
  }

 private:
  [[nodiscard]] Fixed fixed_of(const Connection& one, const Way& way) const {
    Fixed fixed;
    fixed.first_packet =
        std::min<std::uint64_t>(one.bytes, format_.payload_bytes) + format_.overhead_bytes;
    for (const std::uint32_t link : way.links) {
      const fabric::LinkSettings& there = ways_.wiring().settings(link);
      const fabric::LinkSettings& back = ways_.wiring().settings(ways_.wiring().back(link));
      fixed.there = fixed.there + there.latency + time_of(fixed.first_packet, there.bits_per_s);
      fixed.back = fixed.back + back.latency + time_of(format_.overhead_bytes, back.bits_per_s);
    }
    return fixed;
  }

  // How long a set of cables takes for this many bytes, apart from the flow's first packet.
  [[nodiscard]] Span rest(std::uint32_t flow, std::uint64_t bytes, const Cut& cut) const {
    return time_of(bytes - fixed_[flow].first_packet, cut.bits_per_s);
  }

  [[nodiscard]] std::vector<Span> of_steps(const Ideal& alone) const {
    std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint64_t> bytes;  // by step and cut
    for (std::uint32_t i = 0; i < bytes_.size(); ++i) {
      for (const Cut& cut : way_of_[i].cuts) bytes[{alone.flows[i].step, cut.number}] += bytes_[i];
    }
    std::vector<Span> durations(bytes_.size());
    for (std::uint32_t i = 0; i < bytes_.size(); ++i) {
      for (const Cut& cut : way_of_[i].cuts) {
        const std::uint64_t all = bytes.at({alone.flows[i].step, cut.number});
        durations[i] = std::max(durations[i], rest(i, all, cut));
      }
    }
    return durations;
  }

  // Which flow starts which, in the order of time.
  [[nodiscard]] Ideal follow(const std::vector<Span>& durations) const {
    Ideal ideal;
    ideal.flows.resize(bytes_.size());
    enum class What : std::uint8_t { received, sent, expired };  // by a flow, or of a trigger
    using Event = std::tuple<Instant, std::uint32_t, What>;
    std::priority_queue<Event, std::vector<Event>, std::greater<>> events;
    std::map<std::pair<Instant, std::uint32_t>, std::uint32_t> steps;  // by root and depth
    std::vector<std::pair<Instant, std::uint32_t>> place(bytes_.size());
    const auto start = [&](std::uint32_t flow, Instant at) {
      FlowIdeal& one = ideal.flows[flow];
      one.started = at;
      one.received = at + fixed_[flow].there + durations[flow];
      one.ended = one.received + fixed_[flow].back;
      one.step =
          steps.try_emplace(place[flow], static_cast<std::uint32_t>(steps.size())).first->second;
      events.emplace(one.received, flow, What::received);
      events.emplace(one.ended, flow, What::sent);
    };
    // A delay for computing belongs to the step before it.
    Instant now{};
    std::pair<Instant, std::uint32_t> from{};
    std::map<std::uint32_t, std::pair<Instant, std::uint32_t>> waits;  // by trigger
    fabric::Triggers triggers(matrix_, [&](std::uint32_t trigger, Span delay) {
      waits[trigger] = from;
      events.emplace(now + delay, trigger, What::expired);
    });
    const auto follow_up = [&](const std::vector<std::uint32_t>& flows) {
      for (const std::uint32_t one : flows) {
        place[one] = {from.first, from.second + 1};
        start(one, now);
      }
    };
    for (std::uint32_t i = 0; i < bytes_.size(); ++i) {
      if (matrix_.connections[i].trigger != 0) continue;
      place[i] = {matrix_.connections[i].start, 0};
      start(i, matrix_.connections[i].start);
    }
    follow_up(triggers.begin());
    while (!events.empty()) {
      const auto [at, which, what] = events.top();
      events.pop();
      now = at;
      from = what == What::expired ? waits.at(which) : place[which];
      switch (what) {
        case What::received: follow_up(triggers.on_received(which)); break;
        case What::sent: follow_up(triggers.on_sent(which)); break;
        case What::expired: follow_up(triggers.expire(which)); break;
      }
    }
    return ideal;
  }

  // A set of cables must carry all bytes of all steps, in whatever order.
  [[nodiscard]] Instant by_all_bytes(const Ideal& ideal) const {
    struct Sum {
      std::uint64_t bytes = 0;
      std::uint64_t bits_per_s = 0;
      std::uint64_t first_packet = 0;
      Instant begin = kNever;  // the least of all flows, as is the next
      Span fixed{kNever.ps};
    };
    std::vector<Sum> sums(ways_.cuts());
    for (std::uint32_t i = 0; i < bytes_.size(); ++i) {
      if (ideal.flows[i].started == kNever) continue;
      for (const Cut& cut : way_of_[i].cuts) {
        Sum& sum = sums[cut.number];
        sum.bytes += bytes_[i];
        sum.bits_per_s = cut.bits_per_s;
        sum.first_packet = std::max(sum.first_packet, fixed_[i].first_packet);
        sum.begin = std::min(sum.begin, ideal.flows[i].started);
        sum.fixed = std::min(sum.fixed, fixed_[i].there + fixed_[i].back);
      }
    }
    Instant last{};
    for (const Sum& sum : sums) {
      if (sum.bytes == 0) continue;
      const Span time = time_of(sum.bytes - sum.first_packet, sum.bits_per_s);
      last = std::max(last, sum.begin + sum.fixed + time);
    }
    return last;
  }

  const ConnectionMatrix& matrix_;
  PacketFormat format_;
  Ways ways_;
  std::vector<Way> way_of_;
  std::vector<std::uint64_t> bytes_;  // on a cable
  std::vector<Fixed> fixed_;
};

}  // namespace

std::uint64_t wire_bytes(std::uint64_t payload, const PacketFormat& format) {
  const std::uint64_t packets =
      std::max<std::uint64_t>(1, (payload + format.payload_bytes - 1) / format.payload_bytes);
  return payload + packets * format.overhead_bytes;
}

Ideal ideal_completion(const ConnectionMatrix& matrix, const fabric::Shape& shape,
                       const PacketFormat& format) {
  return Calculation(matrix, shape, format).run();
}

}  // namespace hawser::experiment
