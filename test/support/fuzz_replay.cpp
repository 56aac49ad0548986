// SPDX-License-Identifier: Apache-2.0
// Runs a libFuzzer target without libFuzzer: FUZZER INPUTS [FOLDER]... runs it over every file of
// the given folders, and over INPUTS seeded random inputs of every length up to 600 bytes. This way
// every preset and either compiler builds the targets, so that they don't rot.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  const int inputs_per_length = std::atoi(argv[1]);
  std::size_t files = 0;
  for (int i = 2; i < argc; ++i) {
    for (const auto& entry : std::filesystem::directory_iterator(argv[i])) {
      std::ifstream in(entry.path(), std::ios::binary);
      const std::vector<char> bytes{std::istreambuf_iterator<char>(in), {}};
      LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
      ++files;
    }
  }
  constexpr std::uint64_t kSeed = 1;
  constexpr std::size_t kMaxBytes = 600;
  std::mt19937_64 random(kSeed);
  for (std::size_t bytes = 0; bytes <= kMaxBytes; ++bytes) {
    // The buffer is exactly as large as the input, so that a sanitizer notices a read beyond it.
    std::vector<std::uint8_t> input(bytes);
    for (int i = 0; i < inputs_per_length; ++i) {
      for (std::uint8_t& byte : input) byte = static_cast<std::uint8_t>(random());
      LLVMFuzzerTestOneInput(input.data(), input.size());
    }
  }
  std::printf("%zu files and %zu random inputs (seed %llu)\n", files,
              (kMaxBytes + 1) * static_cast<std::size_t>(inputs_per_length),
              static_cast<unsigned long long>(kSeed));
  return 0;
}
