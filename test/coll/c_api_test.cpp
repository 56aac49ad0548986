// SPDX-License-Identifier: Apache-2.0
// Collectives through the C API: each call once with a result, and what differs from C++.
#include <array>
#include <catch2/catch.hpp>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "hawser/collectives.h"
#include "test/support/hang_limit.hpp"

namespace hawser::test {
namespace {

constexpr std::uint32_t kRanks = 3;

// Three ranks of one thread.
class Trio {
 public:
  Trio() {
    static const char* const nics[] = {"memory:c-api-collectives"};
    const hawser_tunable quick{"close_timeout_ms", 20};
    hawser_engine_config config{};
    config.struct_size = sizeof config;
    config.nics = nics;
    config.nic_count = 1;
    config.tunables = &quick;
    config.tunable_count = 1;
    REQUIRE(hawser_engine_create(HAWSER_ABI_VERSION, &config, &engine_, nullptr, 0) == HAWSER_OK);
    for (hawser_endpoint*& one : endpoints_) {
      REQUIRE(hawser_endpoint_create(engine_, nullptr, &one, nullptr, 0) == HAWSER_OK);
    }
    for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
      REQUIRE(hawser_coll_router_create(endpoints_[rank], &routers[rank], nullptr, 0) == HAWSER_OK);
      std::array<hawser_peer, kRanks> peers{};
      for (std::uint32_t other = 0; other < kRanks; ++other) {
        if (other == rank) continue;
        std::size_t bytes = 0;
        const void* const address = hawser_endpoint_address(endpoints_[other], &bytes);
        REQUIRE(hawser_connect(endpoints_[rank], address, bytes, &peers[other]) == HAWSER_OK);
      }
      if (rank == 0) peers_of_first = peers;
      const hawser_coll_config made = config_of(rank, peers.data());
      REQUIRE(hawser_coll_create(routers[rank], &made, &all[rank], nullptr, 0) == HAWSER_OK);
    }
  }
  ~Trio() {
    for (hawser_coll_communicator* one : all) hawser_coll_destroy(one);
    for (hawser_coll_router* one : routers) hawser_coll_router_destroy(one);
    for (hawser_endpoint* one : endpoints_) hawser_endpoint_destroy(one);
    hawser_engine_destroy(engine_);
  }
  Trio(const Trio&) = delete;
  Trio& operator=(const Trio&) = delete;

  static hawser_coll_config config_of(std::uint32_t rank, const hawser_peer* peers) {
    hawser_coll_config config{};
    config.struct_size = sizeof config;
    config.peers = peers;
    config.ranks = kRanks;
    config.rank = rank;
    config.id = 9;
    return config;
  }

  // Payload of all messages so far.
  std::uint64_t bytes_sent(std::uint32_t rank) const {
    std::size_t row = 0;
    const char* name = nullptr;
    const char* text = nullptr;
    while (hawser_stat_row(row, &name, &text) != 0 && std::string(name) != "data_bytes_sent") ++row;
    std::vector<std::uint64_t> values(row + 1);
    CHECK(hawser_stats(endpoints_[rank], values.data(), values.size()) == HAWSER_OK);
    return values[row];
  }

  // Starts something at each rank, and makes progress until all are complete.
  void run(
      const std::function<hawser_status(std::uint32_t rank, hawser_coll_request* request)>& start) {
    std::array<hawser_coll_request, kRanks> requests{};
    for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
      REQUIRE(start(rank, &requests[rank]) == HAWSER_OK);
    }
    for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
      CHECK(end_of(rank, requests[rank]) == HAWSER_OK);
      CHECK(hawser_coll_released(all[rank], requests[rank]) == 1);
    }
  }
  hawser_status end_of(std::uint32_t rank, hawser_coll_request request,
                       hawser_coll_received* received = nullptr) {
    for (const HangLimit limit; !limit.is_over();) {
      const hawser_status status = hawser_coll_test(all[rank], request, received);
      if (status != HAWSER_AGAIN) return status;
      for (hawser_coll_router* one : routers) hawser_coll_router_progress(one);
    }
    return HAWSER_AGAIN;
  }

 private:
  hawser_engine* engine_ = nullptr;
  std::array<hawser_endpoint*, kRanks> endpoints_{};

 public:
  std::array<hawser_coll_router*, kRanks> routers{};
  std::array<hawser_coll_communicator*, kRanks> all{};
  std::array<hawser_peer, kRanks> peers_of_first{};
};

