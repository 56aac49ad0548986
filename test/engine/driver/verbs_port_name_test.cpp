// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>

#include "engine/driver/verbs/verbs.hpp"
#include "hawser/engine.hpp"

namespace hawser::test {

using engine::parse_verbs_port;

TEST_CASE("verbs port name: device, port, GID index") {
  const auto whole = parse_verbs_port("mlx5_0:2@3");
  CHECK(whole.device == "mlx5_0");
  CHECK(whole.port == 2);
  CHECK(whole.gid_index == 3);
  const auto device = parse_verbs_port("rxe_a0");
  CHECK(device.device == "rxe_a0");
  CHECK(device.port == 1);
  CHECK_FALSE(device.gid_index);
  CHECK(parse_verbs_port("mlx5_1@0").gid_index == 0);
  CHECK(parse_verbs_port("mlx5_1:254").port == 254);
  for (const char* const text : {"mlx5_0", "mlx5_0:2", "mlx5_0@7", "mlx5_0:2@3"}) {
    CHECK(to_string(parse_verbs_port(text)) == text);
  }
}

TEST_CASE("verbs port name: what is wrong is refused with the way to write it") {
  const char* const wrong[] = {"",           ":1",         "@1",       "mlx5_0:",   "mlx5_0:0",
                               "mlx5_0:255", "mlx5_0:x",   "mlx5_0@",  "mlx5_0@-1", "mlx5_0@65536",
                               "mlx5_0:1:2", "mlx5_0@1@2", "mlx5_0: 1"};
  for (const char* const text : wrong) {
    CAPTURE(text);
    CHECK_THROWS_WITH(parse_verbs_port(text), Catch::Contains("write DEVICE"));
  }
}

}  // namespace hawser::test
