// What a rank sees of its paths: when those of a pair of NICs stopped to carry packets and when
// they did again, and how many data packets each NIC has sent.
//
// Events of the endpoint give the moments; looks at its paths, now and then, give what no event
// tells of: paths that deliver, and bridges that are tried in vain.
#pragma once

#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

#include "hawser/engine.hpp"
#include "tool/run/verdicts.hpp"

namespace hawser::tool {

class PathLog {
 public:
  // Beyond them only their number is kept.
  static constexpr std::size_t kMaxChanges = 4096;

  // `peers` by rank; the entry of `rank` itself is not used. The endpoint outlives the log.
  PathLog(Endpoint& endpoint, const std::vector<PeerId>& peers, std::uint32_t rank);

  // The moment that times count from.
  void begin(std::uint64_t now_ns) { begun_ns_ = now_ns; }
  // Takes events, and looks at the paths if it is time.
  void look(std::uint64_t now_ns);
  // Looks at the paths in any case.
  void look_closely(std::uint64_t now_ns);
  // Sessions have been made anew: the same ranks, other peers.
  void replace_peers(const std::vector<PeerId>& peers);

  [[nodiscard]] const std::vector<PathChange>& changes() const { return changes_; }
  [[nodiscard]] std::uint64_t changes_left_out() const { return left_out_; }
  // As of the last look.
  [[nodiscard]] std::uint64_t data_packets_sent(std::size_t nic) const;

 private:
  using Cell = std::tuple<std::uint32_t, std::uint32_t, std::uint32_t>;  // nic, peer, remote NIC
  struct Count {
    std::uint8_t generation = 0;
    std::uint8_t nic = 0;
    std::uint64_t packets = 0;
    std::uint64_t delivered_bytes = 0;
  };

  void take_events();
  void look_at(std::uint32_t peer, const PeerStats& stats, std::uint64_t at_ns);
  bool count(std::uint32_t peer, const PathStats& path);
  void doubt(const Cell& dead, std::uint64_t at_ns);
  void set(const Cell& cell, PathCell::State state, std::uint64_t at_ns);
  void forget(std::uint32_t peer, const PeerStats& stats, std::uint64_t at_ns);
  void tell(PathChange::Kind kind, const Cell& cell, std::uint64_t at_ns);
  [[nodiscard]] std::uint64_t since_begin(std::uint64_t ns) const {
    return ns > begun_ns_ ? ns - begun_ns_ : 0;
  }

  Endpoint& endpoint_;
  std::vector<PeerId> peers_;
  std::uint32_t rank_;
  std::uint64_t begun_ns_ = 0;
  std::uint64_t next_look_ns_ = 0;
  bool any_down_ = false;
  std::map<Cell, PathCell::State> cells_;                           // others are not known
  std::map<std::pair<std::uint32_t, std::uint8_t>, Count> counts_;  // by peer and slot
  std::vector<std::uint64_t> finished_packets_;                     // of paths that are no more
  std::vector<PathChange> changes_;
  std::uint64_t left_out_ = 0;
};

}  // namespace hawser::tool
