// SPDX-License-Identifier: Apache-2.0
// The rows of one-sided calls in the table of statuses (statuses_test.cpp). No library without
// one-sided operations is at hand, so `unsupported` has no row: test/protocol/ has a peer that
// doesn't offer them.
#pragma once

#include <array>
#include <catch2/catch.hpp>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "test/engine/statuses_scene.hpp"

namespace hawser::engine {

// The three operations on memory answer alike. `spoil` changes what they have in common.
struct OneSidedArguments {
  PeerId peer = kAnyPeer;
  std::uint16_t channel = 0;
  RegionKey key{};
  std::uint64_t offset = 0;
  bool has_data = true;
};

inline void add_operations(std::vector<Row>& rows) {
  using Arguments = OneSidedArguments;
  using Call = std::function<Status(Scene&, const Arguments&)>;
  const std::vector<std::pair<std::string, Call>> calls{
      {"write",
       [](Scene& scene, const Arguments& with) {
         return scene.subject().write({.peer = with.peer,
                                       .channel = with.channel,
                                       .key = with.key,
                                       .offset = with.offset,
                                       .data = with.has_data ? scene.bytes.data() : nullptr,
                                       .bytes = 8},
                                      scene.operation);
       }},
      {"read",
       [](Scene& scene, const Arguments& with) {
         return scene.subject().read({.peer = with.peer,
                                      .channel = with.channel,
                                      .key = with.key,
                                      .offset = with.offset,
                                      .data = with.has_data ? scene.bytes.data() : nullptr,
                                      .bytes = 8},
                                     scene.operation);
       }},
      {"atomic", [](Scene& scene, const Arguments& with) {
         return scene.subject().atomic(
             {.peer = with.peer,
              .channel = with.channel,
              .key = with.key,
              .offset = with.offset,
              .word = {AtomicOperation::add, static_cast<std::uint8_t>(with.has_data ? 8 : 7), 1,
                       0},
              .fetches = true},
             scene.operation);
       }}};
  const auto right = [](Scene& scene) {
    return Arguments{.peer = scene.peer, .key = scene.far_key()};
  };
  for (const auto& [call, post] : calls) {
    rows.push_back({call, Status::ok, [=, post = post](Scene& scene) {
                      return scene.outcome(post(scene, right(scene)));
                    }});
    rows.push_back({call, Status::again, [=, post = post](Scene& scene) {
                      const Arguments with = right(scene);
                      scene.use_up_operations();
                      return post(scene, with);
                    }});
    const std::vector<std::function<void(Arguments&)>> wrong{
        [](Arguments& with) { with.has_data = false; }, [](Arguments& with) { with.offset = 57; },
        [](Arguments& with) { with.offset = ~std::uint64_t{0}; },
        [](Arguments& with) { with.channel = kAdapterChannel; }};
    for (const auto& spoil : wrong) {
      rows.push_back({call, Status::invalid_argument, [=, post = post](Scene& scene) {
                        Arguments with = right(scene);
                        spoil(with);
                        return post(scene, with);
                      }});
    }
    rows.push_back({call, Status::stale_region, [=, post = post](Scene& scene) {
                      Arguments with = right(scene);
                      with.key.process ^= 1;
                      return scene.outcome(post(scene, with));
                    }});
    rows.push_back({call, Status::unknown_peer, [=, post = post](Scene& scene) {
                      Arguments with = right(scene);
                      with.peer = kStranger;
                      return post(scene, with);
                    }});
    rows.push_back({call, Status::endpoint_closed, [=, post = post](Scene& scene) {
                      const Arguments with = right(scene);
                      scene.subject().close();
                      return post(scene, with);
                    }});
    rows.push_back({call, Status::peer_closed, [=, post = post](Scene& scene) {
                      const Arguments with = right(scene);
                      scene.close_far();
                      return scene.outcome(post(scene, with));
                    }});
  }
}

inline void add_flush_channel(std::vector<Row>& rows) {
  const auto flush = [](Scene& scene, FlushRequest request) {
    return scene.subject().flush_channel(request, scene.operation);
  };
  rows.push_back({"flush_channel", Status::ok, [=](Scene& scene) {
                    (void)scene.far_key();
                    return scene.outcome(flush(scene, {.peer = scene.peer}));
                  }});
  rows.push_back({"flush_channel", Status::again, [=](Scene& scene) {
                    (void)scene.far_key();
                    scene.use_up_operations();
                    return flush(scene, {.peer = scene.peer});
                  }});
  rows.push_back({"flush_channel", Status::invalid_argument, [=](Scene& scene) {
                    return flush(scene, {.peer = scene.peer, .channel = kCollectiveChannel});
                  }});
  rows.push_back({"flush_channel", Status::unknown_peer,
                  [=](Scene& scene) { return flush(scene, {.peer = kStranger}); }});
  rows.push_back({"flush_channel", Status::endpoint_closed, [=](Scene& scene) {
                    scene.subject().close();
                    return flush(scene, {.peer = scene.peer});
                  }});
  rows.push_back({"flush_channel", Status::peer_closed, [=](Scene& scene) {
                    scene.close_far();
                    return scene.outcome(flush(scene, {.peer = scene.peer}));
                  }});
}

inline Status expose_bytes(Scene& scene, RegionId& region) {
  return scene.subject().expose(
      {.data = scene.bytes.data(), .bytes = 8, .access = RegionAccess::all}, region);
}

inline void add_regions(std::vector<Row>& rows) {
  rows.push_back({"expose", Status::ok, [](Scene& scene) {
                    RegionId region = kNoRegion;
                    return expose_bytes(scene, region);
                  }});
  rows.push_back({"expose", Status::again, [](Scene& scene) {
                    RegionId region = kNoRegion;
                    Status status = Status::ok;
                    for (int i = 0; i <= 65'536 && status == Status::ok; ++i)
                      status = expose_bytes(scene, region);
                    return status;
                  }});
  const std::vector<ExposeRequest> wrong{
      {.data = nullptr, .bytes = 8, .access = RegionAccess::all},
      {.data = &rows, .bytes = 0, .access = RegionAccess::all},
      {.data = &rows, .bytes = kMaxMessageBytes + 1, .access = RegionAccess::all},
      {.data = &rows, .bytes = 8, .access = RegionAccess::none},
      {.data = &rows, .bytes = 8, .access = static_cast<RegionAccess>(8)}};
  for (const ExposeRequest& request : wrong) {
    rows.push_back({"expose", Status::invalid_argument, [=](Scene& scene) {
                      RegionId region = kNoRegion;
                      return scene.subject().expose(request, region);
                    }});
  }
  rows.push_back({"expose", Status::endpoint_closed, [](Scene& scene) {
                    scene.subject().close();
                    RegionId region = kNoRegion;
                    return expose_bytes(scene, region);
                  }});
  rows.push_back({"region_key", Status::ok, [](Scene& scene) {
                    RegionId region = kNoRegion;
                    RegionKey key;
                    REQUIRE(expose_bytes(scene, region) == Status::ok);
                    return scene.subject().region_key(region, key);
                  }});
  rows.push_back({"region_key", Status::unknown_operation, [](Scene& scene) {
                    RegionKey key;
                    return scene.subject().region_key(RegionId{5}, key);
                  }});
  rows.push_back({"region_stats", Status::ok, [](Scene& scene) {
                    RegionId region = kNoRegion;
                    RegionStats stats;
                    REQUIRE(expose_bytes(scene, region) == Status::ok);
                    return scene.subject().region_stats(region, stats);
                  }});
  rows.push_back({"region_stats", Status::unknown_operation, [](Scene& scene) {
                    RegionStats stats;
                    return scene.subject().region_stats(RegionId{5}, stats);
                  }});
  const auto withdraw = [](Scene& scene, RegionId region) {
    return scene.subject().withdraw(region, 0, scene.operation);
  };
  rows.push_back({"withdraw", Status::ok, [=](Scene& scene) {
                    RegionId region = kNoRegion;
                    REQUIRE(expose_bytes(scene, region) == Status::ok);
                    return scene.outcome(withdraw(scene, region));
                  }});
  rows.push_back({"withdraw", Status::again, [=](Scene& scene) {
                    RegionId region = kNoRegion;
                    REQUIRE(expose_bytes(scene, region) == Status::ok);
                    scene.use_up_operations();
                    return withdraw(scene, region);
                  }});
  rows.push_back({"withdraw", Status::unknown_operation,
                  [=](Scene& scene) { return withdraw(scene, kNoRegion); }});
  rows.push_back({"withdraw", Status::endpoint_closed, [=](Scene& scene) {
                    scene.subject().close();
                    return withdraw(scene, kNoRegion);
                  }});
}

inline void add_one_sided(std::vector<Row>& rows) {
  add_regions(rows);
  add_operations(rows);
  add_flush_channel(rows);
}

}  // namespace hawser::engine
