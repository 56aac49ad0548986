// SPDX-License-Identifier: Apache-2.0
// A session facing arbitrary packets, times and calls. The input is a program for two endpoints
// (session_program.hpp). At its end the NICs are healed. Then, whatever was done, nothing hangs and
// both endpoints close within their limits. Every operation has its completion, and every packet
// buffer is back. Nobody has used an operation's bytes after the caller got them back. Unless a
// packet was forged, every message arrives, with the bytes that were sent. tiny_one_sided.hpp has
// what must hold of one-sided operations.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "test/fuzz/forger.hpp"
#include "test/fuzz/input.hpp"
#include "test/fuzz/session_program.hpp"
#include "test/fuzz/tiny_one_sided.hpp"
#include "test/fuzz/tiny_world.hpp"
#include "test/proto/wire_samples.hpp"

namespace hawser::test {
namespace {

constexpr std::size_t kMostSteps = 400;
constexpr std::size_t kRemembered = 64;
constexpr std::array<std::size_t, 8> kSizes{0, 1, 255, 256, 1024, 1025, 5000, 30000};
// One-sided operations: with and without a signal in the packet, a grant, several fragments.
constexpr std::array<std::size_t, 8> kOneSidedSizes{0, 1, 8, 216, 256, 257, 1300, 2000};
constexpr std::uint8_t kAtomicOperations = 12;
// A forged message number so far beyond the floor stands for one this many times as far.
constexpr int kNearNumbers = 63;
constexpr int kFarNumbers = 2048;

class Session {
 public:
  explicit Session(Input input) : input_(input) {
    for (std::uint32_t i = 0; i < 2; ++i) world_.connect(i);
  }

  void run() {
    for (std::size_t steps = 0; steps < kMostSteps && !input_.ended(); ++steps) {
      const auto step = static_cast<Step>(input_.next() % kSteps);
      if (!fabric_step(step) && !one_sided_step(step)) caller_step(step);
    }
    heal();
    finish();
    world_.close();
    one_sided_.judge();
  }

 private:
  std::uint32_t who(std::uint8_t byte) { return byte & 1; }
  std::size_t size() { return kSizes[input_.next() % kSizes.size()]; }
  static std::uint64_t tag(std::uint8_t byte) { return byte >> 1 & 3; }
  static std::uint64_t mask(std::uint8_t byte) { return (byte & 8) != 0 ? 0 : ~std::uint64_t{0}; }

  // Removes one of the packets in flight.
  std::optional<Flying> pick() {
    std::deque<Flying>& air = world_.air();
    const std::uint8_t which = input_.next();
    if (air.empty()) return std::nullopt;
    const auto at = air.begin() + static_cast<std::ptrdiff_t>(which % air.size());
    std::optional<Flying> packet = std::move(*at);
    air.erase(at);
    return packet;
  }
  void deliver(Flying packet) {
    if (lately_.size() == kRemembered) lately_.pop_front();
    lately_.push_back(packet);
    world_.deliver(std::move(packet));
  }
  void wait(proto::Duration time) {
    world_.advance(time);
    world_.turn(0);
    world_.turn(1);
  }

  bool fabric_step(Step step) {
    switch (step) {
      case Step::wait: wait(proto::microseconds(input_.next())); return true;
      case Step::wait_long: wait(proto::milliseconds(2u * input_.next())); return true;
      case Step::deliver:
        if (auto packet = pick()) deliver(std::move(*packet));
        return true;
      case Step::lose: (void)pick(); return true;
      case Step::duplicate:
        if (auto packet = pick()) {
          world_.air().push_back(*packet);
          deliver(std::move(*packet));
        }
        return true;
      case Step::deliver_all:
        while (!world_.air().empty()) {
          deliver(std::move(world_.air().front()));
          world_.air().pop_front();
        }
        return true;
      case Step::lose_all: world_.air().clear(); return true;
      case Step::damage: damage(); return true;
      case Step::replay: {
        const std::uint8_t which = input_.next();
        if (!lately_.empty()) world_.deliver(lately_[which % lately_.size()]);
        return true;
      }
      case Step::forge: forge(); return true;
      case Step::raw: raw(); return true;
      case Step::forge_operation: forge_operation(); return true;
      case Step::forge_answer: forge_answer(); return true;
      case Step::turn: world_.turn(who(input_.next())); return true;
      default: return false;
    }
  }

