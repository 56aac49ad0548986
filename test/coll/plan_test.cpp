// SPDX-License-Identifier: Apache-2.0
// The plans of all ranks of a communicator, taken together and without data. Every send has its
// receive and every receive its send, and each waits only for what can come first. No scratch slot
// has two tenants. No plan hangs in any window, although the network stores nothing. Lengths near
// 2^60 don't overflow.
#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <memory>
#include <set>
#include <tuple>
#include <vector>

#include "coll/barrier_plan.hpp"
#include "coll/broadcast_plan.hpp"
#include "coll/doubling_plan.hpp"
#include "coll/exchange_plan.hpp"
#include "coll/mixed_plan.hpp"
#include "coll/reduce_plan.hpp"
#include "coll/ring_plan.hpp"
#include "coll/rooted_plan.hpp"
#include "test/support/seeded.hpp"

namespace hawser::test {
namespace {

using coll::Plan;
using coll::Rank;
using Plans = std::vector<std::unique_ptr<Plan>>;

// Addresses of buffers that are never touched.
std::byte* fake(std::uint64_t address) { return reinterpret_cast<std::byte*>(address); }

Plans ring_plans(Collective collective, Rank ranks, std::uint64_t count, std::uint32_t chunk_bytes,
                 std::uint32_t depth, bool in_place) {
  Plans plans;
  for (Rank rank = 0; rank < ranks; ++rank) {
    plans.push_back(std::make_unique<coll::RingPlan>(
        coll::RingArguments{.collective = collective,
                            .rank = rank,
                            .ranks = ranks,
                            .count = count,
                            .element_bytes = collective == Collective::all_gather ? 1u : 4u,
                            .in = fake(1 << 20),
                            .out = fake(in_place ? 1 << 20 : std::uint64_t{1} << 62),
                            .chunk_bytes = chunk_bytes,
                            .depth = depth}));
  }
  return plans;
}

// Calls `run` with the index of each entry of a list.
template <typename Run>
void for_each_send(const Plan& plan, Run&& run) {
  for (std::uint32_t stream = 0; stream < plan.streams(); ++stream) {
    for (std::uint64_t i = 0; i < plan.sends_of(stream); ++i) run(coll::in_stream(stream, i));
  }
}
template <typename Run>
void for_each_receive(const Plan& plan, Run&& run) {
  for (std::uint32_t stream = 0; stream < plan.streams(); ++stream) {
    for (std::uint64_t i = 0; i < plan.receives_of(stream); ++i) run(coll::in_stream(stream, i));
  }
}

// Executes every entry as soon as its window of `window` entries allows, without any notion of
// time: a send completes at once, its receive when it is posted. True if all plans end.
class Walk {
 public:
  Walk(const Plans& plans, std::uint64_t window) : window_(window) {
    for (const auto& plan : plans) {
      One one{plan.get(), {}, {}, {}, {}, {}};
      for (std::uint32_t stream = 0; stream < plan->streams(); ++stream) {
        one.sent.emplace_back(plan->sends_of(stream));
        one.processed.emplace_back(plan->receives_of(stream));
      }
      for_each_send(*plan, [&](std::uint64_t i) {
        const coll::Outgoing out = plan->send(i);
        if (!out.skip && out.after_receive != coll::kNothing &&
            out.data == plan->receive(out.after_receive).data) {
          one.passed_on[out.after_receive] = i;
        }
      });
      // In plans with several streams, the processing of a later receive takes the sum in a slot.
      for_each_receive(*plan, [&](std::uint64_t i) {
        const coll::Incoming in = plan->receive(i);
        if (plan->streams() > 1 && !in.skip && in.process_after_receive != coll::kNothing) {
          one.taken_by[in.process_after_receive] = i;
        }
      });
      ranks_.push_back(std::move(one));
    }
  }

  bool finishes() {
    for (bool changed = true; changed;) {
      changed = false;
      for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
        for (std::uint32_t stream = 0; stream < ranks_[rank].plan->streams(); ++stream) {
          changed |= visit(rank, stream);
        }
      }
    }
    const auto all_done = [](const Lists& lists) {
      return std::all_of(lists.begin(), lists.end(), [](const std::vector<bool>& list) {
        return first_open(list) == list.size();
      });
    };
    return std::all_of(ranks_.begin(), ranks_.end(), [&](const One& one) {
      return all_done(one.sent) && all_done(one.processed);
    });
  }

