// SPDX-License-Identifier: Apache-2.0
// A registration of memory that an object owns and ends with its own life.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "hawser/engine.hpp"

namespace hawser {

// Owns one registration, or none. Destroy it before its endpoint, and before the memory is unmapped
// or freed.
class Registration {
 public:
  Registration() = default;
  // Takes ownership of `id`, which `endpoint` returned.
  Registration(Endpoint& endpoint, RegistrationId id) noexcept : endpoint_(&endpoint), id_(id) {}
  ~Registration() { release(); }
  Registration(Registration&& other) noexcept
      : endpoint_(std::exchange(other.endpoint_, nullptr)),
        id_(std::exchange(other.id_, kNoRegistration)) {}
  Registration& operator=(Registration&& other) noexcept {
    if (this != &other) {
      release();
      endpoint_ = std::exchange(other.endpoint_, nullptr);
      id_ = std::exchange(other.id_, kNoRegistration);
    }
    return *this;
  }

  [[nodiscard]] explicit operator bool() const noexcept { return endpoint_ != nullptr; }
  [[nodiscard]] RegistrationId id() const noexcept { return id_; }

  // As Endpoint::release_memory. Afterwards this object owns nothing.
  void release() noexcept {
    if (endpoint_ != nullptr) endpoint_->release_memory(id_);
    endpoint_ = nullptr;
    id_ = kNoRegistration;
  }
  // As Endpoint::deregister_memory. After `ok` this object owns nothing; else it is unchanged.
  [[nodiscard]] Status deregister(std::string* why = nullptr) {
    if (endpoint_ == nullptr) return Status::unknown_operation;
    const Status status = endpoint_->deregister_memory(id_, why);
    if (status == Status::ok) {
      endpoint_ = nullptr;
      id_ = kNoRegistration;
    }
    return status;
  }

 private:
  Endpoint* endpoint_ = nullptr;
  RegistrationId id_ = kNoRegistration;
};

// As Endpoint::register_memory. After `ok`, `registration` owns the new one and has released the
// one that it owned before.
[[nodiscard]] inline Status register_memory(Endpoint& endpoint, const void* data,
                                            std::uint64_t bytes, Registration& registration,
                                            std::string* why = nullptr) {
  RegistrationId id = kNoRegistration;
  const Status status = endpoint.register_memory(data, bytes, id, why);
  if (status == Status::ok) registration = Registration(endpoint, id);
  return status;
}

// As Endpoint::register_dmabuf, with the same ownership as register_memory above.
[[nodiscard]] inline Status register_dmabuf(Endpoint& endpoint, const DmabufRange& range,
                                            Registration& registration,
                                            std::string* why = nullptr) {
  RegistrationId id = kNoRegistration;
  const Status status = endpoint.register_dmabuf(range, id, why);
  if (status == Status::ok) registration = Registration(endpoint, id);
  return status;
}

}  // namespace hawser
