// SPDX-License-Identifier: Apache-2.0
// A C endpoint behind the C++ interface: each call goes through hawser.h and back. A test of the
// C++ API runs over it, and so tests the C API alike.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "engine/c_api/c_api.hpp"
#include "test/support/endpoint_double.hpp"

namespace hawser::test {

class CEndpoint final : public EndpointDouble {
 public:
  explicit CEndpoint(std::unique_ptr<Endpoint> endpoint) {
    handle_.endpoint = std::move(endpoint);
    std::size_t bytes = 0;
    const void* const address = hawser_endpoint_address(&handle_, &bytes);
    const auto* const first = static_cast<const std::byte*>(address);
    address_.assign(first, first + bytes);
  }

  [[nodiscard]] const Address& address() const noexcept override { return address_; }
  [[nodiscard]] Status connect(std::span<const std::byte> address, PeerId& peer) override {
    hawser_peer named = HAWSER_ANY_PEER;
    const Status status =
        status_of(hawser_connect(&handle_, address.data(), address.size(), &named));
    if (status == Status::ok) peer = PeerId{named};
    return status;
  }
  [[nodiscard]] Status send(const SendRequest& request, OperationId& operation) override {
    const hawser_send_request asked = send_request(request);
    return named(operation, [&](hawser_operation& name) {  //
      return hawser_send(&handle_, &asked, &name);
    });
  }
  [[nodiscard]] Status inject(const SendRequest& request) override {
    const hawser_send_request asked = send_request(request);
    return status_of(hawser_inject(&handle_, &asked));
  }
  [[nodiscard]] Status receive(const ReceiveRequest& request, OperationId& operation) override {
    const hawser_receive_request asked{.struct_size = sizeof asked,
                                       .data = request.data,
                                       .bytes = request.bytes,
                                       .tag = request.tag,
                                       .ignore = request.ignore,
                                       .user_data = request.user_data,
                                       .hint = hint_of(request.hint),
                                       .peer = static_cast<hawser_peer>(request.peer),
                                       .channel = request.channel,
                                       .owner = static_cast<hawser_channel_owner>(request.owner),
                                       .reserved = {},
                                       .pieces = pieces(request),
                                       .piece_count = request.pieces.size()};
    return named(operation,
                 [&](hawser_operation& name) { return hawser_receive(&handle_, &asked, &name); });
  }
  [[nodiscard]] Status probe(const ProbeRequest& request, Envelope& envelope) override {
    const hawser_probe_request asked = probe_request(request);
    hawser_envelope found{};
    const Status status = status_of(hawser_probe(&handle_, &asked, &found));
    if (status == Status::ok) envelope = envelope_of(found);
    return status;
  }
  [[nodiscard]] Status claim(const ProbeRequest& request, Envelope& envelope,
                             MessageId& message) override {
    const hawser_probe_request asked = probe_request(request);
    hawser_envelope found{};
    hawser_message name = HAWSER_NO_MESSAGE;
    const Status status = status_of(hawser_claim(&handle_, &asked, &found, &name));
    if (status == Status::ok) {
      envelope = envelope_of(found);
      message = MessageId{name};
    }
    return status;
  }
  [[nodiscard]] Status receive_claimed(MessageId message, const ClaimedRequest& request,
                                       OperationId& operation) override {
    const hawser_claimed_request asked{.struct_size = sizeof asked,
                                       .data = request.data,
                                       .bytes = request.bytes,
                                       .user_data = request.user_data,
                                       .hint = hint_of(request.hint),
                                       .reserved = {},
                                       .pieces = pieces(request),
                                       .piece_count = request.pieces.size()};
    return named(operation, [&](hawser_operation& name) {
      return hawser_receive_claimed(&handle_, static_cast<hawser_message>(message), &asked, &name);
    });
  }
  [[nodiscard]] Status put_back(MessageId message) override {
    return status_of(hawser_put_back(&handle_, static_cast<hawser_message>(message)));
  }
  [[nodiscard]] Status expose(const ExposeRequest& request, RegionId& region) override {
    const hawser_expose_request asked{.struct_size = sizeof asked,
                                      .data = request.data,
                                      .bytes = request.bytes,
                                      .user_data = request.user_data,
                                      .access = static_cast<hawser_region_access>(request.access),
                                      .reserved = {}};
    hawser_region name = HAWSER_NO_REGION;
    const Status status = status_of(hawser_expose(&handle_, &asked, &name));
    if (status == Status::ok) region = RegionId{name};
    return status;
  }
  [[nodiscard]] Status region_key(RegionId region, RegionKey& key) const override {
    hawser_region_key made{};
    const Status status =
        status_of(hawser_endpoint_region_key(&handle_, static_cast<hawser_region>(region), &made));
    if (status == Status::ok)
      key = {made.region, made.generation, made.secret, made.bytes, made.process};
    return status;
  }
  [[nodiscard]] Status region_stats(RegionId region, RegionStats& stats) const override {
    hawser_region_stats found{};
    const Status status = status_of(
        hawser_endpoint_region_stats(&handle_, static_cast<hawser_region>(region), &found));
    if (status == Status::ok)
      stats = {found.unfinished_writes, found.unfinished_from, found.unfinished_to};
    return status;
  }
  [[nodiscard]] Status withdraw(RegionId region, std::uint64_t user_data,
                                OperationId& operation) override {
    return named(operation, [&](hawser_operation& name) {
      return hawser_withdraw(&handle_, static_cast<hawser_region>(region), user_data, &name);
    });
  }
  [[nodiscard]] Status write(const WriteRequest& request, OperationId& operation) override {
    hawser_signal signal{};
    if (request.signal) {
      signal = {.key = key_of(request.signal->key),
                .offset = request.signal->offset,
                .word = word_of(request.signal->word)};
    }
    const hawser_write_request asked{.struct_size = sizeof asked,
                                     .key = key_of(request.key),
                                     .offset = request.offset,
                                     .data = request.data,
                                     .bytes = request.bytes,
                                     .signal = request.signal ? &signal : nullptr,
                                     .immediate = request.immediate,
                                     .user_data = request.user_data,
                                     .peer = static_cast<hawser_peer>(request.peer),
                                     .channel = request.channel,
                                     .owner = static_cast<hawser_channel_owner>(request.owner),
                                     .notifies = request.notifies,
                                     .strong = request.strong,
                                     .reserved = {}};
    return named(operation,
                 [&](hawser_operation& name) { return hawser_write(&handle_, &asked, &name); });
  }
  [[nodiscard]] Status read(const ReadRequest& request, OperationId& operation) override {
    const hawser_read_request asked{.struct_size = sizeof asked,
                                    .key = key_of(request.key),
                                    .offset = request.offset,
                                    .data = request.data,
                                    .bytes = request.bytes,
                                    .user_data = request.user_data,
                                    .peer = static_cast<hawser_peer>(request.peer),
                                    .channel = request.channel,
                                    .owner = static_cast<hawser_channel_owner>(request.owner),
                                    .strong = request.strong};
    return named(operation,
                 [&](hawser_operation& name) { return hawser_read(&handle_, &asked, &name); });
  }
  [[nodiscard]] Status atomic(const AtomicRequest& request, OperationId& operation) override {
    const hawser_atomic_request asked{.struct_size = sizeof asked,
                                      .key = key_of(request.key),
                                      .offset = request.offset,
                                      .word = word_of(request.word),
                                      .user_data = request.user_data,
                                      .peer = static_cast<hawser_peer>(request.peer),
                                      .channel = request.channel,
                                      .owner = static_cast<hawser_channel_owner>(request.owner),
                                      .fetches = request.fetches,
                                      .strong = request.strong,
                                      .reserved = {}};
    return named(operation,
                 [&](hawser_operation& name) { return hawser_atomic(&handle_, &asked, &name); });
  }
  [[nodiscard]] Status flush_channel(const FlushRequest& request, OperationId& operation) override {
    const hawser_flush_request asked{.struct_size = sizeof asked,
                                     .user_data = request.user_data,
                                     .peer = static_cast<hawser_peer>(request.peer),
                                     .channel = request.channel,
                                     .owner = static_cast<hawser_channel_owner>(request.owner),
                                     .reserved = {}};
    return named(operation, [&](hawser_operation& name) {
      return hawser_flush_channel(&handle_, &asked, &name);
    });
  }
  [[nodiscard]] Status cancel(OperationId operation) override {
    return status_of(hawser_cancel(&handle_, static_cast<hawser_operation>(operation)));
  }
  void flush() override { hawser_flush(&handle_); }
  std::size_t poll(std::span<Completion> completions) override {
    return convert(completions, [&](hawser_completion* out, std::size_t count) {
      return hawser_poll(&handle_, out, count);
    });
  }
  std::size_t wait(std::span<Completion> completions, std::uint64_t timeout_ns) override {
    return convert(completions, [&](hawser_completion* out, std::size_t count) {
      return hawser_wait(&handle_, out, count, timeout_ns);
    });
  }
  [[nodiscard]] int fd() const noexcept override { return hawser_fd(&handle_); }
  [[nodiscard]] Status disconnect(PeerId peer) override {
    return status_of(hawser_disconnect(&handle_, static_cast<hawser_peer>(peer)));
  }
  void close() override { hawser_close(&handle_); }
  [[nodiscard]] Status peer_stats(PeerId peer, PeerStats&) const override {
    hawser_peer_stats stats{};
    std::size_t paths = 0;
    return status_of(hawser_endpoint_peer_stats(&handle_, static_cast<hawser_peer>(peer), &stats,
                                                nullptr, &paths));
  }
  [[nodiscard]] Status register_memory(const void* data, std::uint64_t bytes,
                                       RegistrationId& registration, std::string* why) override {
    return registered(registration, why, [&](hawser_registration& name, char* text) {
      return hawser_register_memory(&handle_, data, bytes, &name, text, kTextBytes);
    });
  }
  [[nodiscard]] Status register_dmabuf(const DmabufRange& range, RegistrationId& registration,
                                       std::string* why) override {
    const hawser_dmabuf_range asked{.struct_size = sizeof asked,
                                    .offset = range.offset,
                                    .bytes = range.bytes,
                                    .address = range.address,
                                    .fd = range.fd,
                                    .reserved = {}};
    return registered(registration, why, [&](hawser_registration& name, char* text) {
      return hawser_register_dmabuf(&handle_, &asked, &name, text, kTextBytes);
    });
  }
  [[nodiscard]] Status deregister_memory(RegistrationId registration, std::string* why) override {
    return with_text(why, [&](char* text) {
      return hawser_deregister_memory(&handle_, static_cast<hawser_registration>(registration),
                                      text, kTextBytes);
    });
  }
  void release_memory(RegistrationId registration) override {
    hawser_release_memory(&handle_, static_cast<hawser_registration>(registration));
  }

