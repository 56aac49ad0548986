// SPDX-License-Identifier: Apache-2.0
#include "tool/input_file.hpp"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdio>
#include <fstream>
#include <string>

#include "tool/error.hpp"
#include "tool/workload/files.hpp"

namespace hawser::tool {
namespace {

TEST_CASE("input_file: all of it is read") {
  const std::string name = "input_file_test." + std::to_string(::getpid());
  for (const std::size_t bytes : {0, 1, 65535, 65536, 65537, 200000}) {
    std::string content(bytes, 'x');
    if (bytes > 1) content[1] = '\0';
    std::ofstream(name, std::ios::binary) << content;
    CHECK(read_file(name, "a plan") == content);
  }
  (void)std::remove(name.c_str());
}

// The first page of a process is not mapped: reading its memory from the start is EIO.
TEST_CASE("input_file: what can't be read is told with the reason") {
  CHECK_THROWS_WITH(read_file("/proc/self/mem", "a plan"),
                    "cannot read a plan '/proc/self/mem': Input/output error");
  CHECK_THROWS_WITH(read_file("/nonexistent", "a plan"),
                    "cannot read a plan '/nonexistent': No such file or directory");
  CHECK_THROWS_WITH(read_file("/tmp", "a plan"), "'/tmp' is a folder, not a plan");
  CHECK_THROWS_WITH(load_workload("/proc/self/mem"),
                    "cannot read the workload '/proc/self/mem': Input/output error");
}

}  // namespace
}  // namespace hawser::tool
