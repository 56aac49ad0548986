// SPDX-License-Identifier: Apache-2.0
#include "engine/driver/verbs/verbs_gid.hpp"

#include <algorithm>
#include <limits>
#include <vector>

namespace hawser::engine {
namespace {

constexpr int kNever = std::numeric_limits<int>::max();

// Lower is better.
int rank(const GidEntry& entry) {
  if (entry.index > kMaxGidIndex) return kNever;
  switch (entry.kind) {
    case GidEntry::Kind::infiniband: return 0;
    case GidEntry::Kind::roce_v1: return kNever;
    case GidEntry::Kind::roce_v2: break;
  }
  if (is_ipv4(entry.gid)) return 0;
  return is_link_local(entry.gid) ? 2 : 1;
}

}  // namespace

std::string_view description_of(const GidEntry& entry) {
  switch (entry.kind) {
    case GidEntry::Kind::infiniband: return "InfiniBand";
    case GidEntry::Kind::roce_v1: return "RoCE v1";
    case GidEntry::Kind::roce_v2: break;
  }
  if (is_ipv4(entry.gid)) return "RoCE v2, IPv4";
  return is_link_local(entry.gid) ? "RoCE v2, IPv6 of its link" : "RoCE v2, IPv6";
}

std::optional<GidEntry> choose_gid(std::span<const GidEntry> table) {
  const auto better = [](const GidEntry& a, const GidEntry& b) {
    return rank(a) != rank(b) ? rank(a) < rank(b) : a.index < b.index;
  };
  const auto best = std::min_element(table.begin(), table.end(), better);
  if (best == table.end() || rank(*best) == kNever) return std::nullopt;
  return *best;
}

std::optional<GidEntry> choose_gid_again(std::span<const GidEntry> table, const GidEntry& present) {
  std::vector<GidEntry> same;
  std::vector<GidEntry> alike;
  for (const GidEntry& entry : table) {
    if (entry.kind != present.kind || rank(entry) != rank(present)) continue;
    alike.push_back(entry);
    if (entry.gid == present.gid) same.push_back(entry);
  }
  if (const auto kept = choose_gid(same)) return kept;
  return choose_gid(alike);
}

}  // namespace hawser::engine
