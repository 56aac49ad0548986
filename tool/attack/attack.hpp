// SPDX-License-Identifier: Apache-2.0
// Hostile datagrams from a separate process at the sockets of a run's ranks, as fast as it can or
// at a given rate.
//
//   `garbage`    noise, and packets that are right in all that a stranger can know: format and
//                checksum, but not the tokens;
//   `truncated`  such packets, cut short; with the checksum of the whole or of the rest;
//   `replay`     packets of the ranks, seen on this host, sent again as they were, at once and
//                later;
//   `forged`     the same with fields and payload changed and the checksum put right.
//
// The first two are blind: they know only addresses. The others see the traffic through a packet
// socket, which takes CAP_NET_RAW. A replay must be harmless. An attacker that forges the packets
// it sees is outside the trust model: it may change, lose or stall messages, but not crash a rank.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace hawser::tool {

enum class AttackKind : std::uint8_t { garbage, truncated, replay, forged };
[[nodiscard]] std::string_view to_string(AttackKind kind);

struct Attack {
  AttackKind kind = AttackKind::garbage;
  std::uint64_t packets_per_s = 0;  // 0: as many as one core can send

  // Whether it sends packets that it has seen.
  [[nodiscard]] bool observes() const {
    return kind == AttackKind::replay || kind == AttackKind::forged;
  }
};

// "KIND[:RATE]", RATE in packets per second with k, M or G. Throws InputError.
[[nodiscard]] Attack parse_attack(std::string_view text);
[[nodiscard]] std::string to_text(const Attack& attack);

// The report of an attacker at its end.
struct AttackResult {
  AttackKind kind = AttackKind::garbage;
  std::uint64_t packets = 0;
  std::uint64_t bytes = 0;
  std::uint64_t seen = 0;     // packets of the ranks that it captured
  std::uint64_t sockets = 0;  // that it aimed at, the most at a time
  std::uint64_t ns = 0;       // from the first packet to the last
};
void to_json(nlohmann::json& json, const AttackResult& result);
void from_json(const nlohmann::json& json, AttackResult& result);

// The attacker's process. It aims at the ranks among the children of its own parent until SIGTERM,
// then reports its result over kReportFd. `fragment_bytes` is that of the ranks. Throws InputError.
void run_attacker(const Attack& attack, std::uint64_t seed, std::uint64_t fragment_bytes);

}  // namespace hawser::tool
