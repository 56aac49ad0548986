// SPDX-License-Identifier: Apache-2.0
#include "plugin/torch/transport.hpp"

#include <poll.h>
#include <sched.h>

#include <algorithm>
#include <cstdlib>

#include "hawser/faults.hpp"
#include "hawser/nics.hpp"

namespace hawser::torch_plugin {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

// How long one who waits turns and yields before it sleeps.
constexpr microseconds kSpins{50};
// The longest sleep of one who waits: another thread may have completed the operation meanwhile.
constexpr milliseconds kSleep{1};
// The background thread holds back while others make progress, and for this long afterwards, as
// they may return. It looks again as often.
constexpr milliseconds kHoldsBack{1};
// The longest sleep of the background thread, which also looks at deadlines.
constexpr milliseconds kBackgroundSleep{50};

std::mutex process_mutex;
std::weak_ptr<Transport> process_transport;

EngineConfig engine_config() {
  EngineConfig config{.nics = usable_nics()};
  if (const char* const faults = std::getenv("HAWSER_TORCH_FAULTS")) config.faults = faults;
  return config;
}

}  // namespace

std::shared_ptr<Transport> Transport::of_process(const Secret& secret) {
  const std::lock_guard guard(process_mutex);
  std::shared_ptr<Transport> transport = process_transport.lock();
  if (transport == nullptr) {
    transport = std::make_shared<Transport>(secret);
    process_transport = transport;
  }
  return transport;
}

std::shared_ptr<Transport> Transport::existing() {
  const std::lock_guard guard(process_mutex);
  std::shared_ptr<Transport> transport = process_transport.lock();
  if (transport == nullptr) throw Error("This process has no process group over Hawser");
  return transport;
}

void Transport::end_of_process() {
  const std::lock_guard guard(process_mutex);
  if (const std::shared_ptr<Transport> transport = process_transport.lock()) transport->end();
}

Transport::Transport(const Secret& secret)
    : engine_(std::make_unique<Engine>(engine_config())),
      endpoint_(engine_->create_endpoint(
          EndpointConfig{.job_secret = {secret.key.begin(), secret.key.end()}})),
      router_(std::make_unique<coll::CompletionRouter>(*endpoint_)),
      mark_(secret.mark),
      thread_([this] { run_in_background(); }) {}

Transport::~Transport() { end(); }

void Transport::end() {
  stops_ = true;
  wake();
  if (thread_.joinable()) thread_.join();
  const Guard guard(*this);
  while (!clients_.empty()) {
    Client* const last = clients_.back();
    clients_.pop_back();
    last->release();
  }
  router_.reset();
  endpoint_.reset();
  engine_.reset();
  garbage_.insert(garbage_.end(), kept_.begin(), kept_.end());
  kept_.clear();
}

void Transport::add(Client& client) { clients_.push_back(&client); }

void Transport::remove(Client& client) { std::erase(clients_, &client); }

void Transport::turn() {
  if (router_ == nullptr) return;
  router_->progress();
  for (Client* const client : clients_) client->advance();
  if (kept_.empty() || !router_->quiet()) return;
  garbage_.insert(garbage_.end(), kept_.begin(), kept_.end());
  kept_.clear();
}

void Transport::make_progress() {
  const Guard guard(*this);
  turn();
}

bool Transport::wait_until(const std::function<bool()>& done, Clock::time_point deadline) {
  if (done()) return true;
  ++waiters_;
  const Clock::time_point begun = Clock::now();
  bool is_done = false;
  for (Clock::time_point now = begun; !is_done && now < deadline; now = Clock::now()) {
    int descriptor = -1;
    {
      const Guard guard(*this);
      turn();
      if (endpoint_ != nullptr) descriptor = endpoint_->fd();
    }
    is_done = done();
    if (is_done) break;
    if (now - begun < kSpins) {
      ::sched_yield();
    } else {
      pollfd watched{.fd = descriptor, .events = POLLIN, .revents = 0};
      (void)::poll(&watched, descriptor < 0 ? 0 : 1, static_cast<int>(kSleep.count()));
    }
  }
  last_waited_ = Clock::now().time_since_epoch().count();
  --waiters_;
  return is_done || done();
}

bool Transport::others_make_progress() const {
  const Clock::time_point last{Clock::duration(last_waited_.load())};
  return waiters_ > 0 || Clock::now() - last < kHoldsBack;
}

void Transport::wake() {
  last_waited_ = 0;
  { const std::lock_guard guard(nap_mutex_); }
  nap_.notify_all();
}

void Transport::run_in_background() {
  const int descriptor = endpoint_->fd();
  while (!stops_) {
    if (others_make_progress()) {
      std::unique_lock guard(nap_mutex_);
      nap_.wait_for(guard, kHoldsBack, [this] { return stops_ || !others_make_progress(); });
      continue;
    }
    pollfd watched{.fd = descriptor, .events = POLLIN, .revents = 0};
    (void)::poll(&watched, 1, static_cast<int>(kBackgroundSleep.count()));
    if (waiters_ > 0) continue;
    const Guard guard(*this);
    turn();
  }
}

void Transport::inject_fault(std::size_t nic, const std::string& words) {
  const Guard guard(*this);
  if (engine_ == nullptr) throw Error("The transport has ended");
  if (const Status status = engine_->inject_fault(nic, words); status != Status::ok) {
    throw Error("Fault \"" + words + "\" of NIC " + std::to_string(nic) + ": " +
                std::string(to_string(status)));
  }
}

std::vector<NicStats> Transport::nics() {
  const Guard guard(*this);
  return endpoint_ == nullptr ? std::vector<NicStats>() : endpoint_->nic_stats();
}

}  // namespace hawser::torch_plugin
