// SPDX-License-Identifier: Apache-2.0
// The judge's rules about sessions: how they begin and end, and closing.
#include <algorithm>

#include "sim/storm/oracle.hpp"

namespace hawser::sim {

namespace {

std::string host_name(std::uint32_t host) { return "host " + std::to_string(host); }

}  // namespace

// The caller's program names the process that is there now.
void Oracle::on_calling(std::uint32_t host, std::uint32_t other, proto::Duration at) {
  places_.on_calling(host, other, at);
  verified(host, other).all.push_back(processes_[other].back());
}

void Oracle::on_established(std::uint32_t host, std::uint32_t other, proto::Duration at) {
  if (!sessions_.on_established(host, other, at)) {
    accuse(host_name(host) + " reports twice that its session with " + host_name(other) +
           " is established");
  }
  std::string late = places_.on_answer(host, other, false, at);
  if (!late.empty()) accuse(std::move(late));
  places_.on_change(host, other, at);
  Verified& known = verified(host, other);
  known.newest.clear();
  for (const Process& process : processes_[other]) {
    if (process.gone && *process.gone < sessions_.ended(host, other)) continue;
    known.newest.push_back(process);
    known.all.push_back(process);
  }
}

bool Oracle::on_size(std::uint32_t host, std::uint32_t other, std::uint32_t bytes,
                     proto::Duration at) {
  const proto::Duration since = std::max(sessions_.ended(host, other), proto::Duration{});
  if (!widths_.may_take(host, other, bytes, since, at)) {
    accuse(host_name(host) + " has a session with " + host_name(other) + " of packets of " +
           std::to_string(bytes) + " bytes, but their ways carry another size");
  }
  return bytes < widths_.of_nics(host, other);
}

void Oracle::on_message_size(std::uint32_t host, std::uint32_t other, std::uint32_t bytes,
                             std::uint32_t most, proto::Duration at) {
  if (widths_.may_send(host, other, bytes, most, at)) return;
  accuse(host_name(host) + " sends a message to " + host_name(other) + " in packets of " +
         std::to_string(bytes) + " bytes, of " + std::to_string(most) +
         " in their session, but its ways carry another size");
}

// The present process's epoch is not above that of an earlier process of the host, which an
// endpoint of the other host knew. It knew it by a session, or because its program named it.
bool Oracle::has_stale_epoch(std::uint32_t host, std::uint32_t other) const {
  const Process& now = processes_[host].back();
  return std::ranges::any_of(verified(other, host).all, [&](const Process& before) {
    return before.life < now.life && before.epoch >= now.epoch;
  });
}

bool Oracle::had_same_epoch(std::uint32_t host, std::uint32_t other) const {
  const Process& now = processes_[host].back();
  return std::ranges::any_of(verified(other, host).all, [&](const Process& before) {
    return before.life < now.life && before.epoch == now.epoch;
  });
}

// The last process of the host that the other host's present process knows has the same epoch. The
// host then gets in only by chance. Its epoch may be lower than that of an earlier process: then it
// gets in as soon as the session with that one has ended.
bool Oracle::is_kept_out(std::uint32_t host, std::uint32_t other) const {
  const Process& now = processes_[host].back();
  return std::ranges::any_of(verified(other, host).newest, [&](const Process& before) {
    return before.life < now.life && before.epoch == now.epoch;
  });
}

// An endpoint forgets a peer only when nothing of it is left.
void Oracle::on_forgotten(std::uint32_t host, std::uint32_t other) {
  const std::string forgets = host_name(host) + " has forgotten " + host_name(other);
  if (!places_.can_run_out(host)) return accuse(forgets + ", but has enough places");
  if (sessions_.lives(host, other)) return accuse(forgets + ", but their session lives");
  if (places_.is_calling(host, other)) return accuse(forgets + ", but is calling it");
  if (lies_there(other, host, true)) accuse(forgets + ", but holds a message of it");
}

bool Oracle::lies_there(std::uint32_t from, std::uint32_t to, bool surely) const {
  for (std::uint32_t i = 0; i < sends_.size(); ++i) {
    const SendRecord& send = sends_[i];
    if (plan_.messages[i].from != from || plan_.messages[i].to != to) continue;
    if (!send.posted || send.received > 0 || gone_[to] >= send.at) continue;
    if (send.completion && send.completion->status == Status::cancelled) continue;
    const bool is_whole = send.completion && send.completion->status == Status::ok;
    const bool is_claimed = !send.held.empty();
    if (surely ? is_whole && !is_claimed : sessions_.ended(to, from) >= send.at) return true;
  }
  return false;
}

// The other host's session with an earlier process, or its call of that one, outlasted this call:
// its patience was put off, which may happen once (Application::longest_hearing).
bool Oracle::was_held_off(std::uint32_t host, std::uint32_t other, proto::Duration at) const {
  if (!has_stale_epoch(host, other)) return false;
  const proto::Duration timeout = proto::milliseconds(plan_.tunables.peer_timeout_ms);
  const proto::Duration absence = proto::milliseconds(plan_.tunables.longest_absence_ms);
  const proto::Duration some = proto::milliseconds(100);
  const proto::Duration called = places_.called_at(host, other);
  // An end that waits for nothing is probed, and has half of that time.
  const bool lives = sessions_.lives(other, host);
  if (lives && !waits_in_vain(other, host)) return false;
  const bool is_held = lives || places_.is_calling(other, host);
  const proto::Duration held = is_held ? at : sessions_.ended(other, host);
  return called + timeout + timeout / 4 + absence <= held &&
         held <= called + (timeout + absence) * 2 + some;
}

// The host's call was in vain because of another process of one of the two.
bool Oracle::is_shut_out(std::uint32_t host, std::uint32_t other, proto::Duration at) const {
  return is_kept_out(host, other) || is_kept_out(other, host) || was_held_off(host, other, at);
}

void Oracle::on_failure(std::uint32_t host, std::uint32_t other, Status status, Reason reason,
                        proto::Duration at) {
  if (reason == Reason::stale_epoch && !has_stale_epoch(host, other)) {
    accuse(host_name(host) + " was told that its epoch is stale, but " + host_name(other) +
           " knew no process of it with an equal or higher epoch");
  }
  // A host that the other one has given up already need not hear of that.
  const auto times = [&](std::uint32_t a, std::uint32_t b) {
    return std::ranges::count_if(failures_,
                                 [&](const Failure& f) { return f.host == a && f.other == b; });
  };
  const bool given_up = times(other, host) > times(host, other);
  // The other host's end of the session began after this host's last one.
  const bool gave_up = status == Status::peer_timeout && reason == Reason::gave_up;
  const bool by_other =
      gave_up || status == Status::peer_restarted || status == Status::peer_closed;
  // A closing process tells only the peers with which it had a session; the next process is new to
  // all.
  const bool told = status == Status::peer_closed;
  const bool new_process =
      (gave_up || status == Status::peer_restarted) && !sessions_.lives(other, host);
  const bool closes = closings_[other].began && (told || new_process);
  if (by_other && !closes && sessions_.ended(other, host) <= sessions_.ended(host, other) &&
      !may_have_forgotten(other, host)) {
    accuse(host_name(host) + " got " + std::string(to_string(status)) + " from " +
           host_name(other) + ", which has ended no session");
  }
  failures_.push_back({host, other, status});
  const bool confirmed = !sessions_.lives(host, other) ||
                         sessions_.established(other, host) >= sessions_.established(host, other);
  note_freed_descriptors(host, at);
  const bool was_half = sessions_.is_half(host, other);
  sessions_.on_ended(host, other, status, at);
  const bool few_places = has_few_places(plan_);
  if (status == Status::peer_full && few_places) {
    std::string unjust = places_.on_answer(host, other, true, at);
    if (!unjust.empty()) accuse(std::move(unjust));
  }
  const bool was_calling = places_.is_calling(host, other);
  places_.on_change(host, other, at);
  // The host answered a call, heard no more of it, and a newcomer wants the place.
  const bool left_alone =
      places_.can_run_out(host) && !was_calling && status == Status::peer_unreachable;
  // The other end may have given the host's place away before it was READY there.
  const bool lost_its_place = !confirmed && may_have_forgotten(other, host);
  const bool silent = (status == Status::peer_timeout && !gave_up && !lost_its_place) ||
                      (status == Status::peer_unreachable && !left_alone) ||
                      (status == Status::peer_full && !few_places);
  // The other host has answered a call, and moved away before it heard that its answer had arrived.
  const bool left = !sessions_.lives(other, host) && reasons_.has_moved(other, at);
  const bool shut_out = status == Status::peer_unreachable && is_shut_out(host, other, at);
  if (silent && !given_up && !was_half && !left && !shut_out &&
      !reasons_.explain_silence(host, other, status, at)) {
    accuse(host_name(host) + " has given up " + host_name(other) +
           " without a reason: " + std::string(to_string(status)));
  }
  if (status == Status::endpoint_closed && !may_close(host, other)) {
    accuse(host_name(host) + " has closed a session with " + host_name(other) + " without a cause");
  }
}

// The host's process is gone, with all that it had heard of processes before.
void Oracle::note_gone(std::uint32_t host, proto::Duration at) {
  gone_[host] = at;
  processes_[host].back().gone = at;
}

// An endpoint without a free place takes that of a caller that has not confirmed its call yet.
bool Oracle::may_have_forgotten(std::uint32_t host, std::uint32_t caller) const {
  return !sessions_.lives(host, caller) && places_.can_run_out(host);
}

void Oracle::on_died(std::uint32_t host, proto::Duration at) {
  note_gone(host, at);
  for (std::uint32_t other = 0; other < plan_.hosts.size(); ++other) {
    if (other == host) continue;
    failures_.push_back({host, other, Status::peer_restarted});
    sessions_.on_ended(host, other, Status::peer_restarted, at);
    verified(host, other).newest.clear();
  }
  places_.on_gone(host, at);
}

std::optional<proto::Duration> Oracle::waits_in_vain(std::uint32_t host,
                                                     std::uint32_t other) const {
  // A closing host has ended the session itself. The judge checks when it is done with closing.
  if (!sessions_.is_half(host, other) || closings_[host].began) return std::nullopt;
  std::optional<proto::Duration> since;
  const auto waits = [&](proto::Duration at) { since = since ? std::min(*since, at) : at; };
  for (std::uint32_t i = 0; i < sends_.size(); ++i) {
    const SendRecord& send = sends_[i];
    const MessagePlan& message = plan_.messages[i];
    if (message.from != host || message.to != other) continue;
    if (send.posted && !send.gone && !send.completion) waits(send.at);
  }
  for (const ReceiveRecord& receive : receives_) {
    if (receive.plan.host != host || receive.plan.from != other) continue;
    if (receive.posted && !receive.gone && !receive.completion) waits(receive.at);
  }
  if (!since) return since;
  return std::max(*since, sessions_.ended(other, host));
}

// ---- closing

void Oracle::on_closing(std::uint32_t host, std::uint32_t other, proto::Duration at) {
  Closing& closing = closings_[host];
  if (other != kAnyHost) {
    closing.parted.push_back(other);
    return;
  }
  closing.began = true;
  closing.early = false;
  closing.at = at;
  closing.had.assign(plan_.hosts.size(), false);
  for (std::uint32_t i = 0; i < plan_.hosts.size(); ++i) {
    closing.had[i] = i != host && sessions_.lives(host, i);
  }
}

bool Oracle::may_close(std::uint32_t host, std::uint32_t other) const {
  const Closing& closing = closings_[host];
  return closing.began || (other == kAnyHost && !closing.parted.empty()) ||
         std::ranges::find(closing.parted, other) != closing.parted.end();
}

// Nobody closed before, the closing host was answered, and the other host heard of the end from it.
bool Oracle::parted_well(std::uint32_t closed, std::uint32_t other) const {
  if (!closings_[closed].early || !closings_[closed].parted.empty()) return false;
  std::size_t times = 0;
  for (const Failure& failure : failures_) {
    if (failure.host == closed && failure.other == other) {
      if (++times > 1 || failure.status != Status::endpoint_closed) return false;
    }
  }
  times = 0;
  for (const Failure& failure : failures_) {
    if (failure.host == other && failure.other == closed) {
      if (++times == 1 && failure.status != Status::peer_closed) return false;
    }
  }
  return times > 0;
}

void Oracle::on_closed(std::uint32_t host, bool early, proto::Duration at,
                       const std::vector<bool>& stands) {
  note_gone(host, at);
  places_.on_gone(host, at);
  Closing& closing = closings_[host];
  closing.early = early;
  if (!early) return;
  for (std::uint32_t other = 0; other < plan_.hosts.size(); ++other) {
    if (!closing.had[other] || stands[other]) continue;
    const auto last = std::find_if(failures_.rbegin(), failures_.rend(), [&](const Failure& f) {
      return f.host == host && f.other == other;
    });
    // The session ended otherwise meanwhile.
    if (last == failures_.rend() || last->status != Status::endpoint_closed) continue;
    if (sessions_.lives(other, host) && sessions_.established(other, host) < closing.at) {
      accuse(host_name(host) + " has closed too early, and " + host_name(other) +
             " has not heard of it");
    }
  }
}

// A last message whose status was lost must not turn a delivered send into a failed one.
void Oracle::judge_partings() {
  for (std::uint32_t i = 0; i < sends_.size(); ++i) {
    const SendRecord& send = sends_[i];
    const MessagePlan& message = plan_.messages[i];
    if (!send.posted || send.gone || send.received == 0 || send.session > 0) continue;
    if (!parted_well(message.to, message.from)) continue;
    const Status status = send.completion->status;
    if (status != Status::ok && status != Status::truncated) {
      return accuse("message " + std::to_string(i) + " was delivered before its receiver closed, " +
                    "but its sender got " + std::string(to_string(status)));
    }
  }
}

}  // namespace hawser::sim
