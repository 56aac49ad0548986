// SPDX-License-Identifier: Apache-2.0
// What an operation on a peer's memory needs beyond a message, and what a reply to one needs.
//
// Plain data: the rules live in one_sided_out.cpp.
#pragma once

#include <cstddef>
#include <cstdint>

#include "hawser/status.hpp"
#include "proto/base/list.hpp"
#include "proto/base/slab.hpp"
#include "proto/wire/layout.hpp"

namespace hawser::proto {

struct Peer;

struct OneSidedSend {
  std::uint32_t message = kNoIndex;  // the message that this belongs to
  wire::TargetPart target{};         // as every packet of it says
  wire::OperandsPart operands{};     // ATOMIC
  wire::SignalPart signal{};         // WRITE, if its flags say so
  std::uint64_t process = 0;         // the one that the key names

  // A write whose signal goes by itself.
  std::uint32_t then = kNoIndex;  // the signal's message
  // That signal, once its write has ended.
  std::uint64_t write_bytes = 0;
  bool follows_placed = false;  // the write is placed
  bool follows_sent = false;    // a packet of it has left

  // An operation that fetches.
  std::byte* into = nullptr;          // READ: the caller's buffer
  std::uint64_t word = 0;             // ATOMIC: the word that was fetched; of a reply: that is sent
  bool awaits_reply = false;          // the operation ends with its reply
  Status reply_failure = Status::ok;  // why none came
  ListLink fetch_link;                // on the peer's list of operations that await one

  // Its place in the order of its channel. ChannelOrder's alone.
  SlabId order_channel{};  // kNoSlabId: it has none
  std::uint32_t order_segment = 0;
  std::uint32_t order_before = 0;  // held: those of the segment that it ends which have not ended
  std::uint32_t order_ends = 0;    // held: that segment
  ListLink order_link;

  // A reply to a READ.
  SlabId region{};  // it reads from there; kNoSlabId: from `word`
};

// The receiver of one-sided operations calls their sender by this interface.
class OneSidedSender {
 public:
  // The operation of this peer whose reply has that note; null: none awaits it.
  [[nodiscard]] virtual OneSidedSend* fetch_named(const Peer& peer, std::uint64_t note) = 0;
  virtual void end_fetch(OneSidedSend& operation, Status status) = 0;
  // Whether there is a place for a reply. Then the next one made has it.
  [[nodiscard]] virtual bool may_reply(Peer& peer) = 0;
  // A reply of so many bytes. They come from the region, or from its `word` if `region` is
  // kNoSlabId.
  [[nodiscard]] virtual OneSidedSend& make_reply(Peer& peer, std::uint64_t note,
                                                 std::uint64_t bytes) = 0;
  virtual void start_reply(Peer& peer, OneSidedSend& reply, const std::byte* from,
                           SlabId region) = 0;

 protected:
  ~OneSidedSender() = default;
};

}  // namespace hawser::proto
