// SPDX-License-Identifier: Apache-2.0
// Sends from several pieces and receives into several: every cut, over good and bad fabrics.
#include <algorithm>
#include <catch2/catch.hpp>
#include <iterator>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "proto/base/pieces.hpp"
#include "proto/base/random.hpp"
#include "test/support/virtual_world.hpp"

namespace hawser::test {
namespace {

using proto::milliseconds;

// Piece sizes of a text. Each piece lies in memory of its own, so that sanitizers see each step
// beyond it.
using Cuts = std::vector<std::size_t>;

Cuts random_cuts(std::size_t bytes, proto::Random& random) {
  Cuts cuts;
  std::size_t left = bytes;
  const std::size_t count = 1 + random.below(kMostPieces);
  while (cuts.size() + 1 < count) {
    const auto cut = static_cast<std::size_t>(random.below(left + 1));  // some are empty
    cuts.push_back(cut);
    left -= cut;
  }
  cuts.push_back(left);
  return cuts;
}

struct Source {
  Source(const std::string& text, const Cuts& cuts) {
    std::size_t at = 0;
    std::vector<SendPiece> pieces;
    for (const std::size_t cut : cuts) {
      auto& place = places.emplace_back(std::make_unique<char[]>(cut));
      std::copy_n(text.data() + at, cut, place.get());
      pieces.push_back({cut == 0 ? nullptr : place.get(), cut});
      at += cut;
    }
    list.assign(pieces);
  }
  std::vector<std::unique_ptr<char[]>> places;
  proto::GatherList list;
};

struct Sink {
  explicit Sink(const Cuts& cuts) {
    std::vector<ReceivePiece> pieces;
    for (const std::size_t cut : cuts) {
      pieces.push_back({places.emplace_back(std::make_unique<char[]>(cut)).get(), cut});
    }
    list.assign(pieces);
  }
  [[nodiscard]] std::string text() const {
    std::string all;
    for (std::size_t i = 0; i < list.count; ++i)
      all.append(places[i].get(), static_cast<std::size_t>(list.pieces[i].bytes));
    return all;
  }
  std::vector<std::unique_ptr<char[]>> places;
  proto::ScatterList list;
};

class PiecesScene {
 public:
  explicit PiecesScene(const WorldConfig& config) : world(config) { world.connect_all(); }

  [[nodiscard]] Status try_send(Source& source, std::uint64_t tag, OperationId& operation) {
    proto::SendRequest request;
    request.peer = world.peer(0, 1);
    request.tag = tag;
    request.bytes = source.list.bytes;
    request.pieces = &source.list;
    request.options.level = Level::delivered;
    const Status status = world.post(0, request);
    operation = request.operation;
    return status;
  }
  OperationId send(Source& source, std::uint64_t tag) {
    OperationId operation{};
    REQUIRE(try_send(source, tag, operation) == Status::ok);
    return operation;
  }
  OperationId receive(Sink& sink, std::uint64_t tag) {
    proto::ReceiveRequest request;
    request.peer = world.peer(1, 0);
    request.tag = tag;
    request.bytes = sink.list.bytes;
    request.pieces = &sink.list;
    REQUIRE(world.post(1, request) == Status::ok);
    return request.operation;
  }
  // A message of these pieces from node 0 to node 1.
  void exchange(const Cuts& cuts) {
    constexpr std::uint64_t kTag = 1'000'000;
    std::size_t bytes = 0;
    for (const std::size_t cut : cuts) bytes += cut;
    Source source(pattern(kTag, bytes), cuts);
    Sink sink({bytes});
    const OperationId receive = this->receive(sink, kTag);
    const OperationId send = this->send(source, kTag);
    CHECK(wait(1, receive).status == Status::ok);
    CHECK(wait(0, send).status == Status::ok);
    CHECK(sink.text() == pattern(kTag, bytes));
  }
  // Makes the session READY.
  void meet() { exchange({1, 1}); }
  const Completion& wait(std::uint32_t node, OperationId operation) {
    REQUIRE(world.run_until([&] { return world.completion(node, operation) != nullptr; },
                            milliseconds(20000)));
    return *world.completion(node, operation);
  }

