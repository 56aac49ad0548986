// SPDX-License-Identifier: Apache-2.0
// Owners of libibverbs' objects. An object must be destroyed before those that it was made of, so
// members that use others are declared after them.
#pragma once

#include <infiniband/verbs.h>

#include <cerrno>
#include <memory>

namespace hawser::engine {

template <auto kDestroy>
struct VerbsDeleter {
  template <class Object>
  void operator()(Object* object) const {
    (void)kDestroy(object);
  }
};

// True if a newer call of libibverbs failed because the provider doesn't support it.
inline bool is_not_offered(int error) {
  return error == EOPNOTSUPP || error == ENOSYS || error == EINVAL;
}

using VerbsContext = std::unique_ptr<ibv_context, VerbsDeleter<ibv_close_device>>;
using VerbsDomain = std::unique_ptr<ibv_pd, VerbsDeleter<ibv_dealloc_pd>>;
using VerbsChannel = std::unique_ptr<ibv_comp_channel, VerbsDeleter<ibv_destroy_comp_channel>>;
using VerbsCompletionQueue = std::unique_ptr<ibv_cq, VerbsDeleter<ibv_destroy_cq>>;
using VerbsQueuePair = std::unique_ptr<ibv_qp, VerbsDeleter<ibv_destroy_qp>>;
using VerbsMemory = std::unique_ptr<ibv_mr, VerbsDeleter<ibv_dereg_mr>>;

}  // namespace hawser::engine
