// The remote NICs of a verbs NIC by handle: their queue pairs, and the address handles that lead
// there. The datapath's alone.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/driver/remote_table.hpp"
#include "engine/driver/verbs_address.hpp"
#include "engine/driver/verbs_destinations.hpp"
#include "proto/nic.hpp"

namespace hawser::engine {

struct VerbsRemote {
  VerbsAddress address;
  std::uint32_t destination = 0;
  std::span<const VerbsHandle> handles;  // by entropy
};

class VerbsRemotes {
 public:
  // `destinations` outlives this.
  VerbsRemotes(VerbsDestinations& destinations, std::uint32_t capacity)
      : destinations_(destinations), table_(capacity), remotes_(capacity) {}

  // As Nic::open_remote, for one that `local` can address; `done` and `wake` as in
  // VerbsDestinations::use.
  [[nodiscard]] Status open(const proto::NicAddress& remote, const VerbsAddress& local,
                            const SendPositions& done, proto::RemoteHandle& handle, bool& wake);
  // As Nic::close_remote; `sent` are the positions of the next sends.
  void close(proto::RemoteHandle handle, const SendPositions& sent);

  [[nodiscard]] bool is_open(proto::RemoteHandle handle) const { return table_.is_open(handle); }
  // Of an open one.
  [[nodiscard]] const VerbsRemote& at(proto::RemoteHandle handle) const {
    return remotes_[static_cast<std::size_t>(handle)];
  }

 private:
  VerbsDestinations& destinations_;
  RemoteTable table_;
  std::vector<VerbsRemote> remotes_;
};

}  // namespace hawser::engine
