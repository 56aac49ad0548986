// SPDX-License-Identifier: Apache-2.0
// Writes the seeds of session_fuzzer: session_seeds FOLDER. They are small programs that get far:
// messages of each size, lost and doubled packets, dead NICs, cancels, claims, closing.
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "test/fuzz/session_program.hpp"

namespace {

using hawser::test::Step;
using Bytes = std::vector<std::uint8_t>;

Bytes of(Step step, std::initializer_list<std::uint8_t> rest = {}) {
  Bytes bytes;
  bytes.push_back(static_cast<std::uint8_t>(step));
  for (const std::uint8_t byte : rest) bytes.push_back(byte);
  return bytes;
}

Bytes program(std::initializer_list<Bytes> steps) {
  Bytes all;
  for (const Bytes& step : steps) {
    for (const std::uint8_t byte : step) all.push_back(byte);
  }
  return all;
}

// Packets arrive and both endpoints take turns, `rounds` times.
Bytes go_on(int rounds) {
  Bytes all;
  for (int i = 0; i < rounds; ++i) {
    all.push_back(static_cast<std::uint8_t>(Step::deliver_all));
    all.push_back(static_cast<std::uint8_t>(Step::wait));
    all.push_back(10);
  }
  return all;
}

std::vector<Bytes> seeds() {
  std::vector<Bytes> all;
  for (std::uint8_t size = 0; size < 8; ++size) {
    all.push_back(
        program({go_on(4), of(Step::receive, {1, size}), of(Step::send, {0, size}), go_on(8)}));
    all.push_back(program({go_on(4), of(Step::send, {16, size}), go_on(4), of(Step::claim, {9}),
                           of(Step::receive_claimed, {1, size}), go_on(6)}));
    all.push_back(program({go_on(4), of(Step::send, {1, size}), of(Step::wait, {1}),
                           of(Step::lose, {0}), of(Step::duplicate, {1}), go_on(3),
                           of(Step::wait_long, {1}), of(Step::receive, {0, size}), go_on(4)}));
  }
  all.push_back(
      program({of(Step::wait, {1}), of(Step::lose_all), of(Step::wait_long, {2}), go_on(4),
               of(Step::send, {0, 7}), of(Step::nic, {12}), go_on(4), of(Step::receive, {1, 7}),
               of(Step::wait_long, {3}), go_on(6), of(Step::nic, {8}), go_on(4)}));
  all.push_back(program({go_on(4), of(Step::send, {0, 6}), of(Step::send, {2, 3}), go_on(1),
                         of(Step::cancel, {0, 0}), go_on(2), of(Step::replay, {3}),
                         of(Step::cancel, {0, 1}), of(Step::hold, {4}), go_on(4)}));
  all.push_back(program({go_on(4), of(Step::send, {0, 4}), go_on(2), of(Step::disconnect, {0}),
                         go_on(2), of(Step::connect, {0}), go_on(4), of(Step::replay, {9}),
                         of(Step::send, {1, 3}), go_on(3), of(Step::close, {1}), go_on(3)}));
  for (const int kind : {1, 2, 3, 4, 5, 6, 16, 17, 18, 147, 160}) {
    const auto type = static_cast<std::uint8_t>(kind);
    all.push_back(program({go_on(4), of(Step::send, {0, 7}), of(Step::send, {1, 5}), go_on(2),
                           of(Step::forge, {60, type, 64, 0, 1, 0, 0, 1}), go_on(2)}));
    all.push_back(program({go_on(4), of(Step::receive, {1, 7}), of(Step::send, {0, 7}), go_on(3),
                           of(Step::forge, {62, type, 32, 0, 0, 0, 0, 0, 0, 0, 0, 3}), go_on(2)}));
  }
  all.push_back(
      program({go_on(4), of(Step::damage, {0, 40, 2}), of(Step::raw, {0, 40, 1, 18}), go_on(2)}));
  return all;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: session_seeds FOLDER\n");
    return 2;
  }
  const std::filesystem::path folder = argv[1];
  std::filesystem::create_directories(folder);
  int number = 0;
  for (const Bytes& seed : seeds()) {
    std::ofstream file(folder / ("seed_" + std::to_string(number++)), std::ios::binary);
    for (const std::uint8_t byte : seed) file.put(static_cast<char>(byte));
    if (!file.flush()) {
      std::fprintf(stderr, "session_seeds: cannot write in %s\n", argv[1]);
      return 1;
    }
  }
  return 0;
}
