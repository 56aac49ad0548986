// SPDX-License-Identifier: Apache-2.0
#include "test/support/pattern.hpp"

#include <cstring>

#include "proto/base/random.hpp"

namespace hawser::test {

namespace {
constexpr std::size_t kWord = sizeof(std::uint64_t);
}  // namespace

std::string pattern(std::uint64_t seed, std::size_t bytes) {
  std::string out(bytes, '\0');
  proto::Random random(seed);
  std::size_t i = 0;
  for (; i + kWord <= bytes; i += kWord) {
    const std::uint64_t word = random.next();
    std::memcpy(out.data() + i, &word, kWord);
  }
  const std::uint64_t last = random.next();
  std::memcpy(out.data() + i, &last, bytes - i);
  return out;
}

bool begins_pattern(std::string_view bytes, std::uint64_t seed) {
  proto::Random random(seed);
  std::size_t i = 0;
  for (; i + kWord <= bytes.size(); i += kWord) {
    std::uint64_t word;
    std::memcpy(&word, bytes.data() + i, kWord);
    if (word != random.next()) return false;
  }
  const std::uint64_t last = random.next();
  return std::memcmp(bytes.data() + i, &last, bytes.size() - i) == 0;
}

bool all_are(std::string_view bytes, char value) {
  // Compares each byte with the one before it: memcmp is fast even where loops are instrumented.
  return bytes.empty() || (bytes.front() == value &&
                           std::memcmp(bytes.data(), bytes.data() + 1, bytes.size() - 1) == 0);
}

}  // namespace hawser::test
