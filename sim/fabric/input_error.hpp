// SPDX-License-Identifier: Apache-2.0
// An error in the description of a fabric or its traffic. The text says what is wrong and how to
// put it right.
#pragma once

#include <cstddef>
#include <stdexcept>
#include <string>

namespace hawser::fabric {

class InputError : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

// An error in a shape. It says which tier doesn't fit the others; kWhole if no single tier does it.
class ShapeError : public InputError {
 public:
  static constexpr std::size_t kWhole = ~std::size_t{0};
  ShapeError(std::size_t tier, const std::string& what) : InputError(what), tier_(tier) {}
  [[nodiscard]] std::size_t tier() const { return tier_; }

 private:
  std::size_t tier_;
};

}  // namespace hawser::fabric
