// SPDX-License-Identifier: Apache-2.0
#include "tool/input_file.hpp"

#include <array>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <system_error>

#include <fmt/format.h>

#include "tool/error.hpp"

namespace hawser::tool {
namespace {

struct Close {
  void operator()(std::FILE* file) const { (void)std::fclose(file); }
};

[[noreturn]] void refuse_reading(const std::string& file, const std::string& what, int reason) {
  throw InputError(fmt::format("cannot read {} '{}': {}", what, file,
                               std::error_code(reason, std::generic_category()).message()));
}

}  // namespace

// Streams of the C library, as those of C++ throw or hide what a read reports.
std::string read_file(const std::string& file, const std::string& what) {
  std::error_code error;
  if (std::filesystem::is_directory(file, error)) {
    throw InputError(fmt::format("'{}' is a folder, not {}", file, what));
  }
  const std::unique_ptr<std::FILE, Close> in(std::fopen(file.c_str(), "rbe"));
  if (!in) refuse_reading(file, what, errno);
  std::string text;
  std::array<char, 65536> block;
  for (;;) {
    const std::size_t bytes = std::fread(block.data(), 1, block.size(), in.get());
    text.append(block.data(), bytes);
    if (bytes == block.size()) continue;
    if (std::ferror(in.get()) != 0) refuse_reading(file, what, errno);
    return text;
  }
}

}  // namespace hawser::tool