  World world;
};

constexpr std::size_t kSizes[] = {0, 1, 511, 512, 513, 900, 1500, 4096, 4097, 30000, 300000};

void check_cut(PiecesScene& at, const std::string& text, const Cuts& from, const Cuts& to,
               std::uint64_t tag) {
  Source source(text, from);
  Sink sink(to);
  const OperationId receive = at.receive(sink, tag);
  const OperationId send = at.send(source, tag);
  CHECK(at.wait(1, receive).status == Status::ok);
  CHECK(at.wait(1, receive).bytes == text.size());
  CHECK(at.wait(0, send).status == Status::ok);
  CHECK(sink.text() == text);
}

TEST_CASE("pieces__every_size_and_cut_arrives_whole") {
  for (const std::uint32_t nics : {1u, 3u}) {
    WorldConfig config;
    config.nics = nics;
    PiecesScene at(config);
    proto::Random random(nics);
    std::uint64_t tag = 0;
    for (const std::size_t bytes : kSizes) {
      const std::string text = pattern(bytes, bytes);
      for (int i = 0; i < 10; ++i) {
        const Cuts from = random_cuts(bytes, random);
        const Cuts to = random_cuts(bytes, random);
        INFO(bytes << " bytes, cut " << i);
        check_cut(at, text, from, to, ++tag);
      }
      check_cut(at, text, {bytes}, random_cuts(bytes, random), ++tag);
    }
    at.world.run_for(milliseconds(100));
    for (const std::uint32_t node : {0u, 1u}) CHECK(at.world.buffers_in_use(node) == 0);
  }
}

TEST_CASE("pieces__many_at_once_survive_a_bad_fabric") {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    INFO("seed " << seed);
    WorldConfig config;
    config.nics = 3;
    config.seed = seed;
    config.faults = "delay=5us,loss=0.05,duplicate=0.05,reorder=0.1,corrupt=0.002";
    PiecesScene at(config);
    proto::Random random(seed);
    std::list<Source> sources;
    std::list<Sink> sinks;
    std::vector<std::string> texts;
    std::vector<OperationId> sends;
    std::vector<OperationId> receives;
    for (std::uint64_t tag = 0; tag < 60; ++tag) {
      const std::size_t bytes = kSizes[random.below(std::size(kSizes))];
      texts.push_back(pattern(tag, bytes));
      sends.push_back(at.send(sources.emplace_back(texts.back(), random_cuts(bytes, random)), tag));
      sinks.emplace_back(random_cuts(bytes, random));
    }
    at.world.run_for(milliseconds(5));  // many messages come before their receive
    std::uint64_t tag = 0;
    for (Sink& sink : sinks) receives.push_back(at.receive(sink, tag++));
    tag = 0;
    for (const Sink& sink : sinks) {
      CHECK(at.wait(1, receives[tag]).status == Status::ok);
      CHECK(sink.text() == texts[tag]);
      CHECK(at.wait(0, sends[tag]).status == Status::ok);
      ++tag;
    }
    CHECK(at.world.stats(0).fragments_retransmitted > 0);
  }
}

TEST_CASE("pieces__small_messages_of_pieces_share_packets") {
  PiecesScene at({});
  at.meet();
  std::list<Source> sources;
  std::vector<OperationId> sends;
  for (std::uint64_t tag = 0; tag < 6; ++tag)
    sends.push_back(at.send(sources.emplace_back(pattern(tag, 100), Cuts{50, 0, 30, 20}), tag));
  for (std::uint64_t tag = 0; tag < 6; ++tag) {
    Sink sink({99, 1});
    CHECK(at.wait(1, at.receive(sink, tag)).status == Status::ok);
    CHECK(sink.text() == pattern(tag, 100));
    CHECK(at.wait(0, sends[tag]).status == Status::ok);
  }
  CHECK(at.world.stats(0).packed_messages_sent > 1);
}

TEST_CASE("pieces__a_list_that_is_too_short_truncates") {
  PiecesScene at({});
  for (const std::size_t bytes : {std::size_t{700}, std::size_t{20000}}) {
    const std::string text = pattern(bytes, bytes);
    Source source(text, {bytes / 2, bytes - bytes / 2});
    Sink sink({100, 0, 33});
    const OperationId receive = at.receive(sink, bytes);
    const OperationId send = at.send(source, bytes);
    CHECK(at.wait(0, send).status == Status::truncated);
    CHECK(at.wait(1, receive).status == Status::truncated);
    CHECK(at.wait(1, receive).bytes == 133);
    CHECK(at.wait(1, receive).message_bytes == bytes);
    CHECK(sink.text() == text.substr(0, 133));
  }
}

TEST_CASE("pieces__sends_that_find_no_joint_may_come_again") {
  PiecesScene at({});
  at.meet();
  const std::string text = pattern(1, 8000);
  const Cuts cuts(kMostPieces, 1000);
  std::list<Source> sources;
  std::vector<OperationId> sends;
  Status status = Status::ok;
  for (std::uint64_t tag = 0; status == Status::ok; ++tag) {
    REQUIRE(tag < 1000);
    OperationId send{};
    status = at.try_send(sources.emplace_back(text, cuts), tag, send);
    if (status == Status::ok) sends.push_back(send);
  }
  CHECK(status == Status::again);
  at.exchange({1, 2});  // needs none
  for (std::uint64_t tag = 0; tag < sends.size(); ++tag) {
    Sink sink({4000, 4000});
    CHECK(at.wait(1, at.receive(sink, tag)).status == Status::ok);
    CHECK(sink.text() == text);
    CHECK(at.wait(0, sends[tag]).status == Status::ok);
  }
  // All joints are back.
  std::vector<OperationId> again;
  for (std::uint64_t i = 0; i < sends.size(); ++i)
    again.push_back(at.send(sources.emplace_back(text, cuts), 3000 + i));
}

TEST_CASE("pieces__a_nic_that_holds_a_failed_send_holds_its_joints") {
  PiecesScene at({});
  const std::string text = pattern(7, 20000);
  std::list<Source> sources;
  const auto send_all = [&] {
    std::vector<OperationId> sends;
    OperationId send{};
    while (at.try_send(sources.emplace_back(text, Cuts(kMostPieces, 2500)), 2, send) == Status::ok)
      sends.push_back(send);
    return sends;
  };
  at.meet();
  at.world.apply(0, 0, "late-reap=5ms");
  Source held(text, Cuts(kMostPieces, 2500));
  const OperationId send = at.send(held, 2);
  at.world.run_for(proto::microseconds(100));
  at.world.disconnect(0, 1);
  at.world.run_for(milliseconds(1));
  REQUIRE(at.world.completion(0, send) != nullptr);
  REQUIRE_FALSE(at.world.completion(0, send)->released);
  CHECK(at.world.stats(0).sends_unreleased == 1);
  at.world.reconnect(0, 1);
  const std::vector<OperationId> beside = send_all();
  at.world.disconnect(0, 1);
  at.world.run_for(milliseconds(50));
  CHECK(at.world.stats(0).sends_unreleased == 0);
  at.world.reconnect(0, 1);
  CHECK(send_all().size() == beside.size() + 1);
}

}  // namespace
}  // namespace hawser::test
