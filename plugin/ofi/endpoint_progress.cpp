// SPDX-License-Identifier: Apache-2.0
// Progress: turns completions into entries.
#include <rdma/fi_errno.h>

#include <span>
#include <string>
#include <utility>

#include "plugin/ofi/endpoint.hpp"
#include "plugin/ofi/finished.hpp"
#include "plugin/ofi/log.hpp"

namespace hawser::ofi {
namespace {

constexpr std::uint64_t kNanosPerMilli = 1000000;

}  // namespace

void Endpoint::progress() {
  const Lock lock(mutex_);
  if (endpoint_) progress_locked();
}

// Hawser's descriptor reports completions only, not a message that waits for a multi-receive
// buffer. Without engine threads packets wake the waiting thread anyway. An engine thread, however,
// takes packets by itself, and it doesn't take sends that wait here. Receives that wait look into
// the store only now and then. The packet that woke a thread may have brought a message for one of
// them between two looks.
bool Endpoint::must_be_turned() {
  const Lock lock(mutex_);
  if (waiting_receives_.is_look_due) return true;
  return domain_.threads() > 0 &&
         (is_any_receive_waiting() || !waiting_sends_.empty() || !waiting_one_sided_.empty() ||
          !behind_fence_.empty() || (keys_ && keys_->is_stuck()));
}

// Runs a turn. Returns true if a message has arrived whose sender waits.
bool Endpoint::turn_locked(hawser::Endpoint& endpoint) {
  // Each completion may be a notice, which needs an entry.
  if (keys_ && !pools_.notices.reserve(batch_.size())) return false;
  const std::size_t count = endpoint.poll(batch_);
  bool waits = false;
  for (const Completion& completion : std::span(batch_).first(count)) {
    const bool is_notice = completion.kind == OperationKind::notice;
    waits = waits || ((completion.kind == OperationKind::receive || is_notice) &&
                      (completion.immediate & kSenderWaits) != 0);
    if (is_notice) {
      notice_locked(completion);
      continue;
    }
    // A buffer that a NIC still reads does not belong to the program yet, whatever became of the
    // message.
    if (!completion.released || (keys_ && keys_->finish(completion))) continue;
    finish_locked(*reinterpret_cast<Operation*>(completion.user_data), completion);
  }
  return waits;
}

void Endpoint::progress_locked() {
  if (names_.port || names_.asker) turn_names_locked();
  const std::vector<PlannedFault>& plan = domain_.config().fault_plan;
  if (next_fault_ < plan.size() && Clock::now() - enabled_at_ >= plan[next_fault_].at) {
    const PlannedFault& fault = plan[next_fault_++];
    const Status status = engine_->inject_fault(fault.nic, fault.spec);
    if (status != Status::ok) complain("FI_HAWSER_FAULT_PLAN: \"" + fault.spec + "\" is refused");
  }
  // The status of a message leaves with the turn after the one that completed it. Its sender may
  // wait for that status, while our program may compute for long before its next call. Run one more
  // turn now.
  const bool is_owed = turn_locked(*endpoint_);
  if (mirror_.endpoint) (void)turn_locked(*mirror_.endpoint);
  if (!waiting_sends_.empty()) resume_sends_locked();
  if (keys_) keys_->advance();
  if (!waiting_one_sided_.empty()) resume_one_sided_locked();
  if (!behind_fence_.empty()) release_fences_locked();
  if (is_owed && domain_.threads() == 0) {
    (void)turn_locked(*endpoint_);
    if (mirror_.endpoint) (void)turn_locked(*mirror_.endpoint);  // it may have been the sender
  }
  advance_waiting_locked();
  if (peers_) peers_->tend();
}

void Endpoint::finish_locked(Operation& operation, const Completion& completion) {
  if (operation.act != Act::message) return finish_one_sided_locked(operation, completion);
  operation.id = kNoOperation;
  operation.status = completion.status;
  operation.error = error_of(completion.status);
  if (operation.error != 0) {
    const bool names_peer = operation.is_send || completion.peer == kAnyPeer;
    tell_locked(completion.status, names_peer ? name_of_locked(operation) : completion.peer);
  }
  if (operation.is_send) {
    if (completion.status == Status::ok && !operation.is_by_mirror) peers_->met(operation.peer);
    --shares_.submitted;
    --shares_.under_way[peer_place(name_of_locked(operation))];
    if (is_end_of_session(completion.status))
      fail_waiting_locked(name_of_locked(operation), completion.status);
    // The receiver's buffer was too short, which only the receiver needs to know.
    if (completion.status == Status::truncated) operation.error = 0;
    operation.length = completion.bytes;
    return end_locked(operation);
  }
  if (std::exchange(operation.is_posted, false)) --shares_.posted;
  if (operation.is_discard) {
    if (completion.status == Status::truncated) operation.error = 0;
    return end_locked(operation);
  }
  operation.length = completion.bytes;
  if (completion.peer != kAnyPeer) {
    if (completion.status == Status::ok) peers_->met(completion.peer);
    operation.peer = completion.peer;
    if ((caps_ & FI_SOURCE) != 0) operation.source = peers_->source_of(completion.peer);
  }
  if (completion.status == Status::ok || completion.status == Status::truncated) {
    operation.tag = completion.tag;
    operation.overflow = completion.message_bytes - completion.bytes;
    operation.data = completion.immediate & kDataMask;
    if ((completion.immediate & kHasData) != 0) operation.flags |= FI_REMOTE_CQ_DATA;
  }
  if (operation.parent != nullptr) return end_child_locked(operation);
  operation.buffer = nullptr;  // reported only for multi-receive buffers
  end_locked(operation);
}

Counter* Endpoint::counter_of(const Operation& operation) const {
  if (!operation.is_send) return receiving_.counter;
  if (operation.act == Act::message) return sending_.counter;
  return (operation.flags & FI_READ) != 0 ? reading_counter_ : writing_counter_;
}

void Endpoint::end_locked(Operation& operation) {
  const Side& side = operation.is_send ? sending_ : receiving_;
  if (Counter* const counter = counter_of(operation)) {
    operation.error == 0 ? counter->add(1) : counter->add_error(1);
  }
  ++ended_;
  // Libraries dereference the context of every entry, so an operation without context gets none.
  const bool writes = operation.error != 0 ? !operation.is_silent : operation.writes_entry;
  if (writes && side.queue != nullptr) {
    side.queue->push(operation);
  } else {
    operation.pool->give(operation);
  }
}

void Endpoint::write_received_locked(Operation& entry) {
  if (receiving_.queue != nullptr) {
    receiving_.queue->push(entry);
  } else {
    entry.pool->give(entry);
  }
}

// Fails waiting sends like those that Hawser had. Otherwise they would reach the peer's next
// incarnation, without the messages before them.
void Endpoint::fail_waiting_locked(PeerId peer, Status status) {
  for (WaitingSends* waiting : {&waiting_sends_, &waiting_one_sided_, &behind_fence_}) {
    waiting->take_all(
        peer, [&](Operation& operation) { fail_locked(operation, error_of(status), status); });
  }
}

void Endpoint::fail_locked(Operation& operation, int error, Status status) {
  if (operation.act != Act::message) return fail_one_sided_locked(operation, error, status);
  operation.error = error;
  operation.status = status;
  if (operation.is_send) {
    operation.buffer = nullptr;
    operation.data = 0;
  }
  operation.length = 0;
  end_locked(operation);
}

std::string Endpoint::describe(const Operation& operation) {
  const Lock lock(mutex_);
  const bool has_peer = operation.peer != kAnyPeer || operation.is_by_mirror;
  if (!has_peer && operation.status == Status::peer_unreachable) {
    return describe_silence(operation.address);
  }
  return describe_locked(operation.status, operation.is_by_mirror ? kAnyPeer : operation.peer);
}

std::string Endpoint::describe_locked(Status status, PeerId name) {
  std::string text(to_string(status));
  PeerStats peer;
  if (!endpoint_ || name == kAnyPeer || endpoint_->peer_stats(name, peer) != Status::ok) {
    return text;
  }
  text += ": peer " + std::to_string(peer.endpoint_id);
  if (const fi_addr_t address = peers_->source_of(name); address != FI_ADDR_NOTAVAIL) {
    text += " (fi_addr " + std::to_string(address) + ")";
  }
  if (peer.failure == status && peer.failure_reason != Reason::status) {
    text += ": " + std::string(kReasonTexts[static_cast<std::size_t>(peer.failure_reason)].text);
  }
  text += "; heard " + std::to_string(peer.last_heard_ns_ago / kNanosPerMilli) + " ms ago; NICs:";
  for (const NicStats& nic : endpoint_->nic_stats()) {
    text += " " + nic.name + " " + std::string(to_string(nic.state));
  }
  return text;
}

// MPI libraries show at most the error's name, and nothing at all when an inject failed.
void Endpoint::tell_locked(Status status, PeerId name) {
  if (status == Status::store_full) {
    complain(
        "store_full: more messages wait for receives than max_receive_messages: raise "
        "FI_HAWSER_MAX_RECEIVE_MESSAGES");
  }
  const std::uint32_t place = peer_place(name);
  if (!is_end_of_session(status) || place >= told_.size() || name == mirror_.from_us) return;
  if (std::exchange(told_[place], name) == name) return;
  complain(describe_locked(status, name));
}

ssize_t Endpoint::no_room_locked(const char* limit) {
  if (stall_.no_room(Clock::now(), ended_)) {
    complain("no operation has ended for 10 s, and there is no room for more " +
             std::string(limit));
  }
  return -FI_EAGAIN;
}

}  // namespace hawser::ofi
