// SPDX-License-Identifier: Apache-2.0
// fi_getinfo: lists the domains, their capabilities and those of their endpoints, as far as a
// program's hints ask for them. The first domain stands for all NICs together. After it comes one
// domain per NIC.
#pragma once

#include <rdma/fabric.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "plugin/ofi/config.hpp"

namespace hawser::ofi {

inline constexpr std::size_t kAddressBytes = 56;    // for one fi_av_insert
inline constexpr std::size_t kCqDataBytes = 4;      // the rest of `immediate` tells if it is set
inline constexpr std::size_t kInjectBytes = 16384;  // copied, so the buffer is free at once
// Defaults if neither the program nor FI_HAWSER_MAX_OPERATIONS sets the number. Receives are posted
// to Hawser, whose engine threads fill their tables at the start; sends may wait outside.
inline constexpr std::size_t kSendOperations = 65536;
inline constexpr std::size_t kReceiveOperations = 65536;
inline constexpr std::size_t kThreadReceiveOperations = 16384;
inline constexpr std::size_t kMostOperations = 1048576;  // limit for hints, of either kind
// Sends, and receives, of an endpoint that asks for at least the default number, if there is memory
// for them. Those that Hawser has no room for wait outside.
inline constexpr std::size_t kMostWaiting = 4194304;
// Defaults: this many messages may wait for a receive, with 1024 bytes each. The provider's users
// do not know the limit, and a message that finds no room ends its peer's progress. Unused room
// takes no memory.
inline constexpr std::uint64_t kUnexpectedMessages = 262144;
inline constexpr std::uint64_t kUnexpectedBytes = kUnexpectedMessages * 1024;
inline constexpr std::uint32_t kProtocol = 0x80004857u;  // the highest bit: a provider's own
inline constexpr std::uint64_t kTagFormat = 0xaaaaaaaaaaaaaaaaULL;  // 64 bits, no fields

inline constexpr std::uint64_t kOneSidedCaps = FI_RMA | FI_ATOMIC;
inline constexpr std::uint64_t kOneSidedDirections =
    FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE;
inline constexpr std::uint64_t kPrimaryCaps =
    FI_MSG | FI_TAGGED | FI_SEND | FI_RECV | FI_DIRECTED_RECV | kOneSidedCaps | kOneSidedDirections;
inline constexpr std::uint64_t kSecondaryCaps =
    FI_MULTI_RECV | FI_SOURCE | FI_LOCAL_COMM | FI_REMOTE_COMM | FI_FENCE;
inline constexpr std::uint64_t kCaps = kPrimaryCaps | kSecondaryCaps;
inline constexpr std::uint64_t kSendFlags = FI_COMPLETION | FI_INJECT | FI_INJECT_COMPLETE |
                                            FI_TRANSMIT_COMPLETE | FI_DELIVERY_COMPLETE |
                                            FI_MATCH_COMPLETE;
inline constexpr std::uint64_t kReceiveFlags = FI_COMPLETION | FI_MULTI_RECV;

// FI_MR_BASIC and FI_MR_SCALABLE, as numbers, because headers from 2.0 on warn about these names.
inline constexpr int kBasicRegistration = 1;
inline constexpr int kScalableRegistration = 2;

int get_info(std::uint32_t version, const char* node, const char* service, std::uint64_t flags,
             const fi_info* hints, fi_info** info);

// Explains in some words why a domain of that name doesn't fit these hints; null if it does.
[[nodiscard]] const char* complaint_about(const fi_info& hints, const std::string& domain,
                                          const Config& config);

// Engine threads of an endpoint: as configured, else one if the program asks for FI_PROGRESS_AUTO.
[[nodiscard]] unsigned threads_of(const Config& config, fi_progress asked);

}  // namespace hawser::ofi
