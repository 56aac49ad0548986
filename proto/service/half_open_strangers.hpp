// SPDX-License-Identifier: Apache-2.0
// Strangers that have called, that nobody here wants, and that have not sent our token. A newcomer
// gets the place of one of them (session/places.cpp).
//
// An endpoint calls from addresses that no other endpoint has. Only the newest of the strangers at
// one address is there: the others are gone, or were never there. These are a crowd, which must not
// keep many places for as long as a caller may need one.
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
  explicit HalfOpenStrangers(PeerTable& peers) : peers_(peers) { newest_.fill(kNoIndex); }

  // The stranger called from an address, and may have proven that it receives there. False: it was
  // half open before, and keeps its age.
  bool enter(Peer& peer, const NicAddress& from, bool is_proven, Time now) {
    HalfOpenMark& mark = peer.session.half_open;
    if (mark.is_listed) return false;
    mark.bucket = hash_of(from) & (kBuckets - 1);
    mark.is_listed = true;
    std::uint32_t& newest = newest_[mark.bucket];
    mark.in_crowd = newest != kNoIndex && !is_proven;
    if (!mark.in_crowd) {
      if (newest != kNoIndex) join_crowd(peers_.at(newest));
      newest = peer.index;
    }
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
    if (!mark.in_crowd) newest_[mark.bucket] = kNoIndex;
    --count_;
    by_age(mark).remove(peers_, peer.index);
  }
  [[nodiscard]] static bool contains(const Peer& peer) { return peer.session.half_open.is_listed; }
  [[nodiscard]] static bool is_in_crowd(const Peer& peer) {
    return peer.session.half_open.in_crowd;
  }
  // The one that gives up its place first, of those that may. Null: none of the oldest may.
  template <class MayGo>
  [[nodiscard]] Peer* first_to_go(MayGo&& may_go) {
    for (const ByAge* list : {&in_crowds_, &alone_}) {
      std::uint32_t index = list->front();
      for (std::uint32_t left = kMostSeen; left > 0 && index != kNoIndex; --left) {
        if (may_go(peers_.at(index))) return &peers_.at(index);
        index = ByAge::next(peers_, index);
      }
    }
    return nullptr;
  }
  [[nodiscard]] std::uint32_t size() const { return count_; }

 private:
  using ByAge = IndexList<Peer, &Peer::send_link>;  // a stranger has nothing to send

  static constexpr std::uint32_t kBuckets = 1024;
  static constexpr std::uint32_t kMostSeen = 64;  // of a list

  // Addresses differ in few of their bytes. Two that meet in a bucket count as one: a caller that
  // calls again is the newest there again.
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
  void join_crowd(Peer& peer) {
    alone_.remove(peers_, peer.index);
    in_crowds_.push_back(peers_, peer.index);
    peer.session.half_open.in_crowd = true;
  }

  PeerTable& peers_;
  ByAge in_crowds_;
  ByAge alone_;
  std::array<std::uint32_t, kBuckets> newest_;  // kNoIndex: nobody is alone there
  std::uint32_t count_ = 0;
};

}  // namespace hawser::proto
