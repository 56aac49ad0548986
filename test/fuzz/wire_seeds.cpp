// SPDX-License-Identifier: Apache-2.0
// Writes the fuzzer's seeds: wire_seeds FOLDER. Each file is one sample packet as
// test/fuzz/wire_fuzzer.cpp reads it, so that the seeds follow the format.
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "test/proto/wire_samples.hpp"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: wire_seeds FOLDER\n");
    return 2;
  }
  const std::filesystem::path folder = argv[1];
  std::filesystem::create_directories(folder);
  int number = 0;
  for (const hawser::test::Sample& sample : hawser::test::wire_samples()) {
    const char mode =
        static_cast<char>(6 + (sample.queue == hawser::proto::Queue::control ? 1 : 0));
    std::ofstream file(folder / ("seed_" + std::to_string(number++) + "_" + sample.name),
                       std::ios::binary);
    file.put(mode);
    for (const std::byte byte : sample.bytes) file.put(static_cast<char>(byte));
    if (!file.flush()) {
      std::fprintf(stderr, "wire_seeds: cannot write in %s\n", argv[1]);
      return 1;
    }
  }
  return 0;
}
