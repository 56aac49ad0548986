// SPDX-License-Identifier: Apache-2.0
// Port names: the port at which others ask for this endpoint's address, and the endpoints that this
// one asks for theirs.
//
// An endpoint has a port if its fi_info names one, or if its addresses are socket addresses. It
// asks for a port name as soon as that is in the AV, so that messages from there have a known
// source. Sends and receives for a peer that has not answered wait, in the order of the calls.
#include <rdma/fi_errno.h>

#include <string>
#include <utility>

#include "hawser/nics.hpp"
#include "plugin/ofi/endpoint.hpp"
#include "plugin/ofi/finished.hpp"
#include "plugin/ofi/log.hpp"

namespace hawser::ofi {
namespace {

// Interval between two looks at the port. Each costs a system call.
constexpr std::chrono::microseconds kBetweenLooks{200};

}  // namespace

void Endpoint::open_port() {
  const bool is_of_sockets = is_socket_format(format_);
  if (source_.at.port == 0 && !is_of_sockets) return;
  names_.port = std::make_unique<NamePort>(source_.at, is_of_sockets);
  // With engine threads, messages progress without calls of the program. Requests must, too.
  if (domain_.threads() > 0) names_.answers = std::make_unique<NameThread>(*names_.port, address_);
}

// The name of a port that takes requests at any address uses the address of the first NIC that has
// one. An RDMA port has no such address: then any address of the host serves.
PortName Endpoint::port_name() const {
  PortName name = names_.port->at();
  if (!name.is_any()) return name;
  const auto use = [&](const std::string& nic) {
    const std::optional<PortName> found = of_nic(nic);
    if (!found || found->is_v6 != name.is_v6) return false;
    name.ip = found->ip;
    name.scope = found->scope;
    return true;
  };
  for (const std::string& nic : domain_.config().nics) {
    if (use(nic)) return name;
  }
  for (const HostNic& nic : host_nics()) {
    if (nic.up && use(nic.name)) return name;
  }
  return name;
}

void Endpoint::ask(std::span<const fi_addr_t> addresses) {
  const Lock lock(mutex_);
  if (!endpoint_) return;
  for (const fi_addr_t address : addresses) (void)ask_locked(address);
}

ssize_t Endpoint::ask_locked(fi_addr_t address) {
  const std::optional<PortName> name = addresses_->name_of(address);
  if (!name) return -FI_EINVAL;
  try {
    if (!names_.asker) {
      names_.asker = std::make_unique<Asker>(names_.patience);
      for_each_sink([&](EventSink& sink) {
        if (sink.is_waitable()) sink.watch(names_.asker->fd());
      });
    }
    names_.asker->ask(address, *name, Clock::now());
    return 0;
  } catch (const std::exception& error) {
    complain(error.what());
    return -FI_ENOMEM;
  }
}

void Endpoint::turn_names_locked() {
  const Clock::time_point now = Clock::now();
  if (names_.port && !names_.answers && now >= names_.look_at) {
    names_.port->answer(address_);
    names_.look_at = now + kBetweenLooks;
  }
  if (!names_.asker) return;
  names_.asker->turn(now, [&](fi_addr_t address, const std::optional<AddressBytes>& bytes,
                              OperationQueue waiting) {
    if (bytes) {
      addresses_->set_answer(address, *bytes);
      resume_asked_locked(address, waiting);
      return;
    }
    if (!waiting.empty()) complain(describe_silence(address));
    fail_asked_locked(waiting, FI_EHOSTUNREACH, Status::peer_unreachable);
  });
  if (names_.asker->is_empty()) drop_asker_locked();
}

// Stops watching the descriptor first, so that a late answer doesn't make a descriptor readable
// that nobody reads.
void Endpoint::drop_asker_locked() {
  for_each_sink([&](EventSink& sink) {
    if (sink.is_waitable()) sink.forget(names_.asker->fd());
  });
  names_.asker.reset();
}

// Another endpoint of the AV may have received the answer first.
void Endpoint::settle_locked(fi_addr_t address) {
  AddressBytes bytes;
  if (!names_.asker->is_asking(address) || !addresses_->find(address, bytes)) return;
  resume_asked_locked(address, names_.asker->stop(address));
}

void Endpoint::resume_asked_locked(fi_addr_t address, OperationQueue waiting) {
  if (waiting.empty()) return;
  Route route;
  if (const ssize_t answer = route_locked(address, route); answer != 0 || route.is_asked()) {
    fail_asked_locked(waiting, answer != 0 ? static_cast<int>(-answer) : FI_EOTHER,
                      Status::unknown_peer);
    return;
  }
  while (!waiting.empty()) {
    Operation& operation = *waiting.pop();
    const bool is_by_mirror = mirror_.is(route.from);
    if (operation.is_send) {
      operation.peer = route.peer;
      operation.is_by_mirror = is_by_mirror;
      const PeerId name = name_of_locked(operation);
      if (operation.is_fenced || behind_fence_.waits(name)) {
        behind_fence_.push(name, operation);
      } else {
        queue_locked(operation);
      }
      continue;
    }
    operation.peer = is_by_mirror ? mirror_.from_us : route.peer;
    const ssize_t answer = place_receive_locked(operation);
    if (answer != 0) fail_locked(operation, static_cast<int>(-answer), operation.status);
  }
  if (!behind_fence_.empty()) release_fences_locked();
  if (!waiting_sends_.empty()) resume_sends_locked();
}

void Endpoint::fail_asked_locked(OperationQueue waiting, int error, Status status) {
  while (!waiting.empty()) {
    Operation& operation = *waiting.pop();
    if (operation.is_multi) operation.flags |= FI_MULTI_RECV;
    fail_locked(operation, error, status);
  }
}

bool Endpoint::cancel_asked_locked(void* op_context) {
  Operation* const operation = names_.asker ? names_.asker->take(op_context) : nullptr;
  if (operation == nullptr) return false;
  OperationQueue one;
  one.push(*operation);
  fail_asked_locked(one, FI_ECANCELED, Status::cancelled);
  return true;
}

bool Endpoint::has_waiting_sends() const {
  return !waiting_sends_.empty() || !waiting_one_sided_.empty() || !behind_fence_.empty() ||
         (names_.asker && names_.asker->has_sends());
}

std::string Endpoint::describe_silence(fi_addr_t address) {
  const std::optional<PortName> name = addresses_->name_of(address);
  const auto waited =
      std::chrono::duration_cast<std::chrono::milliseconds>(names_.patience).count();
  std::string text(to_string(Status::peer_unreachable));
  if (!name) return text;
  return text + ": no endpoint answered at UDP port " + to_text(*name) + " (fi_addr " +
         std::to_string(address) + ") within " + std::to_string(waited) + " ms";
}

}  // namespace hawser::ofi
