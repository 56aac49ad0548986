// SPDX-License-Identifier: Apache-2.0
// One-sided tasks of one rank, on doubles of its endpoint and of the memory of all ranks. Time
// passes only in turns.
#include "tool/run/one_sided.hpp"

#include <catch2/catch.hpp>
#include <cstring>
#include <memory>
#include <stdexcept>

#include "test/support/endpoint_double.hpp"
#include "tool/run/exposure.hpp"

namespace hawser::tool {
namespace {

constexpr std::uint32_t kRanks = 3;
constexpr std::uint64_t kSeed = 4;
constexpr std::uint64_t kGeneration = 3;
constexpr std::uint64_t kSecondNs = 1'000'000'000;

enum class Mistake { none, signals_twice, atomic_twice, drops_write, damages_read };

// Executes each operation at once on the memory that is exposed at any of the ranks' endpoints.
class Memory {
 public:
  struct Region {
    std::byte* data = nullptr;
    std::uint64_t bytes = 0;
    bool is_exposed = false;
  };
  std::vector<Region> regions;
  Mistake mistake = Mistake::none;
  bool was_made = false;
  std::optional<std::uint32_t> dead;  // rank

  std::byte* at(const RegionKey& key, std::uint64_t offset, std::uint64_t bytes) const {
    const Region& region = regions.at(key.region);
    REQUIRE(region.is_exposed);
    REQUIRE(offset + bytes <= region.bytes);
    return region.data + offset;
  }
  bool errs(Mistake which) { return mistake == which && !std::exchange(was_made, true); }

  std::uint64_t execute(const RegionKey& key, std::uint64_t offset,
                        const WordOperation& operation) {
    std::uint64_t before = 0;
    std::byte* const word = at(key, offset, 8);
    std::memcpy(&before, word, 8);
    std::uint64_t after = before;
    if (operation.operation == AtomicOperation::add) after += operation.operand;
    if (operation.operation == AtomicOperation::compare_and_swap && before == operation.compare) {
      after = operation.operand;
    }
    std::memcpy(word, &after, 8);
    return before;
  }
};

class RankEndpoint final : public test::EndpointDouble {
 public:
  explicit RankEndpoint(Memory& memory) : memory_(memory) {}
  std::size_t refusals = 0;  // calls to be answered `again` first
  std::size_t most_pending = 0;
  std::size_t loads = 0;

  Status expose(const ExposeRequest& request, RegionId& region) override {
    region = RegionId{memory_.regions.size()};
    memory_.regions.push_back({static_cast<std::byte*>(request.data), request.bytes, true});
    return Status::ok;
  }
  Status region_key(RegionId region, RegionKey& key) const override {
    key.region = static_cast<std::uint32_t>(region);
    key.bytes = memory_.regions.at(key.region).bytes;
    return Status::ok;
  }
  Status withdraw(RegionId region, std::uint64_t user_data, OperationId&) override {
    memory_.regions.at(static_cast<std::size_t>(region)).is_exposed = false;
    return end(OperationKind::withdraw, user_data, kAnyPeer);
  }
  Status write(const WriteRequest& request, OperationId&) override {
    if (refuses()) return Status::again;
    std::byte* const target = memory_.at(request.key, request.offset, request.bytes);
    if (!memory_.errs(Mistake::drops_write)) std::memcpy(target, request.data, request.bytes);
    const Signal& signal = request.signal.value();
    if (memory_.errs(Mistake::signals_twice)) {
      memory_.execute(signal.key, signal.offset, signal.word);
    }
    memory_.execute(signal.key, signal.offset, signal.word);
    return end(OperationKind::write, request.user_data, request.peer);
  }
  Status read(const ReadRequest& request, OperationId&) override {
    if (refuses()) return Status::again;
    auto* const into = static_cast<std::byte*>(request.data);
    std::memcpy(into, memory_.at(request.key, request.offset, request.bytes), request.bytes);
    if (memory_.errs(Mistake::damages_read)) into[0] ^= std::byte{1};
    return end(OperationKind::read, request.user_data, request.peer);
  }
  Status atomic(const AtomicRequest& request, OperationId&) override {
    if (refuses()) return Status::again;
    loads += request.word.operation == AtomicOperation::load;
    std::uint64_t word = memory_.execute(request.key, request.offset, request.word);
    if (memory_.errs(Mistake::atomic_twice)) {
      word = memory_.execute(request.key, request.offset, request.word);
    }
    return end(OperationKind::atomic, request.user_data, request.peer, request.fetches ? word : 0);
  }
  // As if the operation of another had ended.
  void leave(OperationKind kind, std::uint64_t user_data) { (void)end(kind, user_data, kAnyPeer); }
  std::size_t poll(std::span<Completion> completions) override {
    const std::size_t n = std::min(completions.size(), done_.size());
    std::copy_n(done_.begin(), n, completions.begin());
    done_.erase(done_.begin(), done_.begin() + static_cast<std::ptrdiff_t>(n));
    return n;
  }

