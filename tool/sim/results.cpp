// SPDX-License-Identifier: Apache-2.0
#include "tool/sim/results.hpp"

#include <filesystem>
#include <system_error>

#include <fmt/format.h>

#include "tool/error.hpp"

namespace hawser::tool {
namespace {

[[noreturn]] void refuse_file(const std::string& file) {
  throw InputError(fmt::format("cannot write '{}': no space, or no permission", file));
}

}  // namespace

ResultsFolder::ResultsFolder(std::string folder) : folder_(std::move(folder)) {
  std::error_code error;
  made_folder_ = std::filesystem::create_directory(folder_, error);
  std::error_code ignored;
  if (made_folder_) {
    // The umask may take the owner's permission to make files in it.
    std::filesystem::permissions(folder_, std::filesystem::perms::owner_all,
                                 std::filesystem::perm_options::add, ignored);
  }
  if (!std::filesystem::is_directory(folder_, ignored)) {
    throw InputError(fmt::format("cannot create the folder '{}' for results: {}", folder_,
                                 error ? error.message() : std::string("it is not a folder")));
  }
  write("runs.csv", "");  // an unwritable folder is noticed before hours of runs
}

ResultsFolder::~ResultsFolder() {
  std::error_code ignored;
  for (auto& [name, file] : files_) {
    file.close();
    std::filesystem::remove(part(name), ignored);
  }
  if (made_folder_) std::filesystem::remove(folder_, ignored);  // only removes an empty folder
}

void ResultsFolder::write(const std::string& name, std::string_view text) {
  auto [at, is_new] = files_.try_emplace(name);
  if (is_new) at->second.open(part(name), std::ios::binary | std::ios::trunc);
  at->second << text;
  at->second.flush();
  if (!at->second) refuse_file(path(name));
}

void ResultsFolder::finish() {
  for (auto& [name, file] : files_) {
    file.close();
    if (!file) refuse_file(path(name));
  }
  for (const auto& [name, file] : files_) {
    std::error_code error;
    std::filesystem::rename(part(name), path(name), error);
    if (error) refuse_file(path(name));
  }
  files_.clear();
  made_folder_ = false;
}

}  // namespace hawser::tool
