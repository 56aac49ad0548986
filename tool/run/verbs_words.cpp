// SPDX-License-Identifier: Apache-2.0
#include "tool/run/verbs_words.hpp"

#include <fmt/format.h>

#include "engine/host/nic_spec.hpp"
#include "hawser/engine.hpp"

namespace hawser::tool {

VerbsChoice choose_verbs(bool is_built, std::span<const engine::VerbsPortInfo> ports,
                         std::size_t most) {
  VerbsChoice choice;
  std::vector<std::string> reasons;
  std::vector<std::string> beyond;
  for (const engine::VerbsPortInfo& port : ports) {
    if (!port.usable) {
      reasons.push_back(port.description);
    } else {
      (choice.nics.size() < most ? choice.nics : beyond).push_back(engine::verbs_name(port.name));
    }
  }
  if (choice.nics.empty()) {
    if (!is_built) {
      reasons = {"this build has no RDMA verbs (install libibverbs-dev and build again)"};
    } else if (reasons.empty()) {
      reasons = {"this host has no RDMA device (`rdma link` lists them)"};
    }
    choice.notes = {
        fmt::format("--nic verbs: {}; UDP NICs are used instead", fmt::join(reasons, "; "))};
    return choice;
  }
  for (const std::string& reason : reasons) {
    choice.notes.push_back("--nic verbs leaves out " + reason);
  }
  if (!beyond.empty()) {
    choice.notes.push_back(
        fmt::format("--nic verbs leaves out {}: {} ports are usable, and a rank has at most {} "
                    "NICs; name others with --nic verbs:DEVICE[:PORT]",
                    fmt::join(beyond, ", "), choice.nics.size() + beyond.size(), most));
  }
  return choice;
}

std::vector<engine::VerbsPortInfo> verbs_ports_of(std::span<const std::string> nics) {
  std::vector<engine::VerbsPortInfo> ports;
  for (const std::string& name : nics) {
    try {
      const engine::NicSpec spec = engine::parse_nic_spec(name);
      if (spec.driver != engine::NicSpec::Driver::verbs) continue;
      ports.push_back(engine::verbs_port(engine::parse_verbs_port(spec.where)));
    } catch (const Error&) {  // the engine refuses it, and says why
    }
  }
  return ports;
}

std::vector<std::string> reasons_of_silence(std::span<const engine::VerbsPortInfo> before,
                                            std::span<const engine::VerbsPortInfo> now,
                                            std::uint64_t handshakes_sent) {
  std::vector<std::string> lines;
  for (std::size_t i = 0; i < before.size() && i < now.size(); ++i) {
    if (const auto turned_away = now[i].pkey_violations - before[i].pkey_violations) {
      lines.push_back(fmt::format(
          "verbs:{} rejected {} datagrams with a wrong P_Key during the run: the senders' ports "
          "are not in its partition; compare the P_Keys that `hawser info` shows at both ends, and "
          "have the subnet manager put the ports into one partition",
          now[i].name, turned_away));
    }
    if (!now[i].usable) lines.push_back(now[i].description);
  }
  if (now.empty() || !lines.empty()) return lines;
  lines.emplace_back(
      handshakes_sent == 0
          ? "no RDMA port of this rank found a route to the other rank's ports: nothing answers "
            "for their addresses, or the GIDs of the two ends differ in kind; compare the GIDs "
            "that `hawser info` shows at both ends, and choose one by verbs:DEVICE@GID_INDEX"
          : "RDMA ports of this rank sent handshakes, and none was answered: compare the GIDs and "
            "P_Keys that `hawser info` shows at both ends; if they agree, check that the other end "
            "runs, and that the network connects the ports");
  return lines;
}

}  // namespace hawser::tool