 private:
  static constexpr std::size_t kTextBytes = 400;

  static Status status_of(hawser_status status) { return static_cast<Status>(status); }
  static hawser_region_key key_of(const RegionKey& key) {
    return {key.region, key.generation, key.secret, key.bytes, key.process};
  }
  static hawser_word_operation word_of(const WordOperation& word) {
    return {.operand = word.operand,
            .compare = word.compare,
            .operation = static_cast<hawser_atomic_operation>(word.operation),
            .width = word.width,
            .reserved = {}};
  }
  static hawser_hint hint_of(const Hint& hint) {
    return {.group = hint.group,
            .members = hint.members,
            .step = hint.step,
            .steps = hint.steps,
            .collective = static_cast<hawser_collective>(hint.collective),
            .priority = hint.priority};
  }
  static hawser_send_request send_request(const SendRequest& request) {
    return {.struct_size = sizeof(hawser_send_request),
            .data = request.data,
            .bytes = request.bytes,
            .tag = request.tag,
            .immediate = request.immediate,
            .user_data = request.user_data,
            .hint = hint_of(request.hint),
            .peer = static_cast<hawser_peer>(request.peer),
            .channel = request.channel,
            .level = static_cast<hawser_level>(request.level),
            .owner = static_cast<hawser_channel_owner>(request.owner),
            .reserved = {},
            .pieces = pieces(request),
            .piece_count = request.pieces.size()};
  }
  // Pieces have the same fields in both languages.
  template <class Request>
  static const hawser_piece* pieces(const Request& request) {
    return reinterpret_cast<const hawser_piece*>(request.pieces.data());
  }
  static hawser_probe_request probe_request(const ProbeRequest& request) {
    return {.struct_size = sizeof(hawser_probe_request),
            .tag = request.tag,
            .ignore = request.ignore,
            .peer = static_cast<hawser_peer>(request.peer),
            .channel = request.channel,
            .owner = static_cast<hawser_channel_owner>(request.owner),
            .reserved = {}};
  }
  static Envelope envelope_of(const hawser_envelope& found) {
    return {.peer = PeerId{found.peer},
            .tag = found.tag,
            .bytes = found.bytes,
            .immediate = found.immediate};
  }
  template <class Call>
  static Status named(OperationId& operation, Call&& call) {
    hawser_operation name = HAWSER_NO_OPERATION;
    const Status status = status_of(call(name));
    if (status == Status::ok) operation = OperationId{name};
    return status;
  }
  template <class Call>
  static Status with_text(std::string* why, Call&& call) {
    std::array<char, kTextBytes> text{};
    const Status status = status_of(call(text.data()));
    if (why != nullptr) *why = text.data();
    return status;
  }
  template <class Call>
  static Status registered(RegistrationId& registration, std::string* why, Call&& call) {
    hawser_registration name = HAWSER_NO_REGISTRATION;
    const Status status = with_text(why, [&](char* text) { return call(name, text); });
    if (status == Status::ok) registration = RegistrationId{name};
    return status;
  }
  template <class Take>
  static std::size_t convert(std::span<Completion> completions, Take&& take) {
    std::array<hawser_completion, 64> taken{};
    const std::size_t count = take(taken.data(), std::min(taken.size(), completions.size()));
    for (std::size_t i = 0; i < count; ++i) {
      const hawser_completion& from = taken[i];
      completions[i] = {.operation = OperationId{from.operation},
                        .user_data = from.user_data,
                        .kind = static_cast<OperationKind>(from.kind),
                        .status = status_of(from.status),
                        .channel = from.channel,
                        .released = from.released != 0,
                        .outcome_unknown = from.outcome_unknown != 0,
                        .executed = from.executed != 0,
                        .peer = PeerId{from.peer},
                        .tag = from.tag,
                        .bytes = from.bytes,
                        .message_bytes = from.message_bytes,
                        .immediate = from.immediate};
    }
    return count;
  }

  hawser_endpoint handle_;
  Address address_;
};

}  // namespace hawser::test
