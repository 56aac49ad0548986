// SPDX-License-Identifier: Apache-2.0
// fid_ep: a Hawser endpoint behind libfabric's interface. docs/internals/ofi_provider.md has the
// design.
//
//   endpoint_lifetime.cpp   open, bind, enable, close, options
//   endpoint.cpp            the tables of calls; what all operations share
//   send.cpp, receive.cpp   the calls on messages
//   multi_receive.cpp       buffers that take several messages
//   one_sided.cpp           the calls on peers' memory, and fences
//   endpoint_names.cpp      port names: being asked for the address, asking for those of others
//   endpoint_progress.cpp   completions, faults by plan
//
// One lock guards the whole endpoint. Functions whose names end in _locked require the lock.
#pragma once

#include <rdma/fi_endpoint.h>
#include <rdma/fi_tagged.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "hawser/engine.hpp"
#include "plugin/ofi/address_vector.hpp"
#include "plugin/ofi/asker.hpp"
#include "plugin/ofi/completion_queue.hpp"
#include "plugin/ofi/counter.hpp"
#include "plugin/ofi/domain.hpp"
#include "plugin/ofi/key_exchange.hpp"
#include "plugin/ofi/name_port.hpp"
#include "plugin/ofi/one_sided.hpp"
#include "plugin/ofi/operation.hpp"
#include "plugin/ofi/peers.hpp"
#include "plugin/ofi/stall.hpp"
#include "plugin/ofi/waiting_sends.hpp"
#include "plugin/ofi/watch_thread.hpp"

namespace hawser::ofi {

inline constexpr std::uint16_t kTaggedChannel = kAdapterChannel;
inline constexpr std::uint16_t kUntaggedChannel = kAdapterChannel + 1;
inline constexpr std::uint16_t kOneSidedChannel = kAdapterChannel + 4;  // key_exchange.hpp has two

// The two halves of Hawser's 64 immediate bits: remote CQ data, and flags about the message.
inline constexpr std::uint64_t kDataMask = 0xffffffff;
inline constexpr std::uint64_t kHasData = std::uint64_t{1} << 32;
inline constexpr std::uint64_t kSenderWaits = std::uint64_t{1} << 33;  // for its entry

struct SendCall {
  std::uint16_t channel = kTaggedChannel;
  const void* data = nullptr;
  std::size_t bytes = 0;
  fi_addr_t to = FI_ADDR_UNSPEC;
  std::uint64_t tag = 0;
  std::uint64_t flags = 0;  // FI_REMOTE_CQ_DATA: send `remote_data` along
  std::uint64_t remote_data = 0;
  void* op_context = nullptr;
  bool is_silent = false;            // fi_inject: no entry, no context
  std::span<const iovec> vectors{};  // instead of `data`, for all bytes
};

struct ReceiveCall {
  std::uint16_t channel = kTaggedChannel;
  void* data = nullptr;
  std::size_t bytes = 0;
  fi_addr_t from = FI_ADDR_UNSPEC;
  std::uint64_t tag = 0;
  std::uint64_t ignore = 0;
  std::uint64_t flags = 0;
  void* op_context = nullptr;
  std::span<const iovec> vectors{};  // instead of `data`, for all bytes
};

// True if one of the receives takes such a message.
[[nodiscard]] bool is_matched(const OperationQueue& receives, const Envelope& envelope);

class Endpoint : public fid_ep {
 public:
  Endpoint(Domain& domain, const fi_info& info, const Source& source, void* context);
  ~Endpoint();

  // endpoint_lifetime.cpp
  int bind(struct fid* other, std::uint64_t flags);
  int enable();
  int control_flags(int command, std::uint64_t& flags);
  int name(void* address, std::size_t* bytes);
  int option(int name, void* value, std::size_t* bytes);
  int set_option(int name, const void* value, std::size_t bytes);

  ssize_t send(const SendCall& call);
  ssize_t receive(const ReceiveCall& call);
  ssize_t start(const OneSidedCall& call);
  ssize_t cancel(void* op_context);
  void progress();
  // True if no thread may sleep until something comes, because it would not be woken for
  // everything.
  [[nodiscard]] bool must_be_turned();
  [[nodiscard]] ssize_t sends_left();
  [[nodiscard]] ssize_t receives_left();

