// SPDX-License-Identifier: Apache-2.0
#include "sim/input/encoding.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

#include <boost/locale/encoding_utf.hpp>

#include "sim/input/characters.hpp"

namespace hawser::fabric {

namespace {

constexpr std::string_view kBlanksAndEnds = " \t\f\v\r\n";

// Bytes that occur in no text: those of tags and lengths of a binary format. Escape is not among
// them, because it ends in texts by accident.
bool has_binary_bytes(std::string_view bytes) {
  return std::ranges::any_of(bytes.substr(0, 4096), [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte < '\b' || (byte > '\r' && byte < ' ' && byte != 0x1b);
  });
}

// A Chakra trace (MLCommons, schema 0.0.4) is a stream of protobuf messages, each behind its
// length. The first one begins with its version: field 1, a string such as "0.0.4".
bool is_chakra(std::string_view bytes) {
  constexpr char kVersion = 0x0a;  // the tag of field 1
  constexpr std::size_t kLongest = 64;
  for (std::size_t at = 0; at < 4 && at + 3 < bytes.size(); ++at) {
    if (bytes[at] != kVersion) continue;
    const std::size_t length = static_cast<unsigned char>(bytes[at + 1]);
    if (length < 3 || length > kLongest || bytes.size() < at + 2 + length) continue;
    const std::string_view version = bytes.substr(at + 2, length);
    if (is_digit(version[0]) && version[1] == '.' && is_digit(version[2])) {
      return has_binary_bytes(bytes);
    }
  }
  return false;
}

// An object, or a list of objects; lists of words, as AICB writes them, don't count.
bool is_json(std::string_view bytes) {
  const std::size_t first = bytes.find_first_not_of(kBlanksAndEnds);
  if (first == std::string_view::npos) return false;
  if (bytes[first] == '{') return true;
  if (bytes[first] != '[') return false;
  const std::size_t second = bytes.find_first_not_of(kBlanksAndEnds, first + 1);
  return second != std::string_view::npos && bytes[second] == '{';
}

std::string from_utf16(std::string_view bytes, bool little) {
  std::u16string units;
  units.reserve(bytes.size() / 2);
  for (std::size_t i = 0; i + 1 < bytes.size(); i += 2) {
    const auto first = static_cast<unsigned char>(bytes[i]);
    const auto second = static_cast<unsigned char>(bytes[i + 1]);
    units.push_back(static_cast<char16_t>(little ? second << 8 | first : first << 8 | second));
  }
  return boost::locale::conv::utf_to_utf<char>(units.data(), units.data() + units.size());
}

}  // namespace

std::string_view as_utf8(std::string_view bytes, std::string& storage) {
  if (bytes.starts_with("\xef\xbb\xbf")) return bytes.substr(3);
  const bool little = bytes.starts_with("\xff\xfe");
  if (little || bytes.starts_with("\xfe\xff")) {
    return storage = from_utf16(bytes.substr(2), little);
  }
  // Without a mark: two characters of ASCII, each beside a zero.
  if (bytes.size() < 4 || bytes[0] == bytes[1]) return bytes;
  if (bytes[1] == '\0' && bytes[3] == '\0' && bytes[0] != '\0' && bytes[2] != '\0') {
    return storage = from_utf16(bytes, true);
  }
  if (bytes[0] == '\0' && bytes[2] == '\0' && bytes[1] != '\0' && bytes[3] != '\0') {
    return storage = from_utf16(bytes, false);
  }
  return bytes;
}

std::string foreign_format(std::string_view bytes) {
  using namespace std::string_view_literals;
  static constexpr std::array<std::pair<std::string_view, const char*>, 4> kSignatures{
      {{"\x1f\x8b"sv, "the file is compressed by gzip: unpack it first (gunzip)"},
       {"\x28\xb5\x2f\xfd"sv, "the file is compressed by zstd: unpack it first (unzstd)"},
       {"\xfd"
        "7zXZ"sv,
        "the file is compressed by xz: unpack it first (unxz)"},
       {"PK\x03\x04"sv,
        "the file is a zip archive or a spreadsheet: unpack it, or save the sheet as csv"}}};
  for (const auto& [signature, sentence] : kSignatures) {
    if (bytes.starts_with(signature)) return sentence;
  }
  if (is_chakra(bytes)) {
    return "the file is a Chakra execution trace (.et), which Hawser does not read; write the "
           "workload as ASTRA-sim text or AICB csv";
  }
  if (is_json(bytes)) {
    return "the file is JSON, such as a trace of PyTorch or PARAM, which Hawser does not read; "
           "write the workload as ASTRA-sim text or AICB csv";
  }
  return {};
}

}  // namespace hawser::fabric
