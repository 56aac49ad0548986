// SPDX-License-Identifier: Apache-2.0
// Runs the fuzzer's target on the samples and on seeded mutations of them. This is libFuzzer in
// small, with every compiler and in every preset.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdint>
#include <random>
#include <vector>

#include "test/proto/wire_roundtrip.hpp"
#include "test/proto/wire_samples.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace hawser::test {
namespace {

constexpr std::uint64_t kSeed = 8;
constexpr int kMutations = 20000;

class Mutator {
 public:
  explicit Mutator(std::uint64_t seed) : random_(seed) {}

  std::uint64_t below(std::uint64_t limit) { return random_() % limit; }

  // Makes one to four changes of the kinds that damage makes.
  void mutate(std::vector<std::byte>& bytes) {
    for (std::uint64_t changes = 1 + below(4); changes > 0 && !bytes.empty(); --changes) {
      const std::uint64_t at = below(bytes.size());
      switch (below(6)) {
        case 0: bytes[at] ^= std::byte{1} << below(8); break;
        case 1: bytes[at] = static_cast<std::byte>(random_() & 0xff); break;
        case 2: bytes[at] = below(2) == 0 ? std::byte{0} : std::byte{0xff}; break;
        case 3: bytes.resize(at); break;
        case 4: bytes.resize(bytes.size() + 1 + below(40), std::byte{1}); break;
        default: {  // copy one part over another
          const std::uint64_t count = 1 + below(std::min<std::uint64_t>(bytes.size() - at, 16));
          const auto from = bytes.begin() + static_cast<std::ptrdiff_t>(at);
          const std::vector<std::byte> piece(from, from + static_cast<std::ptrdiff_t>(count));
          std::copy(piece.begin(), piece.end(),
                    bytes.begin() + static_cast<std::ptrdiff_t>(below(bytes.size() - count + 1)));
        }
      }
    }
  }

 private:
  std::mt19937_64 random_;
};

void run_target(std::uint8_t mode, const std::vector<std::byte>& datagram) {
  std::vector<std::uint8_t> input{mode};
  for (const std::byte byte : datagram) input.push_back(std::to_integer<std::uint8_t>(byte));
  LLVMFuzzerTestOneInput(input.data(), input.size());
}

std::uint8_t queue_bit(const Sample& sample) {
  return sample.queue == proto::Queue::control ? 1 : 0;
}

TEST_CASE("wire mutation: the fuzzer's target accepts each sample in every mode") {
  for (const Sample& sample : wire_samples()) {
    REQUIRE(check_round_trip(sample.bytes, sample.queue, true));
    for (std::uint8_t mode = 0; mode < 8; ++mode) run_target(mode, sample.bytes);
  }
}

TEST_CASE("wire mutation: the fuzzer's target on seeded mutations of the samples") {
  const std::vector<Sample> samples = wire_samples();
  Mutator mutator(kSeed);
  int accepted = 0;
  for (int i = 0; i < kMutations; ++i) {
    const Sample& sample = samples[mutator.below(samples.size())];
    std::vector<std::byte> datagram = sample.bytes;
    mutator.mutate(datagram);
    run_target(static_cast<std::uint8_t>(queue_bit(sample) | mutator.below(4) << 1), datagram);
    const std::vector<std::byte> exact(datagram.begin(), datagram.end());
    if (check_round_trip(exact, sample.queue, false)) ++accepted;
  }
  // The mutations exercise both verdicts.
  CHECK(accepted > kMutations / 10);
  CHECK(accepted < kMutations * 9 / 10);
}

}  // namespace
}  // namespace hawser::test
