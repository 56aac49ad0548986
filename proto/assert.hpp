// Assertions that stay in release builds: for broken invariants, never for what a packet or a
// caller may do wrong.
#pragma once

namespace hawser::proto {

// Prints what broke and where to stderr and aborts.
[[noreturn]] void assertion_failed(const char* condition, const char* file, int line) noexcept;

}  // namespace hawser::proto

#define HAWSER_ASSERT(condition) \
  (static_cast<bool>(condition)  \
       ? static_cast<void>(0)    \
       : ::hawser::proto::assertion_failed(#condition, __FILE__, __LINE__))
