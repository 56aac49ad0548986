// SPDX-License-Identifier: Apache-2.0
#include "tool/run/memory.hpp"

#include <sys/resource.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>

#include "tool/run/cgroup_memory.hpp"

namespace hawser::tool {
namespace {

std::string read_text(const char* path) {
  std::ifstream file(path);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

std::optional<std::uint64_t> parse(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end == text.data()) return std::nullopt;
  return value;
}

// The value in a line that starts with `key`; 0 if there is none.
std::uint64_t value_of_key(std::string_view text, std::string_view key) {
  for (std::size_t at = text.find(key); at != std::string_view::npos; at = text.find(key, at + 1)) {
    if (at > 0 && text[at - 1] != '\n') continue;
    std::string_view value = text.substr(at + key.size());
    value.remove_prefix(std::min(value.find_first_not_of(' '), value.size()));
    return parse(value).value_or(0);
  }
  return 0;
}

ProcessLimits process_limits() {
  const auto soft = [](int resource) {
    rlimit limit{};
    const bool is_known = ::getrlimit(resource, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
    return is_known ? std::uint64_t{limit.rlim_cur} : kUnknownMemory;
  };
  return {soft(RLIMIT_AS), soft(RLIMIT_DATA)};
}

}  // namespace

std::uint64_t meminfo_available_bytes(std::string_view meminfo) {
  return value_of_key(meminfo, "MemAvailable:") * 1024;
}

std::uint64_t peak_memory_bytes() {
  return value_of_key(read_text("/proc/self/status"), "VmHWM:\t") * 1024;
}

std::uint64_t left_of_limits(const ProcessLimits& limits, std::string_view status) {
  const auto left = [&](std::uint64_t limit, std::string_view used_key) {
    const std::uint64_t used = value_of_key(status, used_key) * 1024;
    return limit == kUnknownMemory ? limit : limit - std::min(limit, used);
  };
  return std::min(left(limits.address_space, "VmSize:\t"), left(limits.data, "VmData:\t"));
}

std::uint64_t process_memory_left_bytes() {
  return left_of_limits(process_limits(), read_text("/proc/self/status"));
}

MemoryRoom memory_room() {
  return {available_memory_bytes(), process_memory_left_bytes(),
          left_of_limits(process_limits(), {})};
}

std::uint64_t available_memory_bytes() {
  const std::uint64_t kernel = meminfo_available_bytes(read_text("/proc/meminfo"));
  std::uint64_t available = kernel > 0 ? kernel : kUnknownMemory;
  const auto groups =
      cgroup_available_bytes([](const std::string& path) { return read_text(path.c_str()); });
  if (groups) available = std::min(available, *groups);
  return available;
}

}  // namespace hawser::tool
