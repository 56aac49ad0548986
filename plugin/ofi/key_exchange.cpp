// SPDX-License-Identifier: Apache-2.0
#include "plugin/ofi/key_exchange.hpp"

#include <algorithm>

namespace hawser::ofi {
namespace {

// Answers of peers that are kept. Beyond that all are forgotten, and asked for again.
constexpr std::size_t kMostKnown = 65536;

// `user_data` of receives of this class is odd, as no address of an Operation is. Above the lowest
// bit it has an index, first those of questions. Injected messages share one value.
constexpr std::uint64_t mark_of(std::size_t index) { return 2 * std::uint64_t{index} + 1; }
constexpr std::uint64_t kInjected = ~std::uint64_t{0};

}  // namespace

KeyExchange::KeyExchange(hawser::Endpoint& endpoint, const RegionTable& regions,
                         Clock::duration patience)
    : endpoint_(endpoint), regions_(regions), patience_(patience) {
  for (Question& question : questions_) post(question);
}

void KeyExchange::post(Question& question) {
  const auto index = static_cast<std::size_t>(&question - questions_.data());
  OperationId operation = kNoOperation;
  const Status status = endpoint_.receive({.channel = kQuestionChannel,
                                           .ignore = kAnyTag,
                                           .user_data = mark_of(index),
                                           .owner = ChannelOwner::adapter},
                                          operation);
  question.is_posted = status == Status::ok;
}

Status KeyExchange::find(PeerId peer, std::uint64_t key, KeyAnswer& answer) {
  const PeerKey what{peer, key};
  const auto found = known_.find(what);
  if (found == known_.end()) return ask(what);
  answer = found->second.answer;
  return found->second.status;
}

Status KeyExchange::find_own(std::uint64_t key, KeyAnswer& answer) {
  answer = {};
  if (const auto found = exposed_.find(key); found != exposed_.end()) {
    if (found->second.is_leaving) return Status::again;
    answer = found->second.answer;
    return Status::ok;
  }
  const auto memory = regions_.find(key);
  if (!memory) return Status::access_denied;
  Exposed exposed;
  Status status = endpoint_.expose(
      {.data = memory->data, .bytes = memory->bytes, .access = memory->access}, exposed.region);
  if (status == Status::ok) status = endpoint_.region_key(exposed.region, exposed.answer.key);
  if (status == Status::again || status == Status::endpoint_closed) return status;
  if (status != Status::ok) return Status::access_denied;
  exposed.answer.base = memory->base;
  exposed.answer.is_known = 1;
  exposed_.emplace(key, exposed);
  answer = exposed.answer;
  return Status::ok;
}

Status KeyExchange::ask(const PeerKey& what) {
  const auto is_asked = [&](const Asked& asked) {
    return asked.is_open && !asked.is_late && asked.what == what;
  };
  if (open_ > 0 && std::ranges::any_of(asked_, is_asked)) return Status::again;
  const auto free = std::ranges::find(asked_, false, &Asked::is_open);
  if (free == asked_.end()) return Status::again;
  const auto index = kQuestions + static_cast<std::size_t>(free - asked_.begin());
  *free = {.is_open = true, .what = what, .since = Clock::now()};
  const Status status = endpoint_.receive({.peer = what.peer,
                                           .channel = kAnswerChannel,
                                           .tag = what.key,
                                           .data = &free->answer,
                                           .bytes = sizeof free->answer,
                                           .user_data = mark_of(index),
                                           .owner = ChannelOwner::adapter},
                                          free->receive);
  if (status != Status::ok) {
    free->is_open = false;
    return status;
  }
  ++open_;
  is_stuck_ = send_question(*free) == Status::again || is_stuck_;
  return Status::again;
}

// If the session has ended, the receive for the answer reports it.
Status KeyExchange::send_question(Asked& asked) {
  const Status status = endpoint_.inject({.peer = asked.what.peer,
                                          .channel = kQuestionChannel,
                                          .tag = asked.what.key,
                                          .user_data = kInjected,
                                          .owner = ChannelOwner::adapter});
  asked.is_sent = status != Status::again;
  if (status == Status::ok) endpoint_.flush();
  return status;
}

void KeyExchange::keep(const PeerKey& what, const Known& known) {
  if (known_.size() >= kMostKnown) known_.clear();
  known_.insert_or_assign(what, known);
  has_refusals_ = has_refusals_ || known.status != Status::ok;
}

void KeyExchange::forget(PeerId peer, std::uint64_t key, std::uint64_t secret) {
  const auto found = known_.find({peer, key});
  if (found != known_.end() && found->second.answer.key.secret == secret) known_.erase(found);
}

void KeyExchange::forget_refusals() {
  if (!has_refusals_) return;
  has_refusals_ = false;
  std::erase_if(known_, [](const auto& entry) { return entry.second.status != Status::ok; });
}

bool KeyExchange::withdraw(std::uint64_t key) {
  const auto found = exposed_.find(key);
  if (found == exposed_.end()) return true;
  if (found->second.is_leaving) return false;
  OperationId operation = kNoOperation;
  const Status status = endpoint_.withdraw(found->second.region, key, operation);
  found->second.is_leaving = status == Status::ok;
  if (status == Status::ok || status == Status::again) return false;
  exposed_.erase(found);
  return true;
}

bool KeyExchange::finish(const Completion& completion) {
  if (completion.kind == OperationKind::withdraw) {
    exposed_.erase(completion.user_data);
    return true;
  }
  if ((completion.user_data & 1) == 0) return false;
  // The receive for the answer reports why a question did not arrive, and an asker that has gone
  // needs no answer.
  if (completion.user_data == kInjected) return true;
  const std::size_t index = completion.user_data / 2;
  if (index < kQuestions) {
    finish_question(questions_[index], completion);
  } else {
    finish_asked(asked_[index - kQuestions], completion);
  }
  return true;
}

void KeyExchange::finish_question(Question& question, const Completion& completion) {
  question.is_posted = false;
  if (completion.status == Status::endpoint_closed) return;
  if (completion.status == Status::ok || completion.status == Status::truncated) {
    question.is_open = true;
    question.peer = completion.peer;
    question.key = completion.tag;
    answer_question(question);
  }
  if (!question.is_open) post(question);
  is_stuck_ = is_stuck_ || !question.is_posted;
}

void KeyExchange::answer_question(Question& question) {
  KeyAnswer answer;
  Status status = find_own(question.key, answer);
  if (status == Status::again) return;
  status = endpoint_.inject({.peer = question.peer,
                             .channel = kAnswerChannel,
                             .tag = question.key,
                             .data = &answer,
                             .bytes = sizeof answer,
                             .user_data = kInjected,
                             .owner = ChannelOwner::adapter});
  question.is_open = status == Status::again;
  if (status == Status::ok) endpoint_.flush();
}

void KeyExchange::finish_asked(Asked& asked, const Completion& completion) {
  asked.is_open = false;
  --open_;
  Known known{.status = completion.status, .answer = asked.answer};
  const bool is_whole =
      completion.bytes == sizeof asked.answer && completion.message_bytes == sizeof asked.answer;
  if (known.status == Status::ok && (!is_whole || asked.answer.is_known == 0)) {
    known.status = Status::access_denied;
  } else if (known.status == Status::cancelled || known.status == Status::truncated) {
    known.status = Status::unsupported;
  }
  keep(asked.what, known);
}

void KeyExchange::advance() {
  if (is_stuck_) {
    is_stuck_ = false;
    for (Question& question : questions_) {
      if (question.is_open) answer_question(question);
      if (!question.is_open && !question.is_posted) post(question);
      is_stuck_ = is_stuck_ || !question.is_posted;
    }
    for (Asked& asked : asked_) {
      if (asked.is_open && !asked.is_sent) {
        is_stuck_ = send_question(asked) == Status::again || is_stuck_;
      }
    }
  }
  if (open_ == 0) return;
  const Clock::time_point now = Clock::now();
  for (Asked& asked : asked_) {
    if (!asked.is_open || asked.is_late || now - asked.since < 2 * patience_) continue;
    asked.is_late = true;
    (void)endpoint_.cancel(asked.receive);
  }
}

}  // namespace hawser::ofi
