// SPDX-License-Identifier: Apache-2.0
#include "engine/host/host_limits.hpp"

#include <sys/resource.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>

namespace hawser::engine {
namespace {

const LimitRow& row(const std::vector<LimitRow>& rows, const std::string& name) {
  const auto found = std::ranges::find(rows, name, &LimitRow::name);
  REQUIRE(found != rows.end());
  return *found;
}

TEST_CASE("read_host_limits__agrees_with_the_system") {
  const HostLimits limits = read_host_limits();
  rlimit memlock{};
  REQUIRE(::getrlimit(RLIMIT_MEMLOCK, &memlock) == 0);
  REQUIRE(limits.memlock_bytes);
  CHECK(*limits.memlock_bytes ==
        (memlock.rlim_cur == RLIM_INFINITY ? HostLimits::kUnlimited : memlock.rlim_cur));
  CHECK(limits.cores >= 1);
  CHECK(limits.memory_bytes > 0);
  REQUIRE(limits.rmem_max_bytes);
  CHECK(*limits.rmem_max_bytes > 0);
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_DATA, &before) == 0);
  rlimit data = before;
  data.rlim_cur = rlim_t{64} << 40;  // far more than this process takes
  REQUIRE(::setrlimit(RLIMIT_DATA, &data) == 0);
  const HostLimits limited = read_host_limits();
  REQUIRE(::setrlimit(RLIMIT_DATA, &before) == 0);
  CHECK(limited.data_bytes == data.rlim_cur);
}

TEST_CASE("describe__advises_only_where_something_is_short") {
  Tunables tunables;
  tunables.nic_receive_bytes = 4194304;
  HostLimits limits;
  limits.memlock_bytes = HostLimits::kUnlimited;
  limits.rmem_max_bytes = 4194304;
  limits.wmem_max_bytes = 212992;
  limits.hugepages = 0;
  limits.hugepage_bytes = 2097152;
  limits.open_files = 1024;
  limits.cores = 8;
  limits.memory_bytes = std::uint64_t{24} << 30;
  limits.reserved_bytes = limits.data_bytes = HostLimits::kUnlimited;
  for (const LimitRow& one : describe(limits, tunables, 2)) {
    CAPTURE(one.name);
    CHECK(one.advice.empty());
  }

  limits.memlock_bytes = 8 << 20;
  limits.rmem_max_bytes = 212992;
  limits.cores = 2;
  const auto rows = describe(limits, tunables, 2);
  CHECK(row(rows, "memlock").value == "8.0 MiB");
  CHECK_THAT(row(rows, "memlock").advice, Catch::Matchers::Contains("ulimit -l"));
  CHECK(row(rows, "net.core.rmem_max").value == "208 KiB");
  CHECK_THAT(row(rows, "net.core.rmem_max").advice,
             Catch::Matchers::Contains("net.core.rmem_max=4194304"));
  CHECK_FALSE(row(rows, "cores").advice.empty());
  CHECK(row(rows, "hugepages").value == "0 free of 2.0 MiB");

  limits.reserved_bytes = std::uint64_t{4} << 30;
  limits.data_bytes = std::uint64_t{2} << 30;
  const auto limited = describe(limits, tunables);
  CHECK(row(limited, "memory (ulimit -v)").value == "4.0 GiB");
  CHECK_THAT(row(limited, "memory (ulimit -v)").advice,
             Catch::Matchers::EndsWith("ulimit -v unlimited"));
  CHECK(row(limited, "memory (ulimit -d)").value == "2.0 GiB");
  CHECK(limited.size() == rows.size() + 2);

  limits.may_exceed_rmem_max = true;
  CHECK(row(describe(limits, tunables), "net.core.rmem_max").advice.empty());
}

TEST_CASE("describe__what_is_not_known_is_said_so") {
  const auto rows = describe(HostLimits{}, Tunables{});
  CHECK(row(rows, "memlock").value == "unknown");
  CHECK(row(rows, "memlock").advice.empty());
  CHECK(row(rows, "hugepages").value == "unknown");
}

}  // namespace
}  // namespace hawser::engine
