// SPDX-License-Identifier: Apache-2.0
// The public class; coll/router.hpp does its work.
#include "coll/router.hpp"
#include "hawser/collectives.hpp"

namespace hawser::coll {

CompletionRouter::CompletionRouter(Endpoint& endpoint)
    : router_(std::make_unique<Router>(endpoint)) {}

CompletionRouter::~CompletionRouter() = default;

Endpoint& CompletionRouter::endpoint() noexcept { return router_->endpoint(); }
void CompletionRouter::progress() { router_->progress(); }
void CompletionRouter::wait(std::uint64_t timeout_ns) { router_->wait(timeout_ns); }
bool CompletionRouter::quiet() const noexcept { return router_->quiet(); }

std::size_t CompletionRouter::take(std::span<Completion> completions) {
  return router_->take(completions);
}

}  // namespace hawser::coll
