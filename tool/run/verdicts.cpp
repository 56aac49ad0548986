#include "tool/run/verdicts.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

namespace hawser::tool {
namespace {

constexpr std::size_t kWitnesses = 2;
// Cells judged, all in all: some seconds.
constexpr std::size_t kMaxCellsJudged = 20'000'000;

// Which NICs live, and by whom that is known: up to two opposites, as one of them may be in doubt.
class Living {
 public:
  explicit Living(std::span<const PathCell> cells) {
    for (const PathCell& cell : cells) {
      if (!cell.alive()) continue;
      add(cell.local, cell.remote);
      add(cell.remote, cell.local);
    }
  }
  // A path other than those to `other` carries packets of this NIC.
  [[nodiscard]] bool elsewhere(const NicId& nic, const NicId& other) const {
    const auto found = opposites_.find(nic);
    if (found == opposites_.end()) return false;
    return std::any_of(found->second.begin(), found->second.end(),
                       [&](const NicId& opposite) { return opposite != other; });
  }

 private:
  void add(const NicId& nic, const NicId& opposite) {
    std::set<NicId>& known = opposites_[nic];
    if (known.size() < 2) known.insert(opposite);
  }
  std::map<NicId, std::set<NicId>> opposites_;
};

// NICs of which no cell is alive, and enough dead ones have a witness. `own` and `opposite` choose
// rows or columns.
std::set<NicId> dead_lines(std::span<const PathCell> cells, const Living& living,
                           NicId PathCell::*own, NicId PathCell::*opposite) {
  std::set<NicId> alive;
  std::set<NicId> has_gone_down;
  std::map<NicId, std::set<NicId>> witnesses;
  for (const PathCell& cell : cells) {
    const NicId& nic = cell.*own;
    if (cell.state == PathCell::State::down) has_gone_down.insert(nic);
    if (cell.alive()) {
      alive.insert(nic);
    } else if (living.elsewhere(cell.*opposite, nic)) {
      witnesses[nic].insert(cell.*opposite);
    }
  }
  std::set<NicId> dead;
  for (const auto& [nic, known] : witnesses) {
    if (known.size() < kWitnesses || alive.contains(nic)) continue;
    if (has_gone_down.contains(nic)) dead.insert(nic);
  }
  return dead;
}

struct TimedChange {
  NicId local;
  PathChange change;
};

std::vector<TimedChange> in_order_of_time(std::span<const RankPaths> ranks) {
  std::vector<TimedChange> all;
  for (const RankPaths& rank : ranks) {
    for (const PathChange& change : rank.changes) {
      all.push_back({{rank.rank, change.nic}, change});
    }
  }
  std::stable_sort(all.begin(), all.end(), [](const TimedChange& a, const TimedChange& b) {
    return a.change.at_ns < b.change.at_ns;
  });
  return all;
}

// All that is known at one moment.
class Knowledge {
 public:
  void apply(const TimedChange& timed) {
    const PathChange& change = timed.change;
    const std::pair cell{timed.local, NicId{change.peer, change.remote_nic}};
    switch (change.kind) {
      case PathChange::Kind::up: cells_[cell] = PathCell::State::alive; break;
      case PathChange::Kind::down: cells_[cell] = PathCell::State::down; break;
      case PathChange::Kind::tried: cells_[cell] = PathCell::State::tried; break;
      case PathChange::Kind::gone: cells_.erase(cell); break;
      case PathChange::Kind::driver_down: gone_.insert(timed.local); break;
      case PathChange::Kind::driver_up: gone_.erase(timed.local); break;
    }
  }
  [[nodiscard]] std::vector<Verdict> verdicts() {
    const bool any_dead = std::any_of(cells_.begin(), cells_.end(), [](const auto& cell) {
      return cell.second == PathCell::State::down;
    });
    if (!any_dead && gone_.empty()) return {};
    std::vector<PathCell> cells;
    for (const auto& [ends, state] : cells_) cells.push_back({ends.first, ends.second, state});
    judged_ += cells.size();
    std::vector<Verdict> found = judge(cells);
    // A driver knows; what its NIC's paths tell is the same thing.
    std::erase_if(found, [this](const Verdict& verdict) {
      return verdict.kind == Verdict::Kind::link &&
             (gone_.contains(verdict.local) || gone_.contains(verdict.remote));
    });
    for (const NicId& nic : gone_) found.push_back({Verdict::Kind::local_nic, nic, {}});
    std::sort(found.begin(), found.end());
    found.erase(std::unique(found.begin(), found.end()), found.end());
    return found;
  }

  [[nodiscard]] bool too_much() const { return judged_ > kMaxCellsJudged; }

 private:
  std::map<std::pair<NicId, NicId>, PathCell::State> cells_;
  std::set<NicId> gone_;
  std::size_t judged_ = 0;
};

}  // namespace

std::vector<Verdict> judge(std::span<const PathCell> cells) {
  const Living living(cells);
  const std::set<NicId> rows = dead_lines(cells, living, &PathCell::local, &PathCell::remote);
  const std::set<NicId> columns = dead_lines(cells, living, &PathCell::remote, &PathCell::local);
  const auto dead = [&](const NicId& nic) { return rows.contains(nic) || columns.contains(nic); };
  std::vector<Verdict> verdicts;
  for (const NicId& nic : rows) verdicts.push_back({Verdict::Kind::local_nic, nic, {}});
  for (const NicId& nic : columns) verdicts.push_back({Verdict::Kind::remote_nic, {}, nic});
  for (const PathCell& cell : cells) {
    if (cell.state != PathCell::State::down || dead(cell.local) || dead(cell.remote)) continue;
    if (!living.elsewhere(cell.local, cell.remote)) continue;
    if (!living.elsewhere(cell.remote, cell.local)) continue;
    // Seen from either end, it is the same link.
    const auto& [first, second] = std::minmax(cell.local, cell.remote);
    verdicts.push_back({Verdict::Kind::link, first, second});
  }
  std::sort(verdicts.begin(), verdicts.end());
  verdicts.erase(std::unique(verdicts.begin(), verdicts.end()), verdicts.end());
  return verdicts;
}

std::vector<VerdictSpan> verdicts_of(std::span<const RankPaths> ranks) {
  const std::vector<TimedChange> changes = in_order_of_time(ranks);
  Knowledge knowledge;
  std::map<Verdict, std::uint64_t> open;  // since when
  std::vector<VerdictSpan> spans;
  const auto settle = [&](std::uint64_t at_ns) {
    const std::vector<Verdict> now = knowledge.verdicts();
    for (const Verdict& verdict : now) open.try_emplace(verdict, at_ns);
    std::erase_if(open, [&](const auto& entry) {
      if (std::binary_search(now.begin(), now.end(), entry.first)) return false;
      if (at_ns - entry.second >= kBriefNs) spans.push_back({entry.first, entry.second, at_ns});
      return true;
    });
  };
  for (std::size_t i = 0; i < changes.size(); ++i) {
    knowledge.apply(changes[i]);
    // What changes in one instant is judged together.
    const bool last = i + 1 == changes.size();
    if (last || changes[i + 1].change.at_ns != changes[i].change.at_ns) {
      settle(changes[i].change.at_ns);
      if (knowledge.too_much()) return {};
    }
  }
  for (const auto& [verdict, since] : open) spans.push_back({verdict, since});
  std::stable_sort(spans.begin(), spans.end(), [](const VerdictSpan& a, const VerdictSpan& b) {
    return a.from_ns < b.from_ns;
  });
  return spans;
}

}  // namespace hawser::tool