hawser_coll_reduction reduction_of(hawser_coll_op op) {
  hawser_coll_reduction reduction{};
  reduction.op = op;
  return reduction;
}

using Three = std::array<std::int32_t, 3>;

TEST_CASE("collectives in C: reductions") {
  Trio trio;
  const hawser_coll_reduction sum = reduction_of(HAWSER_COLL_SUM);
  std::array<Three, kRanks> in{Three{1, 2, 3}, Three{10, 20, 30}, Three{100, 200, 300}};
  std::array<Three, kRanks> out{};
  trio.run([&](std::uint32_t rank, hawser_coll_request* request) {
    return hawser_coll_all_reduce(trio.all[rank], in[rank].data(), out[rank].data(), 3,
                                  HAWSER_COLL_I32, &sum, request);
  });
  for (const Three& one : out) CHECK(one == Three{111, 222, 333});
  trio.run([&](std::uint32_t rank, hawser_coll_request* request) {
    return hawser_coll_reduce(trio.all[rank], in[rank].data(), out[rank].data(), 3, HAWSER_COLL_I32,
                              &sum, 2, request);
  });
  CHECK(out[2] == Three{111, 222, 333});
  std::array<std::int32_t, kRanks> one{};
  trio.run([&](std::uint32_t rank, hawser_coll_request* request) {
    return hawser_coll_reduce_scatter(trio.all[rank], in[rank].data(), &one[rank], 1,
                                      HAWSER_COLL_I32, &sum, request);
  });
  CHECK(one == Three{111, 222, 333});
  const std::array<hawser_coll_segment, kRanks> blocks{{{4, 4}, {8, 4}, {0, 0}}};
  one = {0, 0, 7};
  trio.run([&](std::uint32_t rank, hawser_coll_request* request) {
    return hawser_coll_reduce_scatter_v(trio.all[rank], in[rank].data(), blocks.data(), &one[rank],
                                        HAWSER_COLL_I32, &sum, request);
  });
  CHECK(one == Three{222, 333, 7});
}

TEST_CASE("collectives in C: a function of the caller's") {
  Trio trio;
  struct Calls {
    int count = 0;
  } calls;
  hawser_coll_reduction largest = reduction_of(HAWSER_COLL_FUNCTION);
  largest.context = &calls;
  largest.function = [](void* context, void* out, const void* left, const void* right,
                        std::uint64_t count, hawser_coll_type type) {
    ++static_cast<Calls*>(context)->count;
    if (type != HAWSER_COLL_U8) return;
    for (std::uint64_t i = 0; i < count; ++i) {
      const auto a = static_cast<const std::uint8_t*>(left)[i];
      const auto b = static_cast<const std::uint8_t*>(right)[i];
      static_cast<std::uint8_t*>(out)[i] = a > b ? a : b;
    }
  };
  std::array<std::uint8_t, kRanks> in{5, 250, 7};
  std::array<std::uint8_t, kRanks> out{};
  trio.run([&](std::uint32_t rank, hawser_coll_request* request) {
    return hawser_coll_all_reduce(trio.all[rank], &in[rank], &out[rank], 1, HAWSER_COLL_U8,
                                  &largest, request);
  });
  CHECK(out == std::array<std::uint8_t, kRanks>{250, 250, 250});
  CHECK(calls.count > 0);
}

