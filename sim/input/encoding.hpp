// SPDX-License-Identifier: Apache-2.0
// The encoding and the format of a file's bytes, before anyone reads its lines.
#pragma once

#include <string>
#include <string_view>

namespace hawser::fabric {

// The bytes as UTF-8. A byte-order mark is left out; UTF-16 is converted, with a mark or without.
// `storage` holds what had to be converted; the result may point into it or into `bytes`.
[[nodiscard]] std::string_view as_utf8(std::string_view bytes, std::string& storage);

// Says what a file is that is no text which anyone here reads: compressed, a Chakra trace, JSON, a
// table of a spreadsheet program. Empty for everything else, also for text without a meaning.
[[nodiscard]] std::string foreign_format(std::string_view bytes);

}  // namespace hawser::fabric
