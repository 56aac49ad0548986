// SPDX-License-Identifier: Apache-2.0
// The base of the rigs that the conformance suite runs over. A rig makes NICs that reach each
// other. The suite checks the contract of proto/nic.hpp and nothing that only one driver does.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "engine/driver/fault/fault_nic.hpp"
#include "test/engine/driver/nic_user.hpp"

namespace hawser::test {

inline constexpr std::uint32_t kRigRemotes = 8;

// Owns its NICs, which share a pool. One thread uses them all.
class RigBase {
 public:
  virtual ~RigBase() = default;

  static constexpr int kSeeds = 5;  // of random tests

  SimplePool pool{4096};

  [[nodiscard]] Nic& make() {
    nics_.push_back(make_nic());
    return *nics_.back();
  }
  void destroy(const Nic& nic) {
    std::erase_if(nics_, [&](const auto& owned) { return owned.get() == &nic; });
  }
  // Lets time pass for NICs that hold packets back, and for packets in flight.
  void pass_time() {
    now_ = now_ + proto::milliseconds(1);
    let_arrive();
    for (const auto& nic : nics_) {
      if (auto* const fault = dynamic_cast<engine::FaultNic*>(nic.get())) fault->set_time(now_);
    }
  }

  // Whether packets arrive only after some time and several polls.
  [[nodiscard]] virtual bool holds() const { return false; }

  // Receives, as time passes, until nothing more arrives; returns all packets.
  [[nodiscard]] std::vector<std::vector<std::byte>> settle(Nic& nic, Queue queue = Queue::data) {
    std::vector<std::vector<std::byte>> all;
    for (int quiet = 0; quiet < 3;) {
      pass_time();
      const auto some = receive_all(nic, queue);
      all.insert(all.end(), some.begin(), some.end());
      quiet = some.empty() ? quiet + 1 : 0;
    }
    return all;
  }
  // Receives one burst once something has arrived.
  [[nodiscard]] std::size_t receive(Nic& nic, Queue queue, std::span<RxPacket> packets) {
    std::size_t count = 0;
    for (int round = 0; round < 3 && count == 0; ++round) {
      pass_time();
      count = nic.rx_burst(queue, packets);
    }
    return count;
  }
  // Sends the whole burst. While the NIC is full it reaps and lets time pass.
  void send_all(Nic& nic, Burst& burst) {
    for (int round = 0; round < 1000; ++round) {
      burst.send(nic);
      if (burst.all_sent()) return;
      pass_time();
      const auto cookies = reap_all(nic);
      reaped.insert(reaped.end(), cookies.begin(), cookies.end());
    }
    FAIL("the NIC stays full");
  }
  // All cookies so far, sorted, those that send_all reaped included.
  [[nodiscard]] std::vector<std::uint64_t> reap_rest(Nic& nic) {
    for (int round = 0; round < 3; ++round) {
      pass_time();
      const auto cookies = reap_all(nic);
      reaped.insert(reaped.end(), cookies.begin(), cookies.end());
    }
    std::sort(reaped.begin(), reaped.end());
    return std::exchange(reaped, {});
  }
  std::vector<std::uint64_t> reaped;

 protected:
  [[nodiscard]] virtual std::unique_ptr<Nic> make_nic() = 0;
  // Returns when every sent packet has arrived, if that takes longer than sending it.
  virtual void let_arrive() {}
  [[nodiscard]] const std::vector<std::unique_ptr<Nic>>& nics() const { return nics_; }
  proto::Time now_{1};

 private:
  std::vector<std::unique_ptr<Nic>> nics_;
};

}  // namespace hawser::test
