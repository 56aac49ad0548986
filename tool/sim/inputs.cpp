// SPDX-License-Identifier: Apache-2.0
#include "tool/sim/inputs.hpp"

#include <filesystem>
#include <vector>

#include <fmt/format.h>

#include "tool/error.hpp"
#include "tool/input_file.hpp"

namespace hawser::tool {
namespace {

namespace files = std::filesystem;

bool is_file(const files::path& path) {
  std::error_code error;
  return files::is_regular_file(path, error);
}

}  // namespace

std::string folder_of(const std::string& file) {
  const std::string folder = files::path(file).parent_path().string();
  return folder.empty() ? "." : folder;
}

const std::string& PlanInputs::content(const std::string& name, const std::string& get) {
  const auto found = known_.find(name);
  if (found != known_.end()) return found->second;
  std::vector<files::path> places{files::path(beside_) / name};  // an absolute name stays as it is
  if (!workloads_.empty()) places.push_back(files::path(workloads_) / name);
  for (const files::path& place : places) {
    if (is_file(place)) return known_[name] = read_file(place.string(), "an input");
  }
  std::string what =
      fmt::format("the plan needs the file '{}', which is not in '{}'", name, beside_);
  what += workloads_.empty() ? ", and HAWSER_WORKLOADS names no other folder"
                             : fmt::format(", nor in '{}' (HAWSER_WORKLOADS)", workloads_);
  if (!get.empty()) what += ". To get it: " + get;
  throw InputError(what);
}

}  // namespace hawser::tool