  [[nodiscard]] std::uint64_t send_flags() const { return send_flags_; }
  [[nodiscard]] std::uint64_t receive_flags() const { return receive_flags_; }
  // Those of the default flags that apply to one-sided calls without flags.
  [[nodiscard]] std::uint64_t one_sided_flags(Act act) const;

  // Differs from that of every other endpoint of the domain, closed ones included.
  [[nodiscard]] std::uint64_t serial() const { return serial_; }
  void forget(fi_addr_t address);
  // Asks for the addresses behind these port names.
  void ask(std::span<const fi_addr_t> addresses);
  // Explains in a sentence why the operation failed.
  [[nodiscard]] std::string describe(const Operation& operation);
  [[nodiscard]] Status register_memory(const void* data, std::size_t bytes, RegistrationId& id,
                                       std::string& why);
  void release_memory(RegistrationId id);
  // Makes progress towards the end of a region of this key. True: no peer of this endpoint reaches
  // it any more.
  [[nodiscard]] bool withdraw(std::uint64_t key);

 private:
  // The objects bound to the endpoint in one direction.
  struct Side {
    CompletionQueue* queue = nullptr;
    Counter* counter = nullptr;
    bool selective = false;
    [[nodiscard]] bool writes(std::uint64_t flags) const {
      return queue != nullptr && (!selective || (flags & FI_COMPLETION) != 0);
    }
  };
  struct Claim {
    void* op_context;
    MessageId message;
    Envelope envelope;
  };
  using Clock = std::chrono::steady_clock;

  // The records of operations. Their numbers bound what is under way.
  struct Pools {
    Pools(std::size_t send_count, std::size_t receive_count);
    OperationPool sends;
    OperationPool receives;
    OperationPool injects;  // sends whose bytes must be copied,
    OperationPool copied;   // and sends copied so that their entries need not wait
    OperationPool extras;   // peeks, messages of multi-receive buffers, parts of calls
    OperationPool notices;  // entries of peers' writes
    std::unique_ptr<std::byte[]> copies;  // places for the bytes of `injects`, then of `copied`
  };
  // Counts of the operations that Hawser has. Sends and receives leave each other room.
  struct Shares {
    std::vector<std::uint32_t> under_way;  // by place of the peer: sends and one-sided operations
    std::uint64_t submitted = 0;           // sends and one-sided operations
    std::uint64_t most_submitted = 0;      // limit that leaves receives the rest of max_operations
    std::uint64_t posted = 0;              // receives that Hawser matches with messages
    std::uint64_t most_posted = 0;         // limit that leaves sends the rest
  };
  // Receives that Hawser does not have yet.
  struct WaitingReceives {
    OperationQueue tagged;
    OperationQueue untagged;      // and multi-receive buffers
    Clock::time_point look_at{};  // when they next look into the store
    bool is_look_due = false;     // they did not look in the last turn
  };
  // An endpoint of our own that sends messages to ourselves.
  struct Mirror {
    std::unique_ptr<hawser::Endpoint> endpoint;  // null: none was needed yet
    PeerId to_us = kAnyPeer;                     // our name there
    PeerId from_us = kAnyPeer;                   // its name here
    [[nodiscard]] bool is(const hawser::Endpoint* other) const {
      return endpoint && endpoint.get() == other;
    }
  };
  // Port names: of this endpoint, and of peers.
  struct Names {
    std::unique_ptr<NamePort> port;       // where others ask for our address; null: nowhere
    std::unique_ptr<NameThread> answers;  // answers for us, with FI_PROGRESS_AUTO
    std::unique_ptr<Asker> asker;         // null: no name is being asked for
    Clock::time_point look_at{};          // when to look for requests again
    Clock::duration patience{};           // how long to wait for an answer
  };