TEST_CASE("collectives in C: bytes to all, from all, and to and from one rank") {
  Trio trio;
  std::array<std::string, kRanks> in{"abc", "def", "ghi"};
  std::array<std::string, kRanks> out;
  const auto clear = [&](std::size_t bytes) { out.fill(std::string(bytes, '.')); };
  clear(9);
  trio.run([&](std::uint32_t rank, hawser_coll_request* request) {
    return hawser_coll_all_gather(trio.all[rank], in[rank].data(), out[rank].data(), 3, request);
  });
  for (const std::string& one : out) CHECK(one == "abcdefghi");
  const std::array<hawser_coll_segment, kRanks> blocks{{{4, 1}, {0, 3}, {6, 2}}};
  clear(9);
  trio.run([&](std::uint32_t rank, hawser_coll_request* request) {
    return hawser_coll_all_gather_v(trio.all[rank], in[rank].data(), out[rank].data(),
                                    blocks.data(), request);
  });
  for (const std::string& one : out) CHECK(one == "def.a.gh.");
  clear(3);
  trio.run([&](std::uint32_t rank, hawser_coll_request* request) {
    return hawser_coll_all_to_all(trio.all[rank], in[rank].data(), out[rank].data(), 1, request);
  });
  CHECK((out[0] == "adg" && out[1] == "beh" && out[2] == "cfi"));
  const std::array<hawser_coll_segment, kRanks> each{{{2, 1}, {1, 1}, {0, 1}}};
  clear(3);
  trio.run([&](std::uint32_t rank, hawser_coll_request* request) {
    return hawser_coll_all_to_all_v(trio.all[rank], in[rank].data(), each.data(), out[rank].data(),
                                    each.data(), request);
  });
  CHECK((out[0] == "ifc" && out[1] == "heb" && out[2] == "gda"));
  clear(9);
  trio.run([&](std::uint32_t rank, hawser_coll_request* request) {
    return hawser_coll_gather(trio.all[rank], in[rank].data(), out[rank].data(), 3, 1, request);
  });
  CHECK(out[1] == "abcdefghi");
  clear(9);
  trio.run([&](std::uint32_t rank, hawser_coll_request* request) {
    return hawser_coll_gather_v(trio.all[rank], in[rank].data(), blocks[rank].bytes,
                                out[rank].data(), rank == 0 ? blocks.data() : nullptr, 0, request);
  });
  CHECK(out[0] == "def.a.gh.");
  clear(1);
  trio.run([&](std::uint32_t rank, hawser_coll_request* request) {
    return hawser_coll_scatter(trio.all[rank], in[rank].data(), out[rank].data(), 1, 2, request);
  });
  CHECK((out[0] == "g" && out[1] == "h" && out[2] == "i"));
  const std::array<hawser_coll_segment, kRanks> parts{{{1, 2}, {0, 1}, {0, 0}}};
  clear(2);
  trio.run([&](std::uint32_t rank, hawser_coll_request* request) {
    return hawser_coll_scatter_v(trio.all[rank], in[rank].data(),
                                 rank == 1 ? parts.data() : nullptr, out[rank].data(),
                                 parts[rank].bytes, 1, request);
  });
  CHECK((out[0] == "ef" && out[1] == "d." && out[2] == ".."));
  trio.run([&](std::uint32_t rank, hawser_coll_request* request) {
    return hawser_coll_broadcast(trio.all[rank], in[rank].data(), 3, 2, request);
  });
  for (const std::string& one : in) CHECK(one == "ghi");
  trio.run([&](std::uint32_t rank, hawser_coll_request* request) {
    return hawser_coll_barrier(trio.all[rank], request);
  });
}

TEST_CASE("collectives in C: messages, and completions of the application") {
  Trio trio;
  char text[] = "message";
  char room[8] = "";
  hawser_coll_request send{};
  hawser_coll_request receive{};
  REQUIRE(hawser_coll_receive(trio.all[2], room, sizeof room, HAWSER_COLL_ANY_RANK, 4, &receive) ==
          HAWSER_OK);
  REQUIRE(hawser_coll_send(trio.all[0], text, sizeof text, 2, 4, &send) == HAWSER_OK);
  hawser_coll_received received{};
  CHECK(trio.end_of(2, receive, &received) == HAWSER_OK);
  CHECK(received.from == 0);
  CHECK(received.bytes == sizeof text);
  CHECK(std::strcmp(room, text) == 0);
  CHECK(trio.end_of(0, send) == HAWSER_OK);
  hawser_completion none{};
  CHECK(hawser_coll_router_take(trio.routers[0], &none, 1) == 0);
  CHECK(hawser_coll_rank_of(trio.all[2]) == 2);
  CHECK(hawser_coll_ranks(trio.all[2]) == kRanks);
  CHECK(hawser_coll_id(trio.all[2]) == 9);
  // A request of 0 names nothing, whatever runs.
  REQUIRE(hawser_coll_barrier(trio.all[0], &send) == HAWSER_OK);
  CHECK(hawser_coll_test(trio.all[0], {0, 0}, &received) == HAWSER_OK);
  CHECK(received.bytes == sizeof text);
  CHECK(hawser_coll_test(trio.all[0], send, &received) == HAWSER_AGAIN);
}

