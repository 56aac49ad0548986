// SPDX-License-Identifier: Apache-2.0
#include "plugin/ofi/completion_queue.hpp"

#include <rdma/fi_errno.h>

#include <cstring>
#include <new>
#include <system_error>
#include <utility>

#include "plugin/ofi/endpoint.hpp"
#include "plugin/ofi/finished.hpp"
#include "plugin/ofi/log.hpp"
#include "plugin/ofi/refusals.hpp"

namespace hawser::ofi {
namespace {

CompletionQueue& queue_of(fid_cq* queue) { return object_of<CompletionQueue>(queue); }

int close_queue(struct fid* fid) {
  CompletionQueue& queue = object_of<CompletionQueue, fid_cq>(fid);
  if (queue.users != 0) return -FI_EBUSY;
  delete &queue;
  return 0;
}

int control_queue(struct fid* fid, int command, void* argument) {
  return object_of<CompletionQueue, fid_cq>(fid).control(command, argument);
}

ssize_t read(fid_cq* queue, void* entries, std::size_t count) {
  return queue_of(queue).read(entries, count, nullptr);
}

ssize_t read_from(fid_cq* queue, void* entries, std::size_t count, fi_addr_t* sources) {
  return queue_of(queue).read(entries, count, sources);
}

ssize_t read_error(fid_cq* queue, fi_cq_err_entry* entry, std::uint64_t) {
  return queue_of(queue).read_error(*entry);
}

// Returns the entries that are there, whatever number the condition asks for.
ssize_t wait_and_read(fid_cq* queue, void* entries, std::size_t count, const void*, int timeout) {
  return queue_of(queue).wait_and_read(entries, count, nullptr, timeout);
}

ssize_t wait_and_read_from(fid_cq* queue, void* entries, std::size_t count, fi_addr_t* sources,
                           const void*, int timeout) {
  return queue_of(queue).wait_and_read(entries, count, sources, timeout);
}

int signal(fid_cq* queue) {
  queue_of(queue).stop_waiting();
  return 0;
}

fi_ops queue_fid_ops = [] {
  fi_ops ops{};
  ops.close = close_queue;
  ops.control = control_queue;
  return completed(ops);
}();

fi_ops_cq queue_ops{
    .size = sizeof(fi_ops_cq),
    .read = read,
    .readfrom = read_from,
    .readerr = read_error,
    .sread = wait_and_read,
    .sreadfrom = wait_and_read_from,
    .signal = signal,
    .strerror = [](fid_cq*, int status, const void* text, char* out, std::size_t bytes) {
      return error_text(status, text, out, bytes);
    }};

}  // namespace

CompletionQueue::CompletionQueue(Domain& domain, const fi_cq_attr& attr, void* opener)
    : fid_cq{},
      EventSink(domain, attr.wait_obj),
      domain_(domain),
      format_(attr.format == FI_CQ_FORMAT_UNSPEC ? FI_CQ_FORMAT_TAGGED : attr.format),
      errors_mutex_(domain.is_locking()) {
  fid.fclass = FI_CLASS_CQ;
  fid.context = opener;
  fid.ops = &queue_fid_ops;
  ops = &queue_ops;
  ++domain_.users;
}

CompletionQueue::~CompletionQueue() { --domain_.users; }

void CompletionQueue::push(Operation& operation) {
  const Lock lock(state_mutex_);
  finished_.push(operation);
  ring_locked();
}

void CompletionQueue::drop(const Endpoint& endpoint) {
  const Lock errors_lock(errors_mutex_);
  const Lock lock(state_mutex_);
  finished_.remove_if([&](const Operation& operation) { return operation.endpoint == &endpoint; });
  (void)is_empty_locked();
}

bool CompletionQueue::is_empty_locked() {
  const bool is_empty = finished_.empty();
  if (is_empty) quiet_locked();
  return is_empty;
}

bool CompletionQueue::has_entries() {
  const Lock lock(state_mutex_);
  return !is_empty_locked();
}

ssize_t CompletionQueue::take(void* entries, std::size_t count, fi_addr_t* sources) {
  const Lock lock(state_mutex_);
  if (is_empty_locked()) return -FI_EAGAIN;
  if (finished_.front()->error != 0) return -FI_EAVAIL;
  auto* out = static_cast<std::byte*>(entries);
  std::size_t taken = 0;
  while (taken < count && !finished_.empty() && finished_.front()->error == 0) {
    Operation& operation = *finished_.pop();
    out += write_entry(operation, format_, out);
    if (sources != nullptr) sources[taken] = operation.source;
    operation.pool->give_later(operation);
    ++taken;
  }
  was_emptied_ = is_empty_locked();
  return static_cast<ssize_t>(taken);
}

bool CompletionQueue::is_asked_for_more() {
  const Lock lock(state_mutex_);
  return std::exchange(was_emptied_, false);
}

ssize_t CompletionQueue::read(void* entries, std::size_t count, fi_addr_t* sources) {
  // A read of no entries only makes progress.
  if (count > 0) {
    const ssize_t taken = take(entries, count, sources);
    if (taken != -FI_EAGAIN) {
      idle_reads_.found();
      return taken;
    }
    // A program that reads until the queue is empty already has the entry it waited for. A turn now
    // would send the acknowledgement by itself. Without that turn the program's next message can
    // carry the acknowledgement.
    if (is_asked_for_more()) return -FI_EAGAIN;
  }
  idle_reads_.begin();
  progress();
  const ssize_t taken = take(entries, count, sources);
  taken != -FI_EAGAIN ? idle_reads_.found() : idle_reads_.pause();
  return taken;
}

ssize_t CompletionQueue::wait_and_read(void* entries, std::size_t count, fi_addr_t* sources,
                                       int timeout_ms) {
  if (!is_waitable()) return -FI_ENOSYS;
  ssize_t taken = -FI_EAGAIN;
  (void)wait_until(
      [&] {
        taken = take(entries, count, sources);
        return taken != -FI_EAGAIN;
      },
      timeout_ms);
  return taken;
}

ssize_t CompletionQueue::read_error(fi_cq_err_entry& entry) {
  const Lock errors_lock(errors_mutex_);
  Operation* operation = nullptr;
  {
    const Lock lock(state_mutex_);
    if (finished_.empty() || finished_.front()->error == 0) return -FI_EAGAIN;
    operation = finished_.pop();
    (void)is_empty_locked();
  }
  // Ask the endpoint before locking, because its lock comes before ours.
  std::string text;
  if (has_details(operation->status)) text = operation->endpoint->describe(*operation);
  const Lock lock(state_mutex_);
  error_text_ = std::move(text);
  write_error(*operation, error_text_, domain_.api_version(), entry);
  operation->pool->give_later(*operation);
  return 1;
}

int CompletionQueue::try_wait() {
  if (!is_waitable()) return -FI_EINVAL;
  // After fi_cq_signal the program has to look once.
  if (has_entries() || is_stopped()) return -FI_EAGAIN;
  progress();
  return has_entries() || must_be_turned() ? -FI_EAGAIN : 0;
}

int open_completion_queue(fid_domain* domain, fi_cq_attr* attr, fid_cq** queue, void* context) {
  const fi_cq_attr none{};
  const fi_cq_attr& asked = attr != nullptr ? *attr : none;
  if (asked.format < FI_CQ_FORMAT_UNSPEC || asked.format > FI_CQ_FORMAT_TAGGED) return -FI_EINVAL;
  if (!is_offered(asked.wait_obj) || (asked.flags & FI_PEER) != 0) return -FI_ENOSYS;
  try {
    *queue = new CompletionQueue(object_of<Domain>(domain), asked, context);
    return 0;
  } catch (const std::system_error& error) {
    log_warning(error.what());
    return -error.code().value();
  } catch (const std::bad_alloc&) {
    return -FI_ENOMEM;
  }
}

}  // namespace hawser::ofi
