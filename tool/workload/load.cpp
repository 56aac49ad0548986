#include <filesystem>
#include <fstream>
#include <iterator>

#include <fmt/format.h>

#include "tool/workload/builtin.hpp"
#include "tool/workload/files.hpp"

namespace hawser::tool {
namespace {

std::string read_file(const std::string& path) {
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(path, error);
  if (!std::filesystem::exists(status)) {
    std::string known;
    for (const BuiltinWorkload& workload : builtin_workloads()) {
      known += fmt::format("{}{}", known.empty() ? "" : ", ", workload.name);
    }
    throw InputError(fmt::format("workload '{}' is neither a file nor built in ({})", path, known));
  }
  if (!std::filesystem::is_regular_file(status)) {
    throw InputError(fmt::format("workload '{}' is not a regular file", path));
  }
  const std::uintmax_t bytes = std::filesystem::file_size(path, error);
  if (error || bytes > kMaxSourceBytes) {
    throw InputError(
        fmt::format("workload '{}' is larger than {} MiB", path, kMaxSourceBytes >> 20));
  }
  std::ifstream file(path, std::ios::binary);
  std::string text(std::istreambuf_iterator<char>(file), {});
  if (!file.good() && !file.eof()) throw InputError(fmt::format("cannot read workload '{}'", path));
  return text;
}

}  // namespace

Workload parse_workload(const Source& source) {
  for (std::size_t line = 1; line <= source.line_count(); ++line) {
    const std::string_view text = source.line(line);
    if (is_blank(text)) continue;
    if (text.starts_with("comm_type") || text.starts_with('[')) return parse_aicb_csv(source);
    return parse_astra_text(source);
  }
  throw InputError(fmt::format("{}:1: the file is empty", source.name()));
}

Workload load_workload(const std::string& name_or_path) {
  for (const BuiltinWorkload& workload : builtin_workloads()) {
    if (workload.name == name_or_path) return workload.make();
  }
  const std::string text = read_file(name_or_path);
  return parse_workload(Source(name_or_path, text));
}

}  // namespace hawser::tool
