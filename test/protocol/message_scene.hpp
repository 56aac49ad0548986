// SPDX-License-Identifier: Apache-2.0
// One endpoint in a session with a peer that the test plays packet by packet. It shows what each
// single packet of the peer does to a message. Fragments have 4096 bytes. Two fragments of a
// message are unscheduled, both ways.
#pragma once

#include <catch2/catch.hpp>
#include <set>
#include <string>
#include <vector>

#include "test/protocol/scripted_peer.hpp"

namespace hawser::test {

class MessageScene {
 public:
  static constexpr std::uint32_t kFragment = 4096;
  static constexpr std::uint64_t kUnscheduled = 2 * kFragment;
  static constexpr std::uint64_t kPeerId = 99;

  MessageScene() : MessageScene(defaults()) {}
  explicit MessageScene(const WorldConfig& config, std::uint8_t features = 0)
      : world_(config), peer(world_, 0, kPeerId) {
    using proto::wire::PacketType;
    peer.unscheduled_bytes = kUnscheduled;
    peer.features = features;
    peer.say(PacketType::hello);
    world_.run_for(proto::milliseconds(1));
    REQUIRE(peer.heard() == "WELCOME");
    peer.echo = true;
    peer.say(PacketType::welcome);
    world_.run_for(proto::milliseconds(1));
    REQUIRE(peer.heard() == "WELCOME");
  }
  static WorldConfig defaults() {
    WorldConfig config = tiny_world();
    config.nodes = 1;
    config.tunables.unscheduled_bytes = kUnscheduled;
    config.tunables.unexpected_bytes = 4 * kFragment;
    return config;
  }

  World& world() { return world_; }
  // Runs for longer than an immediate answer takes, but for less than any timer of loss detection.
  void settle() { world_.run_for(proto::microseconds(500)); }

  // ---- the peer's packets

  // Sends one fragment of a message of `bytes` bytes; each byte is the message's number.
  void data(std::uint32_t message, std::uint32_t fragment, std::uint64_t bytes,
            bool delivered = true) {
    put_fragment(proto::wire::PacketType::data, message, fragment, bytes,
                 [&](proto::wire::PacketWriter& w) {
                   w.part(proto::wire::FragmentPart{message, fragment});
                   w.part(envelope(message, bytes, delivered));
                 });
  }
  void granted(std::uint32_t message, std::uint32_t fragment, std::uint64_t bytes,
               std::uint32_t rx_slot, std::uint32_t rx_generation) {
    put_fragment(proto::wire::PacketType::granted, message, fragment, bytes,
                 [&](proto::wire::PacketWriter& w) {
                   w.part(proto::wire::FragmentPart{message, fragment});
                   w.part(proto::wire::ReceiveSlotPart{rx_slot, rx_generation});
                 });
  }
  void ask(std::uint32_t message, std::uint64_t bytes, bool delivered = true, bool cancel = false) {
    peer.put(proto::wire::PacketType::envelope, {}, [&](proto::wire::PacketWriter& w) {
      w.part(proto::wire::FragmentPart{message, 0});
      proto::wire::EnvelopePart& part = w.part(envelope(message, bytes, delivered));
      if (cancel) part.kind = proto::wire::EnvelopeKind::cancel;
    });
  }
  template <class Write>
  void control(Write&& write) {
    peer.put(proto::wire::PacketType::control, {}, write);
  }
  void status(std::uint32_t message, proto::wire::MessageStatus status, std::uint16_t run = 1) {
    control([&](proto::wire::PacketWriter& w) { REQUIRE(w.status(message, status, run)); });
  }
  // A packet was received that `acknowledge` shall acknowledge.
  void note_path(const proto::wire::PacketView& view) {
    if (!proto::wire::rule_of(view.type).sequenced) return;
    path_slot_ = view.header->path_slot();
    path_generation_ = view.header->generation;
    path_numbers_.insert(view.header->path_number);
  }
  // Acknowledges every packet that was received on the path.
  void acknowledge() {
    if (path_numbers_.empty()) return;
    const std::uint32_t largest = *path_numbers_.rbegin();
    std::uint64_t bitmap = 0;
    for (const std::uint32_t number : path_numbers_) {
      if (largest - number < 64) bitmap |= std::uint64_t{1} << (largest - number);
    }
    control([&](proto::wire::PacketWriter& w) {
      REQUIRE(w.ack_info(++turn_, 0, 1024));
      REQUIRE(w.path_ack(path_slot_, path_generation_, largest, 0, 0, std::span(&bitmap, 1)));
    });
  }

  // Acknowledges the newest packet alone, and allows so many KiB in flight.
  void acknowledge_newest(std::uint32_t allowance_kib) {
    const std::uint64_t bitmap = 1;
    control([&](proto::wire::PacketWriter& w) {
      REQUIRE(w.ack_info(++turn_, 0, allowance_kib));
      REQUIRE(w.path_ack(path_slot_, path_generation_, *path_numbers_.rbegin(), 0, 0,
                         std::span(&bitmap, 1)));
    });
  }

  // ---- the endpoint's packets

