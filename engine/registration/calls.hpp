// SPDX-License-Identifier: Apache-2.0
// The public API's calls on registrations, for both kinds of endpoint. `on_datapath` runs a
// function on the thread that makes the endpoint's progress, and returns when it has run.
#pragma once

#include <string>

#include "engine/cancellation.hpp"
#include "engine/log.hpp"
#include "engine/registration/registrations.hpp"

namespace hawser::engine {

inline Status told(Status status, const std::string& sentence, std::string* why) {
  if (status == Status::ok) return status;
  log_warning(sentence);
  if (why != nullptr) *why = sentence;
  return status;
}

inline Status told_closed(std::string* why) {
  return told(Status::endpoint_closed,
              "The endpoint is closed and sends nothing more; register the memory at another one",
              why);
}

template <class OnDatapath>
Status add_registration(Registrations& registrations, const proto::MemoryRange& range,
                        OnDatapath on_datapath, RegistrationId& registration, std::string* why) {
  const CancellationHold hold;
  std::string sentence;
  RegistrationId taken = kNoRegistration;
  const Status status = registrations.take(range, taken, sentence);
  if (status != Status::ok) return told(status, sentence, why);
  on_datapath([&] { registrations.begin(taken); });
  registration = taken;
  return Status::ok;
}

template <class OnDatapath>
Status add_registration(Registrations& registrations, const DmabufRange& range,
                        OnDatapath on_datapath, RegistrationId& registration, std::string* why) {
  if (range.fd < 0) {
    return told(Status::invalid_argument,
                "The descriptor of a dma-buf can't be negative; export the dma-buf first", why);
  }
  const proto::MemoryRange memory{static_cast<const std::byte*>(range.address), range.bytes,
                                  range.fd, range.offset};
  return add_registration(registrations, memory, on_datapath, registration, why);
}

template <class OnDatapath>
Status end_registration(Registrations& registrations, RegistrationId registration,
                        Registrations::End how, OnDatapath on_datapath, std::string* why) {
  const CancellationHold hold;
  std::string sentence;
  bool finish = false;
  Status status = Status::ok;
  on_datapath([&] { status = registrations.end(registration, how, finish, sentence); });
  if (finish) registrations.finish(registration);
  return told(status, sentence, why);
}

}  // namespace hawser::engine