 private:
  using Lists = std::vector<std::vector<bool>>;  // by stream
  struct One {
    const Plan* plan;
    Lists sent;
    Lists processed;
    std::map<std::uint64_t, std::uint64_t> passed_on;  // receive -> the send out of its buffer
    std::map<std::uint64_t, std::uint64_t> taken_by;   // receive -> the one that adds its slot
    std::map<const std::byte*, std::uint64_t> slots;   // scratch slot -> its last receive
  };

  static std::uint64_t find(const std::map<std::uint64_t, std::uint64_t>& in, std::uint64_t index) {
    const auto at = in.find(index);
    return at == in.end() ? coll::kNothing : at->second;
  }

  // A scratch slot is posted again only after its contents have been processed and passed on.
  static void check_slot(One& one, const coll::Incoming& in, std::uint64_t index) {
    if (in.bytes == 0 || in.data >= fake(1 << 20)) return;  // not scratch memory
    const auto [at, fresh] = one.slots.try_emplace(in.data, index);
    if (fresh) return;
    CHECK(done(one.processed, at->second));
    CHECK(done(one.sent, find(one.passed_on, at->second)));
    CHECK(done(one.processed, find(one.taken_by, at->second)));
    at->second = index;
  }

  static std::size_t first_open(const std::vector<bool>& done) {
    return static_cast<std::size_t>(std::find(done.begin(), done.end(), false) - done.begin());
  }
  static bool done(const Lists& lists, std::uint64_t index) {
    return index == coll::kNothing || lists[coll::stream_of(index)][coll::place_of(index)];
  }

  bool visit(std::size_t rank, std::uint32_t stream) {
    One& one = ranks_[rank];
    bool changed = false;
    std::vector<bool>& processed = one.processed[stream];
    for (std::size_t i = first_open(processed);
         i < std::min<std::size_t>(processed.size(), first_open(processed) + window_); ++i) {
      if (processed[i]) continue;
      const coll::Incoming in = one.plan->receive(coll::in_stream(stream, i));
      if (!done(one.processed, in.after_receive) || !done(one.sent, in.after_send)) continue;
      if (!in.skip) {
        if (posted_.insert({in.peer, rank, in.number}).second) {
          check_slot(one, in, coll::in_stream(stream, i));
          changed = true;
        }
        if (here_.count({in.peer, rank, in.number}) == 0) continue;
        if (!done(one.processed, in.process_after_receive)) continue;
        if (!done(one.sent, in.process_after_send)) continue;
      }
      processed[i] = changed = true;
    }
    std::vector<bool>& sent = one.sent[stream];
    for (std::size_t i = first_open(sent);
         i < std::min<std::size_t>(sent.size(), first_open(sent) + window_); ++i) {
      if (sent[i]) continue;
      const coll::Outgoing out = one.plan->send(coll::in_stream(stream, i));
      if (!done(one.processed, out.after_receive) || !done(one.sent, out.after_send)) continue;
      if (!out.skip) {
        // The network stores nothing: a send completes only if its receive is posted.
        if (posted_.count({rank, out.peer, out.number}) == 0) continue;
        here_.insert({rank, out.peer, out.number});
      }
      sent[i] = changed = true;
    }
    return changed;
  }

