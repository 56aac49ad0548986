// SPDX-License-Identifier: Apache-2.0
// Shared by the files of the C API: its handles, and the conversion of exceptions to statuses.
#pragma once

#include <array>
#include <cstddef>
#include <cstring>
#include <exception>
#include <memory>
#include <new>
#include <string_view>
#include <utility>

#include "hawser/engine.hpp"
#include "hawser/hawser.h"

struct hawser_engine {
  explicit hawser_engine(hawser::EngineConfig config) : engine(std::move(config)) {}
  hawser::Engine engine;
};

namespace hawser::c_api {
inline constexpr std::size_t kBatch = 64;
}  // namespace hawser::c_api

struct hawser_endpoint {
  hawser_trace_hook trace = nullptr;  // before `endpoint`, which calls it until its end
  void* trace_context = nullptr;
  std::unique_ptr<hawser::Endpoint> endpoint;
  // Used by the one thread that polls or waits. It keeps 4 KiB off the stack, which may be a
  // fibre's.
  std::array<hawser::Completion, hawser::c_api::kBatch> batch;
};

namespace hawser::c_api {

// True if the C++ and the C constant have the same number.
template <class Enum>
constexpr bool same(Enum value, int number) {
  return static_cast<int>(value) == number;
}

// The sizes of structs that callers fill in, when HAWSER_ABI_VERSION became 3, or when they were
// added. Later fields come after them, so a caller's struct is never shorter.
template <class Struct>
constexpr std::size_t kFirstSize = sizeof(std::size_t);

// Whether all reserved bytes of a caller's struct are 0. A later version may give them a meaning.
template <class Struct>
bool is_of_this_version(const Struct& given) {
  constexpr decltype(given.reserved) kNone{};
  return std::memcmp(given.reserved, kNone, sizeof kNone) == 0;
}

// Copies a caller's struct into this library's version of it. Fields that an older caller lacks
// become 0. Returns false for a newer caller, which may ask for something unknown here. A size that
// no version had shows one, and so do reserved bytes.
template <class Struct>
bool take(const Struct* given, Struct& taken) {
  taken = Struct{};
  if (given == nullptr) return true;
  std::size_t size = 0;
  std::memcpy(&size, given, sizeof size);
  if (size < kFirstSize<Struct> || size > sizeof taken) return false;
  std::memcpy(&taken, given, size);
  if constexpr (requires { taken.reserved[0]; }) return is_of_this_version(taken);
  return true;
}

[[nodiscard]] hawser_completion completion_of(const Completion& from);

constexpr hawser_status code(Status status) { return static_cast<hawser_status>(status); }

// Copies as much of the text as fits, with a terminating 0.
void copy_text(std::string_view text, char* out, std::size_t bytes);

// The hook for hawser::EndpointConfig::trace. The context is the hawser_endpoint.
void call_trace_hook(void* context, const TraceRecord& record);

// Runs a function that may throw, and reports the exception as a status and a text.
template <class Function>
hawser_status guarded(char* error, std::size_t error_bytes, Function&& function) {
  try {
    return function();
  } catch (const Error& failure) {
    copy_text(failure.what(), error, error_bytes);
    return HAWSER_INVALID_ARGUMENT;
  } catch (const std::bad_alloc&) {
    copy_text("Out of memory", error, error_bytes);
    return HAWSER_AGAIN;
  } catch (const std::exception& failure) {
    copy_text(failure.what(), error, error_bytes);
    return HAWSER_NIC_ERROR;
  }
}

}  // namespace hawser::c_api
