// SPDX-License-Identifier: Apache-2.0
// Makes each way of reaching memory by its name.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "bench/compare/transport.hpp"
#include "bench/one_sided/remote_memory.hpp"

namespace hawser::bench::one_sided {

// In the order of the tables.
[[nodiscard]] const std::vector<std::string>& transport_names();

// Whether this is the program `exactly_once`.
[[nodiscard]] bool can_forget_results();
// Whether both sides are threads of one process.
[[nodiscard]] bool is_in_one_process(std::string_view name);
// Whether the transport is Hawser's, and has two-sided messages here.
[[nodiscard]] bool is_hawser(std::string_view name);

// `longest`: most bytes of a put or a get. Throws Failure if there is no such name, or if this
// build lacks it; the message says what is missing.
[[nodiscard]] std::unique_ptr<RemoteMemory> make_remote_memory(std::string_view name,
                                                               TransportOptions options,
                                                               std::size_t longest);

// The parts of exactly-once that Hawser keeps. `all`: as shipped. The others are the ablations of
// bench/ablations/result_cache.ablations, in their order, which only the program `exactly_once`
// has.
enum class Keeps : std::uint8_t { all, no_results, nothing };

[[nodiscard]] std::unique_ptr<RemoteMemory> make_hawser(const TransportOptions& options,
                                                        std::size_t longest, Keeps keeps);
// `provider`: "tcp;ofi_rxm" or "udp;ofi_rxd". Linked only if the build found libfabric.
[[nodiscard]] std::unique_ptr<RemoteMemory> make_libfabric(std::string_view provider,
                                                           std::size_t longest);
// Linked only if the build found UCX.
[[nodiscard]] std::unique_ptr<RemoteMemory> make_ucx(std::size_t longest);

}  // namespace hawser::bench::one_sided
