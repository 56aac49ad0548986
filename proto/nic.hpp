// SPDX-License-Identifier: Apache-2.0
// The NIC contract: what the protocol asks of a NIC, and what every driver must guarantee. The
// driver owns the buffer and the payload of a packet from tx_burst, which accepts it, to reap,
// which gives it back. A dead NIC changes nothing: its driver keeps both until its device has let
// go, and must then reap them. If the session fails while a send has no final status, the send
// completes at once, and once more after the reap. A send that has its status completes once, after
// the reap (message/send.cpp).
//
// A Nic is one endpoint's share of one device port: a data queue and a control queue (two UD queue
// pairs, two UDP sockets) with a receive ring each. Control packets are small and have a ring of
// their own so that bulk data can't push acknowledgements out. Datagrams may be lost, duplicated,
// reordered and damaged; they are never merged, split or made up.
//
// One thread uses a Nic; only pin and unpin may run on another. After construction only the calls
// that register memory may block or allocate: register_memory, deregister_memory, pin, unpin. Calls
// take bursts.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "hawser/status.hpp"
#include "proto/base/time.hpp"

namespace hawser::proto {

// The bytes with which the other side reaches a NIC, opaque to the protocol. Drivers put their kind
// (NicKind) in byte 0 and zero the bytes they don't use, so that equal addresses are equal bytes:
//   `udp`:    kind, family (4|6), data port, control port (big endian), IP address (16 bytes);
//   `verbs`:  kind, link layer, LID, data QPN, control QPN, QKey, GID;
//   `memory`: kind, fabric-wide number
struct NicAddress {
  std::array<std::byte, 40> bytes{};
  friend constexpr bool operator==(const NicAddress&, const NicAddress&) = default;
};
enum class NicKind : std::uint8_t { none = 0, memory = 1, udp = 2, verbs = 3 };

// The name of a remote NIC, given by the driver that resolved it. Dense from 0 per driver.
enum class RemoteHandle : std::uint32_t {};
inline constexpr RemoteHandle kNoRemote{0xffffffffu};

enum class Queue : std::uint8_t { data = 0, control = 1 };

// A header buffer of the pool. The protocol builds headers in it; a driver that sends
// asynchronously keeps it until the send is reaped.
struct PacketBuffer {
  static constexpr std::size_t kBytes = 1024;
  alignas(64) std::byte bytes[kBytes];
};

// The source of header buffers. One thread uses a pool.
class PacketPool {
 public:
  virtual ~PacketPool() = default;
  // Takes up to `buffers.size()` buffers, returns how many; their contents are arbitrary.
  [[nodiscard]] virtual std::size_t take(std::span<PacketBuffer*> buffers) = 0;
  virtual void give(std::span<PacketBuffer* const> buffers) = 0;
  [[nodiscard]] virtual std::size_t in_use() const = 0;
};

// One datagram to send: header || payload.
struct TxPacket {
  PacketBuffer* buffer = nullptr;      // holds the header at offset 0
  std::uint32_t header_bytes = 0;      // 1 to PacketBuffer::kBytes
  std::uint32_t payload_bytes = 0;     // 0 if there is none
  const std::byte* payload = nullptr;  // in the user's buffer or the protocol's store
  RemoteHandle remote = kNoRemote;
  std::uint16_t entropy = 0;  // 0 to caps().entropies - 1
  Queue queue = Queue::data;
  std::uint64_t cookie = kNoCookie;  // below kDriverCookies: comes back from reap;
                                     // kNoCookie never does
  static constexpr std::uint64_t kNoCookie = ~std::uint64_t{0};
  // The upper half is for drivers that wrap another driver and send packets of their own through
  // it.
  static constexpr std::uint64_t kDriverCookies = std::uint64_t{1} << 63;
};

// One datagram received: a view, valid until the next rx_burst for its queue on this Nic.
//
// If the endpoint called take_views, the payload may lie apart, in its sender's memory.
struct RxPacket {
  const std::byte* data = nullptr;  // at least 8-byte aligned
  std::uint32_t bytes = 0;          // at `data`
  Queue queue = Queue::data;
  bool congestion_experienced = false;  // ECN CE
  Time arrived{};                       // at the NIC, by the clock of turns; 0: it doesn't know
  const std::byte* payload = nullptr;   // null: all of the datagram is at `data`
  std::uint32_t payload_bytes = 0;

