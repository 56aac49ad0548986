// SPDX-License-Identifier: Apache-2.0
// Handshakes under attack: the input is a program (handshake_program.hpp) of an honest pair of
// endpoints, of strangers and of an observer. The fuzzer checks after every step: Endpoints without
// a common secret are never READY. With a secret, no third peer is known. Without one, at most
// max_half_open_sessions strangers are known that have not proven where they receive. No endpoint
// has more peers than slots. At the end the strangers fall silent. Then the two endpoints find each
// other, a message passes, and all memory comes back when they close.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>

#include "proto/wire/mac.hpp"
#include "proto/wire/packet.hpp"
#include "test/fuzz/handshake_program.hpp"
#include "test/fuzz/input.hpp"
#include "test/fuzz/tiny_world.hpp"
#include "test/proto/wire_samples.hpp"

namespace hawser::test {
namespace {

using proto::wire::PacketType;

constexpr std::size_t kMostSteps = 300;
constexpr std::size_t kRemembered = 32;
constexpr std::uint64_t kFirstStranger = 100;
constexpr std::uint32_t kStrangers = 4;
constexpr std::uint32_t kSlots = 4;  // max_peers of the tiny world
constexpr std::string_view kSecret = "of the job";
constexpr std::string_view kOtherSecret = "of another";

// The facts that a stranger has learned about an endpoint, and those he tells it about himself.
struct Stranger {
  std::uint64_t token = 0;
  std::uint32_t sequence = 0;
  std::uint64_t cookie = 0;
  std::uint64_t their_token = 0;
  std::uint64_t their_epoch = 0;
  std::uint32_t their_counter = 0;
  std::uint32_t their_index = 0;
};

TinyOptions options_of(std::uint8_t mode) {
  TinyOptions options;
  if ((mode & kWithSecret) != 0) {
    options.secrets = {kSecret, (mode & kDifferentSecrets) != 0 ? kOtherSecret : kSecret};
  }
  if ((mode & kProveAlways) != 0) options.max_half_open_sessions = 0;
  return options;
}

class Attack {
 public:
  explicit Attack(Input input) : input_(input), mode_(input_.next()), world_(options_of(mode_)) {
    for (std::uint32_t i = 0; i < kStrangers; ++i) {
      strangers_[i].token = std::uint64_t{i + 1} << 32;  // each listens for his own token
    }
    world_.connect(0);
    if ((mode_ & kOnlyOneCalls) == 0) world_.connect(1);
  }

  void run() {
    for (std::size_t steps = 0; steps < kMostSteps && !input_.ended(); ++steps) {
      step(static_cast<HandshakeStep>(input_.next() % kHandshakeSteps));
      look();
    }
    find_each_other();
    world_.close();
  }

 private:
  [[nodiscard]] bool with_secret() const { return (mode_ & kWithSecret) != 0; }
  [[nodiscard]] bool never_ready() const {
    return with_secret() && (mode_ & kDifferentSecrets) != 0;
  }

