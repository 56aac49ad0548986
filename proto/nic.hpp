// SPDX-License-Identifier: Apache-2.0
// The NIC contract: what the protocol asks of a NIC, and what every driver must keep.
//
// A Nic is one endpoint's share of one device port: a data queue and a control queue (two UD queue
// pairs, two UDP sockets) with a receive ring each. Control packets are small and have a ring of
// their own so that bulk data can't push acknowledgements out. Datagrams may be lost, duplicated,
// reordered and damaged; they are never merged, split or made up.
//
// One thread uses a Nic. No call blocks and, after construction, none allocates. Calls take bursts.
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

// What the other side needs to reach a NIC, opaque to the protocol. Drivers put their kind in byte
// 0 (NicKind) and zero what they don't use, so that equal addresses are equal bytes.
//   udp:    kind, family (4|6), data port, control port (big endian), IP address (16 bytes)
//   verbs:  kind, link layer, LID, data QPN, control QPN, QKey, GID
//   memory: kind, fabric-wide number
struct NicAddress {
  std::array<std::byte, 40> bytes{};
  friend constexpr bool operator==(const NicAddress&, const NicAddress&) = default;
};
enum class NicKind : std::uint8_t { none = 0, memory = 1, udp = 2, verbs = 3 };

// A remote NIC as the driver that resolved it names it. Dense from 0 per driver.
enum class RemoteHandle : std::uint32_t {};
inline constexpr RemoteHandle kNoRemote{0xffffffffu};

enum class Queue : std::uint8_t { data = 0, control = 1 };

// One header buffer of the pool. Headers are built in it; a driver that sends asynchronously keeps
// it until the send is reaped.
struct PacketBuffer {
  static constexpr std::size_t kBytes = 1024;
  alignas(64) std::byte bytes[kBytes];
};

// Where header buffers come from. One thread uses a pool.
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
  // The upper half is for drivers that wrap a driver and send packets of their own through it.
  static constexpr std::uint64_t kDriverCookies = std::uint64_t{1} << 63;
};

// One datagram received: a view, valid until the next rx_burst for its queue on this Nic.
//
// For who has asked for that (take_views), its payload may lie apart, where its sender has it.
struct RxPacket {
  const std::byte* data = nullptr;  // at least 8-byte aligned
  std::uint32_t bytes = 0;          // there
  Queue queue = Queue::data;
  bool congestion_experienced = false;  // ECN CE
  Time arrived{};                       // at the NIC, by the clock of turns; 0: it doesn't know
  const std::byte* payload = nullptr;   // null: all of the datagram is at `data`
  std::uint32_t payload_bytes = 0;

  [[nodiscard]] std::uint32_t datagram_bytes() const { return bytes + payload_bytes; }
};

// up: it works (again); address() may be another one than before.
struct NicEvent {
  enum class Kind : std::uint8_t { down, up };
  Kind kind = Kind::down;
};

struct NicCaps {
  std::uint32_t max_datagram_bytes = 0;  // header + payload, either queue
  std::uint32_t payload_bytes = 4096;    // of a full packet at most, whatever more would fit
  std::uint32_t burst = 1;               // packets worth sending to one remote in a row (UDP with
                                         // segmentation offload, full ones: 8, verbs 1)
  std::uint16_t entropies = 1;           // values that TxPacket::entropy may take
  bool needs_checksum = true;            // no end-to-end check of its own: CRC32C is on
  std::uint64_t receive_bytes = 0;       // datagram bytes that the data receive ring holds safely
  std::uint64_t link_bytes_per_s = 0;    // nominal; 0 = unknown
};

// What all packets for an endpoint have in common, but for a HELLO, on the data queue: in the
// common header (§3) the field `receiver`, under this mask, has this value.
struct Screen {
  std::uint32_t receiver_mask = 0;
  std::uint32_t receiver_value = 0;
};

// Memory that payloads may come from.
struct MemoryRange {
  const std::byte* data = nullptr;  // where sends name it
  std::size_t bytes = 0;
  // A device's memory: the descriptor of its dma-buf, and where in that `data` is. Else -1.
  int dmabuf = -1;
  std::uint64_t dmabuf_offset = 0;
};

