// SPDX-License-Identifier: Apache-2.0
#include "engine/driver/verbs/verbs_remotes.hpp"

#include <span>

namespace hawser::engine {

Status VerbsRemotes::open(const proto::NicAddress& remote, const VerbsAddress& local,
                          const SendPositions& done, proto::RemoteHandle& handle, bool& wake) {
  VerbsAddress address;
  if (!from_nic_address(remote, address) || !can_address(local, address)) {
    return Status::invalid_argument;
  }
  std::uint32_t destination = 0;
  const Status status = destinations_.use(address, done, destination, wake);
  if (status != Status::ok) return status;
  const RemoteTable::Opened opened = table_.open(remote);
  if (opened.is_new) {
    const std::span<const VerbsHandle> handles = destinations_.handles(destination);
    remotes_[static_cast<std::size_t>(opened.handle)] = {handles.data(),
                                                         static_cast<std::uint32_t>(handles.size()),
                                                         address.qkey,
                                                         {address.data_qpn, address.control_qpn},
                                                         destination};
  } else {
    destinations_.release(destination, {});  // an open remote uses its destination once
  }
  if (opened.handle == proto::kNoRemote) return Status::again;
  handle = opened.handle;
  return Status::ok;
}

void VerbsRemotes::close(proto::RemoteHandle handle, const SendPositions& sent) {
  if (!table_.close(handle)) return;
  VerbsRemote& remote = remotes_[static_cast<std::size_t>(handle)];
  remote.handles = nullptr;
  destinations_.release(remote.destination, sent);
}

}  // namespace hawser::engine
