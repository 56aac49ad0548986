// SPDX-License-Identifier: Apache-2.0
#include "engine/way_news.hpp"

#include <fmt/format.h>

#include "engine/log.hpp"

namespace hawser::engine {

std::string words_for(std::string_view nic, const UdpWayNews& news) {
  const std::string to = to_text(news.to);
  switch (news.kind) {
    case UdpWayNews::Kind::fragmented:
      return fmt::format(
          "{}: the route to {} carries datagrams of at most {} bytes, but this session's have {}: "
          "the kernel sends them as IP fragments, several times slower. New messages fit the "
          "route. Restore the route's larger MTU (`ip route get {}`), or reconnect",
          nic, to, news.whole_bytes, news.bytes, to);
    case UdpWayNews::Kind::unsegmented:
      return fmt::format(
          "{}: the kernel refuses to segment sends to {}, so the engine sends packets one by one, "
          "several "
          "times slower. The engine tries segmentation again now and then. The device may have "
          "lost its checksum offload (`ethtool -k DEVICE`)",
          nic, to);
    case UdpWayNews::Kind::resumed: break;
  }
  return fmt::format("{}: the kernel segments sends to {} again", nic, to);
}

void WayNews::tell_now(std::span<UdpNic* const> nics) {
  for (UdpNic* nic : nics) {
    const std::optional<UdpWayNews> news = nic->take_news();
    if (!news) continue;
    const std::string words = words_for(nic->name(), *news);
    if (news->kind == UdpWayNews::Kind::resumed) {
      log_info(words);
    } else {
      log_warning(words);
    }
  }
}

}  // namespace hawser::engine
