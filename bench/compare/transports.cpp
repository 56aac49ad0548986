// SPDX-License-Identifier: Apache-2.0
#include "bench/compare/transports.hpp"

#include <algorithm>

#include "bench/compare/absent.hpp"

namespace hawser::bench {

namespace {

std::unique_ptr<Transport> libfabric([[maybe_unused]] std::string_view provider,
                                     [[maybe_unused]] const TransportOptions& options) {
#ifdef HAWSER_HAS_LIBFABRIC
  return make_libfabric(provider, options);
#else
  fail_absent("libfabric", "libfabric-dev");
#endif
}

std::unique_ptr<Transport> ucx([[maybe_unused]] const TransportOptions& options) {
#ifdef HAWSER_HAS_UCX
  return make_ucx(options);
#else
  fail_absent("UCX", "libucx-dev");
#endif
}

}  // namespace

const std::vector<std::string>& transport_names() {
  static const std::vector<std::string> names{
      "hawser", "hawser_4nics", "hawser_nocrc", "udp", "udp_nocrc", "tcp", "rxm", "rxd", "ucx"};
  return names;
}

std::unique_ptr<Transport> make_transport(std::string_view name, TransportOptions options) {
  options.checksum = !name.ends_with("_nocrc");
  if (name == "hawser_4nics") options.nics = 4;
  if (name.starts_with("hawser") &&
      std::ranges::find(transport_names(), name) != transport_names().end()) {
    return make_hawser(options);
  }
  if (name == "udp" || name == "udp_nocrc") return make_udp(options);
  if (name == "tcp") return make_tcp(options);
  if (name == "rxm") return libfabric("tcp;ofi_rxm", options);
  if (name == "rxd") return libfabric("udp;ofi_rxd", options);
  if (name == "ucx") return ucx(options);
  fail("there is no such transport");
}

bool is_reliable(std::string_view name) { return !name.starts_with("udp"); }

}  // namespace hawser::bench
