// SPDX-License-Identifier: Apache-2.0
// Writes the seeds of session_fuzzer: session_seeds FOLDER. They are small programs that get far:
// messages of each size, lost and doubled packets, dead NICs, cancels, claims, closing. Others do
// each kind of one-sided operation: well, refused, withdrawn, forged, and cut off by a session's
// end.
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

void add_messages(std::vector<Bytes>& all) {
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
}

// ---- one-sided operations of endpoint 0 on memory of endpoint 1

constexpr std::uint8_t kAll = 7;  // rights
constexpr std::uint8_t kWrongSecret = 2 << 4;
constexpr std::uint8_t kTooLong = 3 << 4;
constexpr std::uint8_t kStrong = 64;
constexpr std::uint8_t kMore = 128;  // notifies, reads what is written, or fetches
constexpr std::uint8_t kLong = 7;    // the longest size
constexpr std::uint8_t kChannel = 8;

Bytes exposed(std::uint8_t rights = kAll, std::uint8_t no_atomics = 0) {
  return program({go_on(4), of(Step::expose, {static_cast<std::uint8_t>(
                                                 1 | rights << 1 | (no_atomics != 0 ? 16 : 0))})});
}
// One operation of each kind.
Bytes each_kind(std::uint8_t how) {
  return program({of(Step::write, {how, 3, 1, 0}), of(Step::write, {how, kLong, 2, 0}),
                  of(Step::read, {how, 3, 1}), of(Step::read, {how, kLong, 2}),
                  of(Step::atomic, {how, 0, 0}), of(Step::atomic, {how, 2, 0}),
                  of(Step::atomic, {how, 3, 3})});
}
Bytes times(int count, const Bytes& step) {
  Bytes all;
  for (int i = 0; i < count; ++i) all.insert(all.end(), step.begin(), step.end());
  return all;
}

// Each size and kind, without and with losses.
void add_operations(std::vector<Bytes>& all) {
  for (std::uint8_t size = 0; size < 8; ++size) {
    all.push_back(
        program({exposed(), of(Step::write, {kMore, size, 20}), of(Step::write, {0, size, 21, 0}),
                 go_on(6), of(Step::write, {kMore, size, 3, 128}), of(Step::read, {0, size, 5}),
                 of(Step::read, {kMore, size, 0}), go_on(6)}));
    all.push_back(
        program({exposed(), of(Step::write, {0, size, 1, 0}), of(Step::read, {0, size, 1}),
                 of(Step::wait, {1}), of(Step::lose, {0}), of(Step::duplicate, {1}), go_on(2),
                 of(Step::wait_long, {1}), of(Step::lose_all), go_on(2), of(Step::replay, {3}),
                 of(Step::replay, {9}), of(Step::wait_long, {2}),
                 of(Step::write, {kMore, size, 2, 0}), go_on(6)}));
  }
  for (std::uint8_t operation = 0; operation < 12; ++operation) {
    const auto narrow = static_cast<std::uint8_t>(operation | 32);
    all.push_back(program({exposed(), of(Step::atomic, {kMore, 3, operation}),
                           of(Step::atomic, {0, 3, narrow}), of(Step::atomic, {kMore, 3, narrow}),
                           of(Step::atomic, {kMore, 2, 0}), of(Step::atomic, {kMore, 1, 0}),
                           go_on(1), of(Step::replay, {operation}), of(Step::duplicate, {0}),
                           go_on(4), of(Step::atomic, {kMore, 2, 0}), go_on(3)}));
  }
  // A NIC dies behind what it has sent, so that executed operations are sent again.
  for (const Bytes& each : {of(Step::atomic, {kMore, 0, 0}), of(Step::write, {kMore, 2, 1, 0})}) {
    all.push_back(program({exposed(), times(5, each), of(Step::wait, {1}), of(Step::lose, {0}),
                           of(Step::nic, {12}), go_on(3), of(Step::nic, {15}),
                           of(Step::wait_long, {3}), go_on(4), of(Step::nic, {8}), go_on(4)}));
    all.push_back(
        program({exposed(), times(5, each), of(Step::wait, {1}), of(Step::deliver_all),
                 of(Step::turn, {1}), of(Step::lose_all), of(Step::nic, {12}), of(Step::nic, {13}),
                 of(Step::wait, {1}), go_on(4), of(Step::nic, {8}), go_on(4)}));
  }
}