  void step(HandshakeStep step) {
    switch (step) {
      case HandshakeStep::wait: return wait(proto::microseconds(input_.next()));
      case HandshakeStep::wait_long: return wait(proto::milliseconds(2u * input_.next()));
      case HandshakeStep::deliver:
        if (auto packet = pick()) deliver(std::move(*packet));
        return;
      case HandshakeStep::lose: (void)pick(); return;
      case HandshakeStep::duplicate:
        if (auto packet = pick()) {
          world_.air().push_back(*packet);
          deliver(std::move(*packet));
        }
        return;
      case HandshakeStep::deliver_all:
        while (!world_.air().empty()) {
          Flying packet = std::move(world_.air().front());
          world_.air().pop_front();
          deliver(std::move(packet));
        }
        return;
      case HandshakeStep::replay: {
        const std::uint8_t which = input_.next();
        if (!lately_.empty()) world_.deliver(lately_[which % lately_.size()]);
        return;
      }
      case HandshakeStep::change: return change();
      case HandshakeStep::stranger_hello: return stranger_says(PacketType::hello);
      case HandshakeStep::stranger_welcome: return stranger_says(PacketType::welcome);
      case HandshakeStep::false_hello: return somebody_says(PacketType::hello);
      case HandshakeStep::false_welcome: return somebody_says(PacketType::welcome);
      case HandshakeStep::ending: return ending();
      case HandshakeStep::connect: return world_.connect(input_.next() & 1);
      case HandshakeStep::disconnect: {
        const std::uint32_t who = input_.next() & 1;
        TinyNode& node = world_.node(who);
        if (node.peer != kAnyPeer) (void)node.endpoint->disconnect(world_.now(), node.peer);
        node.next_turn = world_.now();
        return;
      }
      case HandshakeStep::turn: return world_.turn(input_.next() & 1);
      case HandshakeStep::count_: break;
    }
    HAWSER_ASSERT(false, "a step that nobody takes");
  }

  void wait(proto::Duration time) {
    world_.advance(time);
    world_.turn(0);
    world_.turn(1);
  }
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
    if (packet.to < 2) {
      if (lately_.size() == kRemembered) lately_.pop_front();
      lately_.push_back(packet);
    }
    world_.deliver(std::move(packet));
    hear();
  }

  // Strangers read the packets that were sent to them.
  void hear() {
    for (Flying& packet : world_.strangers) {
      proto::wire::PacketView view;
      if (proto::wire::parse(packet.datagram(), packet.queue, true, view)) continue;
      for (Stranger& stranger : strangers_) {
        if (view.challenge != nullptr && view.header->token == stranger.token) {
          stranger.cookie = view.challenge->cookie;
        }
        if (view.session == nullptr || view.header->token != stranger.token) continue;
        stranger.their_token = view.session->my_token;
        stranger.their_epoch = view.session->epoch;
        stranger.their_counter = view.session->counter;
        stranger.their_index = view.session->my_index;
      }
    }
    world_.strangers.clear();
  }

  void change() {
    const std::uint8_t which = input_.next();
    const std::uint8_t where = input_.next();
    const std::uint8_t with = input_.next();
    if (lately_.empty() || !with_secret()) return;
    Flying packet = lately_[which % lately_.size()];
    if (packet.bytes < sizeof(proto::wire::CommonHeader)) return;
    proto::wire::PacketView view;
    const bool bad = proto::wire::parse(packet.datagram(), packet.queue, true, view).has_value();
    // Only session packets have a MAC. An observer can forge the others; session_fuzzer does that.
    if (bad || (!view.session && !view.closing && !view.challenge)) return;
    packet.datagram()[where % packet.bytes] ^= static_cast<std::byte>(with);
    fix_checksum(packet.datagram());
    world_.deliver(std::move(packet));
  }

  proto::wire::SessionPart session_of(Stranger& who, std::uint64_t id, std::uint32_t to,
                                      std::uint8_t how, bool heard) {
    const std::uint8_t incarnation = input_.next();
    const std::uint8_t sizes = input_.next();
    if ((how & kNewToken) != 0) ++who.token;
    if ((how & kSameSequence) == 0) ++who.sequence;
    proto::wire::SessionPart part{};
    part.sender_id = id;
    part.target_id = to + 1;
    part.epoch = incarnation & 15u;
    part.counter = incarnation >> 4;
    if (incarnation == 255) part.epoch = part.counter = 0xffffffffu;
    part.my_index = sizes & 7u;
    part.my_token = who.token;
    if ((how & kEchoToken) != 0) {
      part.echo_epoch = who.their_epoch;
      part.echo_counter = who.their_counter;
      part.echo_token = who.their_token;
    }
    part.sequence = who.sequence;
    part.first_number = (sizes & 8) != 0 ? ~std::uint64_t{0} : sizes;
    part.fragment_bytes = (sizes & 16) != 0 ? proto::wire::kMinFragmentBytes : 256u << (sizes >> 5);
    part.absence_ms = sizes;
    if ((how & kUseCookie) != 0) part.cookie = heard ? who.cookie : incarnation;
    part.unscheduled_bytes = (sizes & 32) != 0 ? ~std::uint64_t{0} : 1024;
    return part;
  }

