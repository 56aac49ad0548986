// SPDX-License-Identifier: Apache-2.0
// Files that the command writes at its end: reports, plans, traces.
//
// A regular file is written beside its name, as NAME.part, and renamed when it is complete: a full
// disk or a kill leaves an older file as it was. Anything else, such as a pipe, is opened once,
// before the work. The reader of a pipe would take the end of a first opening for the end of the
// data, and a second opening would wait for another reader.
#pragma once

#include <cstdio>
#include <functional>
#include <iosfwd>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "tool/error.hpp"
#include "tool/exit_code.hpp"
#include "tool/standard_output.hpp"

namespace hawser::tool {

// The name of such a file. Copies share what is open.
class OutputFile {
 public:
  using Fill = std::function<void(std::ostream&)>;

  // Stands for no file: write() does nothing.
  OutputFile() = default;
  // `what` names the content in errors ("the report"). Throws InputError if the file can't be
  // written. Waits for the reader of a named pipe. Leaves no new file.
  OutputFile(std::string name, std::string what);

  // Throw InputError if part of the content could not be written.
  void write(const Fill& fill) const;
  void write(std::string_view text) const;

 private:
  [[noreturn]] void refuse() const;
  void write_to_open(std::string_view text) const;

  std::string name_;
  std::string what_;
  std::shared_ptr<std::FILE> open_;  // null: a regular file
};

// Whether opening the file may wait for another process, or show there: it exists, and is neither a
// regular file nor a folder.
[[nodiscard]] bool is_special_file(const std::string& name);

// Whether a file that is not special can be opened for writing. Leaves no new file: where the umask
// takes the owner's permission as well, it could not be opened a second time.
[[nodiscard]] bool can_be_opened(const std::string& name);

// Whether `write` went well. If it throws InputError, standard error has its sentence.
template <class Write>
[[nodiscard]] bool try_writing(Write&& write) {
  try {
    std::forward<Write>(write)();
    return true;
  } catch (const InputError& error) {
    tell("hawser: {}\n", error.what());
    return false;
  }
}

// The exit code of a command whose report was written or not. A failure of the command itself
// matters more than that of its report.
[[nodiscard]] constexpr ExitCode with_report(ExitCode code, bool is_written) {
  return code == ExitCode::ok && !is_written ? ExitCode::bad_input : code;
}

}  // namespace hawser::tool