// Keys that are wrong, rights that are missing, memory that can do no atomics, words that are not
// aligned, and what follows a failure on its channel.
void add_refusals(std::vector<Bytes>& all) {
  for (const std::uint8_t how : {kWrongSecret, kTooLong}) {
    const auto strong = static_cast<std::uint8_t>(how | kStrong);
    all.push_back(
        program({exposed(), each_kind(how), each_kind(strong), go_on(4), each_kind(kStrong),
                 of(Step::flush, {0}), of(Step::flush, {0}), each_kind(kStrong), go_on(6)}));
  }
  for (std::uint8_t rights = 0; rights < kAll; ++rights) {
    all.push_back(
        program({exposed(rights), each_kind(0), go_on(4), of(Step::flush, {0}), go_on(2)}));
  }
  all.push_back(program({exposed(kAll, 1), each_kind(kMore), go_on(4), of(Step::flush, {0}),
                         each_kind(kStrong), go_on(4)}));
  all.push_back(
      program({exposed(), of(Step::atomic, {0, 3, 16}), of(Step::write, {kMore, 2, 3, 16}),
               of(Step::write, {kMore, 5, 3, 16}), of(Step::write, {kMore, 2, 1, 8}),
               of(Step::write, {kMore, 5, 1, 8}), of(Step::write, {0, 2, 3, 48}), go_on(6)}));
  Bytes channels = exposed();
  for (std::uint8_t channel = 0; channel < 20; ++channel) {
    const auto on = static_cast<std::uint8_t>(channel * kChannel);
    channels = program({channels, of(Step::atomic, {kWrongSecret, on, 0}), go_on(1)});
  }
  all.push_back(
      program({channels, go_on(4), of(Step::atomic, {0, 24 * kChannel, 0}), go_on(1),
               of(Step::flush, {3 * kChannel}), go_on(2), of(Step::disconnect, {0}), go_on(3)}));
  all.push_back(program({exposed(), of(Step::write, {0, kLong, 0}),
                         times(6, each_kind(kStrong | kMore)), of(Step::flush, {0}), go_on(20)}));
  // Strong operations with weak ones between them, and failures out of their order.
  const Bytes add = of(Step::atomic, {kMore, 0, 0});
  const Bytes strong_add = of(Step::atomic, {kMore | kStrong, 0, 0});
  const Bytes refused = of(Step::atomic, {kWrongSecret, 0, 0});
  all.push_back(program({exposed(), of(Step::write, {0, kLong, 0}), of(Step::wait, {1}),
                         of(Step::lose_all), strong_add, add, strong_add, add, go_on(2),
                         of(Step::flush, {0}), of(Step::wait_long, {1}), go_on(8)}));
  all.push_back(program({exposed(), refused, of(Step::wait, {1}), of(Step::lose_all), strong_add,
                         refused, go_on(2), of(Step::flush, {0}), refused, add,
                         of(Step::wait_long, {1}), go_on(4), strong_add, go_on(4)}));
  // The ring of notices has 32 places here. When it is full, no write that notifies can end.
  const Bytes notified = times(4, of(Step::write, {kMore, 2, 0}));
  const Bytes full =
      program({exposed(), of(Step::notices, {3}), times(8, program({notified, go_on(2)})), go_on(4),
               of(Step::write, {kMore, kLong, 0}), of(Step::write, {kMore, 2, 1, 0}), go_on(8)});
  all.push_back(program({full, of(Step::wait_long, {3}), of(Step::notices, {1}),
                         of(Step::wait_long, {3}), go_on(4)}));
  all.push_back(program({full, of(Step::disconnect, {1}), go_on(4)}));
}

