// SPDX-License-Identifier: Apache-2.0
// Finds ranks that have started different collectives although no receive shows it.
//
// A message carries its sender's signature, and the receive that it matches compares that. Two
// cases are left. A message has no receive, as when both ranks are roots of a broadcast. Or a rank
// awaits a message that nobody sends, as when both are roots of a reduce, or if the count is 0 at
// one of them. Whenever the router looks, a rank therefore does two things:
//
// 1. It probes for unmatched messages. A message is early if this rank has not started its
//    collective yet. Otherwise it must belong to a running collective, with the same signature.
// 2. If the oldest collective awaits a message, it sends its sender a query with the signature.
//    While the collective runs at the asked rank, that rank compares the signatures. Once it is
//    complete there, that rank answers that it is done. If the message that was missing before the
//    query is still missing at a look after the answer, it never comes.
//
// Waits point to earlier entries of the common order, so some rank of those that wait asks one that
// disagrees. Queries and answers are empty. They arrive where abort messages do.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "coll/channel.hpp"

namespace hawser::coll {

class Agreement {
 public:
  // A collective that has started here and is not complete.
  struct Running {
    std::uint32_t sequence = 0;
    std::uint64_t signature = 0;
    std::optional<Rank> awaits{};  // the sender of the first message that is missing
    std::uint64_t message = 0;     // its place among the messages that the collective receives
  };
  struct Death {
    Rank rank = 0;
    Status status = Status::ok;
  };

  struct Disagreement {
    std::uint32_t sequence = 0;
    Rank rank = 0;
  };

  // The next collective starts here. Returns its sequence number.
  std::uint32_t start() noexcept { return next_++; }

  // Both functions want all running collectives, oldest first, and return what they have found.
  [[nodiscard]] std::optional<Disagreement> look(const Channel& channel,
                                                 std::span<const Running> running);
  // A query or an answer has arrived.
  [[nodiscard]] std::optional<Disagreement> on_arrival(const Channel& channel,
                                                       const Completion& completion,
                                                       std::span<const Running> running);

  // Sends to some ranks what they ignore, each time to the next ones. It fails if a rank is dead,
  // which a receive from any rank doesn't show. Returns a death that is known at once.
  [[nodiscard]] std::optional<Death> ask_whether_alive(const Channel& channel);

  // A message of this rank has completed. Returns the rank that it has found dead. One that has
  // closed in order is not meant: it may have done all its work.
  [[nodiscard]] std::optional<Rank> on_sent(const Channel& channel,
                                            const Completion& completion) noexcept;
  [[nodiscard]] std::uint32_t in_flight() const noexcept { return queries_ + answers_ + lives_; }

 private:
  enum class Kind : std::uint8_t { query, answer, life };
  // Answers in flight at once. More queries go unanswered: they come again.
  static constexpr std::uint32_t kMostAnswers = 4;
  static constexpr std::uint32_t kMostLives = 8;
  // No rank has started a collective that is so far ahead.
  static constexpr std::uint32_t kFarAhead = 1u << 30;

  [[nodiscard]] bool is_early(std::uint32_t sequence) const noexcept;
  [[nodiscard]] bool is_wrong(const Envelope& envelope,
                              std::span<const Running> running) const noexcept;
  [[nodiscard]] std::optional<Disagreement> probe(const Channel& channel, PeerId peer,
                                                  std::uint64_t tag, std::uint64_t ignore,
                                                  std::span<const Running> running) const;
  [[nodiscard]] std::optional<Disagreement> ask(const Channel& channel,
                                                std::span<const Running> running);
  [[nodiscard]] std::uint32_t& count_of(Kind kind) noexcept;
  [[nodiscard]] PeerId next_peer(const Channel& channel) noexcept;
  Status send(const Channel& channel, Kind kind, PeerId to, const Running& about);

  std::uint32_t next_ = 0;  // sequence
  std::uint32_t queries_ = 0;
  std::uint32_t answers_ = 0;
  std::uint32_t lives_ = 0;
  std::uint32_t looks_ = 0;
  Rank looked_at_ = 0;
  std::uint64_t asked_ = 0;              // Running::message of the latest query
  std::optional<Disagreement> suspect_;  // answered since then that it is done
};

}  // namespace hawser::coll