// Whether addresses still mean the memory that was pinned. Written by whoever watches the process's
// mappings; read for each burst of packets.
struct Mapping {
  std::atomic<bool> changed{false};             // for good
  const std::atomic<bool>* in_doubt = nullptr;  // for a moment
  [[nodiscard]] bool holds() const {
    // In this order: a change is written down before the doubt ends.
    return (in_doubt == nullptr || !in_doubt->load(std::memory_order_acquire)) &&
           !changed.load(std::memory_order_acquire);
  }
};

// Memory that a driver has made readable for its device: the driver's object, which others name.
class PinnedMemory {
 protected:
  ~PinnedMemory() = default;
};

// Payload bytes, since construction.
struct PayloadBytes {
  std::uint64_t in_place = 0;  // read by a device where they lay
  std::uint64_t copied = 0;    // by the driver, as the device may not read there
};

// What went otherwise than the driver likes, since construction. Datagrams, or times.
struct NicDetours {
  std::uint64_t fragmented = 0;  // longer than their way carries whole: sent in IP fragments
  std::uint64_t segmentation_refused = 0;  // a remote's packets go one by one from then on
  std::uint64_t segmentation_resumed = 0;  // they go segmented again
  std::uint64_t by_other_devices = 0;      // came by another device than the NIC's
};

class Nic {
 public:
  virtual ~Nic() = default;

  [[nodiscard]] virtual std::string_view name() const = 0;  // "udp:127.0.0.1", for people
  [[nodiscard]] virtual const NicCaps& caps() const = 0;    // fixed from construction
  // Changes only together with an event `up`.
  [[nodiscard]] virtual const NicAddress& address() const = 0;

  // Whether packets from here can have that address at all: it is of the same kind, IP version,
  // fabric. Whether a way leads there is another question. Cheap, and without side effects.
  [[nodiscard]] virtual bool can_address(const NicAddress& remote) const {
    static_cast<void>(remote);
    return true;
  }

  // Makes a remote NIC reachable. Never blocks: where the driver must ask the kernel or the network
  // first, it does so elsewhere and answers `again` until it knows.
  //   ok: `handle` is set; the same address gives the same handle, counted · again: not yet, or no
  //   handle is free · invalid_argument: not an address that this driver can reach, now or later.
  [[nodiscard]] virtual Status open_remote(const NicAddress& remote, RemoteHandle& handle) = 0;
  // Ends one open_remote. Sends to it that are not reaped yet are still reaped.
  virtual void close_remote(RemoteHandle handle) = 0;

  // The longest datagram that the way to an address carries in one piece, as the driver knows the
  // way now; caps().max_datagram_bytes at most, and that where it knows no way. Longer ones arrive,
  // too, but dearly (UDP: in IP fragments). Asked when a session begins: may cost system calls.
  [[nodiscard]] virtual std::uint32_t max_datagram_to(const NicAddress& remote) {
    static_cast<void>(remote);
    return caps().max_datagram_bytes;
  }

  // Hands over a prefix of `packets`, in order; returns how many.
  //   Packets in the prefix: buffer and payload belong to the driver until the send is reaped: the
  //   buffer goes back to the pool by the driver's hand, the cookie comes out of reap. This holds
  //   for packets that could not be sent too (the datagram is then lost). The others: the caller's
  //   as before; the ring is full, try after reap.
  [[nodiscard]] virtual std::size_t tx_burst(std::span<const TxPacket> packets) = 0;
  // What was handed over goes out with this, if it hasn't yet: a driver may gather packets, so that
  // one doorbell or system call serves many. Who sends calls it before doing anything else for
  // long.
  virtual void flush() {}

  // Cookies of sends whose buffers the NIC no longer reads, in any order; each cookie once. Of what
  // was not flushed none need come.
  [[nodiscard]] virtual std::size_t reap(std::span<std::uint64_t> cookies) = 0;