// Withdrawals and ends of sessions while operations are under way.
void add_ends(std::vector<Bytes>& all) {
  const Bytes withdraw = of(Step::withdraw, {1});
  for (int rounds = 0; rounds < 4; ++rounds) {
    const Bytes begun = program({exposed(), each_kind(0), times(rounds, go_on(1))});
    all.push_back(program({begun, withdraw, go_on(2), each_kind(0), go_on(6)}));
    all.push_back(
        program({begun, of(Step::lose, {0}), of(Step::lose, {1}), withdraw, of(Step::expose, {15}),
                 go_on(1), of(Step::wait_long, {2}), go_on(6), each_kind(2), go_on(4)}));
    all.push_back(program({begun, of(Step::hold, {5}), of(Step::hold, {7}), go_on(2), withdraw,
                           go_on(4), of(Step::hold, {1}), of(Step::hold, {3}), go_on(4)}));
    all.push_back(
        program({begun, of(Step::hold, {4}), of(Step::hold, {6}), each_kind(kStrong), go_on(1),
                 of(Step::disconnect, {0}), go_on(2), of(Step::connect, {0}),
                 of(Step::connect, {1}), go_on(4), each_kind(kStrong | kMore), of(Step::flush, {0}),
                 go_on(2), of(Step::hold, {0}), of(Step::hold, {2}), go_on(6)}));
    all.push_back(program({begun, of(Step::disconnect, {1}), go_on(3), of(Step::connect, {0}),
                           of(Step::connect, {1}), go_on(4), each_kind(0), go_on(4)}));
    all.push_back(
        program({begun, of(Step::deliver, {1}), of(Step::deliver, {1}), of(Step::wait, {1}),
                 withdraw, of(Step::lose_all), of(Step::disconnect, {1}), go_on(4)}));
    all.push_back(program({begun, of(Step::cancel, {0, 31}), of(Step::cancel, {0, 30}),
                           of(Step::close, {1}), go_on(4)}));
    all.push_back(program({begun, each_kind(kStrong), of(Step::close, {0}), go_on(4)}));
    all.push_back(program({begun, of(Step::nic, {5}), of(Step::nic, {7}), of(Step::wait_long, {60}),
                           of(Step::wait_long, {60}), of(Step::wait_long, {60}), go_on(2)}));
  }
}

// NICs that hold what they have sent: the caller's bytes, and those of replies.
void add_holds(std::vector<Bytes>& all) {
  const Bytes connect = program({of(Step::connect, {0}), of(Step::connect, {1}), go_on(4)});
  const Bytes held = program({exposed(), of(Step::hold, {4}), of(Step::hold, {6}), each_kind(0),
                              go_on(9), of(Step::disconnect, {0}), go_on(2)});
  const Bytes let_go = program({of(Step::hold, {0}), of(Step::hold, {2}), go_on(4)});
  all.push_back(program({held, let_go}));
  all.push_back(program({held, connect, each_kind(kStrong), go_on(2), let_go}));
  all.push_back(
      program({exposed(), times(7, of(Step::read, {0, kLong, 0})), of(Step::wait, {1}),
               of(Step::deliver_all), of(Step::turn, {1}), of(Step::withdraw, {1}), go_on(6)}));
  all.push_back(
      program({exposed(), of(Step::nic, {5}), times(7, of(Step::read, {0, kLong, 0})),
               of(Step::wait, {1}), of(Step::deliver_all), of(Step::nic, {7}), of(Step::turn, {1}),
               of(Step::withdraw, {1}), of(Step::nic, {1}), of(Step::nic, {3}), go_on(6)}));
}

// A write of two fragments with a signal, as no honest endpoint sends it.
void add_long_signals(std::vector<Bytes>& all) {
  constexpr std::uint8_t kFlags = 4 | 8 | 1 << 5;  // it notifies, and its word is of region 1
  constexpr std::uint8_t kTwoFragments = 5;
  const auto fragment = [](std::uint8_t index) {
    return of(Step::forge_operation, {1 | 1 << 3, kFlags, 1, index, 0, kTwoFragments, 80, 0, 0});
  };
  const Bytes begun =
      program({exposed(), of(Step::expose, {15}), of(Step::write, {0, 3, 0}), go_on(4)});
  all.push_back(program({begun, fragment(0), fragment(1), go_on(3)}));
  all.push_back(program(
      {begun, fragment(0), of(Step::wait, {1}), of(Step::withdraw, {3}), fragment(1), go_on(3)}));
  all.push_back(program(
      {begun, fragment(0), of(Step::wait, {1}), of(Step::withdraw, {1}), fragment(1), go_on(3)}));
}

// Two replies to one fetch: one ends it, and the other then goes on, or is withdrawn. Others have a
// note that names no fetch.
void add_second_replies(std::vector<Bytes>& all) {
  constexpr std::uint8_t kTwoFragments = 5;
  const auto reply = [](std::uint8_t flags, std::uint8_t number, std::uint8_t fragment,
                        std::uint8_t note) {
    return of(Step::forge_operation,
              {1 << 3, flags, number, fragment, 0, kTwoFragments, 0, note, 0});
  };
  const Bytes begun =
      program({exposed(), of(Step::write, {0, 3, 0}), go_on(4),
               of(Step::read, {0, kTwoFragments, 0}), of(Step::wait, {1}), of(Step::deliver, {0}),
               of(Step::deliver, {0}), of(Step::lose_all), reply(1, 0, 0, 0), reply(1, 1, 0, 0),
               reply(1, 2, 0, 1), reply(1, 3, 0, 255), of(Step::wait, {1})});
  for (const std::uint8_t flags : {std::uint8_t{1}, std::uint8_t{3}}) {
    all.push_back(program({begun, reply(1, 0, 1, 0), reply(flags, 1, 1, 0), go_on(4)}));
    all.push_back(program({begun, reply(flags, 1, 1, 0), reply(1, 0, 1, 0), go_on(4)}));
  }
}

