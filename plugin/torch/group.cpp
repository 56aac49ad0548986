// SPDX-License-Identifier: Apache-2.0
#include "plugin/torch/group.hpp"

#include <algorithm>
#include <cstring>

namespace hawser::torch_plugin {
namespace {

// A member's words to all others. Its address follows.
struct Offer {
  std::uint64_t mark = 0;  // of its transport's secret
  std::uint64_t id = 0;    // the lowest that it may give the communicator
};

std::vector<std::byte> in_bytes(const Offer& offer, std::span<const std::byte> address) {
  std::vector<std::byte> bytes(sizeof offer + address.size());
  std::memcpy(bytes.data(), &offer, sizeof offer);
  std::memcpy(bytes.data() + sizeof offer, address.data(), address.size());
  return bytes;
}

Offer read_offer(std::span<const std::byte> bytes, std::uint32_t rank, std::uint64_t mark) {
  Offer offer;
  if (bytes.size() < sizeof offer) {
    throw Error("Rank " + std::to_string(rank) + " gave no address");
  }
  std::memcpy(&offer, bytes.data(), sizeof offer);
  if (offer.mark != mark) {
    throw Error("Rank " + std::to_string(rank) +
                " belongs to another world: every rank must destroy all process groups of the "
                "former one before the next init_process_group");
  }
  return offer;
}

// The members of a communicator, by their rank there. `own` is this one's rank in the former.
Status share_ranks(coll::Communicator& communicator, coll::Rank own,
                   std::vector<coll::Rank>& members) {
  members.assign(communicator.ranks(), 0);
  coll::Request request;
  Status status = communicator.all_gather(&own, members.data(), sizeof own, request);
  if (status == Status::ok) status = communicator.wait(request);
  return status;
}

}  // namespace

RankFailure::RankFailure(const std::string& text, std::uint32_t rank, Status status)
    : std::runtime_error(text + " [rank " + std::to_string(rank) + ", " +
                         std::string(to_string(status)) + "]") {}

Group::Group(std::shared_ptr<Transport> transport, coll::Rank rank,
             std::vector<std::uint32_t> ranks, const Exchange& exchange)
    : transport_(std::move(transport)),
      rank_(rank),
      ranks_(std::move(ranks)),
      peers_(ranks_.size(), kAnyPeer) {
  std::vector<std::byte> own;
  {
    const Transport::Guard guard(*transport_);
    if (transport_->router() == nullptr) throw Error("Hawser's transport has ended");
    const Address& address = transport_->endpoint().address();
    own = in_bytes({.mark = transport_->mark(), .id = transport_->next_id()},
                   std::as_bytes(std::span(address)));
  }
  const std::vector<std::vector<std::byte>> offers = exchange(own);
  const Transport::Guard guard(*transport_);
  coll::CommunicatorConfig config{.rank = rank_};
  for (coll::Rank other = 0; other < ranks_.size(); ++other) {
    const Offer offer = read_offer(offers[other], ranks_[other], transport_->mark());
    config.id = std::max(config.id, static_cast<std::uint32_t>(offer.id));
    if (other == rank_) continue;
    const auto address = std::span(offers[other]).subspan(sizeof offer);
    const Status status = transport_->endpoint().connect(address, peers_[other]);
    if (status != Status::ok) {
      throw Error("Rank " + std::to_string(ranks_[other]) + ": " + std::string(to_string(status)));
    }
  }
  config.peers = peers_;
  transport_->note_id(config.id);
  communicator_ = std::make_unique<coll::Communicator>(*transport_->router(), config);
  transport_->add(*this);
}

Group::Group(const Group& former, std::unique_ptr<coll::Communicator> communicator,
             const std::vector<coll::Rank>& members)
    : transport_(former.transport_),
      rank_(communicator->rank()),
      communicator_(std::move(communicator)) {
  for (const coll::Rank member : members) {
    ranks_.push_back(former.ranks_[member]);
    peers_.push_back(former.peers_[member]);
  }
  transport_->add(*this);
}

Group::~Group() {
  const Transport::Guard guard(*transport_);
  transport_->remove(*this);
  release();
}

void Group::release() {
  if (communicator_ == nullptr) return;
  communicator_.reset();
  for (Operations* operations : {&collectives_, &messages_, &running_, &held_}) {
    for (const auto& one : *operations) {
      if (operations != &held_) {
        one->on_end(std::make_exception_ptr(RankFailure(
            one->name + ": the process group was destroyed", ranks_[rank_], Status::cancelled)));
      }
      transport_->keep(one);
    }
    operations->clear();
  }
}

std::shared_ptr<Group> Group::shrink(std::span<const coll::Rank> without) {
  const Transport::Guard guard(*transport_);
  if (communicator_ == nullptr) throw Error("shrink: Hawser's transport has ended");
  communicator_->abort(rank_, Status::cancelled);
  std::unique_ptr<coll::Communicator> made;
  std::vector<coll::Rank> members;
  Status status = communicator_->shrink(without, made);
  while (status == Status::ok && share_ranks(*made, rank_, members) != Status::ok) {
    // Another one has failed meanwhile.
    std::unique_ptr<coll::Communicator> next;
    status = made->shrink(next);
    if (status == Status::ok) made = std::move(next);
  }
  if (status != Status::ok) {
    const char* const words = status == Status::cancelled
                                  ? "shrink: the others go on without this rank"
                                  : "shrink: this rank can't agree with the others";
    throw RankFailure(words, ranks_[rank_], status);
  }
  transport_->note_id(made->id());
  return std::shared_ptr<Group>(new Group(*this, std::move(made), members));
}

void Group::submit(const std::shared_ptr<Operation>& operation) {
  const Transport::Guard guard(*transport_);
  if (communicator_ == nullptr) throw Error(operation->name + ": Hawser's transport has ended");
  (operation->is_message ? messages_ : collectives_).push_back(operation);
  start_what_is_possible();
}

void Group::abort() {
  const Transport::Guard guard(*transport_);
  if (communicator_ != nullptr) communicator_->abort(rank_, Status::cancelled);
}

bool Group::start(Operation& operation) {
  while (operation.requests_.size() < operation.starts.size()) {
    coll::Request request;
    const Status status = operation.starts[operation.requests_.size()](*communicator_, request);
    if (status == Status::again) return false;
    if (status != Status::ok) {
      operation.refusal_ = status;
      return true;
    }
    operation.requests_.push_back(request);
  }
  return true;
}

void Group::start_what_is_possible() {
  while (!collectives_.empty() && start(*collectives_.front())) {
    running_.splice(running_.end(), collectives_, collectives_.begin());
  }
  for (auto at = messages_.begin(); at != messages_.end();) {
    const auto one = at++;
    if (!start(**one)) break;  // messages to one rank keep their order
    running_.splice(running_.end(), messages_, one);
  }
}

void Group::advance() {
  if (communicator_ == nullptr) return;
  start_what_is_possible();
  for (auto at = running_.begin(); at != running_.end();) {
    const auto one = at++;
    if (!look_at(**one)) continue;
    held_.splice(held_.end(), running_, one);
  }
  held_.remove_if([&](const auto& one) {
    if (!is_released(*one)) return false;
    transport_->throw_away(one);
    return true;
  });
  const Clock::time_point now = Clock::now();
  for (const Operations* operations : {&collectives_, &messages_, &running_}) {
    for (const auto& one : *operations) look_at_deadline(*one, now);
  }
}

// The first failure ends it. Other parts may still run then, and the operation is held.
bool Group::look_at(Operation& operation) {
  while (operation.ended_ < operation.requests_.size()) {
    coll::Received received;
    const Status status = communicator_->test(operation.requests_[operation.ended_], &received);
    if (status == Status::again) return false;
    if (status != Status::ok) {
      operation.on_end(failure_of(operation, status));
      return true;
    }
    ++operation.ended_;
    if (!operation.awaited_bytes) continue;
    operation.from = received.from;
    if (received.bytes == *operation.awaited_bytes) continue;
    operation.on_end(std::make_exception_ptr(std::invalid_argument(
        operation.name + ": rank " + std::to_string(ranks_[received.from]) + " has sent " +
        std::to_string(received.bytes) + " bytes, and the tensor has " +
        std::to_string(*operation.awaited_bytes))));
    return true;
  }
  operation.on_end(operation.refusal_ == Status::ok ? nullptr
                                                    : failure_of(operation, operation.refusal_));
  return true;
}

bool Group::is_released(const Operation& operation) const {
  return std::ranges::all_of(operation.requests_, [&](const coll::Request& request) {
    return communicator_->released(request);
  });
}

void Group::look_at_deadline(const Operation& operation, Clock::time_point now) {
  if (now < operation.deadline || communicator_->failure() != nullptr) return;
  timeout_ = operation.name;
  communicator_->abort(rank_, Status::cancelled);
}

std::string Group::reason_of(coll::Rank rank, Status status) const {
  PeerStats stats;
  const bool is_known = rank < peers_.size() && rank != rank_ &&
                        transport_->endpoint().peer_stats(peers_[rank], stats) == Status::ok;
  if (is_known && stats.failure == status && stats.failure_reason != Reason::none &&
      stats.failure_reason != Reason::status) {
    return ": " + std::string(kReasonTexts[static_cast<std::size_t>(stats.failure_reason)].text);
  }
  switch (status) {
    case Status::invalid_argument:
      return ": its call and another rank's differ in operation, size, type or root";
    case Status::peer_closed: return ": it has ended its process groups";
    case Status::cancelled: return ": it has given up the group, as after a timeout";
    default: return {};
  }
}

std::exception_ptr Group::failure_of(const Operation& operation, Status status) const {
  const coll::Failure* const failure = communicator_->failure();
  if (failure == nullptr) {
    const char* const words =
        status == Status::truncated ? "the message is longer than the tensor" : "it was refused";
    return std::make_exception_ptr(std::invalid_argument(operation.name + ": " + words + " (" +
                                                         std::string(to_string(status)) + ")"));
  }
  if (!timeout_.empty()) {
    return std::make_exception_ptr(
        RankFailure(operation.name + ": " + timeout_ + " has not ended within its timeout",
                    ranks_[rank_], Status::cancelled));
  }
  const std::uint32_t rank = failure->rank < ranks_.size() ? ranks_[failure->rank] : failure->rank;
  std::string text = operation.name + ": rank " + std::to_string(rank) + ": " +
                     std::string(to_string(failure->status)) +
                     reason_of(failure->rank, failure->status);
  // The communicator's words have its own ranks, which are not the world's in every group.
  text += " (in the group: " + failure->text + ")";
  return std::make_exception_ptr(RankFailure(text, rank, failure->status));
}

}  // namespace hawser::torch_plugin
