// SPDX-License-Identifier: Apache-2.0
// Strangers that have called, that nobody here wants, and that have not sent our token. A newcomer
// gets the place of one of them (session/places.cpp).
//
// An endpoint calls from addresses that no other endpoint has. Strangers that come from one address
// are therefore a crowd: all of them but one are gone, or were never there. A crowd must not keep
// many places for as long as a caller may need one.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>

#include "proto/base/list.hpp"
#include "proto/nic.hpp"
#include "proto/peer/peer.hpp"
#include "proto/peer/peer_table.hpp"

namespace hawser::proto {

class HalfOpenStrangers {
 public:
  // `peers` outlives it.
  explicit HalfOpenStrangers(PeerTable& peers) : peers_(peers) {}

  // False: it was one before, and keeps its age.
  bool enter(Peer& peer, const NicAddress& from, Time now) {
    HalfOpenMark& mark = peer.session.half_open;
    if (mark.is_listed) return false;
    mark.bucket = hash_of(from) & (kBuckets - 1);
    mark.is_listed = true;
    mark.in_crowd = in_bucket_[mark.bucket]++ > 0;
    ++count_;
    by_age(mark).push_back(peers_, peer.index);
    peer.handshake.calling_since = now;
    return true;
  }
  // The peer may have left before.
  void leave(Peer& peer) {
    HalfOpenMark& mark = peer.session.half_open;
    if (!mark.is_listed) return;
    mark.is_listed = false;
    --in_bucket_[mark.bucket];
    --count_;
    by_age(mark).remove(peers_, peer.index);
  }
  [[nodiscard]] static bool contains(const Peer& peer) { return peer.session.half_open.is_listed; }
  // The one that gives up its place first. Those of a crowd that became half open after the first
  // time keep theirs, and others after the second. Null: there is none.
  [[nodiscard]] Peer* first_to_go(Time crowd_until, Time alone_until) {
    Peer* const crowded = oldest(in_crowds_);
    if (crowded != nullptr && crowded->handshake.calling_since <= crowd_until) return crowded;
    Peer* const lone = oldest(alone_);
    return lone != nullptr && lone->handshake.calling_since <= alone_until ? lone : nullptr;
  }
  [[nodiscard]] std::uint32_t size() const { return count_; }

 private:
  using ByAge = IndexList<Peer, &Peer::send_link>;  // a stranger has nothing to send

  static constexpr std::uint32_t kBuckets = 1024;

  // Addresses differ in few of their bytes. Two that meet in a bucket count as one.
  static std::uint16_t hash_of(const NicAddress& address) {
    std::uint64_t hash = 0;
    for (std::size_t at = 0; at < address.bytes.size(); at += sizeof hash) {
      std::uint64_t word = 0;
      std::memcpy(&word, address.bytes.data() + at, sizeof word);
      hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
      hash ^= hash >> 32;
    }
    return static_cast<std::uint16_t>(hash);
  }
  ByAge& by_age(const HalfOpenMark& mark) { return mark.in_crowd ? in_crowds_ : alone_; }
  Peer* oldest(const ByAge& list) { return list.empty() ? nullptr : &peers_.at(list.front()); }

  PeerTable& peers_;
  ByAge in_crowds_;
  ByAge alone_;
  std::array<std::uint32_t, kBuckets> in_bucket_{};  // half-open strangers
  std::uint32_t count_ = 0;
};

}  // namespace hawser::proto
