// SPDX-License-Identifier: Apache-2.0
// The drivers of every host that the conformance suite runs over. The verbs driver has programs of
// its own: one over RDMA devices (verbs_rigs.hpp), and one over a double of libibverbs, which every
// host has (fake_rigs.hpp).
#pragma once

#ifdef HAWSER_VERBS_RIGS
#include "test/engine/driver/conformance/verbs_rigs.hpp"
#elif defined(HAWSER_FAKE_RIGS)
#include "test/engine/driver/conformance/fake_rigs.hpp"
#else

#include "engine/driver/memory/memory_nic.hpp"
#include "engine/driver/udp/udp_nic.hpp"
#include "test/engine/driver/conformance/rig.hpp"

namespace hawser::test {

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

// A UDP NIC as on a kernel without segmentation offload.
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

template <class Maker>
class PlainRig final : public RigBase {
  std::unique_ptr<Nic> make_nic() override { return maker_(pool); }
  Maker maker_;
};

// Fault NICs that keep every promise of the contract.
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

// The list of rigs for TEMPLATE_TEST_CASE("...", "[conformance]", HAWSER_RIGS).
#define HAWSER_RIGS                                                                  \
  MemoryRig, UdpRig, PlainUdpRig, Udp6Rig, IdleFaultMemoryRig, JudgedFaultMemoryRig, \
      HeldFaultMemoryRig, IdleFaultUdpRig, JudgedFaultUdpRig, HeldFaultUdpRig

}  // namespace hawser::test

#endif
