// SPDX-License-Identifier: Apache-2.0
// The remote NICs of a verbs NIC by handle: their queue pairs, and the address handles that lead
// there. Only the datapath uses it.
#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "engine/driver/remote_table.hpp"
#include "engine/driver/verbs/verbs_address.hpp"
#include "engine/driver/verbs/verbs_destinations.hpp"
#include "proto/nic.hpp"

namespace hawser::engine {

// All that a send needs to know of its remote.
struct VerbsRemote {
  const VerbsHandle* handles = nullptr;  // by entropy; null if the remote isn't open
  std::uint32_t entropies = 1;
  std::uint32_t qkey = 0;
  std::array<std::uint32_t, 2> numbers{};  // of its queue pairs, by Queue
  std::uint32_t destination = 0;
};

class VerbsRemotes {
 public:
  // `destinations` outlives this.
  VerbsRemotes(VerbsDestinations& destinations, std::uint32_t capacity)
      : destinations_(destinations),
        table_(capacity),
        capacity_(capacity),
        remotes_(std::make_unique<VerbsRemote[]>(capacity)) {}

  // As Nic::open_remote, for a remote that `local` can address. `done` and `wake` are as in
  // VerbsDestinations::use.
  [[nodiscard]] Status open(const proto::NicAddress& remote, const VerbsAddress& local,
                            const SendPositions& done, proto::RemoteHandle& handle, bool& wake);
  // As Nic::close_remote. `sent` are the positions of the next sends.
  void close(proto::RemoteHandle handle, const SendPositions& sent);

  // Returns null if it isn't open.
  [[nodiscard]] const VerbsRemote* find(proto::RemoteHandle handle) const {
    const auto index = static_cast<std::uint32_t>(handle);
    if (index >= capacity_ || remotes_[index].handles == nullptr) return nullptr;
    return &remotes_[index];
  }

 private:
  VerbsDestinations& destinations_;
  RemoteTable table_;
  std::uint32_t capacity_;
  std::unique_ptr<VerbsRemote[]> remotes_;
};

}  // namespace hawser::engine
