// SPDX-License-Identifier: Apache-2.0
// Hands out the bytes of a fuzzer's input one by one. Bytes missing at the end are 0.
#pragma once

#include <cstddef>
#include <cstdint>

namespace hawser::test {

class Input {
 public:
  Input(const std::uint8_t* data, std::size_t size) : data_(data), size_(size) {}
  [[nodiscard]] bool ended() const { return at_ >= size_; }
  std::uint8_t next() { return at_ < size_ ? data_[at_++] : 0; }

 private:
  const std::uint8_t* data_;
  std::size_t size_;
  std::size_t at_ = 0;
};

}  // namespace hawser::test