  bool one_sided_step(Step step) {
    switch (step) {
      case Step::expose: {
        const std::uint8_t byte = input_.next();
        one_sided_.expose(who(byte), static_cast<RegionAccess>(byte >> 1 & 7), (byte & 16) == 0);
        return true;
      }
      case Step::withdraw: {
        const std::uint8_t byte = input_.next();
        one_sided_.withdraw(who(byte), byte >> 1);
        return true;
      }
      case Step::write: write(); return true;
      case Step::read: {
        const std::uint8_t byte = input_.next();
        const std::uint8_t size = input_.next();
        one_sided_.read(target(byte, size), input_.next() & 31u, kOneSidedSizes[size & 7],
                        (byte & 128) != 0);
        return true;
      }
      case Step::atomic: {
        const std::uint8_t byte = input_.next();
        const std::uint8_t word = input_.next();
        one_sided_.atomic(target(byte, word), this->word(word & 3, input_.next()),
                          (byte & 128) != 0);
        return true;
      }
      case Step::flush: {
        const std::uint8_t byte = input_.next();
        one_sided_.flush(who(byte), byte >> 3);
        return true;
      }
      case Step::notices: {
        const std::uint8_t byte = input_.next();
        world_.node(who(byte)).holds_notices = (byte & 2) != 0;
        return true;
      }
      default: return false;
    }
  }

  // The channel stands in the upper bits of the second byte.
  TinyOneSided::Target target(std::uint8_t byte, std::uint8_t second) {
    return {.from = who(byte),
            .region = static_cast<std::uint8_t>(byte >> 1 & 7),
            .key = key(byte >> 4),
            .channel = static_cast<std::uint16_t>(second >> 3),
            .strong = (byte & 64) != 0};
  }
  static TinyOneSided::Key key(unsigned bits) {
    using enum TinyOneSided::Key;
    constexpr std::array kKeys{right, right, wrong_secret, too_long};
    return kKeys[bits & 3];
  }
  static TinyOneSided::Word word(std::uint8_t index, std::uint8_t byte) {
    TinyOneSided::Word word{.index = index};
    if (index < TinyRegion::kWords - 1) return word;
    word.operation = static_cast<AtomicOperation>((byte & 15) % kAtomicOperations);
    word.shifted = (byte & 16) != 0;
    word.narrow = (byte & 32) != 0;
    word.operand = byte * 0x0123456789abcdefu;
    return word;
  }

  void write() {
    const std::uint8_t byte = input_.next();
    const std::uint8_t size = input_.next();
    const std::uint8_t more = input_.next();
    std::optional<TinyOneSided::SignalChoice> signal;
    // The word that is always swapped has no signals.
    if (constexpr std::array<std::uint8_t, 4> kWords{0, 0, 1, 3}; (more & 3) != 0) {
      const std::uint8_t how = input_.next();
      signal.emplace();
      signal->word = word(kWords[more & 3], how & 0xf0);
      signal->word.operation = (how & 128) != 0 ? AtomicOperation::store : AtomicOperation::add;
      signal->region = static_cast<std::uint8_t>((byte >> 1) + (how & 3));
      signal->key = key(how >> 2);
    }
    one_sided_.write(target(byte, size), std::size_t{more} >> 2 << 4, kOneSidedSizes[size & 7],
                     (byte & 128) != 0, signal);
  }

