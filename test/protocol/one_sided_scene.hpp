// SPDX-License-Identifier: Apache-2.0
// Endpoints that have exposed memory to each other.
#pragma once

#include <catch2/catch.hpp>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "proto/region/host_placement.hpp"
#include "test/support/virtual_world.hpp"

namespace hawser::test {

// A fabric that loses, doubles and reorders.
[[nodiscard]] inline WorldConfig bad_fabric(std::uint64_t seed, std::uint32_t nodes = 2) {
  WorldConfig config;
  config.nodes = nodes;
  config.nics = 2;
  config.seed = seed;
  config.faults = "delay=5us,loss=0.05,duplicate=0.05,reorder=0.1";
  return config;
}

class OneSidedScene {
 public:
  static constexpr RegionAccess kAll = RegionAccess::all;

  // Each node exposes `bytes` of memory to all. All sessions are READY.
  explicit OneSidedScene(const WorldConfig& config, std::size_t bytes = 1 << 16,
                         RegionAccess rights = kAll)
      : world(config) {
    world.connect_all();
    for (std::uint32_t node = 0; node < world.nodes(); ++node) {
      memory.emplace_back((bytes + 7) / 8);
      REQUIRE(world.endpoint(node).expose(
                  {.data = at(node), .bytes = bytes, .access = rights, .user_data = node},
                  placement, regions.emplace_back()) == Status::ok);
      REQUIRE(world.endpoint(node).region_key(regions[node], keys.emplace_back()) == Status::ok);
    }
    REQUIRE(world.run_until([&] { return is_ready(); }, proto::milliseconds(5000)));
  }

  [[nodiscard]] std::byte* at(std::uint32_t node, std::size_t offset = 0) {
    return reinterpret_cast<std::byte*>(memory[node].data()) + offset;
  }
  [[nodiscard]] std::string text(std::uint32_t node, std::size_t offset, std::size_t bytes) {
    return {reinterpret_cast<const char*>(at(node, offset)), bytes};
  }
  [[nodiscard]] std::uint64_t& word(std::uint32_t node, std::size_t index) {
    return memory[node][index];
  }

  // ---- requests to node `to`, for the caller to change
  [[nodiscard]] WriteRequest write_to(std::uint32_t from, std::uint32_t to, std::uint64_t offset,
                                      const std::string& bytes) {
    return {.peer = world.peer(from, to),
            .key = keys[to],
            .offset = offset,
            .data = bytes.data(),
            .bytes = bytes.size()};
  }
  [[nodiscard]] ReadRequest read_from(std::uint32_t from, std::uint32_t to, std::uint64_t offset,
                                      std::string& into) {
    return {.peer = world.peer(from, to),
            .key = keys[to],
            .offset = offset,
            .data = into.data(),
            .bytes = into.size()};
  }
  [[nodiscard]] AtomicRequest add_at(std::uint32_t from, std::uint32_t to, std::uint64_t offset,
                                     std::uint64_t operand) {
    return {.peer = world.peer(from, to),
            .key = keys[to],
            .offset = offset,
            .word = {AtomicOperation::add, 8, operand, 0},
            .fetches = true};
  }

  template <class Request>
  OperationId post(std::uint32_t node, const Request& request) {
    OperationId operation{};
    REQUIRE(world.post(node, request, operation) == Status::ok);
    return operation;
  }
  template <class Request>
  [[nodiscard]] Status refusal(std::uint32_t node, const Request& request) {
    OperationId operation{};
    return world.post(node, request, operation);
  }
  OperationId flush(std::uint32_t node, std::uint32_t to, std::uint16_t channel) {
    return post(node, FlushRequest{.peer = world.peer(node, to), .channel = channel});
  }
  const Completion& wait(std::uint32_t node, OperationId operation) {
    REQUIRE(world.run_until([&] { return world.completion(node, operation) != nullptr; },
                            proto::milliseconds(20000)));
    return *world.completion(node, operation);
  }
  template <class Request>
  const Completion& run(std::uint32_t node, const Request& request) {
    return wait(node, post(node, request));
  }

  World world;
  proto::HostPlacement placement;
  std::vector<std::vector<std::uint64_t>> memory;
  std::vector<RegionId> regions;
  std::vector<RegionKey> keys;

 private:
  [[nodiscard]] bool is_ready() {
    for (std::uint32_t node = 0; node < world.nodes(); ++node) {
      if (world.stats(node).sessions_established + 1 < world.nodes()) return false;
    }
    return true;
  }
};

}  // namespace hawser::test
