// SPDX-License-Identifier: Apache-2.0
// An error that the user of the command can put right. main() prints the text and exits with 2.
#pragma once

#include <stdexcept>

namespace hawser::tool {

class InputError : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

}  // namespace hawser::tool