  int bind_queue(CompletionQueue& queue, std::uint64_t flags);
  int bind_counter(Counter& counter, std::uint64_t flags);
  [[nodiscard]] hawser::EngineConfig engine_config() const;
  void start();
  void abandon_start();
  void watch(bool on);
  template <class Function>
  void for_each_sink(Function&& function) {
    // Each sink once, though it may be bound for both directions.
    std::array<EventSink*, 6> sinks{sending_.queue,     receiving_.queue, sending_.counter,
                                    receiving_.counter, reading_counter_, writing_counter_};
    for (std::size_t i = 0; i < sinks.size(); ++i) {
      const bool seen = std::find(sinks.begin(), sinks.begin() + i, sinks[i]) != sinks.begin() + i;
      if (sinks[i] != nullptr && !seen) function(*sinks[i]);
    }
  }
  void share_operations(std::uint64_t operations);
  void finish_sends();
  void close();
  void keep_promises();
  [[nodiscard]] std::uint64_t promised_sends();

  // The sending endpoint and the peer of a call.
  struct Route {
    hawser::Endpoint* from = nullptr;
    PeerId peer = kAnyPeer;
    // The peer's address is not known yet: `asker_` takes operations for it.
    [[nodiscard]] bool is_asked() const { return from == nullptr; }
  };
  ssize_t route_locked(fi_addr_t to, Route& route);
  // The route of a receive: from any peer if none is named.
  ssize_t source_locked(fi_addr_t from, Route& route);
  ssize_t make_mirror_locked(fi_addr_t own);
  std::byte* copy_locked(const Operation& operation, const SendCall& call);
  // True if a message has arrived at or from that peer.
  [[nodiscard]] bool has_met_locked(const Route& route) const;
  ssize_t begin_send_locked(Operation& operation, bool flush);
  [[nodiscard]] Status submit_locked(Operation& operation);
  void resume_sends_locked();
  bool cancel_send_locked(void* op_context);
  [[nodiscard]] PeerId name_of_locked(const Operation& operation) const;
  [[nodiscard]] PeerId name_of_locked(const Route& route) const;
  void write_early_locked(Operation& operation, Operation& entry);

  [[nodiscard]] Operation* new_one_sided_locked(const OneSidedCall& call, const Route& route);
  void copy_parts_locked(Operation& operation, const OneSidedCall& call);
  [[nodiscard]] Status begin_one_sided_locked(Operation& operation, bool flush);
  [[nodiscard]] Status begin_part_locked(Operation& operation, bool flush);
  [[nodiscard]] bool ask_again_locked(Operation& operation);
  [[nodiscard]] Status submit_one_sided_locked(Operation& operation);
  [[nodiscard]] Status post_one_sided_locked(Operation& operation, const RegionKey& key,
                                             std::uint64_t offset);
  void finish_one_sided_locked(Operation& operation, const Completion& completion);
  void end_part_locked(Operation& operation, Status status);
  void settle_parent_locked(Operation& parent);
  void end_one_sided_locked(Operation& operation);
  void fail_one_sided_locked(Operation& operation, int error, Status status);
  void resume_one_sided_locked();
  void queue_locked(Operation& operation);
  [[nodiscard]] bool is_idle_locked(PeerId name) const;
  void release_fences_locked();
  void notice_locked(const Completion& completion);
  [[nodiscard]] bool has_one_sided() const { return (caps_ & (FI_RMA | FI_ATOMIC)) != 0; }
  [[nodiscard]] Counter* counter_of(const Operation& operation) const;

  ssize_t receive_locked(const ReceiveCall& call);
  Operation* new_receive_locked(const ReceiveCall& call, PeerId peer);
  ssize_t post_locked(Operation& operation);
  // Hands a receive to Hawser, or makes it wait for its turn.
  ssize_t place_receive_locked(Operation& operation);
  ssize_t peek_locked(const ReceiveCall& call, Route route);
  ssize_t receive_claimed_locked(const ReceiveCall& call);
  [[nodiscard]] Status take_claimed_locked(MessageId message, Operation& receive);
  ssize_t discard_locked(Operation& operation, MessageId message);

  void progress_locked();
  bool turn_locked(hawser::Endpoint& endpoint);
  void finish_locked(Operation& operation, const Completion& completion);
  // Writes its entry, if it has one, and counts it.
  void end_locked(Operation& operation);
  // Writes an entry of the receiving side that no counter counts.
  void write_received_locked(Operation& entry);
  void fail_locked(Operation& operation, int error, Status status);
  void fail_waiting_locked(PeerId peer, Status status);
  [[nodiscard]] std::string describe_locked(Status status, PeerId name);
  // Reports on standard error, once per peer, why operations with that peer fail.
  void tell_locked(Status status, PeerId name);
  // Returns -FI_EAGAIN. If that goes on for long, reports which limit is reached.
  ssize_t no_room_locked(const char* limit);
  void fill_from_locked(Operation& operation, const Envelope& envelope);

