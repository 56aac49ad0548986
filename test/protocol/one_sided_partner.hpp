// SPDX-License-Identifier: Apache-2.0
// One endpoint with exposed memory, and a peer that the test plays packet by packet. It shows what
// each single packet of a one-sided operation does, at the target and at the initiator.
#pragma once

#include <catch2/catch.hpp>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "proto/region/host_placement.hpp"
#include "test/protocol/message_scene.hpp"

namespace hawser::test {

class OneSidedPartner {
 public:
  static constexpr std::uint32_t kFragment = MessageScene::kFragment;
  static constexpr std::size_t kBytes = 16 * kFragment;
  static constexpr RegionAccess kAll = RegionAccess::all;

  OneSidedPartner() : OneSidedPartner(MessageScene::defaults()) {}
  explicit OneSidedPartner(const WorldConfig& config,
                           std::uint8_t features = proto::wire::kFeatureOneSided)
      : memory(kBytes / 8), scene(config, features) {
    key = expose(host);
  }

  // Exposes the whole memory once more.
  RegionKey expose(proto::Placement& placement) {
    RegionKey made;
    REQUIRE(endpoint().expose({.data = memory.data(), .bytes = kBytes, .access = kAll}, placement,
                              region) == Status::ok);
    REQUIRE(endpoint().region_key(region, made) == Status::ok);
    return made;
  }
  // A key of the peer's memory. The peer never looks at it.
  static RegionKey key_of_peer() {
    WorldConfig config = tiny_world();
    config.nodes = 1;
    config.ids = {MessageScene::kPeerId};
    World owner(config);
    proto::HostPlacement placement;
    std::vector<std::uint64_t> exposed(kBytes / 8);
    RegionId of_owner{};
    RegionKey made;
    REQUIRE(owner.endpoint(0).expose({.data = exposed.data(), .bytes = kBytes, .access = kAll},
                                     placement, of_owner) == Status::ok);
    REQUIRE(owner.endpoint(0).region_key(of_owner, made) == Status::ok);
    return made;
  }

  World& world() { return scene.world(); }
  proto::Endpoint& endpoint() { return world().endpoint(0); }
  std::uint64_t drops(DropReason reason) { return scene.drops(reason); }
  [[nodiscard]] std::string text(std::size_t offset, std::size_t bytes) const {
    return {reinterpret_cast<const char*>(memory.data()) + offset, bytes};
  }

  // ---- the peer's packets

  [[nodiscard]] proto::wire::TargetPart target(std::uint64_t offset, std::uint64_t bytes,
                                               std::uint8_t flags = 0,
                                               std::uint64_t note = 0) const {
    proto::wire::TargetPart part{key.region, key.generation, key.secret, offset, 0,
                                 0,          flags,          0,          note};
    part.set_length(bytes);
    return part;
  }
  [[nodiscard]] static proto::wire::SignalPart signal(const RegionKey& at, std::uint64_t offset,
                                                      std::uint64_t value) {
    return {at.region, at.generation, at.secret, offset, value, AtomicOperation::add, 8, {}};
  }
  // A reply to the fetch of that name.
  [[nodiscard]] static proto::wire::TargetPart reply(std::uint64_t note, std::uint64_t bytes,
                                                     std::uint8_t flags = 0) {
    proto::wire::TargetPart part{};
    part.flags = flags | proto::wire::kTargetReply;
    part.note = note;
    part.set_length(bytes);
    return part;
  }

  // Sends one fragment of a write, or of a reply, whose bytes are all `fill`.
  void write(std::uint32_t number, std::uint32_t fragment, const proto::wire::TargetPart& to,
             char fill, const proto::wire::SignalPart* with = nullptr) {
    const bool has_bytes = (to.flags & proto::wire::kTargetWithdrawn) == 0;
    const std::uint64_t begin = std::uint64_t{fragment} * kFragment;
    const std::uint64_t left = has_bytes && begin < to.length() ? to.length() - begin : 0;
    const std::vector<std::byte> payload(std::min<std::uint64_t>(left, kFragment),
                                         static_cast<std::byte>(fill));
    scene.peer.put(proto::wire::PacketType::write, payload, [&](proto::wire::PacketWriter& w) {
      w.part(proto::wire::FragmentPart{number, fragment});
      w.part(to);
      if (with != nullptr) w.part(*with);
    });
  }
  void read(std::uint32_t number, const proto::wire::TargetPart& from) {
    scene.peer.put(proto::wire::PacketType::read, {}, [&](proto::wire::PacketWriter& w) {
      w.part(proto::wire::FragmentPart{number, 0});
      w.part(from);
    });
  }
  void add(std::uint32_t number, const proto::wire::TargetPart& to, std::uint64_t operand) {
    scene.peer.put(proto::wire::PacketType::atomic, {}, [&](proto::wire::PacketWriter& w) {
      w.part(proto::wire::FragmentPart{number, 0});
      w.part(to);
      w.part(proto::wire::OperandsPart{
          operand, 0, AtomicOperation::add, static_cast<std::uint8_t>(to.length()), {}});
    });
  }

  // ---- the endpoint's packets

  // One of its packets about the memory of the peer, or a reply.
  struct Sent {
    proto::wire::PacketType type{};
    std::uint32_t number = 0;
    std::uint32_t fragment = 0;
    proto::wire::TargetPart target{};
    std::string payload;
  };
  std::vector<Sent> sent;                                        // all so far
  std::map<std::uint32_t, proto::wire::MessageStatus> statuses;  // the newest of each number

  // Takes what has come. Runs for a moment first.
  void listen() {
    scene.settle();
    for (Datagram& datagram : scene.peer.datagrams()) {
      proto::wire::PacketView view;
      REQUIRE(!proto::wire::parse(datagram.datagram(), datagram.queue, true, view));
      scene.note_path(view);
      view.blocks.visit([&](const proto::wire::StatusView& told) {
        for (const proto::wire::StatusEntry& entry : told.entries) {
          for (std::uint32_t i = 0; i < entry.run; ++i) statuses[entry.message + i] = entry.status;
        }
      });
      if (view.target == nullptr) continue;
      sent.push_back(
          {view.type, view.fragment->message, view.fragment->fragment, *view.target,
           std::string(reinterpret_cast<const char*>(view.payload.data()), view.payload.size())});
    }
  }

  std::vector<std::uint64_t> memory;
  proto::HostPlacement host;
  MessageScene scene;
  RegionId region{};
  RegionKey key{};
};

}  // namespace hawser::test
