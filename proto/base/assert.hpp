// SPDX-License-Identifier: Apache-2.0
// Assertions for broken invariants: they stay in release, print where and what, and abort.
//
// They are for conditions that only a bug in this code can break. A bad packet is a counted
// DropReason, a bad argument of the caller a Status; neither is ever asserted on.
#pragma once

namespace hawser::proto {

// Prints "file:line: assertion failed: expression (message)" to standard error and aborts.
[[noreturn]] void assertion_failed(const char* file, int line, const char* expression,
                                   const char* message = "") noexcept;

}  // namespace hawser::proto

// HAWSER_ASSERT(expression) or HAWSER_ASSERT(expression, "why it must hold").
#define HAWSER_ASSERT(...) \
  HAWSER_ASSERT_PICK(__VA_ARGS__, HAWSER_ASSERT_2, HAWSER_ASSERT_1, )(__VA_ARGS__)
#define HAWSER_ASSERT_PICK(expression, message, name, ...) name
#define HAWSER_ASSERT_1(expression) HAWSER_ASSERT_2(expression, "")
#define HAWSER_ASSERT_2(expression, message)                                       \
  do {                                                                             \
    if (!(expression)) [[unlikely]]                                                \
      ::hawser::proto::assertion_failed(__FILE__, __LINE__, #expression, message); \
  } while (false)
