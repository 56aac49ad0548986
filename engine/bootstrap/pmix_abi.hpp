// SPDX-License-Identifier: Apache-2.0
// The part of libpmix that Hawser uses, declared as in libpmix's header. This copy spares the build
// and users that header. The layouts have been the same since PMIx 2, and the standard guarantees
// them (https://pmix.github.io/pmix-standard). If the header is installed, a test compares it with
// this file.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace hawser::engine::pmix {

using Status = int;
inline constexpr Status kSuccess = 0;
inline constexpr Status kOperationSucceeded = -157;  // complete: no callback will come

inline constexpr std::uint32_t kWildcardRank = UINT32_MAX - 1;  // PMIX_RANK_WILDCARD: the job
inline constexpr std::uint8_t kGlobalScope = 3;                 // PMIX_GLOBAL
inline constexpr const char* kCollectData = "pmix.collect";     // PMIX_COLLECT_DATA

using DataType = std::uint16_t;
inline constexpr DataType kBool = 1;
inline constexpr DataType kString = 3;
inline constexpr DataType kSize = 4;
inline constexpr DataType kInt = 6;
inline constexpr DataType kUint16 = 13;
inline constexpr DataType kUint32 = 14;
inline constexpr DataType kUint64 = 15;

struct Process {
  std::array<char, 256> name_space;
  std::uint32_t rank;
};

struct Value {
  DataType type;
  union {
    bool flag;
    char* text;
    std::size_t size;
    int integer;
    std::uint16_t uint16;
    std::uint32_t uint32;
    std::uint64_t uint64;
    std::array<std::uint64_t, 3> room;  // room for the largest member
  };
};

struct Info {
  std::array<char, 512> key;
  std::uint32_t flags;
  Value value;
};

using Done = void (*)(Status status, void* context);
using Got = void (*)(Status status, Value* value, void* context);

using Init = Status (*)(Process* process, Info* info, std::size_t infos);
using Put = Status (*)(std::uint8_t scope, const char* key, Value* value);
using Commit = Status (*)();
using Fence = Status (*)(const Process* processes, std::size_t count, const Info* info,
                         std::size_t infos, Done done, void* context);
using Get = Status (*)(const Process* process, const char* key, const Info* info, std::size_t infos,
                       Got got, void* context);
using Finalize = Status (*)(const Info* info, std::size_t infos);
using ErrorString = const char* (*)(Status status);

}  // namespace hawser::engine::pmix
