// SPDX-License-Identifier: Apache-2.0
// Hawser's one-sided operations, with inline progress: over UDP NICs on loopback between two
// processes, or over memory NICs between two threads. A put completes when its bytes are in the
// target's memory. A signal is an add to a word of the target, whose program watches the word.
#include <array>
#include <cstring>

#include "bench/compare/hawser_settings.hpp"
#include "bench/one_sided/by_name.hpp"
#include "engine/endpoint_registry.hpp"
#include "engine/inline_endpoint.hpp"
#include "hawser/engine.hpp"

namespace hawser {

#ifdef HAWSER_CAN_FORGET_RESULTS
// The edited copy of proto/ reads here which edit is switched on (test/mutation/mutant.hpp).
std::uint32_t mutant_on = 0;
#endif

namespace bench::one_sided {

namespace {

constexpr std::uint64_t kTag = 1;
constexpr std::uint64_t kMostSends = 64;  // under way

engine::EngineSettings settings_of(const TransportOptions& options) {
  engine::EngineSettings settings = engine_settings(options);
  settings.tunables.close_timeout_ms = 100;  // the last one to close gets no answer
  return settings;
}

class HawserMemory final : public RemoteMemory {
 public:
  HawserMemory(const TransportOptions& options, std::size_t longest, Keeps keeps)
      : RemoteMemory(longest),
        keeps_(keeps),
        endpoint_(std::make_unique<engine::InlineEndpoint>(settings_of(options), EndpointConfig{},
                                                           registry_)) {
    RegionId region{};
    const Status exposed = endpoint_->expose(
        {.data = memory().data(), .bytes = memory().size(), .access = RegionAccess::all}, region);
    if (exposed != Status::ok) fail("Hawser: expose: " + std::string(to_string(exposed)));
    const Status has_key = endpoint_->region_key(region, own_key_);
    if (has_key != Status::ok) fail("Hawser: region_key: " + std::string(to_string(has_key)));
  }

  [[nodiscard]] std::string address() const override {
    const Address& blob = endpoint_->address();
    std::string text(reinterpret_cast<const char*>(&own_key_), sizeof own_key_);
    text.append(reinterpret_cast<const char*>(blob.data()), blob.size());
    return text;
  }

  void connect(const std::string& peer) override {
    if (peer.size() < sizeof key_) fail("Hawser: not an address");
    std::memcpy(&key_, peer.data(), sizeof key_);
    const auto blob = std::as_bytes(std::span(peer)).subspan(sizeof key_);
    const Status status = endpoint_->connect(blob, peer_);
    if (status != Status::ok) fail("Hawser: connect: " + std::string(to_string(status)));
  }

#ifdef HAWSER_CAN_FORGET_RESULTS
  // The switch is the process's. Both threads of a comparison within a process set the same value,
  // before they touch their endpoints.
  void prepare() override { mutant_on = static_cast<std::uint32_t>(keeps_); }
#endif

  void exchange_messages(bool is_client, std::uint64_t count) override {
    std::array<std::uint64_t, kMostSends> mine{};
    std::uint64_t other = 0;
    const auto answer = [&](std::uint64_t value) {
      while (sent_ == kMostSends) progress();
      std::uint64_t& place = mine[value % kMostSends];
      place = value;
      send(place);
    };
    for (std::uint64_t i = 1; i <= count; ++i) {
      const std::uint64_t received = received_;
      call([&](OperationId& name) {
        return endpoint_->receive(
            {.peer = peer_, .tag = kTag, .data = &other, .bytes = sizeof other}, name);
      });
      if (is_client) answer(i);
      while (received_ == received) progress();
      if (other != i) fail("Hawser: another message came than was sent");
      if (!is_client) answer(i);
    }
    while (sent_ > 0) progress();
  }

 private:
  void post_put(Operation& operation, std::span<const std::byte> from) override {
    call([&](OperationId& name) {
      return endpoint_->write({.peer = peer_,
                               .key = key_,
                               .data = from.data(),
                               .bytes = from.size(),
                               .user_data = reinterpret_cast<std::uintptr_t>(&operation)},
                              name);
    });
  }
  void post_get(Operation& operation, std::span<std::byte> into) override {
    call([&](OperationId& name) {
      return endpoint_->read({.peer = peer_,
                              .key = key_,
                              .data = into.data(),
                              .bytes = into.size(),
                              .user_data = reinterpret_cast<std::uintptr_t>(&operation)},
                             name);
    });
  }
  void post_fetch_add(Operation& operation) override {
    atomic(operation, {.operation = AtomicOperation::add, .operand = operation.operand});
  }
  void post_compare_swap(Operation& operation) override {
    atomic(operation, {.operation = AtomicOperation::compare_and_swap,
                       .operand = operation.operand,
                       .compare = operation.compare});
  }
  void post_signal(Operation& operation) override {
    const Signal signal{.key = key_,
                        .offset = signal_offset(),
                        .word = {.operation = AtomicOperation::add, .operand = 1}};
    call([&](OperationId& name) {
      return endpoint_->write({.peer = peer_,
                               .key = key_,
                               .offset = signalled_offset(),
                               .data = &operation.operand,
                               .bytes = sizeof operation.operand,
                               .signal = signal,
                               .user_data = reinterpret_cast<std::uintptr_t>(&operation)},
                              name);
    });
  }

  void atomic(Operation& operation, const WordOperation& word) {
    call([&](OperationId& name) {
      return endpoint_->atomic({.peer = peer_,
                                .key = key_,
                                .offset = counter_offset(),
                                .word = word,
                                .fetches = true,
                                .user_data = reinterpret_cast<std::uintptr_t>(&operation)},
                               name);
    });
  }

  void send(const std::uint64_t& value) {
    ++sent_;
    call([&](OperationId& name) {
      return endpoint_->send({.peer = peer_,
                              .tag = kTag,
                              .data = &value,
                              .bytes = sizeof value,
                              .level = Level::delivered},
                             name);
    });
  }

  // Calls until there is room.
  template <class Call>
  void call(Call&& call) {
    OperationId name{};
    Status status = call(name);
    for (; status == Status::again; status = call(name)) progress();
    if (status != Status::ok) fail("Hawser: " + std::string(to_string(status)));
  }

  bool look() override {
    std::array<Completion, 16> completions;
    const std::size_t n = endpoint_->poll(completions);
    for (std::size_t i = 0; i < n; ++i) take(completions[i]);
    return n > 0;
  }
  void take(const Completion& completion) {
    if (completion.status != Status::ok)
      fail("Hawser: " + std::string(to_string(completion.status)));
    if (completion.kind == OperationKind::receive) {
      ++received_;
    } else if (completion.kind == OperationKind::send) {
      --sent_;
    } else {
      auto& operation = *reinterpret_cast<Operation*>(completion.user_data);
      if (completion.kind == OperationKind::atomic) operation.result = completion.immediate;
      ended(operation);
    }
  }

  [[maybe_unused]] const Keeps keeps_;
  engine::EndpointRegistry registry_;  // outlives the endpoint
  std::unique_ptr<Endpoint> endpoint_;
  RegionKey own_key_{};
  RegionKey key_{};  // of the other side's memory
  PeerId peer_ = kAnyPeer;
  std::uint64_t received_ = 0;
  std::uint64_t sent_ = 0;  // sends under way
};

}  // namespace

std::unique_ptr<RemoteMemory> make_hawser(const TransportOptions& options, std::size_t longest,
                                          Keeps keeps) {
  return std::make_unique<HawserMemory>(options, longest, keeps);
}

}  // namespace bench::one_sided
}  // namespace hawser
