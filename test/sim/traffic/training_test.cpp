// SPDX-License-Identifier: Apache-2.0
// Workloads as matrices: groups, bytes and order by hand calculation, and carried out.
#include "sim/traffic/training.hpp"

#include "sim/input/aicb.hpp"
#include "sim/input/text_workload.hpp"
#include "test/sim/fabric/samples.hpp"
#include "test/sim/traffic/ledger.hpp"

namespace hawser::fabric {
namespace {

using What = Operation::What;
using Pair = std::pair<std::uint32_t, std::uint32_t>;

Operation group(Axis axis, Collective collective, std::uint64_t bytes, bool beside = false) {
  return {.what = What::collective,
          .axis = axis,
          .collective = collective,
          .beside = beside,
          .bytes = bytes};
}
Operation computing(std::int64_t us) { return {.span = microseconds(us)}; }

// 16 ranks: tensor 2, data 4 in expert groups of 2, 2 stages. The test checks pairs of neighbours
// in a ring.
TEST_CASE("training__groups_are_where_megatron_has_them") {
  const auto pairs = [](Axis axis) {
    Workload workload{.ranks = 16, .tensor = 2, .expert = 2, .stages = {{}, {}}};
    for (auto& stage : workload.stages) {
      stage.push_back(group(axis, Collective::all_gather, 1600));
    }
    const ConnectionMatrix matrix = training(workload, {});
    check_whole(matrix);
    std::set<Pair> found;
    for (const Connection& one : matrix.connections) {
      // In a group of two each rank is the neighbour on both sides, so count a pair once.
      if (one.from < one.to) found.emplace(one.from, one.to);
    }
    return found;
  };
  CHECK(pairs(Axis::tensor) ==
        std::set<Pair>{{0, 1}, {2, 3}, {4, 5}, {6, 7}, {8, 9}, {10, 11}, {12, 13}, {14, 15}});
  CHECK(pairs(Axis::expert) ==
        std::set<Pair>{{0, 2}, {1, 3}, {4, 6}, {5, 7}, {8, 10}, {9, 11}, {12, 14}, {13, 15}});
  CHECK(pairs(Axis::data_of_expert) ==
        std::set<Pair>{{0, 4}, {2, 6}, {1, 5}, {3, 7}, {8, 12}, {10, 14}, {9, 13}, {11, 15}});
  CHECK(pairs(Axis::data) == std::set<Pair>{{0, 2},
                                            {2, 4},
                                            {4, 6},
                                            {1, 3},
                                            {3, 5},
                                            {5, 7},
                                            {8, 10},
                                            {10, 12},
                                            {12, 14},
                                            {9, 11},
                                            {11, 13},
                                            {13, 15}});
  CHECK(pairs(Axis::expert_tensor) == std::set<Pair>{{0, 1},
                                                     {1, 2},
                                                     {2, 3},
                                                     {4, 5},
                                                     {5, 6},
                                                     {6, 7},
                                                     {8, 9},
                                                     {9, 10},
                                                     {10, 11},
                                                     {12, 13},
                                                     {13, 14},
                                                     {14, 15}});
  std::set<Pair> across;
  for (std::uint32_t rank = 0; rank < 8; ++rank) across.emplace(rank, rank + 8);
  CHECK(pairs(Axis::pipeline) == across);
  CHECK(pairs(Axis::embedding) == across);
  CHECK(pairs(Axis::all).size() == 15);
}

Workload one_stage(std::uint32_t ranks, std::vector<Operation> operations) {
  return {.ranks = ranks, .tensor = 0, .expert = 0, .stages = {std::move(operations)}};
}

TEST_CASE("training__collectives_move_what_they_are_said_to") {
  const auto sent = [](Collective collective, std::uint64_t bytes, const Mapping& mapping) {
    const ConnectionMatrix matrix =
        training(one_stage(4, {group(Axis::all, collective, bytes)}), mapping);
    check_whole(matrix);
    return Ledger(matrix).sent;
  };
  using Bytes = std::vector<std::uint64_t>;
  CHECK(sent(Collective::all_reduce, 400'000, {}) == Bytes(4, 600'000));
  CHECK(sent(Collective::all_reduce, 4000, {}) == Bytes(4, 8000));  // short: all of it, twice
  CHECK(sent(Collective::all_gather, 400'000, {}) == Bytes(4, 300'000));
  CHECK(sent(Collective::reduce_scatter, 400'000, {}) == Bytes(4, 300'000));
  CHECK(sent(Collective::all_to_all, 400'000, {}) == Bytes(4, 300'000));
  CHECK(sent(Collective::broadcast, 1000, {}) == Bytes{2000, 1000, 0, 0});
  CHECK(sent(Collective::barrier, 0, {}) == Bytes(4, 2));
  Operation rooted = group(Axis::all, Collective::all_reduce, 1000);
  rooted.to_root = true;
  rooted.root = 2;
  const ConnectionMatrix reduced = training(one_stage(4, {rooted}), {});
  check_whole(reduced);
  CHECK(Ledger(reduced).sent == Bytes{1000, 1000, 0, 1000});
  CHECK(sent(Collective::all_gather, 400'000, {.shrink = 100}) == Bytes(4, 3000));
  CHECK(sent(Collective::all_reduce, 400'000, {.channels = 3}) == Bytes(4, 600'000));
}

TEST_CASE("training__groups_within_a_host_send_nothing") {
  Workload workload = one_stage(8, {group(Axis::tensor, Collective::all_reduce, 1'000'000),
                                    group(Axis::data, Collective::all_reduce, 1'000'000)});
  workload.tensor = 2;
  CHECK(training(workload, {}).connections.size() == 8 * 2 + 8 * 6);
  CHECK(training(workload, {.ranks_per_host = 2}).connections.size() == 8 * 6);
  CHECK_THROWS_WITH(training(workload, {.ranks_per_host = 8}),
                    Catch::Contains("this workload sends nothing over the fabric"));
  // The sizes may differ from the file's.
  CHECK(training(workload, {.ranks = 16, .tensor = 4}).connections.size() == 16 * 6 + 16 * 6);
}

// Each rank computes for 100 us before the first all-gather. It computes for 200 us more between
// receiving that and sending the second.
TEST_CASE("training__a_rank_computes_before_it_goes_on") {
  const Workload workload =
      one_stage(2, {computing(100), group(Axis::all, Collective::all_gather, 20'000),
                    computing(200), group(Axis::all, Collective::all_gather, 20'000)});
  const ConnectionMatrix matrix = training(workload, {});
  const Carried carried = carry(matrix);
  REQUIRE(matrix.connections.size() == 4);
  CHECK(carried.flows[0].started == Instant{} + microseconds(100));
  CHECK(carried.flows[1].started == Instant{} + microseconds(100));
  for (std::uint32_t i = 2; i < 4; ++i) {
    const std::uint32_t to_me = matrix.connections[0].to == matrix.connections[i].from ? 0 : 1;
    CHECK(carried.flows[i].started == carried.flows[to_me].received + microseconds(200));
  }
  const ConnectionMatrix fast = training(workload, {.shrink = 10});
  CHECK(carry(fast).flows[0].started == Instant{} + microseconds(10));
}

// An operation beside goes on while the rank computes. The next one on the same axis waits for it,
// and the join waits for both.
TEST_CASE("training__what_is_beside_overlaps_until_it_is_joined") {
  const Workload workload = one_stage(2, {group(Axis::all, Collective::all_gather, 1'000'000, true),
                                          computing(10),
                                          group(Axis::all, Collective::all_gather, 1'000'000, true),
                                          computing(10),
                                          group(Axis::tensor, Collective::all_gather, 100'000),
                                          {.what = What::join},
                                          group(Axis::all, Collective::all_gather, 100'000)});
  Workload two = workload;
  two.tensor = 2;
  const ConnectionMatrix matrix = training(two, {});
  const Carried carried = carry(matrix);
  REQUIRE(matrix.connections.size() == 8);
  const auto last = [&](std::size_t i) {
    return std::max(carried.flows[i].received, carried.flows[i + 1].received);
  };
  const auto first = [&](std::size_t i) {
    return std::min(carried.flows[i].started, carried.flows[i + 1].started);
  };
  CHECK(first(0) == Instant{});
  CHECK(first(2) >= std::min(carried.flows[0].received, carried.flows[1].received));
  CHECK(first(4) == Instant{} + microseconds(20));
  CHECK(last(4) < last(2));
  CHECK(first(6) >= std::min(carried.flows[2].received, carried.flows[3].received));
}

TEST_CASE("training__stages_pass_on_and_back") {
  const TextWorkload text = read_text_workload(
      "w.txt",
      "HYBRID_TRANSFORMER model_parallel_NPU_group: 1 pp: 3 all_gpus: 6 pp_comm 50000\n"
      "1\nx -1 100000 NONE 0 200000 NONE 0 0 ALLREDUCE 100000 0\n");
  const ConnectionMatrix matrix = training(workload_of(text, {.iterations = 2}), {});
  check_whole(matrix);
  // Two ranks, two iterations: two forwards and two backwards each, and rings of two ranks.
  CHECK(matrix.connections.size() == 2 * (2 * 4 + 3 * 2 * 2));
  const Carried carried = carry(matrix);
  // The ranks 0, 2 and 4 pass on forwards and then backwards, in the first iteration.
  std::vector<Instant> received;
  for (const Pair& hop : {Pair{0, 2}, Pair{2, 4}, Pair{4, 2}, Pair{2, 0}}) {
    const auto found = std::ranges::find_if(matrix.connections, [&](const Connection& one) {
      return Pair{one.from, one.to} == hop;
    });
    REQUIRE(found != matrix.connections.end());
    const auto i = static_cast<std::size_t>(found - matrix.connections.begin());
    const Span computed = microseconds(received.size() < 2    ? 100
                                       : received.size() == 2 ? 300
                                                              : 200);
    const Instant before = received.empty() ? Instant{} : received.back();
    CHECK(carried.flows[i].started == before + computed);
    received.push_back(carried.flows[i].received);
  }
}

TEST_CASE("training__layers_are_computed_again_from_their_checkpoint") {
  const std::string layers =
      "a -1 1 ALLREDUCE 1000 1 NONE 0 1 NONE 0 1\nb -1 1 ALLREDUCE 2000 1 NONE 0 1 NONE 0 1\n"
      "c -1 1 ALLREDUCE 4000 1 NONE 0 1 NONE 0 1\nd -1 1 ALLREDUCE 8000 1 NONE 0 1 NONE 0 1\n";
  const TextWorkload text = read_text_workload(
      "w.txt",
      "HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: 2 checkpoints: 2 0 1 "
      "checkpoint_initiates: 1 3\n4\n" +
          layers);
  std::vector<std::uint64_t> bytes;
  const Workload workload = workload_of(text, {});
  for (const Operation& one : workload.stages[0]) {
    if (one.what == What::collective) bytes.push_back(one.bytes);
  }
  CHECK(bytes == std::vector<std::uint64_t>{1000, 2000, 4000, 8000, 2000, 4000});
}

TEST_CASE("training__what_does_not_fit_is_refused") {
  const auto refused = [](const Workload& workload, const Mapping& mapping,
                          const std::string& error) {
    CHECK_THROWS_WITH(training(workload, mapping), Catch::Contains(error));
  };
  Workload workload = one_stage(0, {group(Axis::data, Collective::all_reduce, 1000)});
  refused(workload, {}, "doesn't state its number of ranks");
  refused(workload, {.ranks = 9, .tensor = 2},
          "9 ranks can't be divided among 1 stages of tensor groups of 2: take a multiple of 2");
  refused(workload, {.ranks = 12, .tensor = 2, .expert = 4},
          "data groups have 6 ranks (12 / 2), which are no multiple of expert groups of 4");
  refused(workload, {.ranks = 1 << 17}, "between 2 to 65536 nodes");
  refused(workload, {.ranks = 4, .shrink = 0}, "shrink is 1 to");
  refused(workload, {.ranks = 4, .channels = 0}, "channels are 1 to 64");
  refused(workload, {.ranks = 4, .ranks_per_host = 0}, "a host has at least one rank");
  Operation rooted = group(Axis::data, Collective::broadcast, 10);
  rooted.root = 4;
  refused(one_stage(4, {rooted}), {}, "a broadcast from rank 4 of a group of 4");
  Workload two{.ranks = 4, .tensor = 0, .expert = 0, .stages = {{}, {}}};
  two.stages[0] = {{.what = What::send, .next = false, .bytes = 1}};
  refused(two, {}, "stage 0 of 2 has none before it");
  two.stages[0] = {{.what = What::receive, .bytes = 1}};
  refused(two, {}, "rank 0 awaits more messages from rank 2 than that one sends");
  two.stages[1] = {{.what = What::receive, .next = false, .bytes = 1},
                   {.what = What::compute},
                   {.what = What::send, .next = false, .bytes = 1}};
  two.stages[0].push_back({.what = What::compute});
  two.stages[0].push_back({.what = What::send, .bytes = 1});
  refused(two, {}, "wait for each other in a cycle");
  two.stages = {{group(Axis::all, Collective::barrier, 0)}, {}};
  refused(two, {},
          "stage 0 waits here for all stages of the group, but stage 1 doesn't do the same");
}

// Two sums that follow from the files. The first file has all-reduces of 16 and 64 MiB on 8 ranks.
// The second has eight micro-batches of 32 MiB each way between stages; nothing else is sent there.
TEST_CASE("training__published_workloads_send_the_bytes_they_say") {
  if (!have_samples() || !std::filesystem::is_directory(samples() / "simai_aicb")) return;
  const std::string micro = content(samples() / "simai/microAllReduce.txt");
  const ConnectionMatrix reduces = training(workload_of(read_text_workload("m", micro), {}), {});
  CHECK(Ledger(reduces).sent == std::vector<std::uint64_t>(8, 2 * 7 * (80u << 20) / 8));
  const std::string name = "simai_aicb/L65B-M1-C05_Llama65B_megatron_tp2_pp8_mbs1.csv";
  const ConnectionMatrix pipeline =
      training(workload_of(read_aicb("l", content(samples() / name)), {}), {.ranks_per_host = 2});
  const Ledger ledger(pipeline);
  for (const Pair& hop : {Pair{0, 16}, Pair{16, 0}, Pair{15, 31}, Pair{127, 111}}) {
    CHECK(ledger.pairs.at(hop) == 8 * (32u << 20));
  }
  CHECK_FALSE(ledger.pairs.contains({0, 1}));  // a tensor group, within a host
  CHECK_FALSE(ledger.pairs.contains({0, 32}));
}

// Each published workload, shrunk, runs to its end.
TEST_CASE("training__published_workloads_are_carried_out") {
  if (!have_samples() || !std::filesystem::is_directory(samples() / "simai_aicb")) return;
  struct Case {
    const char* file;
    Cut cut;
    Mapping mapping;
    std::uint32_t stages;  // replaces the file's
  };
  for (const Case& one : {
           Case{"simai/workload_analytical.txt",
                {.layers = 16},
                {.ranks = 16, .tensor = 2, .expert = 4, .ranks_per_host = 2, .shrink = 20'000},
                2},
           Case{"simai/microAllReduce.txt", {}, {.shrink = 500}, 0},
           Case{"astra_text/DLRM_HybridParallel.txt", {.iterations = 2}, {.ranks = 8}, 0},
           Case{"astra_text/Resnet50_DataParallel.txt", {.layers = 6}, {.ranks = 8}, 0},
           Case{"astra_text/Transformer_HybridParallel_Fwd_In_Bckwd.txt",
                {},
                {.ranks = 8, .shrink = 10'000},
                0},
           Case{"simai_aicb/G13B-M1-C01_GPT13B_megatron_tp8_pp1_mbs1_A100.txt",
                {.layers = 12},
                {.ranks = 16, .shrink = 20'000},
                0},
           Case{"simai_aicb/L65B-M1-C05_Llama65B_megatron_tp2_pp8_mbs1.csv",
                {},
                {.ranks = 32, .ranks_per_host = 2, .shrink = 1000},
                0},
           Case{"simai_aicb/L7B-D1-C02_Llama7B_zero3_mbs1.csv",
                {.layers = 20},
                {.ranks = 8, .shrink = 1000},
                0},
           Case{"simai_aicb/all_to_all_workload.csv", {.layers = 20}, {.ranks = 8}, 0},
       }) {
    INFO(one.file);
    const std::string text = content(samples() / one.file);
    const bool is_csv = std::string_view(one.file).ends_with(".csv");
    const Workload workload =
        is_csv ? workload_of(read_aicb(one.file, text), one.cut)
               : workload_of(read_text_workload(one.file, text), one.cut, one.stages);
    const ConnectionMatrix matrix = training(workload, one.mapping);
    check_whole(matrix);
    const Carried carried = carry(matrix);
    const Chain chain = longest_chain(matrix, carried.flows);
    CHECK(chain.received == carried.last);
    CHECK(chain.moving <= chain.received - chain.started);
  }
}

}  // namespace
}  // namespace hawser::fabric
