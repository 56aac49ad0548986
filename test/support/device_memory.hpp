// SPDX-License-Identifier: Apache-2.0
// A GPU's memory as a program sees it: a descriptor that stands for it, and addresses that the
// processor must not read. A read ends the test by SIGSEGV.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstddef>
#include <span>
#include <vector>

namespace hawser::test {

class DeviceMemory {
 public:
  explicit DeviceMemory(std::vector<std::byte> contents)
      : contents_(std::move(contents)), file_(::memfd_create("device", MFD_CLOEXEC)) {
    REQUIRE(::write(file_, contents_.data(), contents_.size()) ==
            static_cast<ssize_t>(contents_.size()));
    void* const data = ::mmap(nullptr, contents_.size(), PROT_NONE, MAP_SHARED, file_, 0);
    REQUIRE(data != MAP_FAILED);
    data_ = static_cast<const std::byte*>(data);
  }
  ~DeviceMemory() {
    ::munmap(const_cast<std::byte*>(data_), contents_.size());
    ::close(file_);
  }
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  [[nodiscard]] int descriptor() const { return file_; }
  [[nodiscard]] std::size_t size() const { return contents_.size(); }
  [[nodiscard]] const std::byte* data() const { return data_; }
  // The bytes in the device's memory.
  [[nodiscard]] std::span<const std::byte> contents() const { return contents_; }

 private:
  std::vector<std::byte> contents_;
  int file_;
  const std::byte* data_ = nullptr;
};

}  // namespace hawser::test
