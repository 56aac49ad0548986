// SPDX-License-Identifier: Apache-2.0
#include "engine/registration/mappings.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <string_view>

#include "engine/descriptor.hpp"

namespace hawser::engine {
namespace {

// One line of /proc/self/maps: "BEGIN-END rwxp OFFSET MAJOR:MINOR INODE NAME".
struct Line {
  PageRange pages;
  bool is_private = false;
};

std::string_view word(std::string_view& rest) {
  const std::size_t end = std::min(rest.find(' '), rest.size());
  const std::string_view found = rest.substr(0, end);
  rest.remove_prefix(std::min(end + 1, rest.size()));
  return found;
}

bool parse(std::string_view text, Line& line) {
  const std::string_view addresses = word(text);
  const std::string_view access = word(text);
  (void)word(text);
  (void)word(text);
  const std::string_view inode = word(text);
  const char* const end = addresses.data() + addresses.size();
  const auto first = std::from_chars(addresses.data(), end, line.pages.begin, 16);
  if (first.ec != std::errc{} || first.ptr == end || *first.ptr != '-') return false;
  const auto second = std::from_chars(first.ptr + 1, end, line.pages.end, 16);
  line.is_private = access.size() == 4 && access[3] == 'p' && inode == "0";
  return second.ec == std::errc{} && !inode.empty();
}

}  // namespace

bool is_private_memory(const PageRange& pages) {
  const Descriptor maps(::open("/proc/self/maps", O_RDONLY | O_CLOEXEC));
  if (!maps) return false;
  std::array<char, 16384> text;  // the longest line is a path and its numbers
  std::size_t have = 0;
  std::uintptr_t known_to = pages.begin;
  for (;;) {
    const ssize_t got = ::read(maps.get(), text.data() + have, text.size() - have);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    have += static_cast<std::size_t>(got);
    std::string_view rest(text.data(), have);
    for (std::size_t end = rest.find('\n'); end != rest.npos; end = rest.find('\n')) {
      Line line;
      if (!parse(rest.substr(0, end), line)) return false;
      rest.remove_prefix(end + 1);
      if (line.pages.end <= known_to) continue;
      if (line.pages.begin > known_to || !line.is_private) return false;
      known_to = line.pages.end;
      if (known_to >= pages.end) return true;
    }
    std::memmove(text.data(), rest.data(), rest.size());
    have = rest.size();
    if (have == text.size()) return false;
  }
}

}  // namespace hawser::engine
