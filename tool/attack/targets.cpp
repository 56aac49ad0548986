// SPDX-License-Identifier: Apache-2.0
#include "tool/attack/targets.hpp"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <sstream>
#include <string>
#include <system_error>

#include <fmt/format.h>

#include "sim/input/text.hpp"

namespace hawser::tool {
namespace {

namespace fs = std::filesystem;

std::string read_text(const std::string& path) {
  std::ifstream file(path);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

// The launcher's other children, its attackers, have no rank.
bool is_rank(const std::string& process) {
  const std::string environment = '\0' + read_text(process + "/environ");
  return environment.find(std::string("\0HAWSER_RANK=", 13)) != std::string::npos;
}

void add_sockets(const std::string& process, std::set<std::string>& inodes) {
  constexpr std::string_view kPrefix = "socket:[";
  std::error_code error;
  for (fs::directory_iterator at(process + "/fd", error), end; !error && at != end;
       at.increment(error)) {
    const std::string target = fs::read_symlink(at->path(), error).string();
    if (error) {  // closed meanwhile
      error.clear();
      continue;
    }
    if (!target.starts_with(kPrefix) || !target.ends_with(']')) continue;
    inodes.insert(target.substr(kPrefix.size(), target.size() - kPrefix.size() - 1));
  }
}

// "0100007F:1F90", in the byte order of this host.
std::optional<sockaddr_in> parse_address(std::string_view text) {
  const std::size_t colon = text.find(':');
  if (colon != 8) return std::nullopt;
  std::uint32_t address = 0;
  std::uint16_t port = 0;
  const char* const end = text.data() + text.size();
  if (std::from_chars(text.data(), text.data() + colon, address, 16).ptr != text.data() + colon ||
      std::from_chars(text.data() + colon + 1, end, port, 16).ptr != end) {
    return std::nullopt;
  }
  sockaddr_in found{};
  found.sin_family = AF_INET;
  found.sin_addr.s_addr = address;
  found.sin_port = htons(port);
  return found;
}

}  // namespace

std::vector<sockaddr_in> parse_udp_table(std::string_view text,
                                         const std::set<std::string>& inodes) {
  constexpr std::size_t kAddressWord = 1;
  constexpr std::size_t kInodeWord = 9;
  const fabric::Text source("udp", text);
  std::vector<sockaddr_in> sockets;
  for (std::size_t line = 2; line <= source.lines(); ++line) {
    const auto words = source.words(line);
    if (words.size() <= kInodeWord || !inodes.contains(std::string(words[kInodeWord]))) continue;
    const auto address = parse_address(words[kAddressWord]);
    if (!address) continue;
    // Two sockets may share a port: a screen is one of them.
    const bool known = std::any_of(sockets.begin(), sockets.end(), [&](const sockaddr_in& other) {
      return other.sin_port == address->sin_port &&
             other.sin_addr.s_addr == address->sin_addr.s_addr;
    });
    if (!known) sockets.push_back(*address);
  }
  return sockets;
}

std::vector<sockaddr_in> sockets_of_ranks(int launcher) {
  std::istringstream children(read_text(fmt::format("/proc/{0}/task/{0}/children", launcher)));
  std::set<std::string> inodes;
  for (std::string pid; children >> pid;) {
    const std::string process = fmt::format("/proc/{}", pid);
    if (is_rank(process)) add_sockets(process, inodes);
  }
  if (inodes.empty()) return {};
  return parse_udp_table(read_text("/proc/net/udp"), inodes);
}

}  // namespace hawser::tool
