// SPDX-License-Identifier: Apache-2.0
// Runs the schedule on ns-3: point-to-point devices with drop-tail queues. The switch is a callback
// that hands each packet from a source's cable to the bottleneck's device. Two differences are
// compensated. An ns-3 device puts a PPP header of 2 bytes before each packet, so packets here are
// that much shorter. Its queue doesn't hold the packet that is being sent, so the queue has room
// for one packet less.
#include <ns3/callback.h>
#include <ns3/data-rate.h>
#include <ns3/drop-tail-queue.h>
#include <ns3/node.h>
#include <ns3/nstime.h>
#include <ns3/packet.h>
#include <ns3/point-to-point-channel.h>
#include <ns3/point-to-point-net-device.h>
#include <ns3/simulator.h>

#include <array>
#include <cstring>

#include "bench/against_ns3/schedule.hpp"

namespace hawser::against_ns3 {

namespace {

constexpr std::uint32_t kPppHeader = 2;
constexpr std::uint16_t kIpv4 = 0x0800;  // any protocol for which PPP has a number
constexpr std::uint32_t kSourceQueue = 1 << 20;

using Device = ns3::Ptr<ns3::PointToPointNetDevice>;

Device device_at(const ns3::Ptr<ns3::Node>& node, std::uint32_t queue_packets) {
  Device device = ns3::CreateObject<ns3::PointToPointNetDevice>();
  device->SetAddress(ns3::Mac48Address::Allocate());
  device->SetDataRate(ns3::DataRate(kBitsPerSecond));
  auto queue = ns3::CreateObject<ns3::DropTailQueue<ns3::Packet>>();
  queue->SetMaxSize(ns3::QueueSize(ns3::PACKETS, queue_packets));
  device->SetQueue(queue);
  node->AddDevice(device);
  return device;
}

void join(const Device& one, const Device& other) {
  auto channel = ns3::CreateObject<ns3::PointToPointChannel>();
  channel->SetAttribute("Delay", ns3::TimeValue(ns3::PicoSeconds(kLatencyPs)));
  one->Attach(channel);
  other->Attach(channel);
}

class Run {
 public:
  Run(const Case& which, const std::vector<Departure>& given)
      : departures_(given), leaving_first_(which.leaving_first) {
    outcome_.arrived_ps.resize(departures_.size(), kDropped);
    auto hub = ns3::CreateObject<ns3::Node>();
    for (Device& source : sources_) {
      source = device_at(ns3::CreateObject<ns3::Node>(), kSourceQueue);
      const Device port = device_at(hub, 1);  // sends nothing
      join(source, port);
      port->SetReceiveCallback(ns3::MakeCallback(&Run::forward, this));
    }
    bottleneck_ = device_at(hub, which.capacity - 1);
    const Device sink = device_at(ns3::CreateObject<ns3::Node>(), 1);
    join(bottleneck_, sink);
    sink->SetReceiveCallback(ns3::MakeCallback(&Run::arrive, this));
    plan(0);
  }
  Outcome run() {
    ns3::Simulator::Run();
    outcome_.dropped = bottleneck_->GetQueue()->GetTotalDroppedPackets();
    ns3::Simulator::Destroy();
    return outcome_;
  }

 private:
  void plan(std::uint32_t number) {
    if (number == departures_.size()) return;
    const ns3::Time at = ns3::PicoSeconds(static_cast<std::uint64_t>(departures_[number].at_ps));
    ns3::Simulator::Schedule(at - ns3::Simulator::Now(), &Run::depart, this, number);
  }
  void depart(std::uint32_t number) {
    std::array<std::uint8_t, kPacketBytes - kPppHeader> payload{};
    std::memcpy(payload.data(), &number, sizeof number);
    auto packet = ns3::Create<ns3::Packet>(payload.data(), payload.size());
    const Device& source = sources_[departures_[number].source];
    source->Send(packet, source->GetBroadcast(), kIpv4);
    plan(number + 1);
  }
  bool forward(ns3::Ptr<ns3::NetDevice> /*from*/, ns3::Ptr<const ns3::Packet> packet,
               std::uint16_t /*protocol*/, const ns3::Address& /*sender*/) {
    if (leaving_first_) {
      ns3::Simulator::ScheduleNow(&Run::hand_on, this, packet->Copy());
    } else {
      hand_on(packet->Copy());
    }
    return true;
  }
  void hand_on(ns3::Ptr<ns3::Packet> packet) {
    bottleneck_->Send(packet, bottleneck_->GetBroadcast(), kIpv4);
  }
  bool arrive(ns3::Ptr<ns3::NetDevice> /*at*/, ns3::Ptr<const ns3::Packet> packet,
              std::uint16_t /*protocol*/, const ns3::Address& /*sender*/) {
    std::array<std::uint8_t, sizeof(std::uint32_t)> start{};
    packet->CopyData(start.data(), start.size());
    std::uint32_t number = 0;
    std::memcpy(&number, start.data(), sizeof number);
    outcome_.arrived_ps[number] = ns3::Simulator::Now().GetPicoSeconds();
    return true;
  }

  const std::vector<Departure>& departures_;
  bool leaving_first_;
  std::array<Device, kSources> sources_;
  Device bottleneck_;
  Outcome outcome_;
};

}  // namespace

Outcome run_ns3(const Case& which, const std::vector<Departure>& departures) {
  // The resolution holds for the whole process and must be set before the first Time is made.
  static const bool in_picoseconds = (ns3::Time::SetResolution(ns3::Time::PS), true);
  static_cast<void>(in_picoseconds);
  return Run(which, departures).run();
}

}  // namespace hawser::against_ns3