  void caller_step(Step step) {
    const std::uint8_t byte = input_.next();
    const std::uint32_t node = who(byte);
    proto::Endpoint& endpoint = *world_.node(node).endpoint;
    switch (step) {
      case Step::send:
        (void)world_.send(node, size(), tag(byte),
                          {.level = (byte & 16) != 0 ? Level::delivered : Level::accepted,
                           .hint = {.group = byte & 32u,
                                    .members = 2,
                                    .priority = static_cast<std::uint8_t>(byte >> 6)}});
        return;
      case Step::receive: (void)world_.receive(node, size(), tag(byte), mask(byte)); return;
      case Step::cancel: world_.cancel(node, input_.next()); return;
      case Step::claim: world_.claim(node, tag(byte), mask(byte)); return;
      case Step::put_back: world_.put_back(node); return;
      case Step::receive_claimed: world_.receive_claimed(node, size()); return;
      case Step::connect: world_.connect(node); return;
      case Step::disconnect:
        if (world_.node(node).peer == kAnyPeer) return;
        ended_ = true;
        (void)endpoint.disconnect(world_.now(), world_.node(node).peer);
        world_.node(node).next_turn = world_.now();
        return;
      case Step::close:
        ended_ = true;
        endpoint.close(world_.now());
        world_.node(node).closing = true;
        world_.node(node).next_turn = world_.now();
        return;
      case Step::nic: {
        TinyNic& nic = *world_.node(node).nics[byte >> 1 & 1];
        nic.dead = (byte & 4) != 0;
        if ((byte & 8) != 0) {
          nic.tell(nic.dead ? proto::NicEvent::Kind::down : proto::NicEvent::Kind::up);
        }
        world_.node(node).next_turn = world_.now();
        return;
      }
      case Step::hold: world_.node(node).nics[byte >> 1 & 1]->holds_sends = (byte & 4) != 0; return;
      default: HAWSER_ASSERT(false, "a step that nobody takes");
    }
  }

  void damage() {
    auto packet = pick();
    const std::uint8_t where = input_.next();
    const std::uint8_t with = input_.next();
    if (!packet || packet->bytes < sizeof(proto::wire::CommonHeader)) return;
    packet->datagram()[where % packet->bytes] ^= static_cast<std::byte>(with);
    if (with % 2 == 0) {
      world_.honest = false;
      fix_checksum(packet->datagram());
    }
    deliver(std::move(*packet));
  }

  void forge() {
    const std::uint8_t which = input_.next();
    const std::uint8_t type = input_.next();
    const std::size_t length = input_.next();
    constexpr std::size_t kHeader = sizeof(proto::wire::CommonHeader);
    Flying packet;
    if (!lately_.empty()) {
      packet = lately_[which % lately_.size()];
    } else {
      packet.to = which & 1;
    }
    packet.bytes = kHeader + length / 8 * 8 + (length % 8 == 7 ? 256 : 0);
    packet.words.resize((packet.bytes + 7) / 8);
    packet.queue = (type & 128) != 0 ? proto::Queue::control : proto::Queue::data;
    auto& header = *reinterpret_cast<proto::wire::CommonHeader*>(packet.words.data());
    if ((type & 64) == 0) header.type = static_cast<proto::wire::PacketType>(type & 63);
    header.hwords = static_cast<std::uint8_t>((kHeader + length / 8 * 8) / 8);
    header.flags ^= input_.next();
    header.path_number += input_.next();
    header.slot ^= static_cast<std::uint8_t>(input_.next() & 0x13);
    header.floor += input_.next();
    const auto body = packet.datagram().subspan(kHeader);
    for (std::size_t i = 0; i < length / 8 * 8; ++i) {
      if (const std::uint8_t byte = input_.next(); byte != 0) body[i] ^= std::byte{byte};
    }
    fix_checksum(packet.datagram());
    world_.honest = false;
    world_.deliver(std::move(packet));
  }