  [[nodiscard]] std::uint32_t datagram_bytes() const { return bytes + payload_bytes; }
};

// up: the NIC works (again). address() may differ from before. ways: max_datagram_to() may answer
// otherwise than before.
struct NicEvent {
  enum class Kind : std::uint8_t { down, up, ways };
  Kind kind = Kind::down;
};

struct NicCaps {
  std::uint32_t max_datagram_bytes = 0;  // header + payload, either queue
  std::uint32_t payload_bytes = 4096;    // of a full packet at most, even if more would fit
  std::uint32_t burst = 1;               // packets worth sending to one remote in a row (UDP with
                                         // segmentation offload, full ones: 8, verbs 1)
  std::uint16_t entropies = 1;           // values that TxPacket::entropy may take
  bool needs_checksum = true;            // no end-to-end check of its own: CRC32C is on
  std::uint64_t receive_bytes = 0;       // datagram bytes that the data receive ring holds safely
  std::uint64_t link_bytes_per_s = 0;    // nominal; 0 = unknown
};

// A property of all packets for an endpoint on the data queue, HELLO excepted: the field `receiver`
// of the common header (§3), under this mask, has this value.
struct Screen {
  std::uint32_t receiver_mask = 0;
  std::uint32_t receiver_value = 0;
};

// Memory that may hold payloads.
struct MemoryRange {
  const std::byte* data = nullptr;  // the address that sends use
  std::size_t bytes = 0;
  // The descriptor of a device memory's dma-buf, and the offset of `data` in it. Else -1.
  int dmabuf = -1;
  std::uint64_t dmabuf_offset = 0;
};

// Whether addresses still mean the memory that was pinned. The watcher of the process's mappings
// writes it; the driver reads it for each burst of packets.
struct Mapping {
  std::atomic<bool> changed{false};             // for good
  const std::atomic<bool>* in_doubt = nullptr;  // for a moment
  [[nodiscard]] bool holds() const {
    // In this order: the watcher records a change before it ends the doubt.
    return (in_doubt == nullptr || !in_doubt->load(std::memory_order_acquire)) &&
           !changed.load(std::memory_order_acquire);
  }
};

// Memory that a driver has made readable for its device. Others name it by this object.
class PinnedMemory {
 protected:
  ~PinnedMemory() = default;
};

// Payload bytes, since construction.
struct PayloadBytes {
  std::uint64_t in_place = 0;  // read by a device where they lay
  std::uint64_t copied = 0;    // by the driver, where the device may not read
};

// Datagrams, or events, that went otherwise than the driver prefers, since construction.
struct NicDetours {
  std::uint64_t fragmented = 0;            // too long for their path MTU: sent in IP fragments
  std::uint64_t segmentation_refused = 0;  // a remote's packets go one by one from then on
  std::uint64_t segmentation_resumed = 0;  // they go segmented again
  std::uint64_t by_other_devices = 0;      // received through another device than the NIC's
};

class Nic {
 public:
  virtual ~Nic() = default;

  [[nodiscard]] virtual std::string_view name() const = 0;  // "udp:127.0.0.1", for people
  [[nodiscard]] virtual const NicCaps& caps() const = 0;    // fixed from construction
  // Changes only together with an event `up`.
  [[nodiscard]] virtual const NicAddress& address() const = 0;

  // Whether packets from here can have that address at all: it is of the same kind, IP version and
  // fabric. It doesn't say whether a route leads there. Cheap, and without side effects.
  [[nodiscard]] virtual bool can_address(const NicAddress& remote) const {
    static_cast<void>(remote);
    return true;
  }

  // Makes a remote NIC reachable. Never blocks: a driver that must ask the kernel or the network
  // first does so elsewhere, and answers `again` until it knows.
  //   `ok`: `handle` is set; the same address gives the same handle, counted. `again`: not yet, or
  //   no handle is free. `invalid_argument`: this driver can't reach that address, now or later.
  [[nodiscard]] virtual Status open_remote(const NicAddress& remote, RemoteHandle& handle) = 0;
  // Ends one open_remote. Earlier sends to that remote are still reaped.
  virtual void close_remote(RemoteHandle handle) = 0;

  // The path MTU to an address, as the driver knows it now: at most caps().max_datagram_bytes,
  // which is also the answer while it is unknown. Longer datagrams arrive too, but cost more (UDP:
  // IP fragments). Asked when a session begins, and for its next message after an event `ways`: may
  // cost system calls.
  [[nodiscard]] virtual std::uint32_t max_datagram_to(const NicAddress& remote) {
    static_cast<void>(remote);
    return caps().max_datagram_bytes;
  }

  // Hands over a prefix of `packets`, in order; returns how many.
  //   Packets in the prefix: the driver owns buffer and payload until the send is reaped. Then it
  //   returns the buffer to the pool, and the cookie comes out of reap. This holds even if a packet
  //   could not be sent (the datagram is then lost).
  //   The other packets stay the caller's: the ring is full, so try again after reap.
  [[nodiscard]] virtual std::size_t tx_burst(std::span<const TxPacket> packets) = 0;
  // Sends all packets that tx_burst took and the driver still holds: a driver may gather packets,
  // so that one doorbell or system call serves many. The sender calls this before it turns to other
  // work for long.
  virtual void flush() {}

