// SPDX-License-Identifier: Apache-2.0
// The parts of libfabric that the provider does not offer. libfabric calls function pointers
// without checking them, so every table is filled: functions that we lack return -FI_ENOSYS.
#pragma once

#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

namespace hawser::ofi {

template <class Result, class... Arguments>
Result refuse_call(Arguments...) {
  return static_cast<Result>(-FI_ENOSYS);
}
// Fills an empty slot.
template <class Result, class... Arguments>
void refuse(Result (*&slot)(Arguments...)) {
  if (slot == nullptr) slot = refuse_call<Result, Arguments...>;
}

// Returns `ops` with its gaps filled.
[[nodiscard]] fi_ops completed(fi_ops ops);
[[nodiscard]] fi_ops_cm completed(fi_ops_cm ops);

[[nodiscard]] fi_ops_rma& no_rma();
[[nodiscard]] fi_ops_atomic& no_atomics();

}  // namespace hawser::ofi
