// SPDX-License-Identifier: Apache-2.0
// The peers of an endpoint, by index. The index is a peer's name on the wire, and its place in the
// API. A PeerId also counts how often the place was reused, so an old peer's name becomes nobody's.
//
// A peer is either awake, with all the state that the protocol's rules work on (Peer), or at rest,
// with a record of what must not be forgotten (RestingPeer). Its index stays the same. Each kind
// has slabs of its own, so a thousand known peers cost a thousand records. Work per peer is done
// only for peers that are awake.
//
// Lists and timers use it like a slab of Peers: items[index] is the Peer, which must be awake.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <tuple>

#include "proto/base/assert.hpp"
#include "proto/base/slab.hpp"
#include "proto/base/untouched.hpp"
#include "proto/path/remote_handles.hpp"
#include "proto/peer/peer.hpp"
#include "proto/session/resting.hpp"

namespace hawser::proto {

class PeerTable {
 public:
  explicit PeerTable(std::uint32_t capacity)
      : names_(capacity),
        awake_(capacity),
        resting_(capacity),
        more_nics_(std::size_t{capacity} * kMoreNics),
        buckets_(std::bit_ceil(std::max(capacity, 1u))) {
    HAWSER_ASSERT(capacity <= 1u << kPlaceBits);
    for (std::size_t i = 0; i < buckets_.size(); ++i) buckets_[i] = kLast;
  }

  // A new peer, awake; null if all places are taken.
  [[nodiscard]] Peer* make(std::uint64_t remote_id) {
    SlabId id;
    Name* name = names_.try_allocate(id);
    if (name == nullptr) return nullptr;
    Peer& peer = make_awake(*name, id.index);
    peer.identity.remote_id = remote_id;
    std::uint32_t& head = bucket_of(remote_id);
    name->next = head & kLast;
    head = id.index;
    return &peer;
  }

  // Forgets a peer. `was_named`: somebody may know its PeerId, which names nobody from here on.
  void forget(std::uint32_t index, bool was_named) {
    Name& name = names_.at(index);
    std::uint32_t& head = bucket_of(remote_id_of(index));
    if (head == index) {
      head = name.next;
    } else {
      std::uint32_t before = head;
      while (names_.at(before).next != index) before = names_.at(before).next;
      names_.at(before).next = name.next;
    }
    if (name.rests == 1) {
      resting_.free(name.place);
    } else {
      awake_.free(name.place);
    }
    if (was_named) name.uses = (name.uses + 1u) % kUses & kPlaceMask;
    names_.free(index);
  }

  // The index of the peer that is that endpoint; kNoIndex if it is unknown.
  [[nodiscard]] std::uint32_t find(std::uint64_t remote_id) const {
    std::uint32_t index = buckets_[bucket(remote_id)];
    while (index != kLast && remote_id_of(index) != remote_id) index = names_.at(index).next;
    return index == kLast ? kNoIndex : index;
  }

  [[nodiscard]] bool is_known(std::uint32_t index) const { return names_.is_live(index); }

  [[nodiscard]] PeerId id_of(std::uint32_t index) const {
    return PeerId{std::uint32_t{names_.at(index).uses} << kPlaceBits | index};
  }
  [[nodiscard]] PeerId id_of(const Peer& peer) const { return id_of(peer.index); }
  // kNoIndex: nobody has that name, or nobody has it any more.
  [[nodiscard]] std::uint32_t index_of(PeerId id) const {
    const std::uint32_t index = peer_place(id);
    return is_known(index) && id_of(index) == id ? index : kNoIndex;
  }
  [[nodiscard]] bool is_awake(std::uint32_t index) const {
    return is_known(index) && names_.at(index).rests == 0;
  }

  // Null if the peer is unknown or rests.
  [[nodiscard]] Peer* find_awake(std::uint32_t index) {
    const Name* name = names_.find(index);
    return name != nullptr && name->rests == 0 ? &awake_.at(name->place) : nullptr;
  }

  [[nodiscard]] Peer& at(std::uint32_t index) {
    const Name& name = names_.at(index);
    HAWSER_ASSERT(name.rests == 0);
    return awake_.at(name.place);
  }
  [[nodiscard]] const Peer& at(std::uint32_t index) const {
    return const_cast<PeerTable*>(this)->at(index);
  }
  [[nodiscard]] Peer& operator[](std::uint32_t index) { return at(index); }
  [[nodiscard]] const Peer& operator[](std::uint32_t index) const { return at(index); }

  [[nodiscard]] const RestingPeer& resting(std::uint32_t index) const {
    const Name& name = names_.at(index);
    HAWSER_ASSERT(name.rests == 1);
    return resting_.at(name.place);
  }

  // Prefetches the peer if it is known and awake.
  void fetch(std::uint32_t index) const {
    const Name* name = names_.find(index);
    if (name != nullptr && name->rests == 0) proto::fetch(awake_.at(name->place));
  }

  // The peer's place among those awake, below capacity(): it indexes data kept beside the table.
  [[nodiscard]] std::uint32_t place_of(const Peer& peer) const { return awake_.index_of(peer); }

  // NIC `i` of the peer, as it has described it.
  [[nodiscard]] wire::NicRecord& nic_of(Peer& peer, std::size_t i) {
    if (i < peer.identity.nics.size()) return peer.identity.nics[i];
    return more_nics_[place_of(peer) * kMoreNics + i - peer.identity.nics.size()];
  }

  [[nodiscard]] bool is_up(Peer& peer, std::size_t nic) { return nic_of(peer, nic).state != 0; }

