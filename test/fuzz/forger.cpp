// SPDX-License-Identifier: Apache-2.0
#include "test/fuzz/forger.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <span>

namespace hawser::test {

namespace {

using namespace proto::wire;

constexpr std::uint64_t kFragment = 256;  // fragment_bytes of the tiny world

// The newest packet to that endpoint that `wanted` takes.
template <class Wanted>
std::optional<PacketView> newest(std::deque<Flying>& heard, std::uint32_t to, Wanted&& wanted) {
  for (auto packet = heard.rbegin(); packet != heard.rend(); ++packet) {
    PacketView view;
    if (packet->to != to || parse(packet->datagram(), packet->queue, true, view)) continue;
    if (rule_of(view.type).own_words > 0 && wanted(view)) return view;
  }
  return std::nullopt;
}

bool is_sequenced(const PacketView& view) { return rule_of(view.type).sequenced; }
// A session's packet, and none that begins or ends one.
bool is_of_session(const PacketView& view) {
  return is_sequenced(view) || view.type == PacketType::control;
}

Flying seal(PacketWriter& writer, const proto::PacketBuffer& buffer, std::uint32_t to,
            std::span<const std::byte> payload) {
  Flying packet;
  packet.to = to;
  packet.queue = rule_of(writer.header().type).queue;
  const std::size_t header_bytes = writer.finish(true, payload);
  packet.bytes = header_bytes + payload.size();
  packet.words.resize((packet.bytes + 7) / 8);
  std::memcpy(packet.words.data(), buffer.bytes, header_bytes);
  std::ranges::copy(payload, packet.datagram().begin() + static_cast<std::ptrdiff_t>(header_bytes));
  return packet;
}

// How many bytes the fragment of the packet has.
std::size_t payload_bytes(const ForgedOperation& choice) {
  const std::uint64_t begin = choice.fragment * kFragment;
  const bool is_write = choice.type == PacketType::write;
  const bool has_bytes = is_write && (choice.flags & kTargetWithdrawn) == 0;
  const std::uint64_t left = has_bytes && begin < choice.bytes ? choice.bytes - begin : 0;
  const auto right = static_cast<std::size_t>(std::min(left, kFragment));
  return is_write && choice.has_other_payload ? right ^ 1 : right;
}

}  // namespace

std::optional<Flying> forge(const ForgedOperation& choice, std::deque<Flying>& heard) {
  auto from = newest(heard, choice.to, is_sequenced);
  if (!from) from = newest(heard, choice.to, is_of_session);
  if (!from) return std::nullopt;
  const auto fetch = newest(heard, 1 - choice.to, [](const PacketView& view) {
    return view.type == PacketType::read ||
           (view.type == PacketType::atomic && view.target->note != 0);
  });
  proto::PacketBuffer buffer;
  PacketWriter writer(buffer);
  CommonHeader& header =
      writer.begin(choice.type, from->header->receiver, from->header->token, from->header->floor);
  header.slot = from->header->slot;
  header.generation = from->header->generation;
  header.path_number = from->header->path_number + choice.path_number;
  writer.part(FragmentPart{from->header->floor + static_cast<std::uint32_t>(choice.number),
                           choice.fragment});
  TargetPart target{};
  target.region = choice.key.region;
  target.generation = choice.key.generation;
  target.secret = choice.key.secret;
  target.offset = choice.offset;
  target.set_length(choice.type == PacketType::atomic ? choice.word.width : choice.bytes);
  target.flags = choice.flags;
  target.note =
      (fetch ? fetch->target->note : 0) + static_cast<std::uint64_t>(std::int64_t{choice.note});
  writer.part(target);
  if (choice.type == PacketType::atomic) {
    writer.part(OperandsPart{
        choice.word.operand, choice.word.compare, choice.word.operation, choice.word.width, {}});
  } else if ((choice.flags & kTargetSignals) != 0) {
    const RegionKey& key = choice.key_of_word;
    writer.part(SignalPart{key.region,
                           key.generation,
                           key.secret,
                           choice.word.operand * 8,
                           1,
                           AtomicOperation::add,
                           choice.word.width,
                           {}});
  }
  std::array<std::byte, kFragment + 1> payload{};
  return seal(writer, buffer, choice.to, std::span(payload).first(payload_bytes(choice)));
}

std::optional<Flying> forge(const ForgedAnswer& choice, std::deque<Flying>& heard) {
  const auto from = newest(heard, choice.to, is_of_session);
  const auto asked = newest(heard, 1 - choice.to, is_of_session);
  if (!from || !asked) return std::nullopt;
  proto::PacketBuffer buffer;
  PacketWriter writer(buffer);
  writer.begin(PacketType::control, from->header->receiver, from->header->token,
               from->header->floor);
  const std::uint32_t number = asked->header->floor + static_cast<std::uint32_t>(choice.number);
  const std::uint32_t up_to = std::uint32_t{choice.value} + choice.count;
  const std::array<std::uint64_t, 1> bitmap{choice.count};
  bool written = false;
  switch (choice.kind) {
    case ForgedAnswer::Kind::status:
      written = writer.status(number, static_cast<MessageStatus>(choice.value), choice.count);
      break;
    case ForgedAnswer::Kind::grant:
      written = writer.grant(number, 0, 1, choice.value, up_to);
      break;
    case ForgedAnswer::Kind::request: written = writer.request(number, choice.value, bitmap); break;
  }
  HAWSER_ASSERT(written);  // the packet has nothing else
  return seal(writer, buffer, choice.to, {});
}

}  // namespace hawser::test
