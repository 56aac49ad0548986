// SPDX-License-Identifier: Apache-2.0
// The layout of channels, tags, signatures and groups (docs/internals/collective_plans.md).
//
//   channel    0x8000 | id mod 2^14
//   tag        63..56 id / 2^14 | 55 control | 54 between two ranks | 53..32 message number
//              | 31..0 sequence of the start
//              of control: the number is the kind, and an abort's sequence is 0
//              between two ranks: the number is 0, and the sequence is the caller's tag
//              of a vote: bits 55 and 54 are set, and the rest is 0
//   immediate  of data, queries and their answers: the signature of what was started
//              of an abort: 63..56 status | 55..32 rank | 31..8 reporter | 7..0 zero
//              between two ranks, and of a vote: 0
#pragma once

#include <cstdint>

#include "hawser/collectives.hpp"
#include "hawser/types.hpp"

namespace hawser::coll {

inline constexpr unsigned kChannelIdBits = 14;
inline constexpr std::uint32_t kMaxCommunicators = 1u << 22;  // ids are below this
inline constexpr std::uint32_t kMaxRanks = 65536;             // an endpoint has no more peers

inline constexpr std::uint64_t kTagIdMask = 0xffull << 56;
inline constexpr std::uint64_t kTagControl = 1ull << 55;
inline constexpr std::uint64_t kTagMessage = 1ull << 54;  // between two ranks
inline constexpr unsigned kTagNumberShift = 32;
inline constexpr std::uint64_t kTagNumberMask = (1ull << 22) - 1;

[[nodiscard]] constexpr std::uint16_t channel_of(std::uint32_t id) noexcept {
  return static_cast<std::uint16_t>(kCollectiveChannel | (id & ((1u << kChannelIdBits) - 1)));
}

[[nodiscard]] constexpr std::uint64_t tag_base(std::uint32_t id) noexcept {
  return static_cast<std::uint64_t>(id >> kChannelIdBits) << 56;
}

// Numbers beyond 2^22 wrap. That is safe: only a window of them is in flight, and equal tags match
// in order.
[[nodiscard]] constexpr std::uint64_t data_tag(std::uint32_t id, std::uint32_t sequence,
                                               std::uint64_t number) noexcept {
  return tag_base(id) | (number & kTagNumberMask) << kTagNumberShift | sequence;
}

[[nodiscard]] constexpr std::uint64_t message_tag(std::uint32_t id, std::uint32_t tag) noexcept {
  return kTagMessage | tag_base(id) | tag;
}

// Votes on who is left when a communicator was revoked.
[[nodiscard]] constexpr std::uint64_t vote_tag(std::uint32_t id) noexcept {
  return kTagControl | kTagMessage | tag_base(id);
}

// Messages without payload about a collective or the whole communicator.
enum class Control : std::uint8_t {
  abort,
  query,  // the sender awaits a message of this collective
  done,   // answers a query: the sender has sent all its messages of this collective
};

[[nodiscard]] constexpr std::uint64_t control_tag(std::uint32_t id, Control control,
                                                  std::uint32_t sequence) noexcept {
  return kTagControl | data_tag(id, sequence, static_cast<std::uint64_t>(control));
}

// Requires a tag with kTagControl.
[[nodiscard]] constexpr Control control_of(std::uint64_t tag) noexcept {
  return static_cast<Control>((tag & ~kTagControl) >> kTagNumberShift & kTagNumberMask);
}

[[nodiscard]] constexpr std::uint64_t abort_tag(std::uint32_t id) noexcept {
  return control_tag(id, Control::abort, 0);
}

// The collective that was started.
enum class CollectiveKind : std::uint8_t {
  all_reduce,
  reduce,
  reduce_scatter,
  all_gather,
  all_to_all,
  broadcast,
  gather,
  scatter,
  barrier,
  split,
  check,  // of all ranks' bandwidths
};

// FNV-1a over words.
inline constexpr std::uint64_t kDigestStart = 0xcbf29ce484222325;
[[nodiscard]] constexpr std::uint64_t digest(std::uint64_t so_far, std::uint64_t word) noexcept {
  return (so_far ^ word) * 0x100000001b3;
}

// The options that decide how data is cut into messages, and when ranks check their bandwidths.
[[nodiscard]] inline std::uint64_t digest_of(const CommunicatorOptions& options) noexcept {
  const std::uint64_t cut = static_cast<std::uint64_t>(options.chunk_bytes) << 32 ^
                            static_cast<std::uint64_t>(options.small_bytes) << 8 ^ options.pipeline;
  return options.follow_bandwidths ? digest(cut, ~options.check_bytes) : cut;
}

// The properties that must agree at all ranks. Their hash fits into a message's immediate.
struct Signature {
  CollectiveKind kind = CollectiveKind::barrier;
  DataType type = DataType::f32;
  ReduceOp op = ReduceOp::sum;
  Rank root = 0;
  bool in_place = false;      // of an all-to-all: its blocks are cut into pieces
  std::uint64_t count = 0;    // elements, or bytes if there is no type
  std::uint64_t lengths = 0;  // a digest, where all ranks know each block's length
  std::uint64_t options = 0;  // options that decide how data is cut into messages

  [[nodiscard]] constexpr std::uint64_t hash() const noexcept {
    const std::uint64_t words[] = {
        static_cast<std::uint64_t>(in_place) << 24 | static_cast<std::uint64_t>(kind) << 16 |
            static_cast<std::uint64_t>(type) << 8 | static_cast<std::uint64_t>(op),
        root, count, lengths, options};
    std::uint64_t hash = kDigestStart;
    for (const std::uint64_t word : words) hash = digest(hash, word);
    hash ^= hash >> 32;
    return hash * 0x9e3779b97f4a7c15;
  }
};

// Words for ranks whose signatures differ.
inline constexpr const char* kDisagreement =
    "a different collective, type, count, option or use in place at";

// The first group number of a communicator, which counts up from it. Only timers depend on groups,
// so an occasional overlap between two communicators does no harm.
[[nodiscard]] constexpr std::uint32_t first_group(std::uint32_t id) noexcept {
  return (id + 1) * 0x9e3779b1u;
}

struct AbortNotice {
  Rank rank = 0;      // the rank that failed
  Rank reporter = 0;  // the rank that noticed
  Status status = Status::ok;
};

[[nodiscard]] constexpr std::uint64_t pack(const AbortNotice& notice) noexcept {
  return static_cast<std::uint64_t>(notice.status) << 56 |
         static_cast<std::uint64_t>(notice.rank & 0xffffff) << 32 |
         static_cast<std::uint64_t>(notice.reporter & 0xffffff) << 8;
}

[[nodiscard]] constexpr AbortNotice unpack_abort(std::uint64_t immediate) noexcept {
  return {.rank = static_cast<Rank>(immediate >> 32 & 0xffffff),
          .reporter = static_cast<Rank>(immediate >> 8 & 0xffffff),
          .status = static_cast<Status>(immediate >> 56)};
}

}  // namespace hawser::coll
