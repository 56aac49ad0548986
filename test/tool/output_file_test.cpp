// SPDX-License-Identifier: Apache-2.0
// Files that are written at the end: whole or not at all, and pipes that are opened once.
#include "tool/output_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <ostream>
#include <string>

#include "tool/error.hpp"
#include "tool/input_file.hpp"

namespace hawser::tool {
namespace {

namespace files = std::filesystem;

class Folder {
 public:
  Folder() : path_("output_file_test." + std::to_string(::getpid())) {
    files::create_directory(path_);
  }
  ~Folder() { files::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  [[nodiscard]] std::string operator/(const std::string& name) const { return path_ + "/" + name; }
  [[nodiscard]] auto count() const {
    return std::distance(files::directory_iterator(path_), files::directory_iterator());
  }

 private:
  std::string path_;
};

std::string content(const std::string& name) { return read_file(name, "a report"); }

TEST_CASE("output_file: a file has its name when it is complete") {
  const Folder folder;
  const std::string name = folder / "report";
  const OutputFile file(name, "the report");
  CHECK(folder.count() == 0);
  file.write("first");
  CHECK(content(name) == "first");
  file.write([&](std::ostream& out) {
    out << "second" << std::flush;
    CHECK(content(name) == "first");
  });
  CHECK(content(name) == "second");
  CHECK(folder.count() == 1);
  OutputFile().write("nowhere");
}

// The file takes its content from a device that is full.
TEST_CASE("output_file: what is cut short leaves the older file") {
  const Folder folder;
  const std::string name = folder / "report";
  const OutputFile file(name, "the report");
  file.write("older");
  files::create_symlink("/dev/full", name + ".part");
  CHECK_THROWS_WITH(file.write("newer"), "cannot write the report to '" + name + "'");
  CHECK(content(name) == "older");
  CHECK(folder.count() == 1);
}

TEST_CASE("output_file: a link stays, and so do the permissions") {
  const Folder folder;
  std::ofstream(folder / "target") << "older";
  files::permissions(folder / "target", files::perms::owner_read | files::perms::owner_write);
  files::create_symlink("target", folder / "link");
  OutputFile(folder / "link", "the report").write("newer");
  CHECK(files::is_symlink(folder / "link"));
  CHECK(content(folder / "target") == "newer");
  CHECK(files::status(folder / "target").permissions() ==
        (files::perms::owner_read | files::perms::owner_write));
}

// As where the folder belongs to somebody else: here the other name is taken.
TEST_CASE("output_file: where no other name is possible the file is written in place") {
  const Folder folder;
  const std::string name = folder / "report";
  files::create_directory(name + ".part");
  const OutputFile file(name, "the report");
  file.write("long and old");
  file.write("new");
  CHECK(content(name) == "new");
}

TEST_CASE("output_file: what can't be written is told at once") {
  for (const char* const name : {"/nonexistent/report", "/tmp", ""}) {
    CHECK_THROWS_WITH(OutputFile(name, "the report"),
                      "cannot write the report to '" + std::string(name) + "'");
  }
  const OutputFile full("/dev/full", "the report");
  CHECK_THROWS_WITH(full.write("x"), "cannot write the report to '/dev/full'");
  CHECK_FALSE(try_writing([&] { full.write("x"); }));
  CHECK(with_report(ExitCode::ok, false) == ExitCode::bad_input);
  CHECK(with_report(ExitCode::wrong, false) == ExitCode::wrong);
  CHECK(with_report(ExitCode::ok, true) == ExitCode::ok);
}

// A reader of the pipe sees the end of the data when the last copy is gone, and no earlier.
TEST_CASE("output_file: a pipe is opened once") {
  const Folder folder;
  const std::string name = folder / "pipe";
  REQUIRE(::mkfifo(name.c_str(), 0600) == 0);
  CHECK(is_special_file(name));
  const int reader = ::open(name.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  REQUIRE(reader >= 0);
  std::array<char, 16> bytes{};
  {
    const OutputFile file(name, "the report");
    const OutputFile copy = file;
    CHECK(::read(reader, bytes.data(), bytes.size()) == -1);  // EAGAIN: there is a writer
    copy.write("all");
    CHECK(::read(reader, bytes.data(), bytes.size()) == 3);
    CHECK(::read(reader, bytes.data(), bytes.size()) == -1);
  }
  CHECK(::read(reader, bytes.data(), bytes.size()) == 0);
  ::close(reader);
}

}  // namespace
}  // namespace hawser::tool
