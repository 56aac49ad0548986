// SPDX-License-Identifier: Apache-2.0
#include "test/protocol/exchange.hpp"

#include <algorithm>
#include <catch2/catch.hpp>

namespace hawser::test {

namespace {

constexpr char kUntouched = '\x5a';  // fills a receive's buffer before anything comes
constexpr char kPoison = '\x5b';     // fills it after its completion

std::uint64_t key(std::uint32_t node, OperationId operation) {
  return std::uint64_t{node} << 52 ^ static_cast<std::uint64_t>(operation);
}

void fill(std::string& bytes, char value) { bytes.assign(bytes.size(), value); }

bool succeeded(const std::optional<Completion>& completion) {
  return completion &&
         (completion->status == Status::ok || completion->status == Status::truncated);
}

}  // namespace

std::optional<std::size_t> Exchange::try_send(std::uint32_t from, std::uint32_t to,
                                              std::uint64_t tag, std::size_t bytes,
                                              const proto::SendOptions& options) {
  const std::size_t index = sends_.size();
  Sent& sent = sends_.emplace_back();
  sent.from = from;
  sent.to = to;
  sent.tag = tag;
  sent.serial = index + 1;
  sent.options = options;
  sent.size = bytes;
  sent.bytes = pattern(sent.serial, bytes);
  sent.options.immediate = sent.serial;
  sent.options.user_data = 1000000 + sent.serial;
  proto::SendRequest request;
  request.peer = world_.peer(from, to);
  request.tag = tag;
  request.data = reinterpret_cast<const std::byte*>(sent.bytes.data());
  request.bytes = bytes;
  request.options = sent.options;
  const Status status = world_.post(from, request);
  if (status == Status::again) {
    sends_.pop_back();
    return std::nullopt;
  }
  REQUIRE(status == Status::ok);
  sent.operation = request.operation;
  by_operation_[key(from, request.operation)] = index;
  ++open_;
  return index;
}

std::optional<std::size_t> Exchange::try_receive(std::uint32_t node, std::uint32_t from,
                                                 std::uint64_t tag, std::size_t bytes,
                                                 std::uint64_t mask) {
  const std::size_t index = receives_.size();
  Received& receive = receives_.emplace_back();
  receive.node = node;
  receive.from = from;
  receive.tag = tag;
  receive.mask = mask;
  receive.posted = index;
  receive.buffer.assign(bytes, kUntouched);
  proto::ReceiveRequest request;
  request.peer = from == kAnyNode ? kAnyPeer : world_.peer(node, from);
  request.tag = tag;
  request.mask = mask;
  request.data = reinterpret_cast<std::byte*>(receive.buffer.data());
  request.bytes = bytes;
  request.options.user_data = index;
  const Status status = world_.post(node, request);
  if (status == Status::again) {
    receives_.pop_back();
    return std::nullopt;
  }
  REQUIRE(status == Status::ok);
  receive.operation = request.operation;
  by_operation_[key(node, request.operation)] = index;
  ++open_;
  return index;
}

std::size_t Exchange::send(std::uint32_t from, std::uint32_t to, std::uint64_t tag,
                           std::size_t bytes, const proto::SendOptions& options) {
  const auto index = try_send(from, to, tag, bytes, options);
  REQUIRE(index.has_value());
  return *index;
}

std::size_t Exchange::receive(std::uint32_t node, std::uint32_t from, std::uint64_t tag,
                              std::size_t bytes, std::uint64_t mask) {
  const auto index = try_receive(node, from, tag, bytes, mask);
  REQUIRE(index.has_value());
  return *index;
}

void Exchange::message(std::uint32_t from, std::uint32_t to, std::uint64_t tag, std::size_t bytes,
                       const proto::SendOptions& options) {
  (void)receive(to, from, tag, bytes);
  (void)send(from, to, tag, bytes, options);
}

void Exchange::all_to_all(std::size_t bytes, const proto::SendOptions& options) {
  for (std::uint32_t from = 0; from < world_.nodes(); ++from) {
    for (std::uint32_t to = 0; to < world_.nodes(); ++to) {
      if (from != to) message(from, to, 1, bytes, options);
    }
  }
}

void Exchange::both_ways(std::uint64_t count, std::size_t bytes, std::size_t bytes_back,
                         std::uint64_t first_tag) {
  for (std::uint64_t tag = first_tag; tag < first_tag + count; ++tag) {
    message(0, 1, tag, bytes);
    message(1, 0, tag, bytes_back);
  }
}

std::size_t Exchange::receive_claimed(std::uint32_t node, MessageId message, std::size_t bytes) {
  const std::size_t index = receives_.size();
  Received& receive = receives_.emplace_back();
  receive.node = node;
  receive.mask = 0;
  receive.posted = index;
  receive.by_claim = true;
  receive.buffer.assign(bytes, kUntouched);
  proto::ReceiveRequest request;
  request.claimed = message;
  request.data = reinterpret_cast<std::byte*>(receive.buffer.data());
  request.bytes = bytes;
  request.options.user_data = index;
  REQUIRE(world_.post(node, request) == Status::ok);
  receive.operation = request.operation;
  by_operation_[key(node, request.operation)] = index;
  ++open_;
  return index;
}

void Exchange::collect() {
  seen_.resize(std::max<std::size_t>(seen_.size(), world_.nodes()), 0);
  for (std::uint32_t node = 0; node < world_.nodes(); ++node) {
    const std::vector<Completion>& completions = world_.completions(node);
    for (; seen_[node] < completions.size(); ++seen_[node]) {
      const Completion& completion = completions[seen_[node]];
      const auto found = by_operation_.find(key(node, completion.operation));
      if (found == by_operation_.end()) continue;  // of another exchange
      const std::size_t index = found->second;
      if (completion.released) {
        by_operation_.erase(found);
        --open_;
      }
      if (completion.kind == OperationKind::send) {
        Sent& sent = sends_[index];
        if (sent.completion) {
          REQUIRE(!sent.completion->released);
          REQUIRE(sent.completion->status == completion.status);
        }
        sent.completion = completion;
        REQUIRE(completion.user_data == sent.options.user_data);
        REQUIRE(completion.bytes == sent.size);
        REQUIRE(begins_pattern(sent.bytes, sent.serial));
        if (completion.released) fill(sent.bytes, '\xdd');  // the buffer is the caller's again
      } else {
        receives_[index].completion = completion;
        judge(receives_[index], index);
      }
    }
  }
}

// Checks one finished receive: the right message, its bytes, nothing beyond them.
void Exchange::judge(Received& receive, std::size_t index) {
  const Completion& completion = *receive.completion;
  REQUIRE(completion.user_data == index);
  if (!succeeded(receive.completion)) {
    fill(receive.buffer, kPoison);
    return;
  }
  REQUIRE(completion.immediate >= 1);
  REQUIRE(completion.immediate <= sends_.size());
  Sent& sent = sends_[completion.immediate - 1];
  receive.serial = sent.serial;
  REQUIRE(++sent.deliveries == 1);
  sent.received_by = index;
  REQUIRE(sent.to == receive.node);
  REQUIRE((receive.from == kAnyNode || receive.from == sent.from));
  REQUIRE(completion.tag == sent.tag);
  REQUIRE(((sent.tag ^ receive.tag) & receive.mask) == 0);
  REQUIRE(completion.message_bytes == sent.size);
  REQUIRE(completion.bytes == std::min(sent.size, receive.buffer.size()));
  REQUIRE((completion.status == Status::truncated) == (sent.size > receive.buffer.size()));
  const std::string_view buffer = receive.buffer;
  REQUIRE(begins_pattern(buffer.substr(0, completion.bytes), sent.serial));
  REQUIRE(all_are(buffer.substr(completion.bytes), kUntouched));
  fill(receive.buffer, kPoison);
}

bool Exchange::settled() {
  collect();
  return open_ == 0;
}

bool Exchange::run_until(const std::function<bool()>& done, proto::Duration limit) {
  return world_.run_until([&] { return collect(), done(); }, limit);
}

bool Exchange::run(proto::Duration limit) {
  const bool all = world_.run_until([this] { return settled(); }, limit);
  if (!all) tell_open();
  return all;
}

// Prints the open operations for the message of the assertion that is about to fail.
void Exchange::tell_open() const {
  std::size_t left = 8;
  for (const Sent& sent : sends_) {
    if (sent.completion || left == 0) continue;
    --left;
    UNSCOPED_INFO("open: send " << sent.serial << " from " << sent.from << " to " << sent.to << ", "
                                << sent.size << " bytes, tag " << sent.tag);
  }
  for (const Received& receive : receives_) {
    if (receive.completion || left == 0) continue;
    --left;
    UNSCOPED_INFO("open: receive " << receive.posted << " at " << receive.node << " from "
                                   << receive.from << ", tag " << receive.tag);
  }
}

void Exchange::check_all_ok() {
  for (const Sent& sent : sends_) {
    INFO("send " << sent.serial << ": " << sent.from << " to " << sent.to << ", " << sent.size
                 << " bytes, tag " << sent.tag);
    REQUIRE(sent.completion.has_value());
    REQUIRE(sent.completion->status == Status::ok);
  }
  for (const Received& receive : receives_) {
    INFO("receive " << receive.posted << " at " << receive.node << ", tag " << receive.tag);
    REQUIRE(receive.completion.has_value());
    REQUIRE(receive.completion->status == Status::ok);
  }
}

// MPI's order, as far as a test can see it. Take two messages of one sender and a receive that both
// match. The later message may have it only if the earlier one got a receive that was posted before
// it. No matching receive that was posted before the message's own receive may be left over. While
// sends are under way, a matched receive can't be told from a waiting one.
void Exchange::check() {
  collect();
  const bool all_sent =
      std::ranges::all_of(sends_, [](const Sent& sent) { return sent.completion.has_value(); });
  std::unordered_map<std::uint64_t, std::vector<const Sent*>> by_pair;
  for (const Sent& sent : sends_) {
    by_pair[std::uint64_t{sent.from} << 32 | sent.to].push_back(&sent);
  }
  for (const auto& [pair, messages] : by_pair) {
    for (std::size_t j = 0; j < messages.size(); ++j) {
      if (messages[j]->deliveries == 0) continue;
      const Received& later = receives_[messages[j]->received_by];
      if (later.by_claim) continue;  // the caller chose it
      for (std::size_t i = 0; i < j; ++i) {
        const Sent& earlier = *messages[i];
        if (((earlier.tag ^ later.tag) & later.mask) != 0) continue;
        INFO("message " << messages[j]->serial << " overtook " << earlier.serial);
        if (earlier.was_claimed) continue;
        if (earlier.deliveries > 0 && receives_[earlier.received_by].by_claim) continue;
        if (earlier.deliveries == 0 && !(all_sent && succeeded(earlier.completion))) continue;
        REQUIRE(earlier.deliveries == 1);
        REQUIRE(earlier.received_by < messages[j]->received_by);
      }
    }
  }
  for (const Received& receive : receives_) {
    if (receive.completion) {
      REQUIRE(all_are(receive.buffer, kPoison));
      continue;
    }
    if (!all_sent) continue;
    for (const Sent& sent : sends_) {
      if (sent.deliveries == 0 || sent.was_claimed || sent.to != receive.node ||
          sent.received_by < receive.posted ||
          (receive.from != kAnyNode && receive.from != sent.from) ||
          ((sent.tag ^ receive.tag) & receive.mask) != 0) {
        continue;
      }
      INFO("receive " << receive.posted << " was passed over by message " << sent.serial);
      REQUIRE(sent.received_by < receive.posted);
    }
  }
}

void Exchange::check_quiet(proto::Duration rest) {
  world_.run_for(rest);
  for (std::uint32_t node = 0; node < world_.nodes(); ++node) {
    if (!world_.is_running(node)) continue;
    INFO("node " << node);
    const EndpointStats stats = world_.stats(node);
    CHECK(stats.buffers_in_use == 0);
    CHECK(stats.packets_in_flight == 0);
    CHECK(stats.operations_pending == 0);
    CHECK(stats.sends_unreleased == 0);
    CHECK(stats.unexpected_bytes_held == 0);
    CHECK(stats.messages_unmatched == 0);
    CHECK(stats.messages_claimed == 0);
  }
  check();
}

void Exchange::ignore_what_was() {
  seen_.clear();
  for (std::uint32_t i = 0; i < world_.nodes(); ++i) seen_.push_back(world_.completions(i).size());
}

void Exchange::forget(std::uint32_t node) {
  if (node < seen_.size()) seen_[node] = 0;
  for (auto at = by_operation_.begin(); at != by_operation_.end();) {
    const bool gone = at->first >> 52 == node;
    if (gone) --open_;
    at = gone ? by_operation_.erase(at) : std::next(at);
  }
}

}  // namespace hawser::test