 private:
  bool refuses() {
    if (refusals == 0) return false;
    --refusals;
    return true;
  }
  Status end(OperationKind kind, std::uint64_t user_data, PeerId peer, std::uint64_t word = 0) {
    Completion completion;
    completion.kind = kind;
    completion.user_data = user_data;
    completion.peer = peer;
    completion.immediate = word;
    if (memory_.dead && peer == PeerId{*memory_.dead}) completion.status = Status::peer_timeout;
    done_.push_back(completion);
    most_pending = std::max(most_pending, done_.size());
    return Status::ok;
  }

  Memory& memory_;
  std::vector<Completion> done_;
};

struct Failed : std::runtime_error {
  Failed(std::uint32_t failed, Status why)
      : std::runtime_error("failed"), rank(failed), status(why) {}
  std::uint32_t rank;
  Status status;
};

// One rank, with its memory.
struct Rank {
  std::vector<PeerId> peers;
  RankEndpoint endpoint;
  coll::CompletionRouter router;
  BufferArena arena;
  TaskBuffers buffers;
  Exposure exposure;
  OperationTimes times;
  std::uint64_t now = 0;
  std::uint64_t give_up_at = kSecondNs;
  std::function<void()> before_turn = [] {};
  OneSided one_sided;

  Rank(const Schedule& schedule, std::uint32_t rank, Memory& memory)
      : peers{PeerId{0}, PeerId{1}, PeerId{2}},
        endpoint(memory),
        router(endpoint),
        arena(TaskBuffers::footprint(schedule.step[0], schedule.layout)),
        buffers(schedule.step[0], schedule.layout, rank, kSeed, 0, arena),
        exposure({arena.first_buffer(), largest_window_bytes(schedule)}, kRanks),
        one_sided(router, schedule.layout, rank, peers, kGeneration, exposure, times,
                  {[this](std::uint64_t wait_ns) {
                     if ((now += wait_ns) > give_up_at) throw std::runtime_error("waits");
                     before_turn();
                     router.progress();
                   },
                   [](std::uint32_t failed, Status status) { throw Failed(failed, status); },
                   [this] { return now; }}) {
    buffers.fill();
    exposure.renew(endpoint);
  }
};

struct World {
  Memory memory;
  Schedule schedule;
  std::vector<std::unique_ptr<Rank>> ranks;

  explicit World(Operation operation, std::uint64_t block_bytes = 0) {
    Workload workload;
    Phase phase;
    phase.operation = operation;
    phase.bytes = 30'000;
    phase.block_bytes = block_bytes;
    phase.words = 5;
    phase.experts = 4;
    workload.step.push_back(phase);
    schedule = make_schedule(workload, kRanks, 1);
    for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
      ranks.push_back(std::make_unique<Rank>(schedule, rank, memory));
    }
    for (const auto& rank : ranks) {
      for (std::uint32_t other = 0; other < kRanks; ++other) {
        rank->one_sided.keys()[other] = ranks[other]->exposure.keys();
      }
    }
  }