  // `address` is the first NIC that the sender claims to have.
  void say(PacketType type, std::uint32_t to, std::uint8_t how, proto::wire::SessionPart part,
           std::uint32_t address) {
    const std::uint8_t nics = input_.next();
    part.nics = static_cast<std::uint8_t>(1 + nics % 3);
    proto::PacketBuffer buffer;
    proto::wire::PacketWriter writer(buffer);
    writer.begin(type, proto::wire::kNoReceiver, 0, 0).slot =
        proto::wire::CommonHeader::slot_byte(0, nics >> 6);
    writer.part(part);
    for (std::uint32_t i = 0; i < part.nics; ++i) {
      proto::wire::NicRecord record{};
      record.address.bytes[0] = std::byte{static_cast<std::uint8_t>(proto::NicKind::memory)};
      // The other NICs may be ones that nobody has, or another endpoint's.
      record.address.bytes[1] = static_cast<std::byte>(i == 0 ? address : (nics >> 2 & 7));
      record.receive_kib = (nics & 32) != 0 ? 0 : 64;
      record.max_datagram = static_cast<std::uint16_t>(i == 2 ? nics : 128);
      record.index = static_cast<std::uint8_t>(i);
      record.state = 1;
      writer.part(record);
    }
    send(writer, buffer, to, nics & 1, how);
  }

  // Signs with a wrong secret or none, since no sender here has the right one.
  void send(proto::wire::PacketWriter& writer, const proto::PacketBuffer& buffer, std::uint32_t to,
            std::uint32_t nic, std::uint8_t how) {
    const std::string_view secret = (how & kSignWrongly) != 0 ? "a guess" : "";
    proto::wire::sign(writer, std::as_bytes(std::span(secret)));
    Flying packet;
    packet.to = to;
    packet.nic = nic;
    packet.bytes = writer.finish(true);
    packet.words.resize((packet.bytes + 7) / 8);
    std::memcpy(packet.words.data(), buffer.bytes, packet.bytes);
    world_.deliver(std::move(packet));
  }

  void stranger_says(PacketType type) {
    const std::uint8_t whom = input_.next();
    const std::uint8_t how = input_.next();
    const std::uint32_t number = whom >> 1 & (kStrangers - 1);
    const std::uint64_t id = kFirstStranger + number;
    hear();
    const proto::wire::SessionPart part = session_of(strangers_[number], id, whom & 1, how, true);
    if (part.cookie != 0 || part.echo_token != 0) proven_.insert(id);
    say(type, whom & 1, how, part, 2 * TinyNode::kNics + (number & 1));
  }

  void somebody_says(PacketType type) {
    const std::uint8_t whom = input_.next();
    const std::uint8_t how = input_.next();
    const std::uint32_t to = whom & 1;
    proto::wire::SessionPart part = session_of(blind_, 2 - to, to, how, false);
    part.echo_token &= 0xffff;  // a guess
    say(type, to, how, part, whom >> 1 & 7u);
  }