  // The endpoint's packets about one message, in the order of sending, repetitions once. The names
  // are "data 0", "granted 2", "again 0" (either, as a retransmit), "ask", "cancel", statuses by
  // name, "request 0 2", "grant 2-3", "RESET".
  std::string heard(std::uint32_t message) {
    Said said;
    for (Datagram& datagram : peer.datagrams()) {
      proto::wire::PacketView view;
      REQUIRE(!proto::wire::parse(datagram.datagram(), datagram.queue, true, view));
      note_path(view);
      if (view.closing != nullptr) said.add(proto::wire::rule_of(view.type).name);
      note_blocks(view, message, said);
      if (view.fragment == nullptr || view.fragment->message != message) continue;
      const std::string fragment = ' ' + std::to_string(view.fragment->fragment);
      if (view.type == proto::wire::PacketType::envelope) {
        CHECK(view.fragment->fragment == 0);
        said.add(view.envelope->kind == proto::wire::EnvelopeKind::cancel ? "cancel" : "ask");
      } else if ((view.header->flags & proto::wire::kFlagRetransmit) != 0) {
        said.add("again" + fragment);
      } else {
        said.add((view.type == proto::wire::PacketType::granted ? "granted" : "data") + fragment);
      }
    }
    return said.words;
  }
  // The newest grant.
  [[nodiscard]] const proto::wire::GrantBlock& grant() const { return grant_; }

  // ---- the endpoint's own calls

  OperationId send(std::size_t bytes, Level level) {
    bytes_.assign(bytes, 's');
    proto::SendRequest request;
    request.peer = id;
    request.data = reinterpret_cast<const std::byte*>(bytes_.data());
    request.bytes = bytes;
    request.options.level = level;
    REQUIRE(world_.post(0, request) == Status::ok);
    return request.operation;
  }
  OperationId receive(PeerId from, std::uint64_t tag, std::size_t bytes) {
    bytes_.assign(bytes, 'r');
    return world_.receive(0, from, tag, bytes_);
  }
  [[nodiscard]] const std::string& bytes() const { return bytes_; }
  // The statuses of the completed operations, in the order of completion: "ok".
  [[nodiscard]] std::string ended() const {
    std::string names;
    for (const Completion& completion : world_.completions(0)) {
      if (!names.empty()) names += ' ';
      names += to_string(completion.status);
    }
    return names;
  }
  [[nodiscard]] std::uint64_t drops() {
    std::uint64_t sum = 0;
    for (const std::uint64_t count : world_.stats(0).drops) sum += count;
    return sum;
  }
  [[nodiscard]] std::uint64_t drops(DropReason reason) { return world_.drops(0, reason); }

 private:
  struct Said {
    std::string words;
    std::set<std::string> all;
    void add(std::string_view word) {
      if (!all.insert(std::string(word)).second) return;
      if (!words.empty()) words += ", ";
      words += word;
    }
  };

  static proto::wire::EnvelopePart envelope(std::uint32_t message, std::uint64_t bytes,
                                            bool delivered) {
    proto::wire::EnvelopePart part{};
    part.tag = message;
    part.set_length(bytes);
    if (delivered) part.eflags = proto::wire::kEnvelopeDelivered;
    return part;
  }
  template <class Write>
  void put_fragment(proto::wire::PacketType type, std::uint32_t message, std::uint32_t fragment,
                    std::uint64_t bytes, Write&& write) {
    const std::uint64_t begin = std::uint64_t{fragment} * kFragment;
    const std::vector<std::byte> payload(
        begin < bytes ? std::min<std::uint64_t>(bytes - begin, kFragment) : 0,
        static_cast<std::byte>(message));
    peer.put(type, payload, write);
  }
  void note_blocks(const proto::wire::PacketView& view, std::uint32_t message, Said& said) {
    constexpr const char* kNames[] = {
        "",        "ACCEPTED", "NO_ROOM",       "DELIVERED",        "TRUNCATED",  "CANCELLED",
        "PENDING", "MATCHED",  "ACCESS_DENIED", "REGION_WITHDRAWN", "MISALIGNED", "UNSUPPORTED"};
    view.blocks.visit([&](const proto::wire::StatusView& statuses) {
      for (const proto::wire::StatusEntry& entry : statuses.entries) {
        if (message - entry.message >= entry.run) continue;
        said.add(kNames[static_cast<std::size_t>(entry.status)]);
      }
    });
    view.blocks.visit([&](const proto::wire::GrantBlock& grant) {
      if (grant.message != message) return;
      grant_ = grant;
      said.add("grant " + std::to_string(grant.from) + '-' + std::to_string(grant.up_to));
    });
    view.blocks.visit([&](const proto::wire::RequestView& request) {
      if (request.message != message) return;
      std::string word = "request";
      for (std::uint32_t i = 0; i < 64 * request.bitmap.size(); ++i) {
        if ((request.bitmap[i / 64] >> (i % 64) & 1) != 0) {
          word += ' ' + std::to_string(request.base + i);
        }
      }
      said.add(word);
    });
  }

  World world_;
  std::string bytes_;
  std::set<std::uint32_t> path_numbers_;
  std::uint8_t path_slot_ = 0;
  std::uint8_t path_generation_ = 0;
  std::uint32_t turn_ = 1;
  proto::wire::GrantBlock grant_{};

 public:
  ScriptedPeer peer;
  PeerId id{0};  // the first one that the endpoint gives
};

}  // namespace hawser::test
