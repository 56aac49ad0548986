// SPDX-License-Identifier: Apache-2.0
// Messages that programs claim and hold for a while, before they receive them or put them back.
#include "sim/storm/application.hpp"

namespace hawser::sim {

// The program holds the claim now, and decides later what to do with it.
void Application::hold_claim(std::uint32_t receive, const Envelope& envelope, MessageId name) {
  const std::uint32_t host = plan_.receives[receive].host;
  Claim& claim = claims_[receive];
  claim.name = name;
  claim.life = world_.life(host);
  claim.order = process(host).posts++;
  claim.message = static_cast<std::uint32_t>(envelope.immediate);
  claim.sender = plan_.messages[claim.message].from;
  oracle_.send(claim.message).held.emplace_back(claim.order, kStillHeld);
  later(Act::end_claim, receive, plan_.receives[receive].held);
}

void Application::end_claim(std::uint32_t index) {
  const ReceivePlan& plan = plan_.receives[index];
  const Claim claim = claims_[index];
  claims_.erase(index);
  if (!world_.is_running(plan.host) || claim.life != world_.life(plan.host)) {
    if (plan.puts_back) {
      --undecided_;
      return;
    }
    return again(Act::receive, index, receive_tries_[index]);
  }
  Host& host = world_.host(plan.host);
  if (!plan.puts_back && record_of_[index] == kNoRecord) make_record(index);
  if (!plan.puts_back && post_receive(record_of_[index], claim.name)) {
    ReceiveRecord& record = oracle_.receives()[record_of_[index]];
    record.order = claim.order;
    if (record.posted) oracle_.send(claim.message).held.pop_back();
    --undecided_;
    return;
  }
  // The message has its old place again. Later messages may have been received meanwhile.
  const Status status = host.endpoint().put_back(host.now(), claim.name);
  host.wake();
  oracle_.send(claim.message).held.back().second = process(plan.host).posts;
  // A message that had not come whole ends with its session.
  const bool session_ended =
      oracle_.sessions().ends(plan.host, claim.sender) > 0 || process(plan.host).closing;
  if (status != Status::ok && !(status == Status::unknown_operation && session_ended)) {
    oracle_.accuse("host " + std::to_string(plan.host) + " puts a claim back and gets " +
                   std::string(to_string(status)));
  }
  if (plan.puts_back) {
    --undecided_;
    return;
  }
  again(Act::receive, index, receive_tries_[index]);
}

}  // namespace hawser::sim
