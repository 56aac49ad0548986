// SPDX-License-Identifier: Apache-2.0
// What the files of the C API share: its handles, and how what is thrown becomes a status.
#pragma once

#include <array>
#include <cstddef>
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
  hawser_trace_hook trace = nullptr;  // before the endpoint, which calls it to its end
  void* trace_context = nullptr;
  std::unique_ptr<hawser::Endpoint> endpoint;
  // Of the one thread that polls or waits: 4 KiB that its stack, perhaps a fibre's, need not have.
  std::array<hawser::Completion, hawser::c_api::kBatch> batch;
};

namespace hawser::c_api {

// The same numbers on both sides.
template <class Enum>
constexpr bool same(Enum value, int number) {
  return static_cast<int>(value) == number;
}

constexpr hawser_status code(Status status) { return static_cast<hawser_status>(status); }

// Cut, with its terminating 0.
void copy_text(std::string_view text, char* out, std::size_t bytes);

// For hawser::EndpointConfig::trace; the context is the hawser_endpoint.
void call_trace_hook(void* context, const TraceRecord& record);

// Runs what may throw, and tells what was thrown.
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
