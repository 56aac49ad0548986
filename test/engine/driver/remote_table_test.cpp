// SPDX-License-Identifier: Apache-2.0
#include "engine/driver/remote_table.hpp"

#include <map>

#include "test/engine/driver/nic_user.hpp"
#include "test/support/seeded.hpp"

namespace hawser::test {
namespace {

proto::NicAddress numbered(std::uint64_t number) {
  proto::NicAddress address;
  address.bytes[0] = std::byte{1};
  std::memcpy(address.bytes.data() + 8, &number, sizeof number);
  return address;
}

}  // namespace

TEST_CASE("remote table: beside a map, under random openings and closings") {
  for_each_seed(20, [](proto::Random& random) {
    constexpr std::uint32_t kCapacity = 16;
    engine::RemoteTable table(kCapacity);
    struct Open {
      std::uint32_t handle = 0;
      int openings = 0;
    };
    std::map<std::uint64_t, Open> model;
    for (int step = 0; step < 3000; ++step) {
      const std::uint64_t number = random.below(24);
      const auto known = model.find(number);
      if (random.chance(0.55)) {
        const auto opened = table.open(numbered(number));
        if (known != model.end()) {
          CHECK_FALSE(opened.is_new);
          CHECK(static_cast<std::uint32_t>(opened.handle) == known->second.handle);
          ++known->second.openings;
        } else if (model.size() == kCapacity) {
          CHECK(opened.handle == proto::kNoRemote);
        } else {
          REQUIRE(opened.is_new);
          const auto handle = static_cast<std::uint32_t>(opened.handle);
          CHECK(handle < kCapacity);
          for (const auto& [other, open] : model) CHECK(open.handle != handle);
          model[number] = {handle, 1};
        }
      } else if (known != model.end()) {
        const bool last = --known->second.openings == 0;
        CHECK(table.close(RemoteHandle{known->second.handle}) == last);
        if (last) model.erase(known);
      }
      for (std::uint32_t handle = 0; handle < kCapacity; ++handle) {
        const bool open = std::any_of(model.begin(), model.end(), [&](const auto& entry) {
          return entry.second.handle == handle;
        });
        REQUIRE(table.is_open(RemoteHandle{handle}) == open);
      }
    }
  });
}

TEST_CASE("remote table: what isn't open can't be closed") {
  engine::RemoteTable table(2);
  CHECK_FALSE(table.close(RemoteHandle{0}));
  CHECK_FALSE(table.close(RemoteHandle{2}));
  CHECK_FALSE(table.close(proto::kNoRemote));
  CHECK_FALSE(table.is_open(proto::kNoRemote));
  const auto opened = table.open(numbered(5));
  CHECK(table.close(opened.handle));
  CHECK_FALSE(table.close(opened.handle));
}

TEST_CASE("remote table: handles are dense from 0") {
  engine::RemoteTable table(3);
  CHECK(table.open(numbered(1)).handle == RemoteHandle{0});
  CHECK(table.open(numbered(2)).handle == RemoteHandle{1});
  CHECK(table.open(numbered(3)).handle == RemoteHandle{2});
  CHECK(table.close(RemoteHandle{1}));
  CHECK(table.open(numbered(4)).handle == RemoteHandle{1});
}

}  // namespace hawser::test
