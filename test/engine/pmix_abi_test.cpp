// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cstddef>
#include <string_view>

#include "engine/bootstrap/pmix_abi.hpp"

// Checks at compile time that engine/bootstrap/pmix_abi.hpp declares the same as the library's own
// header. It is compiled where that header exists, and has nothing to run.
#include <pmix.h>

namespace hawser::engine::pmix {
namespace {

static_assert(kSuccess == PMIX_SUCCESS && kOperationSucceeded == PMIX_OPERATION_SUCCEEDED);
static_assert(kWildcardRank == (PMIX_RANK_WILDCARD) && kGlobalScope == PMIX_GLOBAL);
static_assert(kBool == PMIX_BOOL && kString == PMIX_STRING && kSize == PMIX_SIZE &&
              kInt == PMIX_INT && kUint16 == PMIX_UINT16 && kUint32 == PMIX_UINT32 &&
              kUint64 == PMIX_UINT64);
static_assert(std::string_view(kCollectData) == PMIX_COLLECT_DATA);
static_assert(std::string_view("pmix.job.size") == PMIX_JOB_SIZE);
static_assert(std::string_view("pmix.local.size") == PMIX_LOCAL_SIZE);
static_assert(std::string_view("pmix.lrank") == PMIX_LOCAL_RANK);

static_assert(sizeof(Process) == sizeof(pmix_proc_t));
static_assert(offsetof(Process, rank) == offsetof(pmix_proc_t, rank));
static_assert(sizeof(Value) == sizeof(pmix_value_t));
static_assert(offsetof(Value, text) == offsetof(pmix_value_t, data));
static_assert(sizeof(Info) == sizeof(pmix_info_t));
static_assert(offsetof(Info, flags) == offsetof(pmix_info_t, flags));
static_assert(offsetof(Info, value) == offsetof(pmix_info_t, value));

}  // namespace
}  // namespace hawser::engine::pmix
