// SPDX-License-Identifier: Apache-2.0
// How the programs of a storm post their one-sided operations, and hear of those of others.
// one_sided.cpp knows what they mean.
#include <span>

#include "sim/storm/application.hpp"

namespace hawser::sim {

namespace {

OneSidedCell cell_of(const Completion& completion) {
  switch (completion.status) {
    case Status::ok: return OneSidedCell::executed;
    case Status::access_denied: return OneSidedCell::refused;
    case Status::region_withdrawn: return OneSidedCell::withdrawn;
    case Status::predecessor_failed: return OneSidedCell::behind_failure;
    default:
      if (completion.executed) return OneSidedCell::reply_lost;
      return completion.outcome_unknown ? OneSidedCell::unknown : OneSidedCell::not_executed;
  }
}

}  // namespace

void Application::do_one_sided(std::uint32_t index) {
  const OneSidedPlan& plan = plan_.one_sided[index];
  std::uint8_t& tries = one_sided_tries_[index];
  if (!world_.is_running(plan.from)) {
    if (!world_.is_healed()) return again(Act::one_sided, index, tries);
    --undecided_;
    return;
  }
  const bool is_local = plan.kind == OneSidedKind::withdraw;
  const PeerId peer = is_local ? kAnyPeer : reach(plan.from, plan.to);
  const bool is_vain =
      process(plan.from).closing || (!is_local && !world_.is_running(plan.to)) || gives_up(plan.at);
  if (!is_local && peer == kAnyPeer) {
    if (!world_.is_healed() || !is_vain) return again(Act::one_sided, index, tries);
    --undecided_;
    return;
  }
  Process& here = process(plan.from);
  const OperationId operation = name(here, false, index);
  Status status = Status::again;
  if (operation != kNoOperation) {
    here.operations[static_cast<std::uint32_t>(operation)].is_one_sided = true;
    status = one_sided_.post(index, peer, operation);
  }
  world_.host(plan.from).wake();
  if (status == Status::ok) {
    here.free.pop_back();
    one_sided_.on_posted(index, here.posts++);
    note(Happening::Kind::posted_one_sided, plan.from, index,
         {.operation = static_cast<std::uint64_t>(operation)});
    --undecided_;
    ++open_;
    return;
  }
  retry_one_sided(index, peer, status, is_vain);
}

// The endpoint has refused the operation.
void Application::retry_one_sided(std::uint32_t index, PeerId peer, Status status, bool is_vain) {
  const OneSidedPlan& plan = plan_.one_sided[index];
  const bool is_local = plan.kind == OneSidedKind::withdraw;
  const bool ended =
      is_peer_failure(status) || status == Status::endpoint_closed ||
      (!is_local && status == Status::unknown_peer && is_forgotten(plan.from, plan.to, peer));
  // Memory of a process that is gone, or that has no memory any more.
  const bool is_old = (status == Status::stale_region && plan.key == KeyKind::old) ||
                      status == Status::unknown_operation;
  is_vain = is_vain || is_kept_out(plan.from, plan.to, status);
  if (is_old || (ended && (is_local || (world_.is_healed() && is_vain)))) {
    --undecided_;
    return;
  }
  if (ended && !process(plan.from).closing && world_.is_running(plan.to)) {
    connect(plan.from, plan.to);
  } else if (status == Status::stale_region && world_.is_healed()) {
    disconnect(plan.from, plan.to);  // the session is with the process before that of the key
  } else if (!ended && status != Status::again && status != Status::stale_region) {
    oracle_.accuse("a one-sided operation returned " + std::string(to_string(status)));
  }
  again(Act::one_sided, index, one_sided_tries_[index]);
}

// A call that ended after the healing was in vain, and all later ones may be. Unlike a send, an
// operation can't be posted meanwhile.
bool Application::is_kept_out(std::uint32_t from, std::uint32_t to, Status status) const {
  return status == Status::peer_unreachable &&
         oracle_.sessions().ended(from, to) >= plan_.heals_at &&
         (oracle_.is_kept_out(from, to) || oracle_.is_kept_out(to, from));
}

bool Application::flush_failure() {
  const std::optional<OneSided::Channel> channel = one_sided_.untold();
  if (!channel || process(channel->from).closing) return false;
  Host& host = world_.host(channel->from);
  if (host.is_paused()) return true;
  Process& here = process(channel->from);
  const auto record = static_cast<std::uint32_t>(plan_.one_sided.size() + flushed_.size());
  const OperationId operation = name(here, false, record);
  here.operations[static_cast<std::uint32_t>(operation)].is_one_sided = true;
  const Status status = host.endpoint().flush_channel(
      host.now(), operation,
      {.peer = world_.peer(channel->from, channel->to), .channel = channel->channel});
  host.wake();
  if (status != Status::ok) {
    oracle_.accuse("a flush returned " + std::string(to_string(status)));
    return true;
  }
  here.free.pop_back();
  flushed_.push_back(*channel);
  ++open_;
  return true;
}

void Application::on_one_sided(std::uint32_t record, const Completion& completion) {
  world_.scribe().count_one_sided(cell_of(completion));
  if (record < plan_.one_sided.size()) return one_sided_.on_completed(record, completion);
  one_sided_.on_flushed(flushed_[record - plan_.one_sided.size()], completion);
}

void Application::take_notices(std::uint32_t at) {
  if (plan_.one_sided.empty()) return;
  for (std::size_t n = done_.size(); n == done_.size();) {
    n = world_.host(at).endpoint().poll_notices(done_);
    for (const Completion& notice : std::span(done_).first(n)) {
      mix(at, notice);
      world_.scribe().count_one_sided(OneSidedCell::noticed);
      one_sided_.on_notice(at, notice);
    }
  }
}

}  // namespace hawser::sim
