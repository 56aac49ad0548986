// SPDX-License-Identifier: Apache-2.0
// The handles of peers' NICs, compared with a map.
#include "proto/path/remote_handles.hpp"

#include <catch2/catch.hpp>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "test/support/seeded.hpp"

namespace hawser::test {
namespace {

using proto::kNoIndex;
using proto::kNoRemote;
using proto::RemoteHandle;
using proto::RemoteHandles;

TEST_CASE("remote_handles__behave_as_a_map_for_each_of_several_peers") {
  for_each_seed(10, [](proto::Random& random) {
    constexpr std::size_t kPeers = 3;
    RemoteHandles handles(kPeers);
    std::vector<std::uint32_t> heads(kPeers, kNoIndex);
    std::vector<std::map<std::pair<std::uint8_t, std::uint8_t>, RemoteHandle>> models(kPeers);
    std::uint32_t next = 1;
    for (int step = 0; step < 2000; ++step) {
      const std::size_t peer = random.below(kPeers);
      const auto local = static_cast<std::uint8_t>(random.below(5));
      const auto remote = static_cast<std::uint8_t>(random.below(5));
      auto& model = models[peer];
      if (random.chance(0.05)) {
        std::set<RemoteHandle> closed;
        handles.close_to(heads[peer], remote, [&](std::uint8_t nic, RemoteHandle handle) {
          REQUIRE(model.at({nic, remote}) == handle);
          closed.insert(handle);
        });
        REQUIRE(closed.size() == std::erase_if(model, [&](const auto& entry) {
                  return entry.first.second == remote;
                }));
        continue;
      }
      const RemoteHandle found = handles.find(heads[peer], local, remote);
      const auto known = model.find({local, remote});
      REQUIRE(found == (known == model.end() ? kNoRemote : known->second));
      if (found != kNoRemote) continue;
      const auto made = static_cast<RemoteHandle>(next++);
      handles.add(heads[peer], local, remote, made,
                  [](std::uint8_t, RemoteHandle) { FAIL("there was room"); });
      model[{local, remote}] = made;
    }
    std::size_t all = 0;
    for (const auto& model : models) all += model.size();
    CHECK(handles.size() == all);
  });
}

TEST_CASE("remote_handles__of_too_many_pairs_the_one_used_least_lately_goes") {
  RemoteHandles handles(1);
  std::uint32_t head = kNoIndex;
  const auto none = [](std::uint8_t, RemoteHandle) { FAIL("there was room"); };
  for (std::uint8_t i = 0; i < RemoteHandles::kMostOfPeer; ++i) {
    handles.add(head, i, 0, static_cast<RemoteHandle>(100 + i), none);
  }
  CHECK(handles.find(head, 0, 0) == static_cast<RemoteHandle>(100));  // now 1 is the oldest
  std::vector<std::pair<std::uint8_t, RemoteHandle>> closed;
  handles.add(head, 200, 0, static_cast<RemoteHandle>(999),
              [&](std::uint8_t local, RemoteHandle handle) { closed.emplace_back(local, handle); });
  REQUIRE(closed.size() == 1);
  CHECK(closed[0] == std::pair{std::uint8_t{1}, static_cast<RemoteHandle>(101)});
  CHECK(handles.size() == RemoteHandles::kMostOfPeer);
  CHECK(handles.find(head, 1, 0) == kNoRemote);
  CHECK(handles.find(head, 0, 0) == static_cast<RemoteHandle>(100));
  CHECK(handles.find(head, 200, 0) == static_cast<RemoteHandle>(999));
}

}  // namespace
}  // namespace hawser::test
