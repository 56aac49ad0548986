// SPDX-License-Identifier: Apache-2.0
#include "tool/sim/parcel.hpp"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "engine/system_error.hpp"

namespace hawser::tool {

Parcel::Parcel() : memory_(::memfd_create("hawser-run", MFD_CLOEXEC)) {
  if (!memory_) throw engine::system_error("A run's results have no file in memory");
}

void Parcel::send() const {
  std::size_t written = 0;
  while (written < bytes_.size()) {
    const ssize_t n = ::pwrite(memory_.get(), bytes_.data() + written, bytes_.size() - written,
                               static_cast<off_t>(written));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) throw engine::system_error("The results of a run don't fit into memory");
    written += static_cast<std::size_t>(n);
  }
}

void Parcel::receive() {
  struct stat what {};
  if (::fstat(memory_.get(), &what) != 0) throw std::runtime_error("a worker's parcel is gone");
  bytes_.resize(static_cast<std::size_t>(what.st_size));
  taken_ = 0;
  std::size_t read = 0;
  while (read < bytes_.size()) {
    const ssize_t n = ::pread(memory_.get(), bytes_.data() + read, bytes_.size() - read,
                              static_cast<off_t>(read));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) throw std::runtime_error("a worker's parcel is cut short");
    read += static_cast<std::size_t>(n);
  }
  memory_.reset();
}

}  // namespace hawser::tool
