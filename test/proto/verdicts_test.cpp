// SPDX-License-Identifier: Apache-2.0
// Draws the matrix of NICs as pictures. A line is a local NIC and its characters are the remote
// NICs: `+` alive, `x` worked and is down, `?` tried in vain, `.` not known.
#include "proto/path/verdicts.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <vector>

namespace hawser::proto {
namespace {

using Picture = std::vector<std::string>;  // by local NIC

PeerEvidence evidence_of(const Picture& picture) {
  PeerEvidence evidence;
  for (std::size_t local = 0; local < picture.size(); ++local) {
    for (std::size_t remote = 0; remote < picture[local].size(); ++remote) {
      const auto bit = static_cast<std::uint16_t>(1u << local);
      switch (picture[local][remote]) {
        case '+': evidence.alive[remote] |= bit; break;
        case 'x': evidence.down[remote] |= bit; break;
        case '?': evidence.tried[remote] |= bit; break;
        default: break;
      }
    }
  }
  return evidence;
}

// The blamed NICs and links, as "local 1", "remote 5.2" or "link 0-5.2". Peers count from 5.
std::vector<std::string> verdicts(const std::vector<Picture>& peers) {
  VerdictJudge judge;
  std::uint32_t peer = 5;
  for (const Picture& picture : peers) judge.see(evidence_of(picture), peer++);
  std::vector<std::string> found;
  for (std::size_t i = 0; i < 16; ++i) {
    if ((judge.dead_local() >> i & 1) != 0) found.push_back("local " + std::to_string(i));
  }
  peer = 5;
  for (const Picture& picture : peers) {
    const VerdictJudge::OfPeer of_peer = judge.judge(evidence_of(picture), peer);
    for (std::size_t j = 0; j < 16; ++j) {
      const std::string name = std::to_string(peer) + "." + std::to_string(j);
      if ((of_peer.dead >> j & 1) != 0) found.push_back("remote " + name);
      for (std::size_t i = 0; i < 16; ++i) {
        if ((of_peer.links[j] >> i & 1) == 0) continue;
        found.push_back("link " + std::to_string(i) + "-" + name);
      }
    }
    ++peer;
  }
  return found;
}

struct Case {
  const char* what;
  std::vector<Picture> peers;
  std::vector<std::string> blamed;
};

const std::vector<Case> kCases{
    {"all live", {{"+++", "+++", "+++"}}, {}},
    {"nothing is known", {{"...", "...", "..."}}, {}},
    {"no peers", {}, {}},
    {"none lives", {{"xxx", "xxx", "xxx"}}, {}},
    {"a row", {{"+++", "xxx", "+++"}}, {"local 1"}},
    {"a column", {{"++x", "++x", "++x"}}, {"remote 5.2"}},
    {"a cell", {{"+++", "++x", "+++"}}, {"link 1-5.2"}},
    {"a row and a column", {{"xxx", "x++", "x++"}}, {"local 0", "remote 5.0"}},
    {"two cells of one row", {{"+xx", "+++", "+++"}}, {"link 0-5.1", "link 0-5.2"}},
    {"two rows of three", {{"xxx", "xxx", "+++"}}, {"local 0", "local 1"}},

    // These paths are bound as sessions bind them: one per NIC, and bridges.
    {"a dead local NIC and its bridges", {{"x??", ".+.", "..+"}}, {"local 0"}},
    {"a dead remote NIC, a bridge, a witness", {{"x+.", "?+.", "..+"}}, {"remote 5.0"}},
    {"a dead link, a bridge, a witness", {{"x+.", "++.", "..+"}}, {"link 0-5.0"}},
    {"before the witness has answered", {{"x+.", ".+.", "..+"}}, {}},

    // These need witnesses.
    {"one pair of two is down", {{"x.", ".+"}}, {}},
    {"two NICs, one peer: one witness", {{"x?", ".+"}}, {}},
    {"two NICs, two peers", {{"x?", ".+"}, {"x?", ".+"}}, {"local 0"}},
    {"one NIC, three peers: who lives elsewhere?", {{"x"}, {"x"}, {"+"}}, {}},
    {"the remote NICs live by nobody else", {{"xx", ".."}}, {}},
    {"a witness of a column that lives only there", {{"x+", "x."}}, {}},
    {"its life is shown by another peer", {{"x+", "x."}, {"..", "+."}}, {"remote 5.0"}},

    // A pair that was tried in vain proves less than one that went down.
    {"a row that was only tried", {{"+++", "???", "+++"}}, {}},
    {"a column that was only tried", {{"++?", "++?", "++?"}}, {}},
    {"a cell that was only tried", {{"+++", "++?", "+++"}}, {}},
    {"tried, but for one", {{"+++", "?x?", "+++"}}, {"local 1"}},

    // The peer sends nothing at all.
    {"a host that is gone", {{"xx", "xx"}, {"++", "++"}}, {}},
    {"all but one NIC of a host", {{"xx+", "xx+", "xx+"}}, {"remote 5.0", "remote 5.1"}},
    {"the same remote NIC number of two peers is not the same NIC",
     {{"x+", "++"}, {"x+", "++"}},
     {"link 0-5.0", "link 0-6.0"}},
};

TEST_CASE("verdicts__pictures") {
  for (const Case& one : kCases) {
    INFO(one.what);
    CHECK(verdicts(one.peers) == one.blamed);
  }
}

// A NIC or link that carries packets is never blamed, nor is one that never worked. A link that is
// alive never adds a verdict on a NIC.
TEST_CASE("verdicts__properties_of_all_small_matrices") {
  constexpr char kStates[] = {'.', '+', 'x', '?'};
  for (std::uint32_t code = 0; code < (1u << 18); ++code) {
    Picture picture(3, "...");
    for (std::size_t cell = 0; cell < 9; ++cell) {
      picture[cell / 3][cell % 3] = kStates[code >> (2 * cell) & 3];
    }
    const PeerEvidence evidence = evidence_of(picture);
    VerdictJudge judge;
    judge.see(evidence, 0);
    const VerdictJudge::OfPeer of_peer = judge.judge(evidence, 0);
    bool good = true;
    for (std::size_t j = 0; j < 3; ++j) {
      const bool dead = (of_peer.dead >> j & 1) != 0;
      good &= !dead || (evidence.alive[j] == 0 && evidence.down[j] != 0 && of_peer.links[j] == 0);
      good &= (of_peer.links[j] & ~evidence.down[j]) == 0;
      good &= (of_peer.links[j] & judge.dead_local()) == 0;
      good &= (judge.dead_local() & evidence.alive[j]) == 0;
    }
    if (!good) FAIL(picture[0] << ' ' << picture[1] << ' ' << picture[2]);
  }
}

}  // namespace
}  // namespace hawser::proto
