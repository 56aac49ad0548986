// SPDX-License-Identifier: Apache-2.0
// libfabric's reliable datagram endpoints over IPv4 loopback: tagged messages, one completion
// queue, progress by this thread. `tcp;ofi_rxm` puts messages on TCP. `udp;ofi_rxd` does in user
// space over UDP what Hawser does. A send completes and leaves the window when its buffer may be
// used again.
#include <rdma/fi_tagged.h>

#include <array>
#include <vector>

#include "bench/compare/counted_transport.hpp"
#include "bench/compare/libfabric_endpoint.hpp"

namespace hawser::bench {

namespace {

constexpr std::uint64_t kTag = 1;
constexpr std::size_t kSlots = 2048;  // operations at once: both windows, and some spare

// The context of an operation, to which its completion points. The fi_context2 comes first because
// libfabric returns its address.
struct Slot {
  fi_context2 context{};
  bool receive = false;
};

class LibfabricTransport final : public CountedTransport {
 public:
  LibfabricTransport(std::string_view provider, const TransportOptions& options)
      : CountedTransport(options),
        endpoint_(provider, {.caps = FI_TAGGED, .completions = 2 * kSlots}),
        slots_(kSlots) {
    for (Slot& slot : slots_) free_.push_back(&slot);
  }

  [[nodiscard]] std::string address() const override { return endpoint_.name(); }

  void connect(const std::string& peer) override { peer_ = endpoint_.insert(peer); }

  void idle() override { (void)take(); }

 private:
  Slot& slot(bool receive) {
    while (free_.empty()) progress();
    Slot* taken = free_.back();
    free_.pop_back();
    taken->receive = receive;
    return *taken;
  }

  void post_send(std::span<const std::byte> bytes) override {
    Slot& it = slot(false);
    std::int64_t result = 0;
    while ((result = fi_tsend(endpoint_.endpoint(), bytes.data(), bytes.size(), nullptr, peer_,
                              kTag, &it.context)) == -FI_EAGAIN) {
      progress();
    }
    check_libfabric(result, "fi_tsend");
  }

  void post_receive(std::span<std::byte> bytes) override {
    Slot& it = slot(true);
    std::int64_t result = 0;
    while ((result = fi_trecv(endpoint_.endpoint(), bytes.data(), bytes.size(), nullptr,
                              FI_ADDR_UNSPEC, kTag, 0, &it.context)) == -FI_EAGAIN) {
      progress();
    }
    check_libfabric(result, "fi_trecv");
  }

  void progress() override {
    if (take()) {
      patience_.renew();
    } else {
      patience_.spend("libfabric");
    }
  }

  bool take() {
    std::array<fi_cq_entry, 16> entries;
    const std::size_t n = endpoint_.read(entries.data(), entries.size());
    for (std::size_t i = 0; i < n; ++i) {
      auto* done = static_cast<Slot*>(entries[i].op_context);
      is_done(done->receive);
      free_.push_back(done);
    }
    return n > 0;
  }

  LibfabricEndpoint endpoint_;
  fi_addr_t peer_ = FI_ADDR_UNSPEC;
  std::vector<Slot> slots_;
  std::vector<Slot*> free_;
  Patience patience_;
};

}  // namespace

std::unique_ptr<Transport> make_libfabric(std::string_view provider,
                                          const TransportOptions& options) {
  return std::make_unique<LibfabricTransport>(provider, options);
}

}  // namespace hawser::bench
