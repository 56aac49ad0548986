// SPDX-License-Identifier: Apache-2.0
#include "engine/driver/verbs/verbs_completions.hpp"

#include <cerrno>

namespace hawser::engine {
namespace {

ibv_cq_ex* make_extended(ibv_context* context, std::uint32_t entries, ibv_comp_channel* channel) {
  ibv_cq_init_attr_ex attributes{};
  attributes.cqe = entries;
  attributes.channel = channel;
  attributes.wc_flags = IBV_WC_EX_WITH_BYTE_LEN;
  attributes.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS;
  attributes.flags = IBV_CREATE_CQ_ATTR_SINGLE_THREADED;
  return ibv_create_cq_ex(context, &attributes);
}

}  // namespace

VerbsCompletions::VerbsCompletions(const VerbsPort& port, std::uint32_t entries,
                                   ibv_comp_channel* channel) {
  ibv_context* const context = port.context.get();
  if (port.newer_calls) {
    extended_ = make_extended(context, entries, channel);
    if (extended_ != nullptr) queue_.reset(ibv_cq_ex_to_cq(extended_));
    if (extended_ != nullptr || !is_not_offered(errno)) return;
  }
  queue_.reset(ibv_create_cq(context, static_cast<int>(entries), nullptr, channel, 0));
}

bool VerbsCompletions::discard() {
  int count = 0;
  do {
    count = poll(kMost, [](const VerbsCompletion&) {});
  } while (count > 0);
  return count == 0;
}

}  // namespace hawser::engine
