// SPDX-License-Identifier: Apache-2.0
// A storm's plan: plain data that says all that will happen in a run. The run can be repeated from
// it at will. A plan with fewer messages or faults is still a plan.
//
// Times are counted from the start of the run. In phase one faults come and go. All of them end at
// `heals_at`; from there everything must complete.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "hawser/types.hpp"
#include "proto/base/mechanisms.hpp"
#include "proto/base/time.hpp"
#include "sim/core/link.hpp"
#include "sim/core/sim_nic.hpp"

namespace hawser::sim {

inline constexpr std::uint32_t kAnyHost = 0xffffffffu;
// Endpoints' ids are those of hosts, from 1 on. Ids from here on belong to strangers.
inline constexpr std::uint64_t kStrangers = 1000;
// The number of strangers' ids that a program connects although no such host exists.
inline constexpr std::uint32_t kNobodies = 4;
// Seeds from this one on draw partners that come and go (draw_partners.cpp). Seeds below it keep
// the plans that they had before partners existed.
inline constexpr std::uint64_t kFirstOfPartners = 1'000'001;
// Seeds from this one on draw no partners, but narrow ways and epochs that are no higher
// (draw_epochs.cpp).
inline constexpr std::uint64_t kFirstOfEpochs = 2'000'001;
// Seeds from this one on draw one-sided operations too (draw_one_sided.cpp).
inline constexpr std::uint64_t kFirstOfOneSided = 3'000'001;
[[nodiscard]] constexpr bool has_partners(std::uint64_t seed) {
  return seed >= kFirstOfPartners && seed < kFirstOfEpochs;
}

struct PortPlan {
  std::uint32_t at_switch = 0;
  LinkConfig cable;
  std::uint32_t network = 0;  // no NIC can address one of another network
};

struct HostPlan {
  std::vector<PortPlan> nics;
  NicConfig nic;
  proto::Duration turn{};
  proto::Duration wake_up{};
  proto::Duration clock{};
  proto::Duration starts{};  // when its first process begins
  std::uint32_t takes_over =
      kAnyHost;  // the addresses of that host, if its process is gone by then
};

struct CablePlan {
  std::uint32_t a = 0;  // switches
  std::uint32_t b = 0;
  LinkConfig link;
};

struct MessagePlan {
  proto::Duration at{};
  std::uint32_t from = 0;
  std::uint32_t to = 0;
  std::uint16_t channel = 0;
  std::uint64_t tag = 0;
  std::uint64_t bytes = 0;
  Level level = Level::accepted;
  Hint hint{};
  proto::Duration cancelled_after{};  // 0: never
  std::uint32_t pieces = 0;           // that its bytes are cut into; 0: they are whole
};

struct ReceivePlan {
  proto::Duration at{};
  std::uint32_t host = 0;
  std::uint32_t from = kAnyHost;
  std::uint16_t channel = 0;
  std::uint64_t tag = 0;
  std::uint64_t mask = ~std::uint64_t{0};
  std::uint64_t bytes = 0;
  proto::Duration cancelled_after{};  // 0: never
  proto::Duration held{};             // how long a claim is held; then it is received or put back
  bool claims = false;                // waits until there is a message to claim, and receives it
  bool puts_back = false;             // claims a message, and puts it back
  std::uint32_t pieces = 0;           // that its buffer is cut into; 0: it is whole
};

// The one-sided operations of a program (one_sided.cpp).
#define HAWSER_STORM_ONE_SIDED(X)                                   \
  X(write, "writes to a place of its own in the other's memory")    \
  X(read, "reads from a page that nobody writes to")                \
  X(add, "adds 1 to a word")                                        \
  X(fetch_add, "adds 1 to a word, and gets what was there")         \
  X(flush, "waits for what it has posted on the channel")           \
  X(withdraw, "withdraws its own memory, and exposes other memory") \
  X(load, "gets what a chained word has")                           \
  X(store, "puts its own value into a chained word")                \
  X(swap, "puts it, and gets what was there")                       \
  X(compare_and_swap, "does so if the newest known value is there")

enum class OneSidedKind : std::uint8_t {
#define HAWSER_ENUM(name, text) name,
  HAWSER_STORM_ONE_SIDED(HAWSER_ENUM)
#undef HAWSER_ENUM
      count_
};
inline constexpr std::size_t kOneSidedKinds = static_cast<std::size_t>(OneSidedKind::count_);
inline constexpr std::array<std::string_view, kOneSidedKinds> kOneSidedNames{{
#define HAWSER_NAME(name, text) #name,
    HAWSER_STORM_ONE_SIDED(HAWSER_NAME)
#undef HAWSER_NAME
}};

// The fault of an operation's key.
#define HAWSER_STORM_KEYS(X)                                     \
  X(right, "nothing")                                            \
  X(forged, "its secret")                                        \
  X(too_long, "it says that there is more memory than there is") \
  X(old, "it is of memory that the host exposed before, if any was")

enum class KeyKind : std::uint8_t {
#define HAWSER_ENUM(name, text) name,
  HAWSER_STORM_KEYS(HAWSER_ENUM)
#undef HAWSER_ENUM
      count_
};
inline constexpr std::size_t kKeyKinds = static_cast<std::size_t>(KeyKind::count_);
inline constexpr std::array<std::string_view, kKeyKinds> kKeyNames{{
#define HAWSER_NAME(name, text) #name,
    HAWSER_STORM_KEYS(HAWSER_NAME)
#undef HAWSER_NAME
}};

// Chained words get from each operation a value that no other one writes (word_chain.hpp).
[[nodiscard]] constexpr bool is_chained(OneSidedKind kind) {
  using enum OneSidedKind;
  return kind == load || kind == store || kind == swap || kind == compare_and_swap;
}

// The target answers with what it has read.
[[nodiscard]] constexpr bool has_reply(OneSidedKind kind) {
  using enum OneSidedKind;
  return kind == read || kind == fetch_add || (is_chained(kind) && kind != store);
}

struct OneSidedPlan {
  OneSidedKind kind = OneSidedKind::write;
  proto::Duration at{};
  std::uint32_t from = 0;
  std::uint32_t to = 0;  // withdraw: means nothing
  std::uint16_t channel = 0;
  std::uint64_t bytes = 0;  // write, read
  std::uint32_t word = 0;   // of those for adds, or of the chained ones; write: that of its signal
  KeyKind key = KeyKind::right;
  bool strong = false;
  bool signals = false;
  bool notifies = false;
};

// A process ends its sessions with others, on purpose.
struct ClosingPlan {
  proto::Duration at{};
  std::uint32_t host = 0;
  std::uint32_t other = kAnyHost;  // the one to disconnect; kAnyHost: closes, and is gone
};

// The other calls of a program, right or wrong: the outcome of each is known beforehand
// (calls.cpp).
#define HAWSER_STORM_CALLS(X)                                                  \
  X(look, "asks for all statistics")                                           \
  X(connect_again, "connects a host that it knows")                            \
  X(connect_nowhere, "connects what is no address")                            \
  X(connect_nobody, "connects an address at which nobody listens")             \
  X(send_wrong, "sends what can't be sent")                                    \
  X(receive_wrong, "receives what can't be received")                          \
  X(ask_wrong, "probes, returns, cancels and disconnects what does not exist") \
  X(cancel_again, "cancels a send twice")                                      \
  X(close_again, "closes twice")                                               \
  X(old_name, "uses the name of a peer whose place was given away")

enum class CallKind : std::uint8_t {
#define HAWSER_ENUM(name, text) name,
  HAWSER_STORM_CALLS(HAWSER_ENUM)
#undef HAWSER_ENUM
      count_
};
inline constexpr std::size_t kCallKinds = static_cast<std::size_t>(CallKind::count_);
inline constexpr std::array<std::string_view, kCallKinds> kCallNames{{
#define HAWSER_NAME(name, text) #name,
    HAWSER_STORM_CALLS(HAWSER_NAME)
#undef HAWSER_NAME
}};

struct CallPlan {
  CallKind kind = CallKind::look;
  proto::Duration at{};
  std::uint32_t host = 0;
  std::uint32_t other = 0;  // the host that it is about, if there is one
  std::uint32_t dice = 0;   // which variant of it
};

// X(name, text). The meaning of `amount` and `delay`: draw_faults.cpp, World::apply.
#define HAWSER_STORM_FAULTS(X)                                                \
  X(loss, "frames of a host's cables are lost one by one")                    \
  X(burst_loss, "and in bursts (Gilbert-Elliott)")                            \
  X(duplicate, "frames arrive twice")                                         \
  X(reorder, "frames are overtaken")                                          \
  X(straggle, "a few frames arrive long after all others")                    \
  X(spike, "a cable stands still for a moment")                               \
  X(corrupt, "a bit is flipped")                                              \
  X(truncate, "frames are cut short")                                         \
  X(slow, "a cable is slower by a factor")                                    \
  X(flap, "a cable between switches, or of a port, is cut for a while")       \
  X(one_way, "nothing passes from one NIC to another")                        \
  X(both_ways, "nothing passes between two NICs")                             \
  X(partition, "nothing passes between one host and the others")              \
  X(nic_silent, "a NIC dies silently")                                        \
  X(nic_told, "a NIC dies and reports it")                                    \
  X(nic_moves, "a NIC disappears, and returns with another address")          \
  X(all_but_one, "all NICs of a host but one die")                            \
  X(both_move, "a NIC of each of two hosts moves at once")                    \
  X(pause, "a host is descheduled")                                           \
  X(absence, "for longer than others wait")                                   \
  X(announced, "and it had announced that it might be")                       \
  X(late_host, "a host wakes late, each time")                                \
  X(clock_jump, "a host's clock jumps forward")                               \
  X(crash, "a process dies")                                                  \
  X(restart, "a process dies and is started again at the same address")       \
  X(reaps_late, "sends are reaped long after they have left")                 \
  X(holds_sends, "a NIC reaps nothing")                                       \
  X(partial_bursts, "a NIC takes fewer packets than offered")                 \
  X(overrun, "a NIC's receive rings hold a few packets only")                 \
  X(garbled, "a NIC's frames have impossible contents, with a good checksum") \
  X(forged, "an intruder sends such frames beside those of a NIC")            \
  X(strangers, "an intruder calls under many names")                          \
  X(unresolved, "a NIC does not find the way to a new host")                  \
  X(no_buffers, "a host's pool of packet buffers is empty")                   \
  X(mute_queue, "what a NIC sends on one of its queues is lost")              \
  X(deaf_queue, "nothing of one queue passes from one NIC to another")        \
  X(stands, "a host is descheduled in the middle of a turn")                  \
  X(narrow, "the way from one NIC to another carries less in one piece")      \
  X(stale_epoch, "a process dies and is started again, and its epoch is no higher")

enum class FaultKind : std::uint8_t {
#define HAWSER_ENUM(name, text) name,
  HAWSER_STORM_FAULTS(HAWSER_ENUM)
#undef HAWSER_ENUM
      count_
};
inline constexpr std::size_t kFaultKinds = static_cast<std::size_t>(FaultKind::count_);
inline constexpr std::array<std::string_view, kFaultKinds> kFaultNames{{
#define HAWSER_NAME(name, text) #name,
    HAWSER_STORM_FAULTS(HAWSER_NAME)
#undef HAWSER_NAME
}};

struct FaultPlan {
  FaultKind kind = FaultKind::loss;
  proto::Duration at{};
  proto::Duration lasts{};
  std::uint32_t host = 0;
  std::uint32_t nic = 0;
  std::uint32_t other_host = 0;  // or the cable
  std::uint32_t other_nic = 0;
  double amount = 0;
  proto::Duration delay{};
};

struct Plan {
  std::uint64_t seed = 0;
  proto::AllTunables tunables;
  bool has_secret = false;
  std::uint32_t switches = 1;
  std::vector<CablePlan> cables;
  std::vector<HostPlan> hosts;
  std::vector<MessagePlan> messages;
  std::vector<ReceivePlan> receives;
  std::vector<OneSidedPlan> one_sided;
  std::vector<FaultPlan> faults;
  std::vector<ClosingPlan> closings;
  std::vector<CallPlan> calls;
  bool traced = true;          // the protocol tells its trace hook
  bool closes_at_end = false;  // when all operations have ended, every process closes
  proto::Duration heals_at{};
};

// A plan's tunables unless they are drawn: the defaults, except for those that make a world small.
// These are memory that is taken at the start, and times that a run would only wait for.
[[nodiscard]] proto::AllTunables small_world();

// Whether there are more hosts than an endpoint has places for.
[[nodiscard]] inline bool has_few_places(const Plan& plan) {
  return plan.tunables.max_peers + 1 < plan.hosts.size();
}

// Whether others may want more places of that host than it has. The others are hosts, strangers,
// and nonexistent hosts that its own program connects. The name of a peer whose session has ended
// may be nobody's there.
[[nodiscard]] bool may_lack_places(const Plan& plan, std::uint32_t host);

// The epoch of each host's first process: high where later ones may be lower.
[[nodiscard]] std::uint64_t first_epoch(const Plan& plan);

// The plan of a seed.
[[nodiscard]] Plan draw_plan(std::uint64_t seed);

}  // namespace hawser::sim
