// SPDX-License-Identifier: Apache-2.0
// What whoever described a fabric or its traffic can put right; the text says what and how.
#pragma once

#include <cstddef>
#include <stdexcept>
#include <string>

namespace hawser::fabric {

class InputError : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Of a shape: which tier doesn't fit the others, kWhole if it is not one of them.
class ShapeError : public InputError {
 public:
  static constexpr std::size_t kWhole = ~std::size_t{0};
  ShapeError(std::size_t tier, const std::string& what) : InputError(what), tier_(tier) {}
  [[nodiscard]] std::size_t tier() const { return tier_; }

 private:
  std::size_t tier_;
};

}  // namespace hawser::fabric
