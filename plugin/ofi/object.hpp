// SPDX-License-Identifier: Apache-2.0
// Converts libfabric's handles to our objects, which derive from them.
#pragma once

#include <rdma/fabric.h>

#include <mutex>

namespace hawser::ofi {

// A fid_cq, fid_ep and so on begins with its fid.
template <class Object, class Handle>
Object& object_of(struct fid* fid) {
  return static_cast<Object&>(*reinterpret_cast<Handle*>(fid));
}
template <class Object, class Handle>
Object& object_of(Handle* handle) {
  return static_cast<Object&>(*handle);
}

// Does nothing for a program that promises to use a domain from one thread (FI_THREAD_DOMAIN).
class Mutex {
 public:
  explicit Mutex(bool used) noexcept : used_(used) {}
  void lock() {
    if (used_) mutex_.lock();
  }
  void unlock() {
    if (used_) mutex_.unlock();
  }

 private:
  std::mutex mutex_;
  bool used_;
};
using Lock = std::lock_guard<Mutex>;

}  // namespace hawser::ofi
