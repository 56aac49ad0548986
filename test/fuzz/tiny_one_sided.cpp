// SPDX-License-Identifier: Apache-2.0
#include "test/fuzz/tiny_one_sided.hpp"

#include <algorithm>
#include <set>
#include <utility>

namespace hawser::test {

namespace {

constexpr std::uint8_t kSwapped = 2;
constexpr std::uint8_t kAnything = 3;

// An offset that lies outside the region.
constexpr std::size_t kBeyond = TinyRegion::kBytes + 8;

std::byte byte_of_write(std::size_t record, std::size_t i) {
  return static_cast<std::byte>(record * 31 + i * 7 + i / 256 + 1);
}

bool ends_with_session(Status status) {
  return is_peer_failure(status) || status == Status::endpoint_closed;
}

RegionAccess right_for(OperationKind kind) {
  if (kind == OperationKind::write) return RegionAccess::write;
  return kind == OperationKind::read ? RegionAccess::read : RegionAccess::atomic;
}

}  // namespace

// ---- regions

TinyRegion* TinyOneSided::region_at(std::uint32_t node, std::uint8_t which) const {
  const Regions& regions = regions_[node];
  return regions.empty() ? nullptr : regions[which % regions.size()].get();
}

RegionKey TinyOneSided::key_of(std::uint32_t node, std::uint8_t which) const {
  const TinyRegion* const region = region_at(node, which);
  return region == nullptr ? RegionKey{.bytes = TinyRegion::kBytes} : region->key;
}

RegionKey TinyOneSided::key_for(std::uint32_t node, std::uint8_t which, Key key) const {
  RegionKey made = key_of(node, which);
  if (key == Key::wrong_secret) made.secret ^= 1;
  if (key == Key::too_long) made.bytes *= 4;
  return made;
}

void TinyOneSided::expose(std::uint32_t node, RegionAccess rights, bool executes) {
  Regions& regions = regions_[node];
  if (regions.size() == kMostRegions) return;
  auto region = std::make_unique<TinyRegion>(rights, executes);
  proto::Endpoint& endpoint = *world_.node(node).endpoint;
  const Status status = endpoint.expose({.data = region->bytes().data(),
                                         .bytes = TinyRegion::kBytes,
                                         .access = rights,
                                         .user_data = regions.size() + 1},
                                        *region, region->id);
  if (status != Status::ok) return;
  HAWSER_ASSERT(endpoint.region_key(region->id, region->key) == Status::ok);
  regions.push_back(std::move(region));
}

void TinyOneSided::withdraw(std::uint32_t node, std::uint8_t which) {
  Record record;
  record.kind = OperationKind::withdraw;
  record.target.from = node;
  record.region = region_at(node, which);
  if (record.region == nullptr) return;
  const std::size_t before = records_.size();
  post(record, 0, [&](proto::Endpoint& endpoint, const TinyOperation& operation) {
    return endpoint.withdraw(world_.now(), record.region->id, operation.id, 0);
  });
  if (records_.size() > before) record.region->begin_withdrawal();
}

// ---- operations

TinyOneSided::Record TinyOneSided::record_of(OperationKind kind, const Target& target) const {
  Record record;
  record.kind = kind;
  record.target = target;
  record.peer = world_.node(target.from).peer;
  record.region = region_at(1 - target.from, target.region);
  record.is_late = record.region != nullptr && record.region->withdrawn();
  return record;
}

template <class Call>
void TinyOneSided::post(Record record, std::size_t bytes, const Call& call) {
  TinyNode& node = world_.node(record.target.from);
  if (record.kind != OperationKind::withdraw && record.peer == kAnyPeer) return;
  TinyOperation* const operation = world_.take(node);
  if (operation == nullptr) return;
  const std::size_t index = records_.size();
  operation->record = static_cast<std::uint32_t>(index);
  operation->size = bytes;
  if (bytes > 0) operation->bytes = std::make_unique<std::byte[]>(bytes);
  for (std::size_t i = 0; i < bytes; ++i) operation->bytes[i] = byte_of_write(index, i);
  record.session = node.endpoint->stats().sessions_established;
  record.posted = ++moments_;
  node.next_turn = world_.now();
  const Status status = call(*node.endpoint, *operation);
  if (world_.took(node, *operation, status)) records_.push_back(std::move(record));
}

WordOperation TinyOneSided::operation_on(const Word& word) const {
  if (word.index == kSwapped) return {AtomicOperation::swap, 8, records_.size() + 1, 0};
  if (word.index != kAnything) return {AtomicOperation::add, 8, 1, 0};
  return {word.operation, static_cast<std::uint8_t>(word.narrow ? 4 : 8), word.operand,
          word.operand / 2};
}

std::size_t TinyOneSided::offset_of(const Word& word, Key key) {
  if (key == Key::too_long) return kBeyond;
  return word.index * sizeof(std::uint64_t) + (word.shifted ? 4 : 0);
}

void TinyOneSided::write(const Target& target, std::size_t at, std::size_t bytes, bool notifies,
                         const std::optional<SignalChoice>& signal) {
  Record record = record_of(OperationKind::write, target);
  const std::uint32_t owner = 1 - target.from;
  record.at = TinyRegion::kPlaceAt + at;
  record.bytes = bytes;
  record.notifies = notifies;
  WriteRequest request{.peer = record.peer,
                       .channel = target.channel,
                       .key = key_for(owner, target.region, target.key),
                       .offset = target.key == Key::too_long ? kBeyond : record.at,
                       .bytes = bytes,
                       .notifies = notifies,
                       .strong = target.strong,
                       .immediate = records_.size() + 1};
  if (signal) {
    record.word = signal->word;
    record.of_word = region_at(owner, signal->region);
    record.key_of_word = signal->key;
    record.is_late |= record.of_word != nullptr && record.of_word->withdrawn();
    request.signal = Signal{.key = key_for(owner, signal->region, signal->key),
                            .offset = offset_of(signal->word, signal->key),
                            .word = operation_on(signal->word)};
  }
  post(record, bytes, [&](proto::Endpoint& endpoint, const TinyOperation& operation) {
    request.data = operation.bytes.get();
    return endpoint.write(world_.now(), operation.id, request);
  });
}

void TinyOneSided::read(const Target& target, std::size_t at, std::size_t bytes, bool of_place) {
  Record record = record_of(OperationKind::read, target);
  record.at = (of_place ? TinyRegion::kPlaceAt : TinyRegion::kPageAt) + at;
  record.bytes = bytes;
  post(record, bytes, [&](proto::Endpoint& endpoint, const TinyOperation& operation) {
    return endpoint.read(world_.now(), operation.id,
                         {.peer = record.peer,
                          .channel = target.channel,
                          .key = key_for(1 - target.from, target.region, target.key),
                          .offset = target.key == Key::too_long ? kBeyond : record.at,
                          .data = operation.bytes.get(),
                          .bytes = bytes,
                          .strong = target.strong});
  });
}

void TinyOneSided::atomic(const Target& target, const Word& word, bool fetches) {
  Record record = record_of(OperationKind::atomic, target);
  record.word = word;
  record.of_word = record.region;
  record.key_of_word = target.key;
  record.fetches = fetches;
  post(record, 0, [&](proto::Endpoint& endpoint, const TinyOperation& operation) {
    return endpoint.atomic(world_.now(), operation.id,
                           {.peer = record.peer,
                            .channel = target.channel,
                            .key = key_for(1 - target.from, target.region, target.key),
                            .offset = offset_of(word, target.key),
                            .word = operation_on(word),
                            .fetches = fetches,
                            .strong = target.strong});
  });
}

void TinyOneSided::flush(std::uint32_t node, std::uint16_t channel) {
  Record record;
  record.kind = OperationKind::flush;
  record.target.from = node;
  record.target.channel = channel;
  record.peer = world_.node(node).peer;
  post(record, 0, [&](proto::Endpoint& endpoint, const TinyOperation& operation) {
    return endpoint.flush_channel(world_.now(), operation.id,
                                  {.peer = record.peer, .channel = channel});
  });
}

// ---- completions

void TinyOneSided::on_completed(const TinyOperation& operation, const Completion& completion) {
  Record& record = records_[operation.record];
  HAWSER_ASSERT(completion.kind == record.kind, "a completion of another kind");
  if (record.completion) {
    HAWSER_ASSERT(!record.completion->released && completion.released &&
                      record.completion->status == completion.status,
                  "a second completion that does not only release");
  } else {
    record.ended = ++moments_;
    check_order(record, completion);
    if (world_.honest) {
      HAWSER_ASSERT(may_end(record, completion.status), "an operation ended with a wrong status");
      if (completion.status == Status::ok) check_read(record, operation);
    }
  }
  record.completion = completion;
  if (record.kind != OperationKind::withdraw || !completion.released) return;
  judge(*record.region);
  record.region->end_withdrawal();
}

bool TinyOneSided::is_before(const Record& first, const Record& second) const {
  return first.kind != OperationKind::withdraw && first.target.from == second.target.from &&
         first.peer == second.peer && first.target.channel == second.target.channel &&
         first.posted < second.posted;
}

// Whether one before it on its channel has failed.
bool TinyOneSided::follows_failure(const Record& record) const {
  return std::ranges::any_of(records_, [&](const Record& other) {
    return is_before(other, record) && other.completion && other.completion->status != Status::ok;
  });
}

void TinyOneSided::check_order(const Record& record, const Completion& completion) const {
  const bool waits = record.target.strong || record.kind == OperationKind::flush;
  const bool in_turn =
      completion.status == Status::ok || completion.status == Status::predecessor_failed;
  if (!waits || !in_turn) return;
  std::uint64_t failed = 0;  // when the newest was posted that has failed
  std::uint64_t told = 0;    // when the newest flush was posted that has reported a failure
  for (const Record& other : records_) {
    if (!is_before(other, record)) continue;
    HAWSER_ASSERT(other.completion, "an operation ended before one that it waits for");
    if (other.completion->status == Status::ok || other.session != record.session) continue;
    failed = other.posted;
    if (other.kind == OperationKind::flush) told = other.posted;
  }
  if (!world_.honest || completion.status != Status::ok) return;
  HAWSER_ASSERT(failed == told, "an operation ended well behind a failure");
}

// Whether the call named something that the owner has to refuse.
bool TinyOneSided::is_refused(const Record& record) {
  if (record.kind == OperationKind::flush) return false;
  const RegionAccess wanted = right_for(record.kind);
  if (record.is_late || record.target.key != Key::right || !allows(record.region->rights(), wanted))
    return true;
  if (!record.word) return false;
  const bool misaligned = record.word->shifted && !record.word->narrow;
  return misaligned || record.key_of_word != Key::right || !record.of_word->executes() ||
         !allows(record.of_word->rights(), RegionAccess::atomic);
}

bool TinyOneSided::may_end(const Record& record, Status status) const {
  if (record.kind == OperationKind::withdraw) return status == Status::ok;
  if (ends_with_session(status)) return true;
  const bool is_withdrawn = (record.region != nullptr && record.region->withdrawn()) ||
                            (record.of_word != nullptr && record.of_word->withdrawn());
  switch (status) {
    case Status::ok: return !is_refused(record);
    case Status::access_denied: return is_refused(record) || is_withdrawn;
    case Status::region_withdrawn: return is_withdrawn;
    case Status::misaligned: return record.word && record.word->shifted && !record.word->narrow;
    case Status::unsupported: return record.word && !record.of_word->executes();
    case Status::predecessor_failed:
      return (record.target.strong || record.kind == OperationKind::flush) &&
             follows_failure(record);
    default: return false;
  }
}

std::byte TinyOneSided::byte_of(const Record& write, std::size_t at) const {
  return byte_of_write(static_cast<std::size_t>(&write - records_.data()), at - write.at);
}

void TinyOneSided::check_read(const Record& record, const TinyOperation& operation) const {
  if (record.kind != OperationKind::read) return;
  const auto writes = writes_to(*record.region);
  for (std::size_t i = 0; i < record.bytes; ++i) {
    const std::size_t at = record.at + i;
    const std::byte byte = operation.bytes[i];
    const bool may_be =
        byte == TinyRegion::initial(at) || std::ranges::any_of(writes, [&](const Record* write) {
          return at >= write->at && at - write->at < write->bytes && byte == byte_of(*write, at);
        });
    HAWSER_ASSERT(may_be, "a read brought what was never there");
  }
}

void TinyOneSided::on_notice(std::uint32_t node, const Completion& notice) {
  HAWSER_ASSERT(notice.kind == OperationKind::notice && notice.operation == kNoOperation);
  if (!world_.honest) return;
  HAWSER_ASSERT(notice.user_data <= regions_[node].size(), "a notice of no region");
  if (notice.status != Status::ok) {
    HAWSER_ASSERT(ends_with_session(notice.status), "a notice with a wrong status");
    return;
  }
  HAWSER_ASSERT(notice.immediate - 1 < records_.size(), "a notice of no write");
  Record& record = records_[notice.immediate - 1];
  HAWSER_ASSERT(record.kind == OperationKind::write && record.notifies &&
                    record.target.from == 1 - node && record.target.channel == notice.channel &&
                    record.at == notice.tag && record.bytes == notice.bytes,
                "a notice of another write");
  ++record.notices;
}

// ---- the judgement

TinyOneSided::Fate TinyOneSided::fate(const Record& record) {
  if (!record.completion) return Fate::unknown;
  const Completion& completion = *record.completion;
  if (completion.status == Status::ok || completion.executed) return Fate::executed;
  return completion.outcome_unknown ? Fate::unknown : Fate::not_executed;
}

// The bytes of a write are placed before its signal is executed, and fragment by fragment before
// its region is withdrawn.
TinyOneSided::Fate TinyOneSided::fate_of_bytes(const Record& record) {
  const Fate what = fate(record);
  if (what != Fate::not_executed) return what;
  const Status status = record.completion->status;
  const bool may_be_placed =
      status == Status::region_withdrawn || (record.word && status == Status::unsupported);
  return may_be_placed ? Fate::unknown : what;
}

std::vector<const TinyOneSided::Record*> TinyOneSided::writes_to(const TinyRegion& region) const {
  std::vector<const Record*> writes;
  for (const Record& record : records_) {
    if (record.kind == OperationKind::write && record.region == &region &&
        record.target.key == Key::right && fate_of_bytes(record) != Fate::not_executed)
      writes.push_back(&record);
  }
  return writes;
}

void TinyOneSided::judge() {
  for (std::uint32_t node = 0; node < 2; ++node) {
    for (const auto& region : regions_[node]) {
      if (!region->exists()) continue;
      judge(*region);
      RegionStats stats;
      if (world_.node(node).endpoint->region_stats(region->id, stats) == Status::ok) {
        HAWSER_ASSERT(stats.unfinished_from <= stats.unfinished_to &&
                          stats.unfinished_to <= TinyRegion::kBytes,
                      "an unfinished write that was never granted");
      }
    }
  }
  if (world_.honest) judge_notices();
}

void TinyOneSided::judge(TinyRegion& region) const {
  region.check_guards();
  if (!world_.honest) return;
  judge_counter(region, 0);
  judge_counter(region, 1);
  judge_swaps(region);
  for (std::size_t at = TinyRegion::kPageAt; at < TinyRegion::kPlaceAt; ++at) {
    HAWSER_ASSERT(region.bytes()[at] == TinyRegion::initial(at), "the page was written");
  }
  judge_place(region);
}

void TinyOneSided::judge_counter(TinyRegion& region, std::uint8_t word) const {
  const std::uint64_t value = region.word(word);
  std::uint64_t certain = 0;
  std::uint64_t possible = 0;
  std::set<std::uint64_t> fetched;
  for (const Record& record : records_) {
    if (!record.word || record.word->index != word || record.of_word != &region) continue;
    const Fate what = fate(record);
    certain += what == Fate::executed ? 1 : 0;
    possible += what == Fate::unknown ? 1 : 0;
    if (!record.fetches || !record.completion || record.completion->status != Status::ok) continue;
    const std::uint64_t got = record.completion->immediate;
    HAWSER_ASSERT(got < value, "an add fetched a count that the word never passed");
    const bool is_first = fetched.insert(got).second;
    HAWSER_ASSERT(is_first, "two adds fetched the same count");
  }
  HAWSER_ASSERT(value >= certain, "an add or a signal is missing");
  HAWSER_ASSERT(value <= certain + possible, "an add or a signal was executed twice");
}

void TinyOneSided::judge_swaps(TinyRegion& region) const {
  const auto is_of_region = [&](const Record& record) {
    return record.word && record.word->index == kSwapped && record.of_word == &region;
  };
  std::set<std::uint64_t> stored{0};
  for (std::size_t i = 0; i < records_.size(); ++i) {
    if (is_of_region(records_[i]) && fate(records_[i]) != Fate::not_executed) stored.insert(i + 1);
  }
  std::set<std::uint64_t> left = stored;
  for (const Record& record : records_) {
    if (!is_of_region(record) || !record.fetches || !record.completion ||
        record.completion->status != Status::ok)
      continue;
    const std::uint64_t got = record.completion->immediate;
    HAWSER_ASSERT(stored.contains(got), "a swap fetched what nobody has stored");
    const bool is_first = left.erase(got) == 1;
    HAWSER_ASSERT(is_first, "two swaps fetched the same value");
  }
  HAWSER_ASSERT(left.contains(region.word(kSwapped)), "a word has a value that a swap took away");
}

void TinyOneSided::judge_place(TinyRegion& region) const {
  const auto writes = writes_to(region);
  for (std::size_t at = TinyRegion::kPlaceAt; at < TinyRegion::kBytes; ++at) {
    const auto covers = [at](const Record& write) {
      return at >= write.at && at - write.at < write.bytes;
    };
    std::uint64_t newest = 0;  // when the newest was posted that was executed for certain
    for (const Record* write : writes) {
      if (covers(*write) && fate(*write) == Fate::executed)
        newest = std::max(newest, write->posted);
    }
    const std::byte byte = region.bytes()[at];
    const bool is_blank = newest == 0 && byte == TinyRegion::initial(at);
    const bool may_be = is_blank || std::ranges::any_of(writes, [&](const Record* write) {
                          const bool is_over =
                              fate(*write) == Fate::executed && write->ended < newest;
                          return covers(*write) && !is_over && byte == byte_of(*write, at);
                        });
    HAWSER_ASSERT(may_be, "a byte of the place is of no write that can have been the last");
  }
}

void TinyOneSided::judge_notices() const {
  for (const Record& record : records_) {
    if (record.kind != OperationKind::write || !record.notifies) continue;
    const Fate what = fate(record);
    HAWSER_ASSERT(record.notices <= (what == Fate::not_executed ? 0u : 1u), "a notice too many");
    HAWSER_ASSERT(what != Fate::executed || record.notices == 1, "a notice is missing");
  }
}

}  // namespace hawser::test
