// SPDX-License-Identifier: Apache-2.0
// Hostile datagrams from a process of its own, as fast as it can or at a given rate, at the sockets
// of a run's ranks.
//
//   garbage    noise, and packets that are right in all that a stranger can know: format and
//              checksum, but not the tokens
//   truncated  such packets, cut short; with the checksum of the whole or of the rest
//   replay     packets of the ranks, seen on this host, sent again as they were, at once and later
//   forged     the same with fields and payload changed and the checksum put right
//
// The first two are blind: they know addresses. The others see the traffic, through a packet
// socket, which takes CAP_NET_RAW. A replay must be harmless. Who can forge what he sees is outside
// the trust model: he may change, lose or stall messages, but not crash a rank.
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

  // It sends what it has seen.
  [[nodiscard]] bool observes() const {
    return kind == AttackKind::replay || kind == AttackKind::forged;
  }
};

// "KIND[:RATE]", RATE in packets per second with k, M or G. Throws InputError.
[[nodiscard]] Attack parse_attack(std::string_view text);
[[nodiscard]] std::string to_text(const Attack& attack);

// What an attacker tells at its end.
struct AttackResult {
  AttackKind kind = AttackKind::garbage;
  std::uint64_t packets = 0;
  std::uint64_t bytes = 0;
  std::uint64_t seen = 0;     // packets of the ranks that it got hold of
  std::uint64_t sockets = 0;  // at which it aimed, the most at a time
  std::uint64_t ns = 0;       // from the first packet to the last
};
void to_json(nlohmann::json& json, const AttackResult& result);
void from_json(const nlohmann::json& json, AttackResult& result);

// The attacker's process: aims at the ranks among the children of its own parent until SIGTERM,
// then tells its result over kReportFd. `fragment_bytes` is that of the ranks. Throws InputError.
void run_attacker(const Attack& attack, std::uint64_t seed, std::uint64_t fragment_bytes);

}  // namespace hawser::tool