  [[nodiscard]] bool is_any_receive_waiting() const;
  // True if a waiting receive matches the tagged message.
  [[nodiscard]] bool is_awaited_locked(const Envelope& envelope) const;
  void advance_waiting_locked();
  void advance_locked(OperationQueue& queue);
  void look_into_store_locked(OperationQueue& queue);
  [[nodiscard]] QueueStep advance_one_locked(Operation& receive, const OperationQueue& older);
  [[nodiscard]] bool take_from_store_locked(Operation& receive, const OperationQueue& older,
                                            bool& stops);
  bool cancel_waiting_locked(void* op_context);
  enum class Filled { message, nothing, used_up };
  [[nodiscard]] QueueStep fill_buffer_locked(Operation& buffer, const OperationQueue& older);
  [[nodiscard]] Filled fill_once_locked(Operation& buffer, const OperationQueue& older);
  [[nodiscard]] Status claim_for_locked(Operation& buffer, Envelope& envelope, MessageId& message);
  void retire_locked(Operation& buffer);
  void fail_buffer_locked(Operation& buffer, Status status);
  void end_child_locked(Operation& child);

  void open_port();
  [[nodiscard]] PortName port_name() const;
  ssize_t ask_locked(fi_addr_t address);
  void turn_names_locked();
  void drop_asker_locked();
  void settle_locked(fi_addr_t address);
  void resume_asked_locked(fi_addr_t address, OperationQueue waiting);
  void fail_asked_locked(OperationQueue waiting, int error, Status status);
  bool cancel_asked_locked(void* op_context);
  [[nodiscard]] bool has_waiting_sends() const;
  [[nodiscard]] std::string describe_silence(fi_addr_t address);

  Domain& domain_;
  std::uint64_t serial_;
  std::uint32_t format_;  // as in fi_getname
  Source source_;
  std::uint64_t caps_;
  std::uint64_t send_flags_;  // defaults for calls without flags
  std::uint64_t receive_flags_;
  std::size_t send_count_;
  std::size_t receive_count_;
  std::size_t least_multi_bytes_ = 64;
  AddressVector* addresses_ = nullptr;
  Side sending_;
  Side receiving_;
  Counter* reading_counter_ = nullptr;  // of reads and fetching atomics
  Counter* writing_counter_ = nullptr;  // of writes and other atomics

  Mutex mutex_;
  std::array<Completion, 32>
      batch_{};  // of one turn; clearing it each turn would cost as much as a turn
  Pools pools_;
  WaitingSends waiting_sends_;
  WaitingSends waiting_one_sided_;
  WaitingSends behind_fence_;  // of both kinds
  Shares shares_;
  WaitingReceives waiting_receives_;
  std::vector<Claim> claims_;
  AddressBytes address_{};
  std::uint64_t endpoint_id_ = 0;
  pid_t owner_ = ::getpid();  // a child of fork has a copy
  std::unique_ptr<hawser::Engine> engine_;
  std::unique_ptr<hawser::Endpoint> endpoint_;
  Mirror mirror_;
  std::unique_ptr<Peers> peers_;
  std::unique_ptr<KeyExchange> keys_;  // null: without FI_RMA and FI_ATOMIC
  Names names_;
  std::unique_ptr<WatchThread> turns_;  // tells peers keys while the program is elsewhere
  Clock::time_point enabled_at_{};
  std::size_t next_fault_ = 0;
  std::vector<PeerId> told_;  // by place: the peer that was reported last
  std::uint64_t ended_ = 0;   // number of ended operations
  Stall stall_;
};

int open_endpoint(fid_domain* domain, fi_info* info, fid_ep** endpoint, void* context);

[[nodiscard]] fi_ops_msg& message_calls();
[[nodiscard]] fi_ops_tagged& tagged_calls();

}  // namespace hawser::ofi