  // Replaces the Peer by its record.
  void put_to_rest(std::uint32_t index, const RestingPeer& record) {
    Name& name = names_.at(index);
    HAWSER_ASSERT(name.rests == 0);
    SlabId id;
    RestingPeer* kept = resting_.try_allocate(id);
    HAWSER_ASSERT(kept != nullptr);  // there are as many as names
    *kept = record;
    awake_.free(name.place);
    name.rests = 1;
    name.place = id.index & kPlaceMask;
  }

  // Moves the record into `record`; the Peer is as if just made.
  [[nodiscard]] Peer& wake(std::uint32_t index, RestingPeer& record) {
    Name& name = names_.at(index);
    record = resting(index);
    resting_.free(name.place);
    Peer& peer = make_awake(name, index);
    peer.identity.remote_id = record.remote_id;
    return peer;
  }

  // `visit` may forget peers, and put to rest or wake any. A peer that it wakes may be visited or
  // not.
  template <class Visit>
  void for_each_awake(Visit&& visit) {
    for (std::uint32_t i = 0; i < awake_.touched(); ++i) {
      if (awake_.is_live(i)) visit(awake_.at(i));
    }
  }

  // The same, one at a time: places below awake_places(), null where no peer is awake.
  [[nodiscard]] std::uint32_t awake_places() const { return awake_.touched(); }
  [[nodiscard]] Peer* awake_at(std::uint32_t place) {
    return awake_.is_live(place) ? &awake_.at(place) : nullptr;
  }

  [[nodiscard]] std::uint32_t capacity() const { return names_.capacity(); }
  // Only indices below it have ever been used.
  [[nodiscard]] std::uint32_t used() const { return names_.touched(); }
  [[nodiscard]] bool full() const { return names_.full(); }
  [[nodiscard]] std::uint32_t awake() const { return awake_.size(); }
  [[nodiscard]] std::uint32_t at_rest() const { return resting_.size(); }

  // The cost of a peer at rest beside its record. Its name, its share of the hash and the cells of
  // both in their slabs take memory. Its places in the heap of timers (disarmed) and in the
  // matching do too, and so does the place of its reserved descriptor's timer.
  static constexpr std::size_t kBytesBeside = 8 + 8 + 16 + 4 + 16 + 4;

 private:
  static constexpr std::uint32_t kPlaceBits = 16;
  static constexpr std::uint32_t kPlaceMask = 0xffff;
  static constexpr std::uint32_t kUses = 0xffff;  // the last is kAnyPeer's

  static constexpr std::uint32_t kLast = 0x7fffffff;

  static constexpr std::size_t kMoreNics =
      kMaxNics - std::tuple_size_v<decltype(PeerIdentity::nics)>;

  struct Name {
    std::uint32_t place : kPlaceBits = 0;  // in awake_ or resting_
    std::uint32_t uses : kPlaceBits = 0;   // how often it named another peer
    std::uint32_t rests : 1 = 0;
    std::uint32_t next : 31 = kLast;  // in its bucket
    void reset() {
      place = rests = 0;
      next = kLast;
    }
  };

  [[nodiscard]] Peer& make_awake(Name& name, std::uint32_t index) {
    SlabId id;
    Peer* peer = awake_.try_allocate(id);
    HAWSER_ASSERT(peer != nullptr);  // there are as many as names
    peer->index = index;
    name.place = id.index & kPlaceMask;
    name.rests = 0;
    return *peer;
  }
  [[nodiscard]] std::uint64_t remote_id_of(std::uint32_t index) const {
    const Name& name = names_.at(index);
    return name.rests == 1 ? resting_.at(name.place).remote_id
                           : awake_.at(name.place).identity.remote_id;
  }
  [[nodiscard]] std::size_t bucket(std::uint64_t remote_id) const {
    return static_cast<std::size_t>((remote_id * 0x9e3779b97f4a7c15u) >> 32) &
           (buckets_.size() - 1);
  }
  [[nodiscard]] std::uint32_t& bucket_of(std::uint64_t remote_id) {
    return buckets_[bucket(remote_id)];
  }

  static_assert(sizeof(Name) == 8);

  Slab<Name> names_;
  Slab<Peer> awake_;
  Slab<RestingPeer> resting_;
  Untouched<wire::NicRecord>
      more_nics_;                     // for peers with more than PeerIdentity::nics holds, by place
  Untouched<std::uint32_t> buckets_;  // a power of two: the first of each chain
};

static_assert(sizeof(RestingPeer) + PeerTable::kBytesBeside <= 512);

// The memory of an active peer with so many paths each way. It includes records of up to 8 packets
// in flight on each path, and a message of one fragment and its block of numbers each way. It also
// includes handles for three more pairs of NICs. Each object in a slab has a cell beside it.
constexpr std::size_t active_peer_bytes(std::size_t paths) {
  constexpr std::size_t kCell = 8;
  constexpr std::size_t kPath =
      sizeof(Path) + sizeof(ReceivePath) + SentBlockPool::kRecords * sizeof(SentPacket) + 3 * kCell;
  constexpr std::size_t kMessages =
      sizeof(OutgoingMessage) + sizeof(IncomingMessage) + 2 * sizeof(MessageBlock) + 4 * kCell;
  return sizeof(Peer) + paths * kPath + kMessages +
         (paths + 3) * (RemoteHandles::kEntryBytes + kCell) + PeerTable::kBytesBeside;
}
static_assert(active_peer_bytes(kHomePaths) <= 4096);

}  // namespace hawser::proto
