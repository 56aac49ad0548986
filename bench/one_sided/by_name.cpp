// SPDX-License-Identifier: Apache-2.0
#include "bench/one_sided/by_name.hpp"

#include <algorithm>

#include "bench/compare/absent.hpp"

namespace hawser::bench::one_sided {

namespace {

std::unique_ptr<RemoteMemory> libfabric([[maybe_unused]] std::string_view provider,
                                        [[maybe_unused]] std::size_t longest) {
#ifdef HAWSER_HAS_LIBFABRIC
  return make_libfabric(provider, longest);
#else
  fail_absent("libfabric", "libfabric-dev");
#endif
}

std::unique_ptr<RemoteMemory> ucx([[maybe_unused]] std::size_t longest) {
#ifdef HAWSER_HAS_UCX
  return make_ucx(longest);
#else
  fail_absent("UCX", "libucx-dev");
#endif
}

}  // namespace

bool can_forget_results() {
#ifdef HAWSER_CAN_FORGET_RESULTS
  return true;
#else
  return false;
#endif
}

const std::vector<std::string>& transport_names() {
  using Names = std::vector<std::string>;
  static const Names names =
      can_forget_results()
          ? Names{"hawser",        "hawser_forgets",        "hawser_once_or_more",
                  "hawser_memory", "hawser_memory_forgets", "hawser_memory_once_or_more"}
          : Names{"hawser", "hawser_memory", "rxm", "rxd", "ucx"};
  return names;
}

bool is_in_one_process(std::string_view name) { return name.starts_with("hawser_memory"); }

bool is_hawser(std::string_view name) { return name.starts_with("hawser"); }

std::unique_ptr<RemoteMemory> make_remote_memory(std::string_view name, TransportOptions options,
                                                 std::size_t longest) {
  if (std::ranges::find(transport_names(), name) == transport_names().end()) {
    fail("there is no such transport");
  }
  if (is_in_one_process(name)) options.client_nics = options.server_nics = {"memory:one_sided"};
  if (name.ends_with("_forgets")) return make_hawser(options, longest, Keeps::no_results);
  if (name.ends_with("_once_or_more")) return make_hawser(options, longest, Keeps::nothing);
  if (is_hawser(name)) return make_hawser(options, longest, Keeps::all);
  if (name == "rxm") return libfabric("tcp;ofi_rxm", longest);
  if (name == "rxd") return libfabric("udp;ofi_rxd", longest);
  return ucx(longest);
}

}  // namespace hawser::bench::one_sided
