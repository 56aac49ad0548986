// SPDX-License-Identifier: Apache-2.0
// Memory for the fragments of sends that begin in one piece of their list and end in another.
//
// A send takes its joints when it is posted, one for each border between pieces, so that none of
// its fragments ever waits for one. It gives them back when it is released. Between the two, a NIC
// may read a joint as it reads the caller's pieces. Each joint is filled once, when its fragment is
// first sent.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "proto/base/assert.hpp"
#include "proto/base/pieces.hpp"
#include "proto/base/untouched.hpp"
#include "proto/message/outgoing_message.hpp"

namespace hawser::proto {

class Joints {
 public:
  // Fragments of at most this many bytes fit beside the headers of any packet, and need no joint.
  static constexpr std::size_t kMostBeside = 512;
  // Any list can have its own, some time.
  static constexpr std::uint32_t kLeast = kMostPieces - 1;

  Joints(std::uint32_t count, std::uint32_t fragment_bytes)
      : fragment_bytes_(fragment_bytes), memory_(std::size_t{count} * fragment_bytes) {
    HAWSER_ASSERT(count >= kLeast);
    free_.reserve(count);
    for (std::uint32_t i = count; i-- > 0;) free_.push_back(i);
  }

  // False: too few are left, and nothing was taken.
  [[nodiscard]] bool take(GatherList& list) {
    list.filled = 0;
    list.joint_count = list.bytes <= kMostBeside || list.count == 0 ? 0 : list.count - 1;
    if (list.joint_count > free_.size()) return false;
    for (std::uint32_t i = 0; i < list.joint_count; ++i) {
      list.joints[i] = free_.back();
      free_.pop_back();
    }
    return true;
  }
  void give(GatherList& list) {
    for (std::uint32_t i = list.joint_count; i-- > 0;) free_.push_back(list.joints[i]);
    list.joint_count = 0;
  }

  // A fragment's bytes, in one place: where they lie, or at `beside`, which has kMostBeside bytes,
  // or in the joint of the border that is in them.
  [[nodiscard]] std::span<const std::byte> gather(GatherList& list, FragmentExtent extent,
                                                  std::byte* beside) {
    std::uint32_t first = 0;
    std::span<const std::byte> run;
    list.for_each_run(extent.begin, extent.bytes,
                      [&](std::uint32_t i, const std::byte* at, std::size_t bytes) {
                        if (!run.empty()) return;
                        first = i;
                        run = {at, bytes};
                      });
    if (run.size() == extent.bytes) return run;
    if (extent.bytes <= kMostBeside) return copy(list, extent, beside);
    std::byte* const joint = memory_.data() + std::size_t{list.joints[first]} * fragment_bytes_;
    if ((list.filled >> first & 1u) != 0) return {joint, extent.bytes};
    list.filled |= 1u << first;
    return copy(list, extent, joint);
  }

  [[nodiscard]] std::size_t left() const { return free_.size(); }

 private:
  static std::span<const std::byte> copy(const GatherList& list, FragmentExtent extent,
                                         std::byte* to) {
    std::byte* end = to;
    list.for_each_run(extent.begin, extent.bytes,
                      [&](std::uint32_t, const std::byte* at, std::size_t bytes) {
                        std::memcpy(end, at, bytes);
                        end += bytes;
                      });
    return {to, extent.bytes};
  }

  std::size_t fragment_bytes_;
  Untouched<std::byte> memory_;
  std::vector<std::uint32_t> free_;
};

}  // namespace hawser::proto
