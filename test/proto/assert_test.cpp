// SPDX-License-Identifier: Apache-2.0
#include "proto/base/assert.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>
#include <csignal>
#include <string>

namespace {

// Runs `body` in a child process; returns its standard error. `status` is as waitpid gives it.
template <class Body>
std::string stderr_of_child(Body&& body, int& status) {
  std::array<int, 2> ends{};
  REQUIRE(pipe(ends.data()) == 0);
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    std::signal(SIGABRT, SIG_DFL);  // not the test framework's handler
    dup2(ends[1], STDERR_FILENO);
    body();
    _exit(0);
  }
  close(ends[1]);
  std::string text;
  std::array<char, 256> part{};
  for (ssize_t n = 0; (n = read(ends[0], part.data(), part.size())) > 0;) {
    text.append(part.data(), static_cast<std::size_t>(n));
  }
  close(ends[0]);
  REQUIRE(waitpid(child, &status, 0) == child);
  return text;
}

}  // namespace

TEST_CASE("assert: a broken invariant says where and what, and aborts, in every build", "[F3]") {
  int status = 0;
  const int line = __LINE__ + 1;
  const auto body = [] { HAWSER_ASSERT(1 + 1 == 3, "arithmetic holds"); };
  const std::string text = stderr_of_child(body, status);
  CHECK(WIFSIGNALED(status));
  CHECK(WTERMSIG(status) == SIGABRT);
  const std::string where = "assert_test.cpp:" + std::to_string(line) + ": ";
  CHECK_THAT(text, Catch::Contains(where + "assertion failed: 1 + 1 == 3 (arithmetic holds)\n"));
}

TEST_CASE("assert: without an explanation there are no brackets, what holds is silent") {
  int status = 0;
  const std::string text = stderr_of_child([] { HAWSER_ASSERT(1 + 1 == 3); }, status);
  CHECK(WIFSIGNALED(status));
  CHECK_THAT(text, Catch::Contains("assertion failed: 1 + 1 == 3\n"));

  int calls = 0;
  HAWSER_ASSERT(++calls == 1, "the expression is evaluated once");
  CHECK(calls == 1);
}
