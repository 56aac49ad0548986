// Question: what does the engine itself cost, in ns a packet, sending and receiving apart, with and
// without copying the payload?
// Metric: time inside turn() of the sending and of the receiving endpoint, divided by data packets;
// two endpoints in one thread over memory NICs without checksum. "Without the copy" receives into
// buffers of no bytes, so that every fragment is claimed and none is written. The NIC's own share
// (one copy into the receiver's ring, the ring itself) is measured by the same packets without a
// protocol and shown beside. The last line has a trace hook at both ends that counts; without one a
// place that would call it costs a branch. Runtime: 2 s. `--short` moves less, for the tests.
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <string_view>
#include <vector>

#include "engine/driver/memory_nic.hpp"
#include "engine/packet_pool.hpp"
#include "proto/endpoint.hpp"

namespace {

using namespace hawser;
using Clock = std::chrono::steady_clock;

proto::Time now() { return {std::chrono::nanoseconds(Clock::now().time_since_epoch()).count()}; }

void count_record(void* count, const TraceRecord&) { ++*static_cast<std::uint64_t*>(count); }

struct Side {
  Side(std::shared_ptr<engine::MemoryFabric> fabric, std::uint64_t id, bool traced)
      : pool(8192), nic(std::move(fabric), {}, pool) {
    proto::EndpointConfig config;
    config.endpoint_id = id;
    config.epoch = 1;
    config.seed = id;
    if (traced) config.trace = count_record;
    config.trace_context = &records;
    nics[0] = &nic;
    endpoint = std::make_unique<proto::Endpoint>(config, nics, pool);
  }
  void turn() {
    const proto::Time begin = now();
    (void)endpoint->turn(begin);
    spent_ns += (now() - begin).ns;
  }
  engine::MempoolPacketPool pool;
  engine::MemoryNic nic;
  std::array<proto::Nic*, 1> nics{};
  std::unique_ptr<proto::Endpoint> endpoint;
  std::int64_t spent_ns = 0;
  std::uint64_t records = 0;
};

struct Result {
  double send_ns = 0;
  double receive_ns = 0;
  std::uint64_t packets = 0;
  std::uint64_t hash = 0;
};

Result run(std::size_t message_bytes, std::uint64_t messages, bool copy, bool traced = false) {
  auto fabric = std::make_shared<engine::MemoryFabric>();
  Side a(fabric, 1, traced);
  Side b(fabric, 2, traced);
  std::array<std::byte, proto::Endpoint::kMaxAddressBytes> blob;
  PeerId to_b{};
  PeerId to_a{};
  const std::size_t bytes = b.endpoint->write_address(blob);
  if (a.endpoint->connect(now(), std::span(blob).first(bytes), to_b) != Status::ok) std::abort();
  const std::size_t back = a.endpoint->write_address(blob);
  if (b.endpoint->connect(now(), std::span(blob).first(back), to_a) != Status::ok) std::abort();

  constexpr std::uint64_t kWindow = 32;
  std::vector<std::byte> source(message_bytes);
  for (std::size_t i = 0; i < source.size(); ++i) source[i] = static_cast<std::byte>(i * 31);
  std::vector<std::byte> sink(message_bytes);
  std::array<Completion, 64> completions;
  std::uint64_t sent = 0;
  std::uint64_t posted = 0;
  std::uint64_t received = 0;
  std::uint64_t acknowledged = 0;
  const auto warm = messages / 10 + 1;
  std::uint64_t base_packets = 0;
  while (received < messages || acknowledged < messages) {
    for (; posted < messages && posted < received + kWindow; ++posted) {
      proto::ReceiveRequest request;
      request.operation = OperationId{posted % 4096};
      request.peer = to_a;
      request.data = copy ? sink.data() : nullptr;
      request.bytes = copy ? sink.size() : 0;
      if (b.endpoint->receive(now(), request) != Status::ok) std::abort();
    }
    for (; sent < messages && sent < acknowledged + kWindow && sent < posted; ++sent) {
      proto::SendRequest request;
      request.operation = OperationId{sent % 4096};
      request.peer = to_b;
      request.data = source.data();
      request.bytes = source.size();
      if (a.endpoint->send(now(), request) != Status::ok) std::abort();
    }
    a.turn();
    acknowledged += a.endpoint->poll_completions(completions);
    b.turn();
    received += b.endpoint->poll_completions(completions);
    if (base_packets == 0 && received >= warm) {
      base_packets = a.endpoint->stats().data_packets_sent;
      a.spent_ns = b.spent_ns = 0;
    }
  }
  Result result;
  result.packets = a.endpoint->stats().data_packets_sent - base_packets;
  result.send_ns = static_cast<double>(a.spent_ns) / static_cast<double>(result.packets);
  result.receive_ns = static_cast<double>(b.spent_ns) / static_cast<double>(result.packets);
  for (const std::byte byte : sink) {
    result.hash = (result.hash ^ static_cast<std::uint64_t>(byte)) * 1099511628211u;
  }
  if (a.endpoint->stats().fragments_retransmitted > result.packets / 100) {
    fmt::print("warning: {} retransmits\n", a.endpoint->stats().fragments_retransmitted);
  }
  return result;
}

// The NIC alone: the same bursts, no protocol.
Result run_nic(std::uint64_t packets) {
  auto fabric = std::make_shared<engine::MemoryFabric>();
  engine::MempoolPacketPool pool(4096);
  engine::MemoryNic a(fabric, {}, pool);
  engine::MemoryNic b(fabric, {}, pool);
  proto::RemoteHandle remote{};
  if (a.open_remote(b.address(), remote) != Status::ok) std::abort();
  std::vector<std::byte> payload(1 << 20);
  std::array<proto::PacketBuffer*, 64> buffers;
  std::array<proto::TxPacket, 64> out;
  std::array<proto::RxPacket, 64> in;
  std::array<std::uint64_t, 64> cookies;
  Result result;
  std::int64_t send_ns = 0;
  std::int64_t receive_ns = 0;
  for (std::uint64_t done = 0; done < packets; done += 64) {
    const proto::Time begin = now();
    (void)pool.take(buffers);
    for (std::size_t i = 0; i < out.size(); ++i) {
      out[i] = {.buffer = buffers[i], .header_bytes = 48, .payload_bytes = 4096};
      out[i].payload = payload.data() + 4096 * ((done + i) % 256);
      out[i].remote = remote;
      out[i].cookie = i;
    }
    for (std::size_t i = 0; i < out.size(); ++i) (void)a.tx_burst(std::span(out).subspan(i, 1));
    (void)a.reap(cookies);
    const proto::Time middle = now();
    result.hash += b.rx_burst(proto::Queue::data, in);
    send_ns += (middle - begin).ns;
    receive_ns += (now() - middle).ns;
  }
  result.packets = packets;
  result.send_ns = static_cast<double>(send_ns) / static_cast<double>(packets);
  result.receive_ns = static_cast<double>(receive_ns) / static_cast<double>(packets);
  return result;
}

void print(std::string_view what, const Result& result) {
  fmt::print("{:34} {:8.1f} {:8.1f} {:10} {:016x}\n", what, result.send_ns, result.receive_ns,
             result.packets, result.hash);
}

}  // namespace

int main(int argc, char** argv) {
  const bool brief = argc > 1 && std::string_view(argv[1]) == "--short";
  const std::uint64_t scale = brief ? 1 : 20;
  fmt::print("{:34} {:>8} {:>8} {:>10} {}\n", "ns a packet", "send", "receive", "packets", "hash");
  print("memory NIC alone, 4 KiB", run_nic(4096 * scale));
  print("1 MiB messages, without the copy", run(1 << 20, 20 * scale, false));
  print("1 MiB messages, with the copy", run(1 << 20, 20 * scale, true));
  print("8 B messages", run(8, 5000 * scale, true));
  print("8 B messages, traced", run(8, 5000 * scale, true, true));
  return 0;
}