TEST_CASE("collectives in C: a sum among ranks of unlike bandwidth") {
  Trio trio;
  const std::array<std::uint8_t, kRanks> bandwidths{16, 8, 12};
  const std::array<std::uint8_t, kRanks> wrong{16, 17, 16};
  CHECK(hawser_coll_set_bandwidths(trio.all[0], nullptr) == HAWSER_INVALID_ARGUMENT);
  CHECK(hawser_coll_set_bandwidths(trio.all[0], wrong.data()) == HAWSER_INVALID_ARGUMENT);
  for (hawser_coll_communicator* one : trio.all) {
    std::array<std::uint8_t, kRanks> found{};
    CHECK(hawser_coll_bandwidths(one, found.data()) == 0);
    CHECK(hawser_coll_set_bandwidths(one, bandwidths.data()) == HAWSER_OK);
    CHECK(hawser_coll_bandwidths(one, found.data()) == 1);
    CHECK(found == bandwidths);
  }
  constexpr std::size_t kCount = 50'000;
  const hawser_coll_reduction sum = reduction_of(HAWSER_COLL_SUM);
  std::array<std::vector<std::int32_t>, kRanks> data;
  for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
    for (std::size_t i = 0; i < kCount; ++i) {
      data[rank].push_back(static_cast<std::int32_t>(i * (rank + 1)));
    }
  }
  trio.run([&](std::uint32_t rank, hawser_coll_request* request) {
    return hawser_coll_all_reduce(trio.all[rank], data[rank].data(), data[rank].data(), kCount,
                                  HAWSER_COLL_I32, &sum, request);
  });
  for (const auto& one : data) {
    std::size_t wrong_ones = 0;
    for (std::size_t i = 0; i < kCount; ++i) {
      wrong_ones += one[i] == static_cast<std::int32_t>(6 * i) ? 0 : 1;
    }
    CHECK(wrong_ones == 0);
  }
  // In a ring all send the same.
  CHECK(trio.bytes_sent(1) < trio.bytes_sent(2));
  CHECK(trio.bytes_sent(2) < trio.bytes_sent(0));
}

TEST_CASE("collectives in C: ranks that follow bandwidths don't let them be set") {
  Trio trio;
  hawser_coll_config config = Trio::config_of(0, trio.peers_of_first.data());
  config.id = 10;
  config.follow_bandwidths = 1;
  config.check_bytes = 1;
  hawser_coll_communicator* following = nullptr;
  REQUIRE(hawser_coll_create(trio.routers[0], &config, &following, nullptr, 0) == HAWSER_OK);
  const std::array<std::uint8_t, kRanks> bandwidths{16, 8, 12};
  CHECK(hawser_coll_set_bandwidths(following, bandwidths.data()) == HAWSER_INVALID_ARGUMENT);
  hawser_coll_destroy(following);
}

