// SPDX-License-Identifier: Apache-2.0
#include "plugin/ofi/poll_set.hpp"

#include <rdma/fi_errno.h>

#include <algorithm>
#include <new>
#include <utility>
#include <vector>

#include "plugin/ofi/completion_queue.hpp"
#include "plugin/ofi/counter.hpp"
#include "plugin/ofi/domain.hpp"
#include "plugin/ofi/object.hpp"
#include "plugin/ofi/refusals.hpp"

namespace hawser::ofi {
namespace {

class PollSet : public fid_poll {
 public:
  explicit PollSet(Domain& domain);
  ~PollSet();

  int poll(void** contexts, int count);
  int add(struct fid* member);
  int remove(struct fid* member);

 private:
  struct Member {
    struct fid* fid;
    std::uint64_t seen;  // last value seen, of a counter
  };
  [[nodiscard]] static bool has_news(Member& member);
  int find(void** contexts, int count);

  Domain& domain_;
  IdleReads idle_reads_;
  Mutex mutex_;
  std::vector<Member> members_;
  // Where the next poll begins. If each began with the first member, a small `count` would starve
  // those behind members that are always ready.
  std::size_t next_ = 0;
};

EventSink* sink_of(struct fid* fid) {
  if (fid->fclass == FI_CLASS_CQ) return &object_of<CompletionQueue, fid_cq>(fid);
  if (fid->fclass == FI_CLASS_CNTR) return &object_of<Counter, fid_cntr>(fid);
  return nullptr;
}

fi_ops set_fid_ops = [] {
  fi_ops ops{};
  ops.close = [](struct fid* fid) {
    delete &object_of<PollSet, fid_poll>(fid);
    return 0;
  };
  return completed(ops);
}();

fi_ops_poll set_ops{.size = sizeof(fi_ops_poll),
                    .poll = [](fid_poll* set, void** contexts,
                               int count) { return object_of<PollSet>(set).poll(contexts, count); },
                    .poll_add = [](fid_poll* set, struct fid* fid,
                                   std::uint64_t) { return object_of<PollSet>(set).add(fid); },
                    .poll_del = [](fid_poll* set, struct fid* fid,
                                   std::uint64_t) { return object_of<PollSet>(set).remove(fid); }};

PollSet::PollSet(Domain& domain)
    : fid_poll{},
      domain_(domain),
      idle_reads_(domain.config().tunables.spin_us),
      mutex_(domain.is_locking()) {
  fid.fclass = FI_CLASS_POLL;
  fid.ops = &set_fid_ops;
  ops = &set_ops;
  ++domain_.users;
}

PollSet::~PollSet() {
  for (const Member& member : members_) --sink_of(member.fid)->users;
  --domain_.users;
}

// A queue counts as long as it has entries, a counter once for each change.
bool PollSet::has_news(Member& member) {
  if (member.fid->fclass == FI_CLASS_CQ) {
    CompletionQueue& queue = object_of<CompletionQueue, fid_cq>(member.fid);
    if (!queue.has_entries()) queue.progress();
    return queue.has_entries();
  }
  Counter& counter = object_of<Counter, fid_cntr>(member.fid);
  counter.progress();
  const std::uint64_t now = counter.value() + counter.errors();
  return std::exchange(member.seen, now) != now;
}

int PollSet::poll(void** contexts, int count) {
  idle_reads_.begin();
  const int found = find(contexts, count);
  found > 0 ? idle_reads_.found() : idle_reads_.pause();
  return found;
}

int PollSet::find(void** contexts, int count) {
  const Lock lock(mutex_);
  int found = 0;
  for (std::size_t looked = 0; looked < members_.size() && found < count; ++looked) {
    if (next_ >= members_.size()) next_ = 0;
    Member& member = members_[next_++];
    if (has_news(member)) contexts[found++] = member.fid->context;
  }
  return found;
}

int PollSet::add(struct fid* member) {
  EventSink* const sink = sink_of(member);
  if (sink == nullptr) return -FI_EINVAL;
  const Lock lock(mutex_);
  if (std::ranges::count(members_, member, &Member::fid) > 0) return -FI_EINVAL;
  const bool is_counter = member->fclass == FI_CLASS_CNTR;
  Counter* const counter = is_counter ? &object_of<Counter, fid_cntr>(member) : nullptr;
  members_.push_back({member, counter != nullptr ? counter->value() + counter->errors() : 0});
  ++sink->users;
  return 0;
}

int PollSet::remove(struct fid* member) {
  const Lock lock(mutex_);
  if (std::erase_if(members_, [&](const Member& m) { return m.fid == member; }) == 0)
    return -FI_EINVAL;
  --sink_of(member)->users;
  return 0;
}

}  // namespace

int open_poll_set(fid_domain* domain, fi_poll_attr* attr, fid_poll** set) {
  if (attr != nullptr && attr->flags != 0) return -FI_EINVAL;
  *set = new (std::nothrow) PollSet(object_of<Domain>(domain));
  return *set == nullptr ? -FI_ENOMEM : 0;
}

}  // namespace hawser::ofi