  void forge_operation() {
    using proto::wire::PacketType;
    constexpr std::array kTypes{PacketType::write, PacketType::read, PacketType::atomic,
                                PacketType::write};
    ForgedOperation choice;
    const std::uint8_t byte = input_.next();
    choice.to = who(byte);
    choice.type = kTypes[byte >> 1 & 3];
    choice.path_number = byte >> 3;
    const std::uint8_t flags = input_.next();
    choice.flags = flags & 31;
    const auto number = static_cast<std::int8_t>(input_.next());
    choice.number = number > kNearNumbers ? number * kFarNumbers : number;
    choice.fragment = input_.next() & 15;
    const std::uint8_t region = input_.next();
    choice.key = one_sided_.key_of(choice.to, region & 7);
    choice.key.secret ^= region >> 3 & 1;
    choice.key.generation += region >> 4;
    choice.key_of_word = one_sided_.key_of(choice.to, (region + (flags >> 5)) & 7);
    const std::uint8_t size = input_.next();
    choice.bytes = (size & 16) != 0 ? kMaxMessageBytes : kOneSidedSizes[size & 7];
    choice.has_other_payload = (size & 8) != 0;
    choice.offset = input_.next() * 32u;
    choice.note = static_cast<std::int8_t>(input_.next());
    const std::uint8_t word = input_.next();
    choice.word = {.operation = static_cast<AtomicOperation>(word & 15),
                   .width = static_cast<std::uint8_t>((word & 16) != 0 ? 4 : 8),
                   .operand = word / 32u};
    if (auto packet = test::forge(choice, lately_)) {
      world_.honest = false;
      deliver(std::move(*packet));
    }
  }

  void forge_answer() {
    ForgedAnswer choice;
    const std::uint8_t byte = input_.next();
    choice.to = who(byte);
    choice.kind = static_cast<ForgedAnswer::Kind>((byte >> 1) % 3);
    choice.number = static_cast<std::int8_t>(input_.next());
    choice.value = input_.next();
    choice.count = std::max<std::uint8_t>(input_.next(), 1);
    if (auto packet = test::forge(choice, lately_)) {
      world_.honest = false;
      deliver(std::move(*packet));
    }
  }

  void raw() {
    const std::uint8_t where = input_.next();
    Flying packet;
    packet.to = where & 1;
    packet.nic = where >> 1 & 1;
    packet.queue = (where & 4) != 0 ? proto::Queue::control : proto::Queue::data;
    packet.bytes = input_.next();
    packet.words.resize((packet.bytes + 7) / 8);
    for (std::byte& byte : packet.datagram()) byte = std::byte{input_.next()};
    world_.honest = false;  // the bytes could be any packet, with the right checksum
    world_.deliver(std::move(packet));
  }

  void heal() {
    for (std::uint32_t i = 0; i < 2; ++i) {
      for (auto& nic : world_.node(i).nics) {
        nic->dead = false;
        nic->holds_sends = false;
        nic->tell(proto::NicEvent::Kind::up);
      }
      world_.node(i).next_turn = world_.now();
      world_.node(i).holds_notices = false;
      world_.put_back(i);
    }
    (void)world_.run(proto::milliseconds(5), [] { return false; });
  }

  // Every message arrives once somebody receives it, and every one-sided operation ends.
  void finish() {
    std::uint64_t failures = 0;
    for (std::uint32_t i = 0; i < 2; ++i) {
      failures += world_.node(i).endpoint->stats().peer_failures;
    }
    if (!world_.honest || ended_ || failures > 0) return;
    const bool all = world_.run(proto::milliseconds(3000), [&] {
      bool open = false;
      for (std::uint32_t i = 0; i < 2; ++i) {
        const auto& operations = world_.node(i).operations;
        const bool waits = std::ranges::any_of(
            operations, [](const auto& o) { return o.id != kNoOperation && o.is_send; });
        open |= waits ||
                std::ranges::any_of(operations, [](const auto& o) { return o.is_one_sided(); });
        const bool awaited = std::ranges::any_of(world_.node(1 - i).operations, [](const auto& o) {
          return o.id != kNoOperation && !o.is_send && o.size == 30001;
        });
        // Post a receive that matches whatever still comes. The other receives keep waiting.
        if (waits && !awaited && !world_.receive(1 - i, 30001, 0, 0)) {
          for (std::uint32_t o = 0; o < operations.size(); ++o) world_.cancel(1 - i, o);
        }
      }
      return !open;
    });
    HAWSER_ASSERT(all, "a send or a one-sided operation hangs in a healed world");
  }

  Input input_;
  TinyWorld world_;
  TinyOneSided one_sided_{world_};
  std::deque<Flying> lately_;
  bool ended_ = false;  // an endpoint ended the session on purpose
};

}  // namespace
}  // namespace hawser::test

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  hawser::test::Session(hawser::test::Input(data, size)).run();
  return 0;
}