// Numbers, lengths and offsets beyond every limit.
void add_excesses(std::vector<Bytes>& all) {
  const auto forged = [](std::uint8_t type, std::uint8_t number, std::uint8_t size,
                         std::uint8_t offset) {
    return of(Step::forge_operation, {static_cast<std::uint8_t>(1 | type << 1 | 1 << 3), 0, number,
                                      0, 0, size, offset, 0, 0});
  };
  const Bytes begun = program({exposed(), of(Step::write, {0, 3, 0}), go_on(4)});
  Bytes far = begun;
  for (std::uint8_t type = 0; type < 3; ++type) {
    all.push_back(
        program({begun, forged(type, 127, 3, 80), forged(type, 4, 16, 80), forged(type, 1, 3, 158),
                 forged(type, 2, 3, 255), go_on(3), forged(type, 255, 3, 80), go_on(1)}));
    for (std::uint8_t number = 4; number < 127; number = static_cast<std::uint8_t>(number + 4))
      far = program({far, forged(type, number, kLong, 80), of(Step::wait, {1})});
  }
  all.push_back(program({far, go_on(3)}));
}

// Packets in the name of endpoint 0 to the memory of endpoint 1, and in the name of 1 to the
// fetches of 0.
void add_forgeries(std::vector<Bytes>& all) {
  const auto forged = [](std::uint8_t head, std::uint8_t flags, std::uint8_t number,
                         std::uint8_t fragment, std::uint8_t size, std::uint8_t word = 0) {
    return of(Step::forge_operation, {head, flags, number, fragment, 0, size, 80, 0, word});
  };
  constexpr std::uint8_t kTo1 = 1 | 1 << 3;
  constexpr std::uint8_t kTo0 = 1 << 3;
  constexpr std::uint8_t kNotWhole = 8;
  const Bytes begun = program({exposed(), of(Step::write, {0, 3, 0}), go_on(4)});
  for (std::uint8_t flags = 0; flags < 32; ++flags) {
    all.push_back(
        program({begun, forged(kTo1, flags, 0, 0, 3), forged(kTo1, flags, 1, 0, kLong),
                 forged(kTo1, flags, 1, 1, kLong), forged(kTo1, flags, 4, 0, 3 | kNotWhole),
                 forged(kTo1 | 2, flags, 1, 0, 8), forged(kTo1 | 4, flags, 3, 0, 0, 4), go_on(4)}));
    for (const std::uint8_t size : {std::uint8_t{3}, kLong}) {
      const auto not_whole = static_cast<std::uint8_t>(size | kNotWhole);
      const std::uint8_t other = size == kLong ? 2 : kLong;
      all.push_back(
          program({begun, of(Step::read, {0, size, 0}), of(Step::wait, {1}), of(Step::deliver, {0}),
                   of(Step::deliver, {0}), of(Step::lose_all), forged(kTo0, flags, 0, 0, other),
                   forged(kTo0, flags, 0, 0, not_whole), forged(kTo0, flags, 0, 0, size),
                   forged(kTo0, flags, 1, 0, size), forged(kTo0, flags, 0, 1, size),
                   of(Step::wait, {1}), forged(kTo0, flags | 2, 1, 1, size), go_on(4)}));
    }
  }
  add_long_signals(all);
  add_second_replies(all);
  add_excesses(all);
  for (std::uint8_t status = 1; status < 12; ++status) {
    all.push_back(program({begun, each_kind(kMore), of(Step::wait, {1}),
                           of(Step::forge_answer, {0, 0, status, 3}), of(Step::wait, {1}),
                           of(Step::forge_answer, {2, 2, status, 1}),
                           of(Step::forge_answer, {4, 3, 0, status}), go_on(4)}));
  }
}

std::vector<Bytes> seeds() {
  std::vector<Bytes> all;
  add_messages(all);
  add_operations(all);
  add_refusals(all);
  add_ends(all);
  add_holds(all);
  add_forgeries(all);
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
