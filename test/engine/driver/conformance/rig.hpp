// The drivers that the conformance suite is run over. A rig makes NICs that reach each other; what
// is asked of them is the contract of proto/nic.hpp and nothing of a driver's own.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "engine/driver/fault_nic.hpp"
#include "engine/driver/memory_nic.hpp"
#include "engine/driver/udp_nic.hpp"
#include "test/engine/driver/nic_user.hpp"

namespace hawser::test {

inline constexpr std::uint32_t kRigRemotes = 8;

class MemoryMaker {
 public:
  std::unique_ptr<Nic> operator()(SimplePool& pool) {
    return std::make_unique<engine::MemoryNic>(
        fabric_, engine::MemoryNicConfig{.max_remotes = kRigRemotes}, pool);
  }

 private:
  std::shared_ptr<engine::MemoryFabric> fabric_ = std::make_shared<engine::MemoryFabric>();
};

inline engine::UdpNicConfig udp_config(const char* address) {
  return {.address = address, .receive_bytes = 1 << 20, .max_remotes = kRigRemotes};
}

struct UdpMaker {
  std::unique_ptr<Nic> operator()(SimplePool& pool) {
    return std::make_unique<engine::UdpNic>(udp_config("127.0.0.1"), pool);
  }
};

// As on a kernel without segmentation offload.
struct PlainUdpMaker {
  std::unique_ptr<Nic> operator()(SimplePool& pool) {
    engine::UdpNicConfig config = udp_config("127.0.0.1");
    config.segment = false;
    config.coalesce = false;
    return std::make_unique<engine::UdpNic>(config, pool);
  }
};

struct Udp6Maker {
  std::unique_ptr<Nic> operator()(SimplePool& pool) {
    return std::make_unique<engine::UdpNic>(udp_config("::1"), pool);
  }
};

// Owns its NICs, which share a pool. One thread.
class RigBase {
 public:
  virtual ~RigBase() = default;

  SimplePool pool{4096};

  [[nodiscard]] Nic& make() {
    nics_.push_back(make_nic());
    return *nics_.back();
  }
  void destroy(const Nic& nic) {
    std::erase_if(nics_, [&](const auto& owned) { return owned.get() == &nic; });
  }
  // Lets time pass for NICs that hold packets back.
  void pass_time() {
    now_ = now_ + proto::milliseconds(1);
    for (const auto& nic : nics_) {
      if (auto* const fault = dynamic_cast<engine::FaultNic*>(nic.get())) fault->set_time(now_);
    }
  }

  // Whether packets arrive only after some time, and some looking.
  [[nodiscard]] virtual bool holds() const { return false; }

  // All that arrives, time passing, until nothing more does.
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
  // One burst, once it is there.
  [[nodiscard]] std::size_t receive(Nic& nic, Queue queue, std::span<RxPacket> packets) {
    std::size_t count = 0;
    for (int round = 0; round < 3 && count == 0; ++round) {
      pass_time();
      count = nic.rx_burst(queue, packets);
    }
    return count;
  }
  // Sends all, reaping and letting time pass where the NIC is full.
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
  // All cookies, with those that send_all saw, sorted.
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
  proto::Time now_{1};

 private:
  std::vector<std::unique_ptr<Nic>> nics_;
};

template <class Maker>
class PlainRig final : public RigBase {
  std::unique_ptr<Nic> make_nic() override { return maker_(pool); }
  Maker maker_;
};

// Fault NICs that change nothing that the contract promises.
enum class Harmless {
  idle,    // no fault: calls pass through
  judged,  // every packet is judged, and passes
  held,    // every packet is held back for a moment, both ways, and so is every cookie
};

template <class Maker, Harmless kHow>
class FaultRig final : public RigBase {
 public:
  [[nodiscard]] bool holds() const override { return kHow == Harmless::held; }

 private:
  std::unique_ptr<Nic> make_nic() override {
    engine::FaultNicConfig config;
    config.max_remotes = kRigRemotes;
    if (kHow == Harmless::judged) {
      config.hook = [](const engine::FaultPacket&) { return std::optional(engine::Fate{}); };
    }
    auto nic = std::make_unique<engine::FaultNic>(maker_(pool), pool, config);
    if (kHow == Harmless::held) {
      REQUIRE_FALSE(nic->apply("delay=100us,rx.delay=50us,late-reap=100us"));
    }
    nic->set_time(now_);
    return nic;
  }
  Maker maker_;
};

using MemoryRig = PlainRig<MemoryMaker>;
using UdpRig = PlainRig<UdpMaker>;
using PlainUdpRig = PlainRig<PlainUdpMaker>;
using Udp6Rig = PlainRig<Udp6Maker>;
using IdleFaultMemoryRig = FaultRig<MemoryMaker, Harmless::idle>;
using JudgedFaultMemoryRig = FaultRig<MemoryMaker, Harmless::judged>;
using HeldFaultMemoryRig = FaultRig<MemoryMaker, Harmless::held>;
using IdleFaultUdpRig = FaultRig<UdpMaker, Harmless::idle>;
using JudgedFaultUdpRig = FaultRig<UdpMaker, Harmless::judged>;
using HeldFaultUdpRig = FaultRig<UdpMaker, Harmless::held>;

// The suite's list: TEMPLATE_TEST_CASE("...", "[conformance]", HAWSER_RIGS).
#define HAWSER_RIGS                                                                  \
  MemoryRig, UdpRig, PlainUdpRig, Udp6Rig, IdleFaultMemoryRig, JudgedFaultMemoryRig, \
      HeldFaultMemoryRig, IdleFaultUdpRig, JudgedFaultUdpRig, HeldFaultUdpRig

}  // namespace hawser::test