TEST_CASE("collectives in C: arguments and configurations that are refused, with words") {
  Trio trio;
  hawser_coll_request request{};
  std::int32_t one = 1;
  hawser_coll_reduction reduction = reduction_of(HAWSER_COLL_SUM);
  const auto all_reduce = [&](hawser_coll_type type, const hawser_coll_reduction* op) {
    return hawser_coll_all_reduce(trio.all[0], &one, &one, 1, type, op, &request);
  };
  CHECK(all_reduce(HAWSER_COLL_I32, nullptr) == HAWSER_INVALID_ARGUMENT);
  CHECK(all_reduce(HAWSER_COLL_F8E5M2 + 1, &reduction) == HAWSER_INVALID_ARGUMENT);
  reduction.reserved[0] = 1;
  CHECK(all_reduce(HAWSER_COLL_I32, &reduction) == HAWSER_INVALID_ARGUMENT);
  reduction = reduction_of(HAWSER_COLL_FUNCTION);
  CHECK(all_reduce(HAWSER_COLL_I32, &reduction) == HAWSER_INVALID_ARGUMENT);
  reduction = reduction_of(HAWSER_COLL_BIT_OR);
  CHECK(all_reduce(HAWSER_COLL_F16, &reduction) == HAWSER_INVALID_ARGUMENT);
  CHECK(hawser_coll_all_gather_v(trio.all[0], &one, &one, nullptr, &request) ==
        HAWSER_INVALID_ARGUMENT);
  CHECK(hawser_coll_type_bytes(HAWSER_COLL_F64) == 8);
  CHECK(hawser_coll_type_bytes(200) == 0);

  const std::array<hawser_peer, kRanks> peers{0, 1, 2};
  hawser_coll_communicator* made = nullptr;
  std::array<char, 200> why{};
  const auto create = [&](const hawser_coll_config* config) {
    why.fill(0);
    return hawser_coll_create(trio.routers[0], config, &made, why.data(), why.size());
  };
  hawser_coll_config config = Trio::config_of(0, peers.data());
  CHECK(create(nullptr) == HAWSER_INVALID_ARGUMENT);
  config.ranks = UINT32_MAX;
  CHECK(create(&config) == HAWSER_INVALID_ARGUMENT);
  CHECK(std::string(why.data()).find("65536") != std::string::npos);
  config.ranks = kRanks;
  config.struct_size = 4;
  CHECK(create(&config) == HAWSER_INVALID_ARGUMENT);
  CHECK(std::string(why.data()).find("configuration") != std::string::npos);
  config = Trio::config_of(kRanks, peers.data());
  CHECK(create(&config) == HAWSER_INVALID_ARGUMENT);
  CHECK(std::string(why.data()).find("rank") != std::string::npos);
  CHECK(made == nullptr);

  config = Trio::config_of(0, peers.data());
  config.follow_bandwidths = 2;
  CHECK(create(&config) == HAWSER_INVALID_ARGUMENT);
  CHECK(std::string(why.data()).find("follow_bandwidths") != std::string::npos);

  config = Trio::config_of(0, peers.data());
  hawser_coll_fit(&config, 64, 64, 1);
  CHECK(config.pipeline * config.max_active < 8 * 4);
  CHECK(config.pipeline > 0);
}

TEST_CASE("collectives in C: a failure has a status, a rank and a text") {
  Trio trio;
  hawser_coll_rank rank = 77;
  const char* text = nullptr;
  CHECK(hawser_coll_failure(trio.all[1], &rank, &text) == HAWSER_OK);
  CHECK(rank == 77);
  hawser_coll_abort(trio.all[0], 2, HAWSER_PEER_TIMEOUT);
  CHECK(hawser_coll_failure(trio.all[0], &rank, &text) == HAWSER_PEER_TIMEOUT);
  CHECK(rank == 2);
  CHECK(std::string(text).find("rank 2") != std::string::npos);
  for (const HangLimit limit;
       !limit.is_over() && hawser_coll_failure(trio.all[1], nullptr, nullptr) == HAWSER_OK;) {
    for (hawser_coll_router* one : trio.routers) hawser_coll_router_progress(one);
  }
  CHECK(hawser_coll_failure(trio.all[1], nullptr, nullptr) == HAWSER_PEER_TIMEOUT);
  hawser_coll_request request{};
  CHECK(hawser_coll_barrier(trio.all[1], &request) == HAWSER_PEER_TIMEOUT);
}

TEST_CASE("collectives in C: a rank that leaves out all others is left alone") {
  Trio trio;
  const hawser_coll_rank others[] = {1, 2, 3};
  hawser_coll_communicator* made = nullptr;
  char error[64] = "";
  const auto shrink = [&](const hawser_coll_rank* without, std::uint64_t count) {
    return hawser_coll_shrink(trio.all[0], without, count, &made, error, sizeof error);
  };
  CHECK(shrink(others, 2) == HAWSER_INVALID_ARGUMENT);  // it is not revoked
  hawser_coll_abort(trio.all[0], 1, HAWSER_PEER_TIMEOUT);
  CHECK(shrink(nullptr, 1) == HAWSER_INVALID_ARGUMENT);
  CHECK(shrink(others, 3) == HAWSER_INVALID_ARGUMENT);
  CHECK(made == nullptr);
  REQUIRE(shrink(others, 2) == HAWSER_OK);
  REQUIRE(made != nullptr);
  CHECK((hawser_coll_ranks(made) == 1 && hawser_coll_rank_of(made) == 0));
  CHECK(hawser_coll_id(made) == 10);
  hawser_coll_request request{};
  REQUIRE(hawser_coll_barrier(made, &request) == HAWSER_OK);
  CHECK(hawser_coll_test(made, request, nullptr) == HAWSER_OK);
  hawser_coll_destroy(made);
  CHECK(shrink(others, 2) == HAWSER_INVALID_ARGUMENT);  // it has been shrunk
}

}  // namespace
}  // namespace hawser::test
