// SPDX-License-Identifier: Apache-2.0
#include <charconv>

#include "engine/driver/verbs/verbs.hpp"
#include "hawser/engine.hpp"

namespace hawser::engine {
namespace {

// Parses all of `text` as a number up to `maximum`.
std::optional<std::uint32_t> number(std::string_view text, std::uint32_t maximum) {
  std::uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value > maximum) return {};
  return value;
}

}  // namespace

VerbsPortName parse_verbs_port(std::string_view text) {
  const auto refuse = [&](const char* reason) {
    return Error("verbs:" + std::string(text) + ": " + reason +
                 "; write DEVICE, DEVICE:PORT or DEVICE:PORT@GID_INDEX, as in verbs:mlx5_0:1@3");
  };
  VerbsPortName name;
  std::string_view rest = text;
  if (const std::size_t at = rest.find('@'); at != std::string_view::npos) {
    name.gid_index = number(rest.substr(at + 1), 65535);
    if (!name.gid_index) throw refuse("its GID index is not a number from 0 to 65535");
    rest = rest.substr(0, at);
  }
  if (const std::size_t colon = rest.find(':'); colon != std::string_view::npos) {
    const auto port = number(rest.substr(colon + 1), 254);
    if (!port || *port == 0) throw refuse("its port is not a number from 1 to 254");
    name.port = static_cast<std::uint8_t>(*port);
    rest = rest.substr(0, colon);
  }
  if (rest.empty()) throw refuse("it names no device");
  name.device = rest;
  return name;
}

std::string to_string(const VerbsPortName& name) {
  std::string text = name.device;
  if (name.port != 1) text.append(":").append(std::to_string(name.port));
  if (name.gid_index) text.append("@").append(std::to_string(*name.gid_index));
  return text;
}

std::string complaint_about_marks(std::uint64_t traffic_class, std::uint64_t service_level) {
  constexpr unsigned kEcnBits = 3;
  constexpr unsigned kEcnCapable = 2;
  constexpr unsigned kMaxServiceLevel = 15;
  const unsigned ecn = traffic_class & kEcnBits;
  if (ecn != 0 && ecn != kEcnCapable) {
    return "a traffic class of " + std::to_string(traffic_class) +
           " sets the ECN bits, which belong to the engine; its low two bits must be 0, or 2 as "
           "the engine sets them (a DSCP of 26 is 104)";
  }
  if (service_level > kMaxServiceLevel) {
    return "a service level is 0 to 15, not " + std::to_string(service_level);
  }
  return {};
}

}  // namespace hawser::engine