  void ending() {
    constexpr std::array kKinds{PacketType::close, PacketType::closed, PacketType::reset,
                                PacketType::challenge};
    const std::uint8_t to = input_.next();
    const PacketType type = kKinds[input_.next() % kKinds.size()];
    const std::uint8_t whose = input_.next();
    const Stranger& stranger = strangers_[whose % kStrangers];
    std::uint32_t receiver = stranger.their_index;
    std::uint64_t token = stranger.their_token;
    if (token != 0) proven_.insert(kFirstStranger + whose % kStrangers);  // he received it
    // An observer also knows other tokens, but has no MAC. Without a secret nothing keeps him out.
    if (with_secret() && !lately_.empty() && (whose & 128) != 0) {
      Flying& seen = lately_[whose % lately_.size()];
      proto::wire::PacketView view;
      if (!proto::wire::parse(seen.datagram(), seen.queue, true, view)) {
        receiver = view.header->receiver;
        token = view.header->token;
      }
    }
    proto::PacketBuffer buffer;
    proto::wire::PacketWriter writer(buffer);
    writer.begin(type, receiver, token, 0);
    if (type == PacketType::challenge) {
      writer.part(proto::wire::ChallengePart{whose, {}});
    } else {
      writer.part(proto::wire::ClosingPart{1000u + whose, 0, proto::wire::kClosingLast, 0, {}});
    }
    send(writer, buffer, to & 1, to >> 1 & 1, to >> 2);
  }

  void look() {
    for (std::uint32_t i = 0; i < 2; ++i) {
      const proto::Endpoint& endpoint = *world_.node(i).endpoint;
      HAWSER_ASSERT(!never_ready() || endpoint.stats().sessions_established == 0,
                    "a session of two that don't share a secret");
      std::uint64_t known = 0;
      std::uint64_t unproven = 0;
      for (std::uint32_t index = 0; index < 2 * kSlots; ++index) {
        PeerStats stats;
        if (endpoint.peer_stats(world_.now(), PeerId{index}, stats) != Status::ok) continue;
        ++known;
        if (stats.endpoint_id < kFirstStranger) continue;
        HAWSER_ASSERT(!with_secret(), "a stranger without the secret is known");
        unproven += proven_.contains(stats.endpoint_id) ? 0 : 1;
      }
      HAWSER_ASSERT(known <= kSlots, "more peers than slots");
      HAWSER_ASSERT(unproven <= ((mode_ & kProveAlways) != 0 ? 0u : 1u),
                    "memory for a stranger who has proven nothing");
    }
  }

  [[nodiscard]] bool is_ready(std::uint32_t i) {
    PeerStats stats;
    TinyNode& node = world_.node(i);
    return node.peer != kAnyPeer &&
           node.endpoint->peer_stats(world_.now(), node.peer, stats) == Status::ok &&
           stats.established;
  }

  // Each endpoint calls again after a failure, as an application does.
  void find_each_other() {
    world_.strangers.clear();
    bool found = false;
    for (int attempt = 0; attempt < 6 && !found; ++attempt) {
      for (std::uint32_t i = 0; i < 2; ++i) world_.connect(i);
      (void)world_.run(proto::milliseconds(250),
                       [&] { return never_ready() || (is_ready(0) && is_ready(1)); });
      if (never_ready()) return look();
      const std::uint64_t before = world_.receives_ok;
      if (!is_ready(0) || !is_ready(1)) continue;
      (void)world_.receive(1, 300, 1, ~std::uint64_t{0});
      (void)world_.send(0, 300, 1, {.level = Level::delivered});
      found = world_.run(proto::milliseconds(250), [&] { return world_.receives_ok > before; });
    }
    HAWSER_ASSERT(found, "two honest endpoints don't find each other any more");
  }

  Input input_;
  std::uint8_t mode_;
  TinyWorld world_;
  std::deque<Flying> lately_;
  std::array<Stranger, kStrangers> strangers_{};
  // This stranger speaks in the name of one of the two endpoints, and no stranger listens for its
  // tokens. Without a secret, a stranger that heard the answers could pass for that endpoint.
  Stranger blind_{.token = 0x7654321000};
  std::set<std::uint64_t> proven_;
};

}  // namespace
}  // namespace hawser::test

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  hawser::test::Attack(hawser::test::Input(data, size)).run();
  return 0;
}