  using Key = std::tuple<std::size_t, std::size_t, std::uint64_t>;  // from, to, number
  std::uint64_t window_;
  std::vector<One> ranks_;
  std::set<Key> posted_;
  std::set<Key> here_;
};

// Checks that sends and receives pair up: peer, number, length, and the hints if both have one.
void check_pairs(const Plans& plans) {
  using Key = std::tuple<std::size_t, std::size_t, std::uint64_t>;
  std::map<Key, coll::Outgoing> sent;
  for (std::size_t rank = 0; rank < plans.size(); ++rank) {
    for_each_send(*plans[rank], [&](std::uint64_t i) {
      const coll::Outgoing out = plans[rank]->send(i);
      if (out.skip) return;
      REQUIRE(out.peer != rank);
      REQUIRE(sent.emplace(Key{rank, out.peer, out.number}, out).second);
    });
  }
  std::size_t received = 0;
  for (std::size_t rank = 0; rank < plans.size(); ++rank) {
    for_each_receive(*plans[rank], [&](std::uint64_t i) {
      const coll::Incoming in = plans[rank]->receive(i);
      if (in.skip) return;
      ++received;
      const auto out = sent.find({in.peer, rank, in.number});
      REQUIRE(out != sent.end());
      REQUIRE(out->second.bytes == in.bytes);
      REQUIRE(out->second.hint.group == in.hint.group);
      REQUIRE(out->second.hint.members == in.hint.members);
      REQUIRE(in.hint.step < in.hint.steps);
      REQUIRE(in.hint.group < plans[rank]->groups());
      // Within a stream a receive can depend on earlier ones only.
      const bool is_of_another = in.after_receive == coll::kNothing ||
                                 coll::stream_of(in.after_receive) != coll::stream_of(i);
      REQUIRE((is_of_another || in.after_receive < i));
    });
  }
  CHECK(received == sent.size());
}

void check_all(const Plans& plans) {
  check_pairs(plans);
  for (const std::uint64_t window : {1, 2, 7, 64}) {
    INFO("window " << window);
    CHECK(Walk(plans, window).finishes());
  }
}

TEST_CASE("plan: rings of all sizes pair up and come to their end with nothing stored on the way") {
  for_each_seed(40, [](proto::Random& random) {
    const auto ranks = static_cast<Rank>(2 + random.below(12));
    const auto depth = static_cast<std::uint32_t>(1 + random.below(5));
    const std::uint64_t count = random.below(random.below(2) == 0 ? 20 : 1000);
    const auto chunk = static_cast<std::uint32_t>(64 * (1 + random.below(3)));
    for (const Collective collective :
         {Collective::all_reduce, Collective::reduce_scatter, Collective::all_gather}) {
      INFO(ranks << " ranks, " << count << " elements, depth " << depth << ", chunk " << chunk);
      check_all(ring_plans(collective, ranks, count, chunk, depth, random.below(2) == 0));
    }
  });
}

TEST_CASE("plan: mixes for ranks of unlike bandwidth pair up and come to their end") {
  for_each_seed(150, [](proto::Random& random) {
    const auto ranks = static_cast<Rank>(3 + random.below(7));
    std::vector<Rank> order(ranks);
    std::vector<coll::Bandwidth> bandwidths(ranks);
    for (Rank i = 0; i < ranks; ++i) {
      order[i] = i;
      bandwidths[i] = static_cast<coll::Bandwidth>(1 + random.below(random.below(2) == 0 ? 2 : 16));
    }
    std::sort(bandwidths.begin(), bandwidths.end());
    for (Rank i = ranks; i > 1; --i) std::swap(order[i - 1], order[random.below(i)]);
    const std::uint64_t count = 1 + random.below(random.below(2) == 0 ? 30 : 2000);
    const auto pipeline = static_cast<std::uint32_t>(2 + random.below(12));
    const coll::Mix mix(bandwidths, count, 16, pipeline);
    const bool in_place = random.below(2) == 0;
    Plans plans;
    std::uint64_t sent = 0;
    for (Rank rank = 0; rank < ranks; ++rank) {
      const auto place =
          static_cast<Rank>(std::find(order.begin(), order.end(), rank) - order.begin());
      const coll::AttachedArguments whole{.order = order,
                                          .place = place,
                                          .count = count,
                                          .in = fake(1 << 20),
                                          .out = fake(in_place ? 1 << 20 : std::uint64_t{1} << 62),
                                          .chunk_bytes = 64,
                                          .depth = pipeline / mix.streams()};
      plans.push_back(std::make_unique<coll::MixedPlan>(whole, mix));
      plans.back()->begin(fake(64));
      for_each_send(*plans.back(), [&](std::uint64_t i) { sent += plans.back()->send(i).bytes; });
    }
    INFO(ranks << " ranks, " << count << " elements, " << mix.parts().size() << " parts");
    CHECK(sent == 2 * (ranks - 1) * count * 4);
    check_all(plans);
  });
}

TEST_CASE("plan: rings with blocks of any length pair up and come to their end") {
  for_each_seed(40, [](proto::Random& random) {
    const auto ranks = static_cast<Rank>(2 + random.below(9));
    std::vector<coll::Segment> blocks(ranks);
    std::uint64_t end = 0;
    for (coll::Segment& block : blocks) {
      block = {end, random.below(3) == 0 ? 0 : 4 * random.below(300)};
      end += block.bytes;
    }
    const auto depth = static_cast<std::uint32_t>(1 + random.below(4));
    for (const Collective collective : {Collective::reduce_scatter, Collective::all_gather}) {
      const std::uint32_t element = collective == Collective::all_gather ? 1 : 4;
      Plans plans;
      for (Rank rank = 0; rank < ranks; ++rank) {
        plans.push_back(std::make_unique<coll::RingPlan>(
            coll::RingArguments{.collective = collective,
                                .rank = rank,
                                .ranks = ranks,
                                .blocks = blocks,
                                .element_bytes = element,
                                .in = fake(1 << 20),
                                .out = fake(std::uint64_t{1} << 62),
                                .chunk_bytes = 128,
                                .depth = depth}));
      }
      INFO(ranks << " ranks, " << end << " bytes");
      std::uint64_t sent = 0;
      for (const auto& plan : plans) {
        for (std::uint64_t i = 0; i < plan->sends(); ++i) sent += plan->send(i).bytes;
      }
      CHECK(sent == (ranks - 1) * end);
      check_all(plans);
    }
  });
}

TEST_CASE("plan: a gather and a scatter move each block once, to and from every root") {
  for (Rank ranks = 2; ranks <= 9; ++ranks) {
    for (Rank root = 0; root < ranks; ++root) {
      for (const bool to_root : {true, false}) {
        INFO(ranks << " ranks, root " << root << ", to it " << to_root);
        Plans plans;
        std::uint64_t sent = 0;
        for (Rank rank = 0; rank < ranks; ++rank) {
          plans.push_back(
              std::make_unique<coll::RootedPlan>(coll::RootedArguments{.to_root = to_root,
                                                                       .rank = rank,
                                                                       .ranks = ranks,
                                                                       .root = root,
                                                                       .in = fake(1 << 20),
                                                                       .out = fake(1 << 24),
                                                                       .block_bytes = 100}));
          for (std::uint64_t i = 0; i < plans[rank]->sends(); ++i) {
            sent += plans[rank]->send(i).bytes;
          }
        }
        CHECK(sent == (ranks - 1) * 100);
        check_all(plans);
      }
    }
  }
}

TEST_CASE("plan: recursive doubling pairs up for every number of ranks") {
  for (Rank ranks = 2; ranks <= 40; ++ranks) {
    INFO(ranks << " ranks");
    Plans plans;
    for (Rank rank = 0; rank < ranks; ++rank) {
      plans.push_back(std::make_unique<coll::DoublingPlan>(
          coll::DoublingArguments{.rank = rank, .ranks = ranks}));
    }
    check_all(plans);
  }
}

TEST_CASE("plan: barriers pair up for every number of ranks") {
  for (Rank ranks = 2; ranks <= 40; ++ranks) {
    INFO(ranks << " ranks");
    Plans plans;
    for (Rank rank = 0; rank < ranks; ++rank) {
      plans.push_back(std::make_unique<coll::BarrierPlan>(rank, ranks));
    }
    check_all(plans);
  }
}

TEST_CASE("plan: broadcasts reach every rank once from every root") {
  for (Rank ranks = 2; ranks <= 20; ++ranks) {
    for (Rank root = 0; root < ranks; ++root) {
      for (const std::uint64_t bytes : {1, 64 * 9, 64 * 50}) {
        INFO(ranks << " ranks, root " << root << ", " << bytes << " bytes");
        Plans plans;
        for (Rank rank = 0; rank < ranks; ++rank) {
          plans.push_back(
              std::make_unique<coll::BroadcastPlan>(coll::BroadcastArguments{.rank = rank,
                                                                             .ranks = ranks,
                                                                             .root = root,
                                                                             .data = fake(1 << 20),
                                                                             .bytes = bytes,
                                                                             .chunk_bytes = 64}));
          std::uint64_t received = 0;
          for (std::uint64_t i = 0; i < plans[rank]->receives(); ++i) {
            received += plans[rank]->receive(i).bytes;
          }
          CHECK(received == (rank == root ? 0 : bytes));
        }
        check_all(plans);
      }
    }
  }
}

TEST_CASE("plan: a reduce takes every rank's data once to every root") {
  for (Rank ranks = 2; ranks <= 20; ++ranks) {
    for (Rank root = 0; root < ranks; ++root) {
      for (const std::uint64_t count : {1, 16 * 9, 16 * 50}) {
        for (const std::uint32_t depth : {1, 2, 5}) {
          INFO(ranks << " ranks, root " << root << ", " << count << " elements, depth " << depth);
          Plans plans;
          std::uint64_t sent = 0;
          for (Rank rank = 0; rank < ranks; ++rank) {
            plans.push_back(
                std::make_unique<coll::ReducePlan>(coll::ReduceArguments{.rank = rank,
                                                                         .ranks = ranks,
                                                                         .root = root,
                                                                         .count = count,
                                                                         .in = fake(1 << 20),
                                                                         .out = fake(1 << 22),
                                                                         .chunk_bytes = 64,
                                                                         .depth = depth}));
            for (std::uint64_t i = 0; i < plans[rank]->sends(); ++i) {
              sent += plans[rank]->send(i).bytes;
            }
          }
          CHECK(sent == (ranks - 1) * count * 4);
          check_all(plans);
        }
      }
    }
  }
}

TEST_CASE("plan: a long broadcast is a chain and a short one a tree") {
  const auto most_children = [](std::uint64_t bytes) {
    std::uint64_t most = 0;
    for (Rank rank = 0; rank < 16; ++rank) {
      const coll::BroadcastPlan plan(
          {.rank = rank, .ranks = 16, .data = fake(1 << 20), .bytes = bytes, .chunk_bytes = 1024});
      most = std::max(most, plan.sends() * 1024 / bytes);
    }
    return most;
  };
  CHECK(most_children(1024) == 4);
  CHECK(most_children(1024 * 100) == 1);
}

TEST_CASE("plan: all-to-all has one partner a round") {
  for (Rank ranks = 2; ranks <= 17; ++ranks) {
    for (const bool in_place : {false, true}) {
      INFO(ranks << " ranks, in place " << in_place);
      Plans plans;
      for (Rank rank = 0; rank < ranks; ++rank) {
        plans.push_back(std::make_unique<coll::ExchangePlan>(
            coll::ExchangeArguments{.rank = rank,
                                    .ranks = ranks,
                                    .in = fake(1 << 20),
                                    .out = fake(in_place ? 1 << 20 : 1 << 24),
                                    .block_bytes = 200,
                                    .chunk_bytes = 64,
                                    .depth = 2}));
      }
      check_all(plans);
      for (std::uint64_t i = 0; i < plans[0]->sends(); ++i) {
        std::set<Rank> targets;
        for (const auto& plan : plans) targets.insert(plan->send(i).peer);
        CHECK(targets.size() == ranks);
      }
    }
  }
}

TEST_CASE("plan: pieces of an exabyte are where they belong") {
  const std::uint64_t count = (std::uint64_t{1} << 58) + 12345;  // of 4 bytes
  for (const Collective collective : {Collective::all_reduce, Collective::reduce_scatter}) {
    const std::uint64_t blocks_of = collective == Collective::all_reduce ? 1 : 4;
    const Plans plans = ring_plans(collective, 4, count / blocks_of, 1 << 18, 8, false);
    for (const auto& plan : plans) {
      const std::uint64_t entries = plan->sends();
      CHECK(entries > std::uint64_t{1} << 40);
      std::uint64_t bytes = 0;
      for (const std::uint64_t i : {std::uint64_t{0}, entries / 3, entries - 1}) {
        const coll::Outgoing out = plan->send(i);
        CHECK(out.bytes <= 1 << 18);
        bytes += out.bytes;
        if (out.after_receive != coll::kNothing) CHECK(out.after_receive < i);
      }
      CHECK(bytes > 0);
    }
  }
}

TEST_CASE("plan: pieces are lines of 64 bytes and at most a chunk") {
  CHECK(coll::piece_elements(1 << 20, 4, 1 << 18) == (1 << 18) / 4);  // long: whole chunks
  CHECK(coll::piece_elements(40'000, 4, 1 << 18) == 10'000);          // a quarter
  CHECK(coll::piece_elements(40'001, 4, 1 << 18) == 10'016);          // in whole lines
  CHECK(coll::piece_elements(4'000, 4, 1 << 18) == 4096);             // not below 16 KiB
  CHECK(coll::piece_elements(1'000'000, 8, 64) == 8);
  CHECK(coll::piece_elements(0, 2, 64) == 32);
}

}  // namespace
}  // namespace hawser::test