  // Datagrams received on `queue`, in the order of arrival. Fewer than asked for means that the
  // ring was seen empty. Invalidates the views of the previous call for the same queue, also where
  // it asks for none. One call gives at most kMaxRxBurst: asking for more is asking for that.
  static constexpr std::size_t kMaxRxBurst = 64;
  [[nodiscard]] virtual std::size_t rx_burst(Queue queue, std::span<RxPacket> packets) = 0;
  // What this turn does about a queue. A driver to which rx_burst is dear need not be asked each
  // time; but each queue is asked or seen empty again and again, within some microseconds of
  // polling: what is never seen empty keeps its senders from ever taking a path for silent.
  enum class Outlook : std::uint8_t {
    ask,    // call rx_burst
    empty,  // it was seen empty in this turn, without that
    skip,   // nothing is expected; if something has come, a later turn is told to ask
  };
  [[nodiscard]] virtual Outlook outlook(Queue queue) {
    static_cast<void>(queue);
    return Outlook::ask;
  }

  [[nodiscard]] virtual std::size_t events(std::span<NicEvent> events) = 0;

  // Datagrams (or aggregates, where the kernel counts these) that this host lost in the receive
  // rings since construction. May cost system calls: for statistics and slow timers, not for every
  // turn.
  [[nodiscard]] virtual std::uint64_t overruns() const = 0;

  [[nodiscard]] virtual NicDetours detours() const { return {}; }

  // Whose packets the NIC receives, told once by the endpoint that opens it. A driver may keep away
  // what can't be for it, before that takes room in the rings; it need not.
  virtual void screen(const Screen& screen) { static_cast<void>(screen); }
  // Datagrams kept away for that, as well as the driver knows. May cost system calls.
  [[nodiscard]] virtual std::uint64_t screened() const { return 0; }

  // Told once by the endpoint that opens it: payloads may come as views of what their senders gave
  // to tx_burst, which then wait to be reaped. So who says this gives views back, by asking
  // rx_burst for none, before it does anything else for long; and destroys no NIC of a sender in
  // between. A driver need not do it.
  virtual void take_views() {}

  // Appends the descriptors that become readable when rx_burst or events have something.
  // Returns how many were written; a memory NIC has none. They speak of what comes after arm(), and
  // are level-triggered until the next one.
  [[nodiscard]] virtual std::size_t descriptors(std::span<int> fds) const = 0;
  // Before each time that somebody blocks on the descriptors. True: something may have come just
  // before, so rx_burst is to be seen giving fewer than asked for on both queues first. Who polls
  // doesn't call it, and a driver that has to ask its device for wake-ups then doesn't.
  [[nodiscard]] virtual bool arm() { return false; }

  // Announces memory that payloads may come from. UDP needs nothing; verbs registers.
  //   ok: sends from it are fast · else: sends from it still work, by a copy.
  [[nodiscard]] virtual Status register_memory(const void* data, std::size_t bytes) = 0;
  virtual void deregister_memory(const void* data, std::size_t bytes) = 0;

  // The same in halves, for a driver whose device must be told what it may read: what blocks, and
  // what the datapath does. False: no memory is more to the driver than any other, and the rest is
  // never called.
  [[nodiscard]] virtual bool pins_memory() const { return false; }
  // Blocks; any thread, while another uses the NIC. `mapping`, if not null, lives until unpin.
  //   ok: `pinned` is set; it ends with unpin, or with the NIC · invalid_argument: nothing is
  //   mapped there · too_large, lock_limit: see Status · unsupported: not such memory ·
  //   nic_error: the device or the kernel refuses.
  [[nodiscard]] virtual Status pin(const MemoryRange&, const Mapping*, PinnedMemory*&) {
    return Status::unsupported;
  }
  // As pin. It is not used, or was forgotten and is not read any more.
  virtual void unpin(PinnedMemory*) {}
  // Payloads in it go out in place from now on, as long as its mapping holds. False: the driver
  // has no room for more, and nothing changed.
  [[nodiscard]] virtual bool use(PinnedMemory&) { return false; }
  // Payloads in it are copied from now on.
  virtual void forget(PinnedMemory&) {}
  // Whether the device may still read it, for sends that have not ended.
  [[nodiscard]] virtual bool is_reading(const PinnedMemory&) const { return false; }
  [[nodiscard]] virtual PayloadBytes payload_bytes() const { return {}; }
};

}  // namespace hawser::proto
