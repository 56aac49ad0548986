// SPDX-License-Identifier: Apache-2.0
#include "coll/communicator_state.hpp"

#include <algorithm>
#include <functional>
#include <numeric>
#include <string>

namespace hawser::coll {
namespace {

// Bytes that are reduced or copied between two polls of the endpoint. With inline progress, peers
// wait for acknowledgements meanwhile. This much takes well below a millisecond.
constexpr std::uint64_t kProcessBytesPerTurn = 256 * 1024;

void require(bool condition, const char* text) {
  if (!condition) throw Error(text);
}

void check(const CommunicatorConfig& config) {
  const CommunicatorOptions& o = config.options;
  require(config.id < kMaxCommunicators, "A communicator's id must be below 2^22.");
  require(!config.peers.empty() && config.peers.size() <= kMaxRanks,
          "A communicator has 1 to 65536 ranks.");
  require(config.rank < config.peers.size(), "The own rank must be below the number of ranks.");
  require(o.chunk_bytes >= 64 && o.chunk_bytes <= 1u << 30 && o.chunk_bytes % 64 == 0,
          "chunk_bytes must be a multiple of 64 from 64 to 2^30.");
  require(o.pipeline >= 1 && o.pipeline <= Execution::kMaxWindow / 2, "pipeline must be 1 to 32.");
  require(o.max_active >= 1 && o.max_active <= Communicator::kMaxStarted,
          "max_active must be 1 to 64.");
  require(o.small_bytes <= 1u << 20, "small_bytes must be at most 2^20.");
  std::vector<PeerId> others = config.peers;
  others.erase(others.begin() + config.rank);
  require(std::find(others.begin(), others.end(), kAnyPeer) == others.end(),
          "A rank of a communicator has no peer: connect to all of them first.");
  std::sort(others.begin(), others.end());
  require(std::adjacent_find(others.begin(), others.end()) == others.end(),
          "Two ranks of a communicator have the same peer.");
}

const CommunicatorConfig& checked(const CommunicatorConfig& config) {
  check(config);
  return config;
}

// These statuses say that an operation has not failed.
Status reason_of(Status given) {
  const bool is_one = given != Status::ok && given != Status::again && given != Status::truncated;
  return is_one ? given : Status::cancelled;
}

// Ring steps, exchanges and reductions to a root need 2 · pipeline slots of a chunk. Recursive
// doubling needs its own slots.
std::uint64_t scratch_bytes(const CommunicatorOptions& options, Rank ranks) {
  const std::uint64_t slots = 2 * std::uint64_t{options.pipeline} * options.chunk_bytes;
  const std::uint64_t copies = DoublingPlan::slots(ranks) * options.small_bytes;
  return (std::max(slots, copies) + 63) / 64 * 64;
}

}  // namespace

CommunicatorState::CommunicatorState(Router& router, const CommunicatorConfig& config)
    : peers_(checked(config).peers),
      options_(config.options),
      channel_{.router = router, .peers = peers_, .id = config.id, .rank = config.rank, .route = 0},
      block_bytes_(scratch_bytes(options_, channel_.ranks())),
      slots_(Communicator::kMaxStarted),
      messages_(Communicator::kMaxMessages),
      revocation_(channel_),
      next_group_(first_group(config.id)) {
  require(!options_.follow_bandwidths || config.bandwidths.empty(),
          "With follow_bandwidths the ranks find out bandwidths themselves.");
  // A ring of two is the only plan, and without room for two pieces nothing is divided.
  if (options_.follow_bandwidths && channel_.ranks() > 2 && options_.pipeline >= 2) {
    follower_.emplace(channel_.ranks(), channel_.rank, options_.check_bytes,
                      options_.max_active + 1);
  }
  // Not zeroed, so that unused pages never become resident. 63 bytes are for alignment.
  scratch_ = std::make_unique_for_overwrite<std::byte[]>(block_bytes_ * options_.max_active + 63);
  states_.resize(options_.max_active);
  for (std::uint32_t i = options_.max_active; i-- > 0;) free_blocks_.push_back(i);
  for (std::uint32_t i = Communicator::kMaxStarted; i-- > 0;) free_slots_.push_back(i);
  line_.reserve(Communicator::kMaxStarted);
  running_.reserve(Communicator::kMaxStarted);
  require(!router.knows_id(config.id), "This router has or had a communicator with this id.");
  require(config.bandwidths.empty() || set_bandwidths(config.bandwidths) == Status::ok,
          "bandwidths must be 1 to 16, one for each rank.");
  channel_.route = router.add(*this);
  router.note_id(config.id);
}

Status CommunicatorState::set_bandwidths(std::span<const Bandwidth> by_rank) {
  const auto is_wrong = [](Bandwidth one) { return one == 0 || one > kMostBandwidth; };
  if (follows() || by_rank.size() != channel_.ranks() || std::ranges::any_of(by_rank, is_wrong)) {
    return Status::invalid_argument;
  }
  if (failure_) return failure_->status;
  if (!are_unlike(by_rank)) {
    order_ = nullptr;
    return Status::ok;
  }
  auto order = std::make_shared<BandwidthOrder>();
  order->arrange(by_rank, channel_.rank);
  order_ = std::move(order);
  return Status::ok;
}

Status CommunicatorState::admit(std::size_t count) const noexcept {
  if (failure_) return failure_->status;
  return free_slots_.size() < count ? Status::again : Status::ok;
}

std::uint32_t CommunicatorState::put_in_line(const Signature& signature, const AnyPlan& plan,
                                             std::uint32_t window) {
  const std::uint32_t index = free_slots_.back();
  free_slots_.pop_back();
  Slot& slot = slots_[index];
  slot.in_line = true;
  slot.finished = false;
  slot.is_check = false;
  slot.follows.reset();
  slot.order = order_;
  slot.execution.prepare({.rank = channel_.rank,
                          .slot = index,
                          .sequence = agreement_.start(),
                          .signature = signature.hash(),
                          .kind = signature.kind},
                         plan, window);
  line_.push_back(index);
  return index;
}

Request CommunicatorState::launch(const Signature& signature, const AnyPlan& plan,
                                  std::uint32_t window) {
  const std::uint32_t index = put_in_line(signature, plan, window);
  const Request request{index, slots_[index].generation};
  advance();
  channel_.router.flush();
  return request;
}

Status CommunicatorState::launch_following(const Signature& signature, const AnyPlan& plan,
                                           const AllReduceArguments& arguments, Request& request) {
  const bool is_due = follower_->is_due();
  if (const Status status = admit(is_due ? 2 : 1); status != Status::ok) return status;
  if (is_due) launch_check();
  follower_->count_all_reduce(arguments.count * size_of(arguments.type));
  const std::uint32_t index = put_in_line(signature, plan, 2 * options_.pipeline);
  slots_[index].follows = arguments;
  request = {index, slots_[index].generation};
  advance();
  channel_.router.flush();
  return Status::ok;
}

// The maximum over an entry of each rank.
void CommunicatorState::launch_check() {
  const Rank ranks = channel_.ranks();
  auto* const entries = reinterpret_cast<std::byte*>(follower_->entries());
  const Signature signature{.kind = CollectiveKind::check,
                            .type = DataType::u8,
                            .op = ReduceOp::max,
                            .count = ranks,
                            .options = digest_of(options_)};
  const AnyPlan plan = ranks <= options_.small_bytes
                           ? AnyPlan(DoublingPlan({.rank = channel_.rank,
                                                   .ranks = ranks,
                                                   .count = ranks,
                                                   .type = DataType::u8,
                                                   .reduction = ReduceOp::max,
                                                   .in = entries,
                                                   .out = entries}))
                           : AnyPlan(RingPlan({.collective = Collective::all_reduce,
                                               .rank = channel_.rank,
                                               .ranks = ranks,
                                               .count = ranks,
                                               .type = DataType::u8,
                                               .reduction = ReduceOp::max,
                                               .in = entries,
                                               .out = entries,
                                               .chunk_bytes = options_.chunk_bytes,
                                               .depth = options_.pipeline}));
  const std::uint32_t index = put_in_line(signature, plan, 2 * options_.pipeline);
  slots_[index].is_check = true;
  follower_->count_check();
}

const CommunicatorState::Slot* CommunicatorState::find(const Request& request) const noexcept {
  if (request.slot >= slots_.size()) return nullptr;
  const Slot& slot = slots_[request.slot];
  return slot.in_line && slot.generation == request.generation ? &slot : nullptr;
}

namespace {

// Requests for messages are named behind those for collectives.
bool is_message(const Request& request) noexcept {
  return request.slot >= Communicator::kMaxStarted &&
         request.slot < Communicator::kMaxStarted + Communicator::kMaxMessages;
}

Request message_of(const Request& request) noexcept {
  return {request.slot - Communicator::kMaxStarted, request.generation};
}

}  // namespace

Status CommunicatorState::send(const void* data, std::uint64_t bytes, Rank to, std::uint32_t tag,
                               Request& request) {
  if (failure_) return failure_->status;
  Request made;
  const Status status = posted(messages_.send(channel_, data, bytes, to, tag, made), to, made);
  if (status == Status::ok) request = made;
  return status;
}

Status CommunicatorState::receive(void* data, std::uint64_t bytes, Rank from, std::uint32_t tag,
                                  Request& request) {
  if (failure_) return failure_->status;
  Request made;
  const Status status =
      posted(messages_.receive(channel_, data, bytes, from, tag, made), from, made);
  if (status == Status::ok) request = made;
  return status;
}

// A post has returned `status`. One that shows that a session is gone revokes the communicator.
Status CommunicatorState::posted(Status status, Rank other, Request& request) {
  if (status == Status::ok) {
    request.slot += Communicator::kMaxStarted;
    channel_.router.flush();
  } else if (status != Status::again && status != Status::invalid_argument) {
    const bool is_own =
        (status == Status::endpoint_closed && channel_.is_closed()) || other == kAnyRank;
    fail_by(is_own ? channel_.rank : other, status, "message with");
    channel_.router.flush();
  }
  return status;
}

// A slot leaves the line only when its collective has ended well.
Status CommunicatorState::test(const Request& request, Received* received) {
  if (is_message(request)) {
    const Status status = messages_.test(message_of(request), received);
    return failure_ && status != Status::ok && status != Status::truncated ? failure_->status
                                                                           : status;
  }
  const Slot* slot = find(request);
  if (slot == nullptr || slot->finished) return Status::ok;
  return failure_ ? failure_->status : Status::again;
}

bool CommunicatorState::released(const Request& request) const noexcept {
  if (is_message(request)) return messages_.released(message_of(request));
  const Slot* slot = find(request);
  if (slot == nullptr || slot->finished) return true;
  return failure_ && slot->execution.in_flight() == 0;
}

bool CommunicatorState::idle() const noexcept {
  return revocation_.untold() == 0 && messages_.in_flight() == 0 &&
         (shrinking_ == nullptr || shrinking_->untold() == 0) &&
         std::all_of(line_.begin(), line_.end(), [this](std::uint32_t index) {
           return failure_ && slots_[index].execution.in_flight() == 0;
         });
}

std::uint64_t CommunicatorState::in_flight() const noexcept {
  std::uint64_t count = revocation_.in_flight() + agreement_.in_flight() + messages_.in_flight();
  if (shrinking_ != nullptr) count += shrinking_->in_flight();
  for (const std::uint32_t index : line_) count += slots_[index].execution.in_flight();
  return count;
}

bool CommunicatorState::held_back() const noexcept {
  return held_back_ || revocation_.held_back() ||
         (shrinking_ != nullptr && shrinking_->held_back());
}

bool CommunicatorState::begin_shrinking(std::span<const Rank> without) {
  if (shrinking_ != nullptr) return false;
  shrinking_ = std::make_unique<Shrinking>(channel_, channel_.router.next_id(), without);
  advance();
  channel_.router.flush();
  return true;
}

void CommunicatorState::on_completion(const Completion& completion) {
  const Mark mark = Mark::unpack(completion.user_data);
  if (mark.kind == Mark::Kind::abort_send || mark.kind == Mark::Kind::listener) {
    const auto notice = revocation_.on_completion(mark, completion);
    if (notice && notice->rank < channel_.ranks() && channel_.rank_of(completion.peer)) {
      const Status status = reason_of(notice->status);
      fail({.rank = notice->rank,
            .status = status,
            .text = "rank " + std::to_string(notice->rank) + ": " + std::string(to_string(status)) +
                    ", as rank " + std::to_string(notice->reporter) + " reports"},
           notice->reporter);
    } else if (mark.kind == Mark::Kind::listener) {
      on_control(completion);
    }
    return;
  }
  if (mark.kind == Mark::Kind::vote) return shrinking_->on_completion(channel_, mark, completion);
  if (mark.kind == Mark::Kind::agreement) {
    const std::optional<Rank> dead = agreement_.on_sent(channel_, completion);
    if (dead) fail_by(*dead, completion.status, "message to");
    return;
  }
  auto failed = mark.kind == Mark::Kind::message
                    ? messages_.on_completion(channel_, mark, completion)
                    : slots_[mark.slot].execution.on_completion(channel_, mark, completion);
  if (failed) fail(std::move(*failed), channel_.rank);
}

// Queries and answers come to the listener for abort messages.
void CommunicatorState::on_control(const Completion& completion) {
  const bool is_one = completion.status == Status::ok && (completion.tag & kTagControl) != 0 &&
                      control_of(completion.tag) != Control::abort;
  if (!is_one || failure_ || retired_) return;
  if (const auto found = agreement_.on_arrival(channel_, completion, running())) fail(*found);
}

void CommunicatorState::look() {
  if (failure_ || retired_) return;
  if (const auto found = agreement_.look(channel_, running())) return fail(*found);
  if (!messages_.awaits_any()) return;
  const auto dead = agreement_.ask_whether_alive(channel_);
  if (dead) fail_by(dead->rank, dead->status, "message to");
}

std::span<const Agreement::Running> CommunicatorState::running() {
  running_.clear();
  for (const std::uint32_t index : line_) {
    const Execution& one = slots_[index].execution;
    running_.push_back({.sequence = one.sequence(), .signature = one.signature()});
    if (const auto awaited = one.awaited()) {
      running_.back().awaits = awaited->sender;
      running_.back().message = awaited->message;
    }
  }
  return running_;
}

// Collectives begin in the order of the line, at all ranks alike. The all-reduce behind a check
// begins when the check has ended, so only one check runs at a time.
void CommunicatorState::begin_first() {
  const std::size_t count = std::min<std::size_t>(line_.size(), options_.max_active);
  bool has_open_check = false;
  for (std::size_t i = 0; i < count; ++i) {
    Slot& slot = slots_[line_[i]];
    if (slot.block == kNoBlock) {
      if (slot.follows && has_open_check) return;
      begin(slot);
    }
    has_open_check = has_open_check || (slot.is_check && !slot.finished);
  }
}

void CommunicatorState::begin(Slot& slot) {
  if (slot.is_check) follower_->begin_check(channel_.endpoint());
  if (slot.follows && order_ != nullptr) {
    slot.order = order_;
    const DividedPlan divided = divide(*slot.follows, *order_, options_);
    slot.execution.replace(divided.plan, divided.window);
  }
  slot.block = free_blocks_.back();
  free_blocks_.pop_back();
  void* memory = scratch_.get();
  std::size_t space = block_bytes_ * options_.max_active + 63;
  auto* aligned =
      static_cast<std::byte*>(std::align(64, block_bytes_ * options_.max_active, memory, space));
  slot.execution.begin(aligned + slot.block * block_bytes_, states_[slot.block], next_group_);
  next_group_ += slot.execution.groups();
}

// Returns true if a collective has left the line or a check has ended, so that another may begin.
bool CommunicatorState::retire_finished() {
  bool left = false;
  for (std::size_t i = 0; i < line_.size() && i < options_.max_active;) {
    const std::uint32_t index = line_[i];
    Slot& slot = slots_[index];
    if (!slot.finished && slot.execution.finished()) {
      slot.finished = true;
      if (slot.is_check) {
        order_ = follower_->end_check();
        left = true;
      }
    }
    if (!slot.finished || !slot.execution.sends_done() || slot.execution.in_flight() > 0) {
      ++i;
      continue;
    }
    line_.erase(line_.begin() + static_cast<std::ptrdiff_t>(i));
    free_blocks_.push_back(slot.block);
    free_slots_.push_back(index);
    slot.block = kNoBlock;
    slot.order.reset();
    slot.in_line = false;
    ++slot.generation;
    left = true;
  }
  return left;
}

void CommunicatorState::advance() {
  revocation_.advance(channel_);
  busy_ = false;
  held_back_ = false;
  if (failure_) {
    for (const std::uint32_t index : line_) slots_[index].execution.cancel_operations(channel_);
    messages_.cancel(channel_);
    if (shrinking_ != nullptr) shrinking_->advance(channel_);
    return;
  }
  TurnBudget budget{.process_bytes = kProcessBytesPerTurn};
  do {
    begin_first();
    const std::size_t count = std::min<std::size_t>(line_.size(), options_.max_active);
    for (std::size_t i = 0; i < count; ++i) {
      auto failed = slots_[line_[i]].execution.advance(channel_, budget);
      if (failed) return fail(std::move(*failed), channel_.rank);
    }
  } while (retire_finished());
  busy_ = budget.process_bytes == 0;
  held_back_ = !budget.may_send || !budget.may_receive;
}

void CommunicatorState::fail(Failure failure, Rank reporter) {
  if (failure_) return;
  failure_ = std::move(failure);
  revocation_.revoke({.rank = failure_->rank, .reporter = reporter, .status = failure_->status});
  advance();
}

void CommunicatorState::fail(const Agreement::Disagreement& found) {
  fail({.rank = found.rank,
        .status = Status::invalid_argument,
        .text = "collective " + std::to_string(found.sequence) + ": " + kDisagreement + " rank " +
                std::to_string(found.rank) + ": " +
                std::string(to_string(Status::invalid_argument))},
       channel_.rank);
}

void CommunicatorState::fail_by(Rank failed, Status status, const char* what) {
  fail({.rank = failed,
        .status = status,
        .text = std::string(what) + " rank " + std::to_string(failed) + ": " +
                std::string(to_string(status))},
       channel_.rank);
}

void CommunicatorState::abort(Rank failed, Status reason) {
  reason = reason_of(reason);
  if (failed >= channel_.ranks()) failed = channel_.rank;
  fail({.rank = failed,
        .status = reason,
        .text = "rank " + std::to_string(failed) + ": " + std::string(to_string(reason)) +
                ", aborted by rank " + std::to_string(channel_.rank)},
       channel_.rank);
  channel_.router.flush();
}

// Tells members that still wait for this rank, because nothing more will come from it.
void CommunicatorState::retire() {
  const bool unfinished = std::any_of(
      line_.begin(), line_.end(), [this](std::uint32_t index) { return !slots_[index].finished; });
  if (unfinished || messages_.in_flight() > 0) abort(channel_.rank, Status::cancelled);
  revocation_.retire();
  if (shrinking_ != nullptr) shrinking_->retire();
  retired_ = true;
  advance();
  channel_.router.discard(channel_.id);
}

}  // namespace hawser::coll
