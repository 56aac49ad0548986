// The conformance suite over RDMA devices: soft RoCE at the two ends of a cable (test/vm/).
#pragma once

#include <poll.h>

#include <fstream>
#include <string>

#include "engine/driver/verbs_nic.hpp"
#include "test/engine/driver/conformance/rig.hpp"

namespace hawser::test {

inline constexpr const char* kRdmaDevices[] = {"rxe_a0", "rxe_b0"};

inline engine::VerbsNicConfig verbs_config(const std::string& device) {
  return {.port = {.device = device},
          .qkey = 0x12345,
          .receive_bytes = 1 << 20,
          .send_slots = 256,
          .max_remotes = kRigRemotes,
          .max_regions = 16,
          .entropies = 4};
}

// Packets that the two devices have sent and received so far.
inline std::uint64_t rdma_packets() {
  std::uint64_t sum = 0;
  for (const char* const device : kRdmaDevices) {
    for (const char* const counter : {"sent_pkts", "rcvd_pkts"}) {
      std::ifstream file("/sys/class/infiniband/" + std::string(device) + "/ports/1/hw_counters/" +
                         counter);
      std::uint64_t count = 0;
      file >> count;
      sum += count;
    }
  }
  return sum;
}

enum class Registered { nothing, headers };

// Every other NIC is at the other end of the cable.
template <Registered kRegistered>
class VerbsRig final : public RigBase {
 public:
  static constexpr int kSeeds = 1;  // emulated processors are slow

  [[nodiscard]] bool holds() const override { return true; }

 private:
  std::unique_ptr<Nic> make_nic() override {
    auto nic = std::make_unique<engine::VerbsNic>(verbs_config(kRdmaDevices[made_++ % 2]), pool);
    if (kRegistered == Registered::headers) {
      REQUIRE(nic->register_memory(pool.memory().data(), pool.memory().size()) == Status::ok);
    }
    return nic;
  }
  // A device that counts no packet for some milliseconds has none on its way.
  void let_arrive() override {
    const std::uint64_t posted = all_posted();
    if (posted == posted_before_) return;
    posted_before_ = posted;
    constexpr int kQuietMilliseconds = 4;
    constexpr int kQuietRounds = 5;
    std::uint64_t before = rdma_packets();
    for (int quiet = 0; quiet < kQuietRounds;) {
      (void)::poll(nullptr, 0, kQuietMilliseconds);
      const std::uint64_t now = rdma_packets();
      quiet = now == before ? quiet + 1 : 0;
      before = now;
    }
  }
  [[nodiscard]] std::uint64_t all_posted() const {
    std::uint64_t sum = 0;
    for (const auto& nic : nics()) {
      const auto& verbs = dynamic_cast<const engine::VerbsNic&>(*nic);
      for (const Queue queue : {Queue::data, Queue::control}) {
        sum += verbs.stats(queue).send.datagrams;
      }
    }
    return sum;
  }
  std::size_t made_ = 0;
  std::uint64_t posted_before_ = 0;
};

using BareVerbsRig = VerbsRig<Registered::nothing>;
using PooledVerbsRig = VerbsRig<Registered::headers>;

#define HAWSER_RIGS BareVerbsRig, PooledVerbsRig

}  // namespace hawser::test
