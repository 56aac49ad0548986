// SPDX-License-Identifier: Apache-2.0
#include "engine/host/nic_spec.hpp"

#include <algorithm>
#include <array>

#include "engine/driver/verbs/verbs.hpp"
#include "hawser/engine.hpp"

namespace hawser {
namespace engine {
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

constexpr std::string_view kUdp = "udp";
constexpr std::string_view kVerbs = "verbs";

std::string joined(std::string_view kind, std::string_view where) {
  return std::string(kind).append(":").append(where);
}

}  // namespace

NicSpec parse_nic_spec(std::string_view text) {
  const std::string_view word = text.substr(0, text.find(':'));
  const auto kind = std::ranges::find(kKinds, word, &Kind::name);
  if (kind == kKinds.end()) {
    throw Error(
        "NIC \"" + std::string(text) +
        "\" has no kind that this build knows: write udp:ADDRESS, verbs:DEVICE or memory:FABRIC");
  }
  NicSpec spec{kind->driver, std::string(split_nic_name(text).where)};
  if (spec.where.empty()) throw Error("NIC \"" + std::string(text) + "\" lacks " + kind->lack);
  if (spec.driver == NicSpec::Driver::verbs) (void)parse_verbs_port(spec.where);
  return spec;
}

std::string udp_name(std::string_view address) { return joined(kUdp, address); }
std::string verbs_name(std::string_view port) { return joined(kVerbs, port); }

bool is_udp_name(std::string_view name) { return split_nic_name(name).kind == kUdp; }
bool is_verbs_name(std::string_view name) { return split_nic_name(name).kind == kVerbs; }

UdpPlace udp_place(std::string_view name) {
  const NicName parts = split_nic_name(name);
  if (parts.kind != kUdp) return {};
  const std::size_t percent = parts.where.find('%');
  if (percent == std::string_view::npos) return {parts.where, {}};
  return {parts.where.substr(0, percent), parts.where.substr(percent + 1)};
}

std::string_view verbs_device(std::string_view name) {
  const NicName parts = split_nic_name(name);
  if (parts.kind != kVerbs) return {};
  return parts.where.substr(0, parts.where.find_first_of(":@"));
}

std::string_view to_string(Family family) { return family == Family::v4 ? "IPv4" : "IPv6"; }

std::optional<Family> family_of(std::string_view name) {
  if (!is_udp_name(name)) return std::nullopt;
  const bool has_colon = udp_place(name).address.find(':') != std::string_view::npos;
  return has_colon ? Family::v6 : Family::v4;
}

}  // namespace engine

NicName split_nic_name(std::string_view name) {
  const std::size_t colon = name.find(':');
  if (colon == std::string_view::npos) return {};
  const std::string_view kind = name.substr(0, colon);
  if (std::ranges::find(engine::kKinds, kind, &engine::Kind::name) == engine::kKinds.end()) {
    return {};
  }
  return {kind, name.substr(colon + 1)};
}

}  // namespace hawser