  // A rank that runs first waits for signals of those that come later: it gives up its task.
  void run() {
    for (const auto& rank : ranks) {
      rank->give_up_at = kSecondNs / 20;
      try {
        rank->one_sided.run(rank->buffers, When::before);
      } catch (const std::runtime_error&) {
        REQUIRE(rank != ranks.back());
      }
    }
    exchange_records();
  }
  void exchange_records() {
    if (schedule.step[0].operation != Operation::atomics) return;
    for (std::uint32_t to = 0; to < kRanks; ++to) {
      for (std::uint32_t from = 0; from < kRanks; ++from) {
        const auto records = std::as_bytes(ranks[from]->buffers.fetched_from(to));
        std::memcpy(ranks[to]->buffers.out().data() + from * records.size(), records.data(),
                    records.size());
      }
    }
  }
  // The number of errors that the checks of all ranks find.
  std::size_t findings() const {
    std::size_t found = 0;
    for (const auto& rank : ranks) {
      found += rank->buffers.verify().mismatch.has_value();
      found += rank->one_sided.wrong_counters().size();
    }
    return found;
  }
};

TEST_CASE("one_sided: tasks of every kind are right, and their operations counted") {
  for (const Operation operation : {Operation::put, Operation::get, Operation::dispatch,
                                    Operation::combine, Operation::atomics}) {
    INFO(to_string(operation));
    World world(operation, operation == Operation::put ? 64 : 0);
    world.ranks[1]->endpoint.refusals = 3;
    world.run();
    CHECK(world.findings() == 0);
    for (const auto& rank : world.ranks) {
      std::uint64_t operations = 0;
      for (const auto& parts : rank->times.of) {
        operations += parts[static_cast<std::size_t>(When::before)].count();
      }
      CHECK(operations > 0);
      CHECK(rank->endpoint.most_pending <= OneSided::kMostUnderWay);
      CHECK(rank->arena.damaged_guard_bytes() == 0);
    }
  }
}

TEST_CASE("one_sided: each mistake of an engine shows") {
  const std::vector<std::pair<Operation, Mistake>> mistakes{
      {Operation::put, Mistake::drops_write},      {Operation::put, Mistake::signals_twice},
      {Operation::dispatch, Mistake::drops_write}, {Operation::combine, Mistake::signals_twice},
      {Operation::get, Mistake::damages_read},     {Operation::atomics, Mistake::atomic_twice},
  };
  for (const auto& [operation, mistake] : mistakes) {
    INFO(to_string(operation) << ", mistake " << static_cast<int>(mistake));
    World world(operation, 500);
    world.memory.mistake = mistake;
    world.run();
    REQUIRE(world.memory.was_made);
    CHECK(world.findings() > 0);
  }
}

TEST_CASE("one_sided: a rank that waits for signals in vain asks, and hears of a death") {
  for (const bool dies : {false, true}) {
    INFO("dies " << dies);
    World world(Operation::put);
    Rank& rank = *world.ranks[0];
    rank.before_turn = [&] {
      // Its own writes have ended by then.
      if (dies && rank.now > kSecondNs / 2) world.memory.dead = 2;
    };
    try {
      rank.one_sided.run(rank.buffers, When::before);
      FAIL("it did not wait");
    } catch (const Failed& failure) {
      CHECK(dies);
      CHECK(failure.rank == 2);
      CHECK(failure.status == Status::peer_timeout);
    } catch (const std::runtime_error& waits) {
      CHECK_FALSE(dies);
      CHECK(rank.endpoint.loads > 10);
    }
    CHECK(rank.endpoint.loads <= 20);  // two peers, ten times a second
  }
}

TEST_CASE("one_sided: a dead peer is named, whatever is under way to it") {
  for (const Operation operation : {Operation::put, Operation::get, Operation::dispatch,
                                    Operation::combine, Operation::atomics}) {
    INFO(to_string(operation));
    World world(operation);
    world.memory.dead = 2;
    Rank& rank = *world.ranks[0];
    try {
      rank.one_sided.run(rank.buffers, When::before);
      FAIL("it did not fail");
    } catch (const Failed& failure) {
      CHECK(failure.rank == 2);
      CHECK(failure.status == Status::peer_timeout);
    }
  }
}

TEST_CASE("one_sided: completions of others, and of an earlier generation, change nothing") {
  World world(Operation::put, 64);
  for (const auto& rank : world.ranks) {
    rank->endpoint.leave(OperationKind::receive, 0);
    rank->endpoint.leave(OperationKind::receive, kGeneration << 16);
    for (std::uint64_t user_data = 0; user_data < 5; ++user_data) {
      rank->endpoint.leave(OperationKind::write, (kGeneration - 1) << 16 | user_data);
    }
  }
  world.run();
  CHECK(world.findings() == 0);
  std::uint64_t writes = 0;
  for (const auto& rank : world.ranks) {
    writes += rank->times.at(OneSidedKind::write, When::before).count();
  }
  // Ten thousand bytes to each of the two others, in blocks of 64.
  CHECK(writes == kRanks * 2 * 157);
}

TEST_CASE("one_sided: memory that is exposed anew has other keys, and counters of 0") {
  World world(Operation::put);
  world.run();
  Rank& rank = *world.ranks[0];
  CHECK(rank.exposure.signals_of(1) > 0);
  const ExposedKeys before = rank.exposure.keys();
  rank.exposure.renew(rank.endpoint);
  CHECK(rank.exposure.signals_of(1) == 0);
  CHECK(rank.exposure.keys().window != before.window);
  CHECK_FALSE(world.memory.regions.at(before.window.region).is_exposed);
  CHECK_FALSE(world.memory.regions.at(before.counters.region).is_exposed);
}

}  // namespace
}  // namespace hawser::tool
