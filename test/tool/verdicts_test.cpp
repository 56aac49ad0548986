#include "tool/run/verdicts.hpp"

#include <algorithm>
#include <catch2/catch.hpp>

namespace hawser::tool {
namespace {

using Kind = Verdict::Kind;
using Change = PathChange::Kind;
using State = PathCell::State;

// All paths between the NICs of two ranks, three each, as both see them; `dead` says which are.
template <class Dead>
std::vector<PathCell> matrix(Dead&& dead) {
  std::vector<PathCell> cells;
  for (std::uint32_t i = 0; i < 3; ++i) {
    for (std::uint32_t j = 0; j < 3; ++j) {
      cells.push_back({{0, i}, {1, j}, dead(i, j) ? State::down : State::alive});
    }
  }
  return cells;
}

TEST_CASE("verdicts: nothing is to blame while all live, or none does") {
  CHECK(judge({}).empty());
  CHECK(judge(matrix([](auto, auto) { return false; })).empty());
  CHECK(judge(matrix([](auto, auto) { return true; })).empty());
}

TEST_CASE("verdicts: a dead row is a local NIC, a dead column a remote one, one cell a link") {
  const auto row = judge(matrix([](auto i, auto) { return i == 1; }));
  CHECK(row == std::vector<Verdict>{{Kind::local_nic, {0, 1}, {}}});
  const auto column = judge(matrix([](auto, auto j) { return j == 2; }));
  CHECK(column == std::vector<Verdict>{{Kind::remote_nic, {}, {1, 2}}});
  const auto cell = judge(matrix([](auto i, auto j) { return i == 1 && j == 2; }));
  CHECK(cell == std::vector<Verdict>{{Kind::link, {0, 1}, {1, 2}}});
  const auto cross = judge(matrix([](auto i, auto j) { return i == 0 || j == 0; }));
  CHECK(cross ==
        std::vector<Verdict>{{Kind::local_nic, {0, 0}, {}}, {Kind::remote_nic, {}, {1, 0}}});
}

TEST_CASE("verdicts: without two witnesses that live elsewhere nobody is blamed") {
  // One NIC a side but for one: the dead path may be either's fault.
  CHECK(judge(std::vector<PathCell>{{{0, 0}, {1, 0}, State::down}, {{0, 1}, {1, 1}, State::alive}})
            .empty());
  // A row of two dead cells, but one of the remote NICs is dead everywhere.
  const std::vector<PathCell> one{{{0, 0}, {1, 0}, State::down},
                                  {{0, 0}, {1, 1}, State::down},
                                  {{0, 1}, {1, 1}, State::down},
                                  {{0, 1}, {1, 0}, State::alive}};
  for (const Verdict& verdict : judge(one)) CHECK(verdict.kind != Kind::local_nic);
  const std::vector<PathCell> two{{{0, 0}, {1, 0}, State::down},
                                  {{0, 0}, {1, 1}, State::down},
                                  {{0, 1}, {1, 1}, State::alive},
                                  {{0, 1}, {1, 0}, State::alive}};
  CHECK(judge(two) == std::vector<Verdict>{{Kind::local_nic, {0, 0}, {}}});
}

TEST_CASE("verdicts: what was only tried blames nobody, but bears witness") {
  auto cells = matrix([](auto i, auto) { return i == 1; });
  for (PathCell& cell : cells) {
    if (!cell.alive()) cell.state = State::tried;
  }
  CHECK(judge(cells).empty());
  cells[4].state = State::down;  // NIC 1 to NIC 1
  CHECK(judge(cells) == std::vector<Verdict>{{Kind::local_nic, {0, 1}, {}}});
}

TEST_CASE("verdicts: the rows of several ranks make a column") {
  // Rank 2's NIC 0 is dead to NIC 0 of ranks 0 and 1, which reach each other.
  const std::vector<PathCell> cells{
      {{0, 0}, {2, 0}, State::down}, {{1, 0}, {2, 0}, State::down}, {{0, 0}, {1, 0}, State::alive}};
  CHECK(judge(cells) == std::vector<Verdict>{{Kind::remote_nic, {}, {2, 0}}});
}

TEST_CASE("verdicts: a link is one, whichever end sees it") {
  auto cells = matrix([](auto i, auto j) { return i == 1 && j == 2; });
  cells.push_back({{1, 2}, {0, 1}, State::down});
  CHECK(judge(cells) == std::vector<Verdict>{{Kind::link, {0, 1}, {1, 2}}});
}

constexpr std::uint64_t kMs = 1'000'000;

TEST_CASE("verdicts: they last as long as the paths say so") {
  std::vector<PathChange> changes;
  for (std::uint32_t nic = 0; nic < 2; ++nic) {
    for (std::uint32_t peer = 1; peer < 4; ++peer) {
      changes.push_back({Change::up, 0, nic, peer, nic});
      changes.push_back({Change::up, 0, 1, peer, 0});
    }
  }
  changes.push_back({Change::down, 100 * kMs, 0, 1, 0});
  changes.push_back({Change::gone, 100 * kMs, 0, 2, 0});
  changes.push_back({Change::gone, 100 * kMs, 0, 3, 0});
  changes.push_back({Change::down, 110 * kMs, 0, 2, 0});  // the second witness
  changes.push_back({Change::up, 200 * kMs, 0, 1, 0});
  const RankPaths rank{0, changes};
  const auto spans = verdicts_of(std::span(&rank, 1));
  const auto blamed = std::find_if(spans.begin(), spans.end(), [](const VerdictSpan& span) {
    return span.verdict.blames({0, 0});
  });
  REQUIRE(blamed != spans.end());
  CHECK(blamed->from_ns == 110 * kMs);
  CHECK(blamed->to_ns == 200 * kMs);
}

TEST_CASE("verdicts: a driver's word needs no witness, and a brief doubt is none") {
  const std::vector<PathChange> changes{{Change::up, 0, 0, 1, 0},
                                        {Change::driver_down, 5 * kMs, 0, 0, 0},
                                        {Change::driver_up, 6 * kMs, 0, 0, 0},
                                        {Change::driver_down, 50 * kMs, 0, 0, 0}};
  const RankPaths rank{7, changes};
  const auto spans = verdicts_of(std::span(&rank, 1));
  REQUIRE(spans.size() == 1);
  CHECK(spans[0].verdict == Verdict{Kind::local_nic, {7, 0}, {}});
  CHECK(spans[0].from_ns == 50 * kMs);
  CHECK(spans[0].to_ns == VerdictSpan::kToTheEnd);
}

}  // namespace
}  // namespace hawser::tool
