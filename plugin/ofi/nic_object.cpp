// SPDX-License-Identifier: Apache-2.0
#include "plugin/ofi/nic_object.hpp"

#include <new>
#include <string>

#include "plugin/ofi/object.hpp"
#include "plugin/ofi/refusals.hpp"

namespace hawser::ofi {
namespace {

class NicObject : public fid_nic {
 public:
  explicit NicObject(const HostNic& nic);
  NicObject(const NicObject& other) : NicObject(other.nic_) {}
  NicObject& operator=(const NicObject&) = delete;

 private:
  HostNic nic_;
  std::string kind_;
  std::string address_;
  fi_device_attr device_{};
  fi_bus_attr bus_{};
  fi_link_attr link_{};
};

int close_nic(struct fid* fid) {
  delete &object_of<NicObject, fid_nic>(fid);
  return 0;
}

int control_nic(struct fid* fid, int command, void* argument) {
  if (command != FI_DUP) return -FI_ENOSYS;
  auto* const copy = new (std::nothrow) NicObject(object_of<NicObject, fid_nic>(fid));
  if (copy == nullptr) return -FI_ENOMEM;
  *static_cast<fid_nic**>(argument) = copy;
  return 0;
}

fi_ops nic_ops = [] {
  fi_ops ops{};
  ops.close = close_nic;
  ops.control = control_nic;
  return completed(ops);
}();

NicObject::NicObject(const HostNic& nic) : fid_nic{}, nic_(nic) {
  const NicName parts = split_nic_name(nic_.name);
  kind_ = parts.kind;
  address_ = parts.where;
  fid.fclass = FI_CLASS_NIC;
  fid.ops = &nic_ops;
  device_.name = nic_.device.data();
  device_.driver = kind_.data();
  bus_.bus_type = FI_BUS_UNKNOWN;
  link_.address = address_.data();
  link_.mtu = nic_.mtu;
  link_.speed = nic_.bits_per_second;
  link_.state = nic_.up ? FI_LINK_UP : FI_LINK_DOWN;
  link_.network_type = kind_.data();
  device_attr = &device_;
  bus_attr = &bus_;
  link_attr = &link_;
}

}  // namespace

fid_nic* make_nic_object(const HostNic& nic) { return new (std::nothrow) NicObject(nic); }

}  // namespace hawser::ofi
