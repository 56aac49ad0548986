// SPDX-License-Identifier: Apache-2.0
#include "tool/run/cgroup_memory.hpp"

#include <algorithm>
#include <charconv>
#include <sstream>
#include <string_view>
#include <vector>

namespace hawser::tool {
namespace {

// Version 1 writes a limit of about 2^63 where there is none.
constexpr std::uint64_t kNoLimit = std::uint64_t{1} << 62;

struct Version {
  std::string_view file_system;
  const char* limit;
  const char* used;
  // Keys of memory.stat: pages of files, which count as used, but can be dropped when memory is
  // short.
  const char* inactive_files;
  const char* active_files;
};
constexpr Version kFirst{"cgroup", "memory.limit_in_bytes", "memory.usage_in_bytes",
                         "total_inactive_file", "total_active_file"};
constexpr Version kSecond{"cgroup2", "memory.max", "memory.current", "inactive_file",
                          "active_file"};

std::vector<std::string> words_of(const std::string& line) {
  std::istringstream stream(line);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

std::optional<std::uint64_t> number(const std::string& text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end == text.data()) return std::nullopt;  // "max": there is no limit
  return value;
}

std::uint64_t of_key(const std::string& stat, std::string_view key) {
  std::istringstream lines(stat);
  for (std::string line; std::getline(lines, line);) {
    const std::vector<std::string> words = words_of(line);
    if (words.size() == 2 && words[0] == key) return number(words[1]).value_or(0);
  }
  return 0;
}

bool lists(std::string_view names, std::string_view name) {
  while (!names.empty()) {
    const std::size_t end = std::min(names.find(','), names.size());
    if (names.substr(0, end) == name) return true;
    names.remove_prefix(std::min(end + 1, names.size()));
  }
  return false;
}

// The process's group, as /proc/self/cgroup names it: "0::/user.slice" in version 2,
// "4:memory:/slurm/job_7" in version 1.
std::optional<std::string> group_of(const std::string& cgroups, const Version& version) {
  std::istringstream lines(cgroups);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string_view controllers =
        std::string_view(line).substr(first + 1, second - first - 1);
    const bool is_it = &version == &kSecond ? controllers.empty() : lists(controllers, "memory");
    if (is_it) return line.substr(second + 1);
  }
  return std::nullopt;
}

struct Mount {
  std::string root;   // the group that lies at `point`
  std::string point;  // a folder
};

// "33 28 0:29 /docker/7 /sys/fs/cgroup/memory ro,nosuid - cgroup cgroup rw,memory"
std::optional<Mount> mount_of(const std::string& mounts, const Version& version) {
  std::istringstream lines(mounts);
  for (std::string line; std::getline(lines, line);) {
    const std::vector<std::string> words = words_of(line);
    const auto dash = std::ranges::find(words, "-");
    if (words.size() < 5 || words.end() - dash < 4 || *(dash + 1) != version.file_system) continue;
    if (&version == &kFirst && !lists(*(dash + 3), "memory")) continue;
    return Mount{words[3], words[4]};
  }
  return std::nullopt;
}

// The folder of the group, below where its tree is mounted; the mount itself if it is not there.
std::string below_mount(const std::string& group, const Mount& mount) {
  std::string_view below = group;
  if (mount.root != "/") {
    if (!below.starts_with(mount.root)) return "";
    below.remove_prefix(mount.root.size());
    if (!below.empty() && below.front() != '/') return "";
  }
  return below == "/" || below.starts_with("/..") ? "" : std::string(below);
}

std::optional<std::uint64_t> left_by(const ReadFile& read, const std::string& folder,
                                     const Version& version) {
  const auto limit = number(read(folder + "/" + version.limit));
  const auto used = number(read(folder + "/" + version.used));
  if (!limit || !used || *limit >= kNoLimit) return std::nullopt;
  const std::string stat = read(folder + "/memory.stat");
  const std::uint64_t files =
      of_key(stat, version.inactive_files) + of_key(stat, version.active_files);
  const std::uint64_t kept = *used - std::min(*used, files);
  return *limit - std::min(*limit, kept);
}

}  // namespace

std::optional<std::uint64_t> cgroup_available_bytes(const ReadFile& read) {
  const std::string cgroups = read("/proc/self/cgroup");
  const std::string mounts = read("/proc/self/mountinfo");
  std::optional<std::uint64_t> least;
  for (const Version* version : {&kFirst, &kSecond}) {
    const auto mount = mount_of(mounts, *version);
    const auto group = group_of(cgroups, *version);
    if (!mount || !group) continue;
    for (std::string below = below_mount(*group, *mount);;) {
      const auto left = left_by(read, mount->point + below, *version);
      if (left && (!least || *left < *least)) least = left;
      if (below.empty()) break;
      below.erase(below.rfind('/'));
    }
  }
  return least;
}

}  // namespace hawser::tool
