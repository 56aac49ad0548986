// SPDX-License-Identifier: Apache-2.0
#include "plugin/ofi/endpoint.hpp"

#include <rdma/fi_cm.h>
#include <rdma/fi_errno.h>

#include <algorithm>
#include <cstring>
#include <new>

#include "plugin/ofi/finished.hpp"
#include "plugin/ofi/info.hpp"
#include "plugin/ofi/log.hpp"
#include "plugin/ofi/object.hpp"
#include "plugin/ofi/refusals.hpp"

namespace hawser::ofi {
namespace {

constexpr std::size_t kExtraOperations = 4096;
// Sends that copy their bytes, each with a place for them.
constexpr std::size_t kInjects = 4096;
constexpr std::size_t kCopied = 1024;

Endpoint& endpoint_of(struct fid* fid) { return object_of<Endpoint, fid_ep>(fid); }

int close_endpoint(struct fid* fid) {
  delete &endpoint_of(fid);
  return 0;
}

int control(struct fid* fid, int command, void* argument) {
  switch (command) {
    case FI_ENABLE: return endpoint_of(fid).enable();
    case FI_GETOPSFLAG:
    case FI_SETOPSFLAG:
      return endpoint_of(fid).control_flags(command, *static_cast<std::uint64_t*>(argument));
    default: return -FI_ENOSYS;
  }
}

fi_ops endpoint_fid_ops = [] {
  fi_ops ops{};
  ops.close = close_endpoint;
  ops.bind = [](struct fid* fid, struct fid* other, std::uint64_t flags) {
    return endpoint_of(fid).bind(other, flags);
  };
  ops.control = control;
  return completed(ops);
}();

fi_ops_cm name_calls = [] {
  fi_ops_cm ops{};
  ops.getname = [](struct fid* fid, void* address, std::size_t* bytes) {
    return endpoint_of(fid).name(address, bytes);
  };
  return completed(ops);
}();

fi_ops_ep endpoint_ops = [] {
  fi_ops_ep ops{};
  ops.size = sizeof ops;
  ops.cancel = [](struct fid* fid, void* context) { return endpoint_of(fid).cancel(context); };
  ops.getopt = [](struct fid* fid, int level, int name, void* value, std::size_t* bytes) {
    return level == FI_OPT_ENDPOINT ? endpoint_of(fid).option(name, value, bytes) : -FI_ENOPROTOOPT;
  };
  ops.setopt = [](struct fid* fid, int level, int name, const void* value, std::size_t bytes) {
    return level == FI_OPT_ENDPOINT ? endpoint_of(fid).set_option(name, value, bytes)
                                    : -FI_ENOPROTOOPT;
  };
  ops.rx_size_left = [](fid_ep* ep) { return object_of<Endpoint>(ep).receives_left(); };
  ops.tx_size_left = [](fid_ep* ep) { return object_of<Endpoint>(ep).sends_left(); };
  refuse(ops.tx_ctx);
  refuse(ops.rx_ctx);
  return ops;
}();

std::size_t or_usual(std::size_t asked, std::size_t usual) { return asked != 0 ? asked : usual; }

// Reads the source address. A missing part means any address, or a port of the system's choice if
// one is needed. In our own format libraries put another endpoint's address there, which is
// ignored.
bool source_of(const fi_info& info, Source& source) {
  source.at.is_v6 = family_of(info.addr_format) == AF_INET6;
  if (info.src_addr == nullptr) return true;
  const auto read = read_source(info.addr_format, info.src_addr, info.src_addrlen);
  if (read) source = *read;
  return read.has_value() || info.addr_format == FI_FORMAT_UNSPEC;
}

// A program that asks for few operations gets -FI_EAGAIN when it has posted that many. Others may
// not expect that answer: Open MPI then makes progress inside its own callbacks.
std::size_t most_of(std::size_t asked, std::size_t usual) {
  return asked < usual ? asked : std::max(asked, kMostWaiting);
}

}  // namespace

Endpoint::Pools::Pools(std::size_t send_count, std::size_t receive_count)
    : sends(send_count, most_of(send_count, kSendOperations)),
      receives(receive_count, most_of(receive_count, kThreadReceiveOperations)),
      injects(std::min(send_count, kInjects)),
      copied(std::min(send_count, kCopied)),
      extras(kExtraOperations),
      notices(kExtraOperations, kMostWaiting),
      copies(new std::byte[(injects.size() + copied.size()) * kInjectBytes]) {}

Endpoint::Endpoint(Domain& domain, const fi_info& info, const Source& source, void* opener)
    : fid_ep{},
      domain_(domain),
      serial_(domain.next_serial++),
      format_(info.addr_format),
      source_(source),
      caps_(info.caps != 0 ? info.caps : kCaps),
      send_flags_(info.tx_attr != nullptr ? info.tx_attr->op_flags : 0),
      receive_flags_(info.rx_attr != nullptr ? info.rx_attr->op_flags : 0),
      send_count_(or_usual(info.tx_attr != nullptr ? info.tx_attr->size : 0, kSendOperations)),
      receive_count_(
          or_usual(info.rx_attr != nullptr ? info.rx_attr->size : 0, kReceiveOperations)),
      mutex_(domain.is_locking()),
      pools_(send_count_, receive_count_) {
  fid.fclass = FI_CLASS_EP;
  fid.context = opener;
  fid.ops = &endpoint_fid_ops;
  ops = &endpoint_ops;
  cm = &name_calls;
  msg = &message_calls();
  tagged = &tagged_calls();
  rma = (caps_ & FI_RMA) != 0 ? &rma_calls() : &no_rma();
  atomic = (caps_ & FI_ATOMIC) != 0 ? &atomic_calls() : &no_atomics();
  ++domain_.users;
  domain_.add(*this);
}

ssize_t Endpoint::sends_left() {
  const Lock lock(mutex_);
  return static_cast<ssize_t>(pools_.sends.left());
}

ssize_t Endpoint::receives_left() {
  const Lock lock(mutex_);
  return static_cast<ssize_t>(pools_.receives.left());
}

void Endpoint::forget(fi_addr_t address) {
  const Lock lock(mutex_);
  if (peers_) peers_->forget(address);
  if (names_.asker) fail_asked_locked(names_.asker->stop(address), FI_ECANCELED, Status::cancelled);
}

Status Endpoint::register_memory(const void* data, std::size_t bytes, RegistrationId& id,
                                 std::string& why) {
  const Lock lock(mutex_);
  if (!endpoint_) return Status::endpoint_closed;
  return endpoint_->register_memory(data, bytes, id, &why);
}

void Endpoint::release_memory(RegistrationId id) {
  const Lock lock(mutex_);
  if (endpoint_) endpoint_->release_memory(id);
}

// Finds the peer for an fi_addr_t. Connects to an address without a peer. Our own address leads to
// the mirror, and a port name is asked for first.
ssize_t Endpoint::route_locked(fi_addr_t to, Route& route) {
  if (names_.asker) settle_locked(to);
  route.from = endpoint_.get();
  const Status status = peers_->find(to, route.peer);
  if (status == Status::unknown_peer) {
    route = {};
    return ask_locked(to);
  }
  if (status == Status::again) {
    complain("all max_peers places of an endpoint are in use: raise FI_HAWSER_MAX_PEERS");
    return -FI_ENOMEM;
  }
  if (status == Status::invalid_argument) {
    if (const ssize_t answer = make_mirror_locked(to); answer != 0) return answer;
    route.peer = mirror_.from_us;
  } else if (status != Status::ok) {
    return answer_of(status);
  }
  if (mirror_.endpoint && route.peer == mirror_.from_us)
    route = {mirror_.endpoint.get(), mirror_.to_us};
  return 0;
}

ssize_t Endpoint::source_locked(fi_addr_t from, Route& route) {
  route = {endpoint_.get(), kAnyPeer};
  if (from == FI_ADDR_UNSPEC || (caps_ & FI_DIRECTED_RECV) == 0) return 0;
  const ssize_t answer = route_locked(from, route);
  if (mirror_.is(route.from)) route = {endpoint_.get(), mirror_.from_us};
  return answer;
}

// Sends messages to ourselves from a second endpoint, so that they are matched among all others.
ssize_t Endpoint::make_mirror_locked(fi_addr_t own) {
  try {
    if (!mirror_.endpoint) {
      hawser::EndpointConfig config;
      const std::string& secret = domain_.config().job_secret;
      const auto bytes = std::as_bytes(std::span(secret));
      config.job_secret.assign(bytes.begin(), bytes.end());
      mirror_.endpoint = engine_->create_endpoint(config);
      if (mirror_.endpoint->connect(endpoint_->address(), mirror_.to_us) != Status::ok ||
          endpoint_->connect(mirror_.endpoint->address(), mirror_.from_us) != Status::ok) {
        mirror_.endpoint.reset();
        return -FI_ENOMEM;
      }
      for_each_sink([&](EventSink& sink) {
        if (sink.is_waitable()) sink.watch(mirror_.endpoint->fd());
      });
    }
    peers_->set_own(own, mirror_.from_us);
    return 0;
  } catch (const std::exception& error) {
    complain(error.what());
    return -FI_ENOMEM;
  }
}

int open_endpoint(fid_domain* domain, fi_info* info, fid_ep** endpoint, void* context) {
  if (info == nullptr || info->ep_attr == nullptr) return -FI_EINVAL;
  if (info->ep_attr->type != FI_EP_UNSPEC && info->ep_attr->type != FI_EP_RDM) return -FI_EINVAL;
  if (info->ep_attr->tx_ctx_cnt > 1 || info->ep_attr->rx_ctx_cnt > 1) return -FI_ENOSYS;
  if (info->addr_format != object_of<Domain>(domain).address_format()) return -FI_EINVAL;
  try {
    Source source;
    if (!source_of(*info, source)) return -FI_EINVAL;
    *endpoint = new Endpoint(object_of<Domain>(domain), *info, source, context);
    return 0;
  } catch (const std::bad_alloc&) {
    return -FI_ENOMEM;
  }
}

}  // namespace hawser::ofi
