// SPDX-License-Identifier: Apache-2.0
#include "engine/host/nic_spec.hpp"

#include <algorithm>
#include <array>

#include "engine/driver/verbs/verbs.hpp"
#include "hawser/engine.hpp"

namespace hawser::engine {
namespace {

struct Kind {
  std::string_view name;
  NicSpec::Driver driver;
  const char* lack;  // what follows the colon
};

constexpr std::array<Kind, 3> kKinds{
    {{"udp", NicSpec::Driver::udp, "its address, as in udp:127.0.0.1"},
     {"verbs", NicSpec::Driver::verbs, "its RDMA device, as in verbs:mlx5_0"},
     {"memory", NicSpec::Driver::memory, "its fabric's name, as in memory:test"}}};

}  // namespace

NicSpec parse_nic_spec(std::string_view text) {
  const std::size_t colon = text.find(':');
  const auto kind = std::ranges::find(kKinds, text.substr(0, colon), &Kind::name);
  if (kind == kKinds.end()) {
    throw Error(
        "NIC \"" + std::string(text) +
        "\" has no kind that this build knows: write udp:ADDRESS, verbs:DEVICE or memory:FABRIC");
  }
  NicSpec spec{kind->driver, {}};
  if (colon != std::string_view::npos) spec.where = text.substr(colon + 1);
  if (spec.where.empty()) throw Error("NIC \"" + std::string(text) + "\" lacks " + kind->lack);
  if (spec.driver == NicSpec::Driver::verbs) (void)parse_verbs_port(spec.where);
  return spec;
}

std::string_view to_string(Family family) { return family == Family::v4 ? "IPv4" : "IPv6"; }

std::optional<Family> family_of(std::string_view name) {
  const std::size_t colon = name.find(':');
  if (colon == std::string_view::npos || name.substr(0, colon) != "udp") return std::nullopt;
  return name.find(':', colon + 1) == std::string_view::npos ? Family::v4 : Family::v6;
}

}  // namespace hawser::engine