  // Cookies of sends whose buffers the NIC no longer reads, each once, in any order. Sends that
  // were not flushed may be missing.
  [[nodiscard]] virtual std::size_t reap(std::span<std::uint64_t> cookies) = 0;

  // Datagrams received on `queue`, in the order of arrival. Fewer than asked for means that the
  // ring was seen empty. The call invalidates the views of the previous call for the same queue,
  // even if it asks for none. One call gives at most kMaxRxBurst: asking for more is asking for
  // that.
  static constexpr std::size_t kMaxRxBurst = 64;
  [[nodiscard]] virtual std::size_t rx_burst(Queue queue, std::span<RxPacket> packets) = 0;
  // How this turn treats a queue. A driver with a costly rx_burst need not be asked each time. But
  // each queue must be asked or seen empty every few microseconds of polling: otherwise its senders
  // could never take a path for silent.
  enum class Outlook : std::uint8_t {
    ask,    // call rx_burst
    empty,  // it was seen empty in this turn without a call
    skip,   // nothing is expected; if something has come, a later turn gets `ask`
  };
  [[nodiscard]] virtual Outlook outlook(Queue queue) {
    static_cast<void>(queue);
    return Outlook::ask;
  }

  [[nodiscard]] virtual std::size_t events(std::span<NicEvent> events) = 0;

  // Datagrams (or aggregates, where the kernel counts those) that this host lost in the receive
  // rings since construction. May cost system calls, so ask for statistics and slow timers, not
  // every turn.
  [[nodiscard]] virtual std::uint64_t overruns() const = 0;

  [[nodiscard]] virtual NicDetours detours() const { return {}; }

  // Describes the packets that the NIC is to receive. The endpoint that opens the NIC calls it
  // once. The driver may drop other packets before they take room in the rings; it need not.
  virtual void screen(const Screen& screen) { static_cast<void>(screen); }
  // Datagrams that the screen dropped, as well as the driver knows. May cost system calls.
  [[nodiscard]] virtual std::uint64_t screened() const { return 0; }

  // Allows payloads to come as views of the buffers that their senders gave to tx_burst. Those
  // sends are not reaped meanwhile. The endpoint that opens the NIC calls it once. It then releases
  // the views, by asking rx_burst for none, before it turns to other work for long. It destroys no
  // sender's NIC while it holds views. A driver need not support it.
  virtual void take_views() {}

  // Appends the descriptors that become readable when rx_burst or events have something. Returns
  // how many were written; a memory NIC has none. They report arrivals after arm(), level-triggered
  // until the next arm().
  [[nodiscard]] virtual std::size_t descriptors(std::span<int> fds) const = 0;
  // Called before each block on the descriptors. True: something may have come just before, so
  // first rx_burst must give fewer than asked for on both queues. A polling caller doesn't call
  // arm, and a driver that must ask its device for wake-ups then doesn't ask.
  [[nodiscard]] virtual bool arm() { return false; }

  // Announces memory that may hold payloads. UDP needs nothing; verbs registers.
  //   ok: sends from it are fast · else: sends from it still work, by a copy.
  [[nodiscard]] virtual Status register_memory(const void* data, std::size_t bytes) = 0;
  virtual void deregister_memory(const void* data, std::size_t bytes) = 0;

  // The same in two halves, for a driver whose device must be told what it may read: pin blocks,
  // use belongs to the datapath. False: the driver treats all memory alike, and the calls below are
  // never made.
  [[nodiscard]] virtual bool pins_memory() const { return false; }
  // Blocks; any thread, while another uses the NIC. `mapping`, if not null, lives until unpin.
  //   `ok`: `pinned` is set; unpin or the end of the NIC ends it. `invalid_argument`: nothing is
  //   mapped there. `too_large`, `lock_limit`: see Status. `unsupported`: not such memory.
  //   `nic_error`: the device or the kernel refuses.
  [[nodiscard]] virtual Status pin(const MemoryRange&, const Mapping*, PinnedMemory*&) {
    return Status::unsupported;
  }
  // As pin. The memory is not in use, or was forgotten and is no longer read.
  virtual void unpin(PinnedMemory*) {}
  // From now on payloads in it go out in place, while its mapping holds. False: the driver has no
  // room for more, and nothing changed.
  [[nodiscard]] virtual bool use(PinnedMemory&) { return false; }
  // From now on payloads in it are copied.
  virtual void forget(PinnedMemory&) {}
  // Whether the device may still read it, for sends that have not ended.
  [[nodiscard]] virtual bool is_reading(const PinnedMemory&) const { return false; }
  [[nodiscard]] virtual PayloadBytes payload_bytes() const { return {}; }
};

}  // namespace hawser::proto
