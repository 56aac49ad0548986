// SPDX-License-Identifier: Apache-2.0
#include "sim/traffic/matrix_builder.hpp"

#include "proto/base/assert.hpp"

namespace hawser::fabric {

MatrixBuilder::MatrixBuilder(std::uint32_t nodes) {
  if (nodes < 2 || nodes > kMostNodes) {
    throw InputError("traffic is between 2 to " + std::to_string(kMostNodes) + " nodes, not " +
                     std::to_string(nodes));
  }
  matrix_.nodes = nodes;
  ready_.assign(nodes, kBegin);
}

Moment MatrixBuilder::moment() {
  const auto id = static_cast<Moment>(matrix_.triggers.size() + 1);
  matrix_.triggers.push_back({.id = id, .kind = Trigger::Kind::barrier, .then = {}});
  used_.push_back(false);
  return id;
}

Moment MatrixBuilder::window() {
  const Moment id = moment();
  at(id).kind = Trigger::Kind::multishot;
  return id;
}

void MatrixBuilder::expect(Moment moment) {
  if (moment != kBegin && at(moment).kind == Trigger::Kind::barrier) ++at(moment).count;
}

void MatrixBuilder::must_precede(Moment earlier, Moment moment) {
  if (earlier == kBegin) return;
  HAWSER_ASSERT(moment != kBegin && at(earlier).kind == Trigger::Kind::barrier);
  at(earlier).then.push_back(moment);
  used_[earlier - 1] = true;
  expect(moment);
}

Moment MatrixBuilder::later(Moment moment, Span span) {
  if (span == Span{}) return moment;
  if (moment == kBegin || used_[moment - 1]) {
    const Moment put_off = this->moment();
    must_precede(moment, put_off);
    moment = put_off;
  }
  at(moment).delay = at(moment).delay + span;
  return moment;
}

Moment MatrixBuilder::both(Moment one, Moment other) {
  if (one == kBegin || one == other) return other;
  if (other == kBegin) return one;
  const Moment last = moment();
  must_precede(one, last);
  must_precede(other, last);
  return last;
}

std::uint32_t MatrixBuilder::new_groups(std::uint32_t count) {
  const std::uint32_t first = groups_ + 1;
  groups_ += count;
  return first;
}

std::uint32_t MatrixBuilder::send(const Message& message) {
  HAWSER_ASSERT(message.from != message.to && message.bytes > 0);
  if (message.bytes > kMostBytes) {
    throw InputError("a message of " + std::to_string(message.bytes) + " bytes, but they have at " +
                     "most " + std::to_string(kMostBytes));
  }
  const std::size_t place = matrix_.connections.size();
  if (place == kMostConnections) {
    throw InputError("this makes more than " + std::to_string(kMostConnections) +
                     " messages: take fewer nodes, rounds or layers");
  }
  matrix_.connections.push_back({.from = message.from,
                                 .to = message.to,
                                 .id = static_cast<std::uint32_t>(place + 1),
                                 .bytes = message.bytes,
                                 .trigger = message.after,
                                 .when_sent = message.when_sent,
                                 .when_received = message.when_received,
                                 .hint = message.hint,
                                 .step = message.step});
  if (message.after != kBegin) used_[message.after - 1] = true;
  expect(message.when_sent);
  expect(message.when_received);
  return static_cast<std::uint32_t>(place);
}

void MatrixBuilder::set_when_received(std::uint32_t place, Moment moment) {
  HAWSER_ASSERT(matrix_.connections[place].when_received == kBegin);
  matrix_.connections[place].when_received = moment;
  expect(moment);
}

}  // namespace hawser::fabric
