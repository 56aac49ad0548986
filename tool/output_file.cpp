// SPDX-License-Identifier: Apache-2.0
#include "tool/output_file.hpp"

#include <filesystem>
#include <fstream>
#include <sstream>

#include <fmt/format.h>

namespace hawser::tool {
namespace {

namespace files = std::filesystem;

// The file behind a link: a rename to the link's own name would replace the link.
std::string target_of(const std::string& name) {
  std::error_code error;
  const files::path target = files::canonical(name, error);
  return error ? name : target.string();
}

// Writes NAME.part and renames it. False if the folder refuses that, although the file itself may
// be writable; `is_written` says whether the disk took the content.
bool replace(const std::string& target, const OutputFile::Fill& fill, bool& is_written) {
  const std::string part = target + ".part";
  std::ofstream out(part, std::ios::binary | std::ios::trunc);
  if (!out) return false;
  fill(out);
  out.close();
  is_written = out.good();
  std::error_code error;
  if (is_written) {
    const files::file_status before = files::status(target, error);
    if (files::exists(before)) files::permissions(part, before.permissions(), error);
    files::rename(part, target, error);
    if (!error) return true;
  }
  files::remove(part, error);
  return false;
}

}  // namespace

bool is_special_file(const std::string& name) {
  // Names of open descriptors. One of them may be a regular file that holds other output as well.
  for (const std::string_view open : {"/dev/std", "/dev/fd/", "/proc/"}) {
    if (name.starts_with(open)) return true;
  }
  std::error_code error;
  const files::file_status status = files::status(name, error);
  return files::exists(status) && !files::is_regular_file(status) && !files::is_directory(status);
}

bool can_be_opened(const std::string& name) {
  std::error_code error;
  const bool is_there = files::exists(files::symlink_status(name, error));
  if (!std::ofstream(name, std::ios::app)) return false;
  if (!is_there) files::remove(name, error);
  return true;
}

OutputFile::OutputFile(std::string name, std::string what)
    : name_(std::move(name)), what_(std::move(what)) {
  if (is_special_file(name_)) {
    // Not for the children of the command: the reader waits for the last writer.
    std::FILE* const file = std::fopen(name_.c_str(), "ae");
    if (file == nullptr) refuse();
    open_.reset(file, [](std::FILE* one) { (void)std::fclose(one); });
    return;
  }
  if (!can_be_opened(name_)) refuse();
}

void OutputFile::refuse() const {
  throw InputError(fmt::format("cannot write {} to '{}'", what_, name_));
}

void OutputFile::write_to_open(std::string_view text) const {
  const std::size_t bytes = std::fwrite(text.data(), 1, text.size(), open_.get());
  if (std::fflush(open_.get()) != 0 || bytes != text.size()) refuse();
}

void OutputFile::write(const Fill& fill) const {
  if (name_.empty()) return;
  if (open_) {
    std::ostringstream text;
    fill(text);
    return write_to_open(text.view());
  }
  const std::string target = target_of(name_);
  bool is_written = true;
  if (replace(target, fill, is_written)) return;
  if (!is_written) refuse();
  std::ofstream out(target, std::ios::binary | std::ios::trunc);
  fill(out);
  out.close();
  if (!out) refuse();
}

void OutputFile::write(std::string_view text) const {
  write([text](std::ostream& out) { out << text; });
}

}  // namespace hawser::tool
