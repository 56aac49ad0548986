// SPDX-License-Identifier: Apache-2.0
#include "sim/storm/one_sided.hpp"

#include <algorithm>
#include <cstring>
#include <span>

namespace hawser::sim {

namespace {

constexpr std::byte kBlank{0xa5};
constexpr std::byte kOver{0x5a};
constexpr std::uint64_t kWordBytes = OneSided::kWordBytes;
constexpr std::uint64_t kPageAt = (OneSided::kWords + OneSided::kChains) * kWordBytes;
constexpr std::uint64_t kPlacesAt = kPageAt + OneSided::kPage;
constexpr WordOperation kAddOne{AtomicOperation::add, 8, 1, 0};

// Where a read begins in the page.
std::uint64_t page_offset(std::uint32_t index, std::uint64_t bytes) {
  return index * std::uint64_t{977} % (OneSided::kPage - bytes + 1);
}

std::string text_of(std::uint32_t index) { return "one-sided operation " + std::to_string(index); }

}  // namespace

OneSided::OneSided(const Plan& plan, World& world, Oracle& oracle)
    : plan_(plan), world_(world), oracle_(oracle), records_(plan.one_sided.size()) {
  std::vector<std::uint64_t> ends(plan.hosts.size(), kPlacesAt);
  for (const OneSidedPlan& operation : plan.one_sided) {
    places_.push_back(ends[operation.to]);
    if (operation.kind == OneSidedKind::write) ends[operation.to] += operation.bytes;
  }
  if (plan.one_sided.empty()) return;
  for (std::uint32_t i = 0; i < world.hosts(); ++i) {
    if (world.is_running(i)) started(i);
  }
}

std::size_t OneSided::size_of(std::uint32_t host) const {
  std::uint64_t size = kPlacesAt;
  for (std::uint32_t i = 0; i < records_.size(); ++i) {
    const OneSidedPlan& operation = plan_.one_sided[i];
    if (operation.to == host && operation.kind == OneSidedKind::write)
      size = std::max(size, places_[i] + operation.bytes);
  }
  return size;
}

std::byte OneSided::page_byte(std::uint32_t host, std::uint64_t at) const {
  return static_cast<std::byte>(host * 131 + at * 7 + (at >> 8) * 13 + plan_.seed);
}

// ---- memory

void OneSided::started(std::uint32_t host) {
  if (!plan_.one_sided.empty()) expose(host);
}

void OneSided::expose(std::uint32_t host) {
  Memory memory;
  memory.host = host;
  memory.life = world_.life(host);
  memory.bytes.make(size_of(host), kBlank);
  const std::span<std::byte> bytes = memory.bytes.bytes();
  std::ranges::fill(bytes.first(kPageAt), std::byte{0});
  for (std::uint64_t i = 0; i < kPage; ++i) bytes[kPageAt + i] = page_byte(host, i);
  proto::Endpoint& endpoint = world_.host(host).endpoint();
  const Status status = endpoint.expose({.data = bytes.data(),
                                         .bytes = bytes.size(),
                                         .access = RegionAccess::all,
                                         .user_data = memories_.size()},
                                        placement_, memory.region);
  if (status == Status::endpoint_closed) return;
  if (status != Status::ok || endpoint.region_key(memory.region, memory.key) != Status::ok)
    return oracle_.accuse("host " + std::to_string(host) + " can't expose memory");
  memories_.push_back(std::move(memory));
}

void OneSided::crashed(std::uint32_t host) {
  for (Memory& memory : memories_) {
    if (memory.host != host || memory.life != world_.life(host) || memory.poisoned) continue;
    const std::span<const std::byte> bytes = memory.bytes.bytes();
    memory.last.assign(bytes.begin(), bytes.end());
  }
}

std::uint32_t OneSided::give_up(std::uint32_t host) {
  std::uint32_t count = 0;
  for (std::uint32_t i = 0; i < records_.size(); ++i) {
    Record& record = records_[i];
    const bool is_open = record.posted && !record.gone && !record.released;
    if (plan_.one_sided[i].from != host || !is_open) continue;
    record.gone = true;
    ++count;
  }
  return count;
}

std::uint64_t OneSided::count_fetches(std::uint32_t host) const {
  std::uint64_t count = 0;
  for (std::uint32_t i = 0; i < records_.size(); ++i) {
    const OneSidedKind kind = plan_.one_sided[i].kind;
    if (!has_reply(kind) || plan_.one_sided[i].to != host || !records_[i].posted) continue;
    count += memories_[records_[i].memory].life == world_.life(host);
  }
  return count;
}

std::uint32_t OneSided::newest_of(std::uint32_t host) const {
  for (auto i = static_cast<std::uint32_t>(memories_.size()); i-- > 0;) {
    if (memories_[i].host == host) return i;
  }
  return kNoMemory;
}

std::uint32_t OneSided::older_of(std::uint32_t host) const {
  const std::uint32_t newest = newest_of(host);
  for (std::uint32_t i = newest == kNoMemory ? 0 : newest; i-- > 0;) {
    if (memories_[i].host == host) return i;
  }
  return newest;
}

// The withdrawal is over: from now on nobody may change the memory.
void OneSided::end_withdrawal(std::uint32_t index) {
  Memory& memory = memories_[records_[index].memory];
  const std::span<std::byte> bytes = memory.bytes.bytes();
  memory.last.assign(bytes.begin(), bytes.end());
  std::ranges::fill(bytes, kOver);
  memory.poisoned = true;
}

// ---- operations

RegionKey OneSided::key_for(std::uint32_t index, std::uint32_t memory) const {
  RegionKey key = memories_[memory].key;
  if (plan_.one_sided[index].key == KeyKind::forged) key.secret ^= 1;
  if (plan_.one_sided[index].key == KeyKind::too_long) key.bytes *= 2;
  return key;
}

Status OneSided::write(std::uint32_t index, PeerId peer, OperationId name, const RegionKey& key,
                       std::uint64_t beyond) {
  const OneSidedPlan& plan = plan_.one_sided[index];
  Record& record = records_[index];
  if (record.bytes.size() != plan.bytes)
    record.bytes = bytes_of_message(plan_.seed + 1, index, plan.bytes);
  WriteRequest request{.peer = peer,
                       .channel = plan.channel,
                       .key = key,
                       .offset = beyond > 0 ? beyond : places_[index],
                       .data = record.bytes.data(),
                       .bytes = plan.bytes,
                       .notifies = plan.notifies,
                       .strong = plan.strong,
                       .immediate = index};
  if (beyond > 0 && plan.bytes == 0) {  // a write of no bytes reaches beyond nothing
    request.data = &kAddOne;
    request.bytes = 1;
  }
  if (plan.signals)
    request.signal = Signal{.key = key, .offset = plan.word * kWordBytes, .word = kAddOne};
  Host& host = world_.host(plan.from);
  return host.endpoint().write(host.now(), name, request);
}

Status OneSided::post(std::uint32_t index, PeerId peer, OperationId name) {
  const OneSidedPlan& plan = plan_.one_sided[index];
  Record& record = records_[index];
  Host& host = world_.host(plan.from);
  proto::Endpoint& endpoint = host.endpoint();
  const std::uint32_t memory = plan.kind == OneSidedKind::withdraw ? newest_of(plan.from)
                               : plan.key == KeyKind::old          ? older_of(plan.to)
                                                                   : newest_of(plan.to);
  if (memory == kNoMemory) return Status::unknown_operation;
  record.memory = memory;
  record.session = oracle_.sessions().ends(plan.from, plan.to);
  const RegionKey key = key_for(index, memory);
  // A key that says too much is used for what is not there.
  const std::uint64_t beyond = plan.key == KeyKind::too_long ? memories_[memory].key.bytes : 0;
  switch (plan.kind) {
    case OneSidedKind::write: return write(index, peer, name, key, beyond);
    case OneSidedKind::read: {
      // A read of no bytes reaches beyond nothing.
      const std::uint64_t bytes = std::max<std::uint64_t>(plan.bytes, beyond > 0 ? 1 : 0);
      if (!record.into.is_made()) record.into.make(bytes, kBlank);
      return endpoint.read(
          host.now(), name,
          {.peer = peer,
           .channel = plan.channel,
           .key = key,
           .offset = beyond > 0 ? beyond : kPageAt + page_offset(index, plan.bytes),
           .data = record.into.bytes().data(),
           .bytes = bytes,
           .strong = plan.strong});
    }
    case OneSidedKind::add:
    case OneSidedKind::fetch_add:
      return endpoint.atomic(host.now(), name,
                             {.peer = peer,
                              .channel = plan.channel,
                              .key = key,
                              .offset = beyond > 0 ? beyond : plan.word * kWordBytes,
                              .word = kAddOne,
                              .fetches = plan.kind == OneSidedKind::fetch_add,
                              .strong = plan.strong});
    case OneSidedKind::load:
    case OneSidedKind::store:
    case OneSidedKind::swap:
    case OneSidedKind::compare_and_swap: return chained(index, peer, name, key, beyond);
    case OneSidedKind::flush:
      return endpoint.flush_channel(host.now(), name, {.peer = peer, .channel = plan.channel});
    case OneSidedKind::withdraw: {
      const Status status = endpoint.withdraw(host.now(), memories_[memory].region, name, 0);
      if (status != Status::ok) return status;
      memories_[memory].withdrawn = true;
      expose(plan.from);
      return status;
    }
    case OneSidedKind::count_: break;
  }
  return Status::invalid_argument;
}

void OneSided::on_posted(std::uint32_t index, std::uint64_t order) {
  Record& record = records_[index];
  record.posted = true;
  record.life = world_.life(plan_.one_sided[index].from);
  record.order = order;
  record.posted_at = ++moment_;
}

void OneSided::accuse(std::uint32_t index, const std::string& what) {
  oracle_.accuse(
      text_of(index) + " (" +
      std::string(kOneSidedNames[static_cast<std::size_t>(plan_.one_sided[index].kind)]) + ", " +
      std::to_string(plan_.one_sided[index].from) + " to " +
      std::to_string(plan_.one_sided[index].to) + ") " + what);
}

OneSided::Fate OneSided::fate(const Record& record) const {
  if (!record.posted) return Fate::not_executed;
  if (!record.completion) return Fate::unknown;  // its process died before
  if (record.completion->status == Status::ok || record.completion->executed) return Fate::executed;
  return record.completion->outcome_unknown ? Fate::unknown : Fate::not_executed;
}

// The bytes of a write are placed before its signal is refused, and fragment by fragment before
// its memory is withdrawn.
OneSided::Fate OneSided::fate_of_bytes(std::uint32_t index) const {
  const Record& record = records_[index];
  const Fate what = fate(record);
  if (what != Fate::not_executed || !record.completion || !memories_[record.memory].withdrawn)
    return what;
  const Status status = record.completion->status;
  const bool may_be_placed = status == Status::region_withdrawn ||
                             (status == Status::access_denied && plan_.one_sided[index].signals);
  return may_be_placed ? Fate::unknown : what;
}

std::optional<OneSided::Channel> OneSided::untold() const {
  for (std::uint32_t i = 0; i < records_.size(); ++i) {
    const OneSidedPlan& plan = plan_.one_sided[i];
    const Record& record = records_[i];
    const bool failed = record.completion && record.completion->status != Status::ok;
    if (!failed || record.told || plan.kind == OneSidedKind::withdraw ||
        plan.kind == OneSidedKind::flush) {
      continue;
    }
    const bool lasts = world_.is_running(plan.from) && world_.life(plan.from) == record.life &&
                       oracle_.sessions().lives(plan.from, plan.to) &&
                       oracle_.sessions().ends(plan.from, plan.to) == record.session;
    if (lasts) return Channel{plan.from, plan.to, plan.channel};
  }
  return std::nullopt;
}

void OneSided::on_flushed(const Channel& channel, const Completion& completion) {
  for (std::uint32_t i = 0; i < records_.size(); ++i) {
    const OneSidedPlan& plan = plan_.one_sided[i];
    const bool is_on_it = plan.from == channel.from && plan.to == channel.to &&
                          plan.channel == channel.channel && plan.kind != OneSidedKind::withdraw;
    if (is_on_it && records_[i].completion) records_[i].told = true;
  }
  if (completion.status == Status::predecessor_failed || is_peer_failure(completion.status)) return;
  oracle_.accuse("a flush behind a failure ended with " +
                 std::string(to_string(completion.status)));
}

// Whether one before it on its channel has failed.
bool OneSided::follows_failure(std::uint32_t index) const {
  const OneSidedPlan& plan = plan_.one_sided[index];
  for (std::uint32_t i = 0; i < records_.size(); ++i) {
    const Record& other = records_[i];
    if (is_before(i, index) && plan_.one_sided[i].to == plan.to && other.completion &&
        other.completion->status != Status::ok) {
      return true;
    }
  }
  return false;
}

// Whether the first was posted before the second, by the same process on the same channel.
bool OneSided::is_before(std::uint32_t first, std::uint32_t second) const {
  const OneSidedPlan& a = plan_.one_sided[first];
  const OneSidedPlan& b = plan_.one_sided[second];
  return records_[first].posted && a.from == b.from && a.to == b.to && a.channel == b.channel &&
         a.kind != OneSidedKind::withdraw && records_[first].life == records_[second].life &&
         records_[first].order < records_[second].order;
}

bool OneSided::may_fail(std::uint32_t index, Status status) const {
  const OneSidedPlan& plan = plan_.one_sided[index];
  const Record& record = records_[index];
  if (status == Status::endpoint_closed) return true;
  if (is_peer_failure(status)) {
    return plan.kind != OneSidedKind::withdraw &&
           oracle_.sessions().ends(plan.from, plan.to) > record.session;
  }
  const bool waits = plan.strong || plan.kind == OneSidedKind::flush;
  switch (status) {
    case Status::access_denied:
      return plan.kind != OneSidedKind::flush && plan.kind != OneSidedKind::withdraw &&
             (plan.key != KeyKind::right || memories_[record.memory].withdrawn);
    case Status::region_withdrawn: return memories_[record.memory].withdrawn;
    case Status::predecessor_failed: return waits && follows_failure(index);
    default: return false;
  }
}

void OneSided::on_completed(std::uint32_t index, const Completion& completion) {
  const OneSidedPlan& plan = plan_.one_sided[index];
  Record& record = records_[index];
  record.released = completion.released;
  if (record.completion) {
    if (record.completion->status != completion.status || !completion.released)
      accuse(index, "completed twice");
    return;
  }
  record.completion = completion;
  record.ended_at = ++moment_;
  const Status status = completion.status;
  if (status != Status::ok) {
    if (!may_fail(index, status)) accuse(index, "ended with " + std::string(to_string(status)));
  } else if (plan.key == KeyKind::forged || plan.key == KeyKind::too_long) {
    if (plan.kind != OneSidedKind::flush && plan.kind != OneSidedKind::withdraw)
      accuse(index, "was executed although its key is wrong");
  }
  const bool ended_in_turn = status == Status::ok || status == Status::predecessor_failed;
  if (ended_in_turn && (plan.strong || plan.kind == OneSidedKind::flush)) check_order(index);
  if (ended_in_turn && plan.kind == OneSidedKind::flush) {
    for (std::uint32_t i = 0; i < records_.size(); ++i) {
      if (is_before(i, index)) records_[i].told = true;
    }
  }
  if (status == Status::ok && plan.kind == OneSidedKind::read) check_read(index);
  if (status == Status::ok && is_chained(plan.kind)) learn(index);
  if (status == Status::ok && plan.kind == OneSidedKind::withdraw) end_withdrawal(index);
}

void OneSided::check_order(std::uint32_t index) {
  const Record& record = records_[index];
  if (plan_.one_sided[index].kind == OneSidedKind::withdraw) return;
  std::uint64_t told = 0;    // what was posted before the post of that order was reported
  std::uint64_t failed = 0;  // after the newest that has failed
  for (std::uint32_t i = 0; i < records_.size(); ++i) {
    const Record& other = records_[i];
    if (!is_before(i, index)) continue;
    if (!other.completion) return accuse(index, "ended before " + text_of(i));
    const Status status = other.completion->status;
    if (status == Status::ok || other.session != record.session) continue;
    failed = std::max(failed, other.order + 1);
    if (plan_.one_sided[i].kind == OneSidedKind::flush) told = std::max(told, other.order + 1);
  }
  if (record.completion->status == Status::ok && failed > told)
    accuse(index, "was executed although one before it had failed");
}

void OneSided::check_read(std::uint32_t index) {
  const OneSidedPlan& plan = plan_.one_sided[index];
  const std::span<const std::byte> got = std::as_const(records_[index].into).bytes();
  const std::uint64_t begin = page_offset(index, plan.bytes);
  for (std::uint64_t i = 0; i < got.size(); ++i) {
    if (got[i] != page_byte(plan.to, begin + i)) return accuse(index, "brought wrong bytes");
  }
}

void OneSided::on_notice(std::uint32_t host, const Completion& notice) {
  const std::string at = "host " + std::to_string(host) + " has a notice ";
  if (notice.user_data >= memories_.size() || memories_[notice.user_data].host != host)
    return oracle_.accuse(at + "of no memory of its");
  const auto memory = static_cast<std::uint32_t>(notice.user_data);
  for (std::uint32_t i = 0; i < records_.size(); ++i) {
    const OneSidedPlan& plan = plan_.one_sided[i];
    Record& record = records_[i];
    const bool is_it = record.memory == memory && plan.kind == OneSidedKind::write &&
                       plan.to == host && places_[i] == notice.tag && plan.bytes == notice.bytes &&
                       (notice.status != Status::ok || notice.immediate == i);
    if (!is_it) continue;
    if (notice.status != Status::ok) {
      ++record.torn;
      return;
    }
    if (!plan.notifies || ++record.notices > 1) return accuse(i, "gave a notice too many");
    if (memories_[memory].poisoned) return;
    const std::span<const std::byte> bytes = std::as_const(memories_[memory].bytes).bytes();
    if (!std::ranges::equal(bytes.subspan(places_[i], plan.bytes), record.bytes))
      accuse(i, "gave a notice before it was placed");
    return;
  }
  oracle_.accuse(at + "of no write");
}

// ---- the judgement

void OneSided::judge() {
  for (std::uint32_t i = 0; i < memories_.size(); ++i) {
    Memory& memory = memories_[i];
    if (memory.last.empty()) {
      const std::span<const std::byte> bytes = std::as_const(memory.bytes).bytes();
      memory.last.assign(bytes.begin(), bytes.end());
    }
    judge_words(i);
    judge_chains(i);
    judge_places(i);
  }
  for (std::uint32_t i = 0; i < records_.size(); ++i) judge_notices(i);
}

void OneSided::judge_places(std::uint32_t number) {
  const Memory& memory = memories_[number];
  const std::span<const std::byte> bytes(memory.last);
  for (std::uint64_t i = 0; i < kPage; ++i) {
    if (bytes[kPageAt + i] != page_byte(memory.host, i))
      return oracle_.accuse("the page of host " + std::to_string(memory.host) + " was written");
  }
  for (std::uint32_t i = 0; i < records_.size(); ++i) {
    const OneSidedPlan& plan = plan_.one_sided[i];
    if (plan.kind != OneSidedKind::write || plan.to != memory.host) continue;
    const Record& record = records_[i];
    const std::span<const std::byte> place = bytes.subspan(places_[i], plan.bytes);
    const bool is_there = record.memory == number && plan.key != KeyKind::too_long;
    const Fate what = is_there ? fate_of_bytes(i) : Fate::not_executed;
    for (std::uint64_t at = 0; at < place.size(); ++at) {
      const bool is_old = place[at] == kBlank;
      const bool is_new = is_there && place[at] == record.bytes[at];
      if (what == Fate::executed ? is_new : is_old || (what == Fate::unknown && is_new)) continue;
      accuse(i, what == Fate::executed ? "has not placed all its bytes"
                                       : "has placed bytes that it should not have");
      return;
    }
  }
}

void OneSided::judge_notices(std::uint32_t index) {
  const OneSidedPlan& plan = plan_.one_sided[index];
  const Record& record = records_[index];
  if (plan.kind != OneSidedKind::write || record.memory == kNoMemory) return;
  const Fate what = fate(record);
  const Memory& memory = memories_[record.memory];
  const bool lives = world_.is_running(memory.host) && world_.life(memory.host) == memory.life;
  if (what == Fate::not_executed && record.notices > 0) accuse(index, "gave a notice in vain");
  if (what == Fate::executed && plan.notifies && lives && record.notices == 0)
    accuse(index, "gave no notice");
  if (what == Fate::executed && record.torn > 0) accuse(index, "was said to be unfinished");
}

void OneSided::judge_buffers() {
  for (const Memory& memory : memories_) {
    const std::string whose = " the memory of host " + std::to_string(memory.host);
    if (!memory.bytes.is_intact()) oracle_.accuse("bytes were written beside" + whose);
    if (!memory.poisoned) continue;
    const auto is_poison = [](std::byte byte) { return byte == kOver; };
    if (!std::ranges::all_of(memory.bytes.bytes(), is_poison))
      oracle_.accuse("after its withdrawal somebody wrote to" + whose);
  }
  for (std::uint32_t i = 0; i < records_.size(); ++i) {
    const OneSidedPlan& plan = plan_.one_sided[i];
    const Record& record = records_[i];
    if (!record.into.is_made()) continue;
    if (!record.into.is_intact()) accuse(i, "wrote beside its buffer");
    const std::uint64_t begin = page_offset(i, plan.bytes);
    const std::span<const std::byte> got = record.into.bytes();
    for (std::uint64_t at = 0; at < got.size(); ++at) {
      if (got[at] == kBlank || got[at] == page_byte(plan.to, begin + at)) continue;
      accuse(i, "wrote what is not of the page");
      break;
    }
  }
}

}  // namespace hawser::sim
