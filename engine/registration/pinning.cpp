// SPDX-License-Identifier: Apache-2.0
#include "engine/registration/pinning.hpp"

namespace hawser::engine {

Pinning::Pinning(const std::vector<proto::Nic*>& nics) {
  for (proto::Nic* const nic : nics) {
    if (nic->pins_memory()) nics_.push_back(nic);
  }
  has_all_ = nics_.size() == nics.size();
}

Status Pinning::pin_all(const proto::MemoryRange& range, Pins& pins, std::string& refuser) const {
  for (std::size_t i = 0; i < nics_.size(); ++i) {
    const Status status = nics_[i]->pin(range, nullptr, pins[i]);
    if (status == Status::ok) continue;
    refuser = nics_[i]->name();
    unpin(pins);
    return status;
  }
  return Status::ok;
}

Status Pinning::pin_some(const proto::MemoryRange& range, const proto::Mapping* mapping,
                         Pins& pins) const {
  Status result = Status::unsupported;
  bool any = false;
  for (std::size_t i = 0; i < nics_.size(); ++i) {
    const Status status = nics_[i]->pin(range, mapping, pins[i]);
    any |= status == Status::ok;
    if (status != Status::ok) result = status;
  }
  return any ? Status::ok : result;
}

void Pinning::unpin(Pins& pins) const {
  for (std::size_t i = 0; i < nics_.size(); ++i) {
    if (pins[i] != nullptr) nics_[i]->unpin(pins[i]);
    pins[i] = nullptr;
  }
}

void Pinning::use(const Pins& pins) const {
  for (std::size_t i = 0; i < nics_.size(); ++i) {
    if (pins[i] != nullptr) (void)nics_[i]->use(*pins[i]);
  }
}

void Pinning::forget(const Pins& pins) const {
  for (std::size_t i = 0; i < nics_.size(); ++i) {
    if (pins[i] != nullptr) nics_[i]->forget(*pins[i]);
  }
}

bool Pinning::is_reading(const Pins& pins) const {
  for (std::size_t i = 0; i < nics_.size(); ++i) {
    if (pins[i] != nullptr && nics_[i]->is_reading(*pins[i])) return true;
  }
  return false;
}

}  // namespace hawser::engine
