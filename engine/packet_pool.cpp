// SPDX-License-Identifier: Apache-2.0
#include "engine/packet_pool.hpp"

#include <rte_config.h>
#include <rte_errno.h>
#include <rte_lcore.h>
#include <rte_malloc.h>
#include <rte_mempool.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <limits>
#include <string>

#include "engine/log.hpp"
#include "hawser/engine.hpp"
#include "proto/base/assert.hpp"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#define HAWSER_POISON(address, bytes) ASAN_POISON_MEMORY_REGION(address, bytes)
#define HAWSER_UNPOISON(address, bytes) ASAN_UNPOISON_MEMORY_REGION(address, bytes)
#else
#define HAWSER_POISON(address, bytes) static_cast<void>(0)
#define HAWSER_UNPOISON(address, bytes) static_cast<void>(0)
#endif

namespace hawser::engine {
namespace {

using proto::PacketBuffer;

constexpr std::size_t kPage = 4096;
// Buffers are a quarter of a page long. One more cache line between them spreads their headers over
// all of a cache's sets; otherwise these would share a sixteenth of the sets.
constexpr std::size_t kStride = sizeof(PacketBuffer) + 64;
static_assert(kStride % alignof(PacketBuffer) == 0);

// Enough for the buffers of a few turns, so that the ring behind the cache is rarely touched.
constexpr std::uint32_t kCacheBuffers = RTE_MEMPOOL_CACHE_MAX_SIZE;

[[noreturn]] void fail(std::size_t buffers, const std::string& reason) {
  throw Error("A pool of " + std::to_string(buffers) + " packet buffers (" +
              std::to_string(buffers / 1048576 * sizeof(PacketBuffer) +
                             buffers % 1048576 * sizeof(PacketBuffer) / 1048576) +
              " MiB, tunable packet_buffers) can't be allocated: " + reason);
}

std::size_t whole_pages(std::size_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

// Poisons a buffer in the pool, so that the address sanitizer reports any access.
void poison(PacketBuffer* buffer) {
  HAWSER_POISON(buffer, sizeof(PacketBuffer));
  static_cast<void>(buffer);
}

void unpoison(std::span<PacketBuffer* const> buffers) {
  for (PacketBuffer* buffer : buffers) {
    HAWSER_UNPOISON(buffer, sizeof(PacketBuffer));
    static_cast<void>(buffer);
  }
}

void check_returned(PacketBuffer* buffer, std::span<const std::byte> memory) {
  HAWSER_ASSERT(buffer->bytes >= memory.data() && buffer->bytes < memory.data() + memory.size(),
                "a buffer of another pool");
#if defined(__SANITIZE_ADDRESS__)
  HAWSER_ASSERT(__asan_address_is_poisoned(buffer) == 0, "a buffer was returned twice");
#endif
}

void check_all_back(std::size_t in_use) {
  if (in_use != 0) log_error(std::to_string(in_use) + " packet buffers leaked");
  HAWSER_ASSERT(in_use == 0, "packet buffers leaked");
}

std::string unique_name() {
  static std::atomic<unsigned> made{0};
  return "hawser_" + std::to_string(made.fetch_add(1));
}

}  // namespace

std::unique_ptr<EndpointPool> make_packet_pool(std::size_t buffers) {
  if (MempoolPacketPool::is_possible()) return std::make_unique<MempoolPacketPool>(buffers);
  return std::make_unique<StackPacketPool>(buffers);
}

// ---- buffers of our own

void StackPacketPool::FreePages::operator()(std::byte* pages) const { ::munmap(pages, bytes); }

StackPacketPool::StackPacketPool(std::size_t buffers) : capacity_(buffers) {
  if (buffers > std::numeric_limits<std::ptrdiff_t>::max() / kStride) {
    fail(buffers, "its size is out of range");
  }
  const std::size_t bytes = whole_pages(buffers * kStride);
  void* const pages =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED) fail(buffers, "the system has too little memory for it");
  memory_ = {static_cast<std::byte*>(pages), FreePages{bytes}};
  free_.reserve(buffers);
  // The first buffers lie on top of the stack, so pages that are never needed are never touched.
  for (std::size_t i = buffers; i-- > 0;) {
    free_.push_back(reinterpret_cast<PacketBuffer*>(memory_.get() + i * kStride));
    poison(free_.back());
  }
}

StackPacketPool::~StackPacketPool() {
  check_all_back(in_use());
  HAWSER_UNPOISON(memory_.get(), memory_.get_deleter().bytes);
}

std::size_t StackPacketPool::take(std::span<PacketBuffer*> buffers) {
  const std::size_t count = std::min(buffers.size(), free_.size());
  std::copy_n(free_.rbegin(), count, buffers.begin());
  free_.resize(free_.size() - count);
  unpoison(buffers.first(count));
  return count;
}

void StackPacketPool::give(std::span<PacketBuffer* const> buffers) {
  HAWSER_ASSERT(buffers.size() <= in_use(), "more buffers returned than taken");
  for (PacketBuffer* buffer : buffers) {
    check_returned(buffer, memory());
    poison(buffer);
  }
  free_.insert(free_.end(), buffers.begin(), buffers.end());
}

// ---- the program's EAL

void MempoolPacketPool::FreeMempool::operator()(rte_mempool* pool) const { rte_mempool_free(pool); }

void MempoolPacketPool::FreeCache::operator()(rte_mempool_cache* cache) const {
  rte_mempool_cache_free(cache);
}

void MempoolPacketPool::FreeMemory::operator()(std::byte* memory) const { rte_free(memory); }

// A program that has initialised EAL has at least one lcore, its main thread.
bool MempoolPacketPool::is_possible() { return rte_lcore_count() != 0; }

MempoolPacketPool::MempoolPacketPool(std::size_t buffers) : capacity_(buffers) {
  if (buffers > std::numeric_limits<unsigned>::max()) fail(buffers, "its size is out of range");
  const auto count = static_cast<unsigned>(buffers);
  pool_.reset(rte_mempool_create_empty(
      unique_name().c_str(), count, sizeof(PacketBuffer), 0, 0, SOCKET_ID_ANY,
      RTE_MEMPOOL_F_SP_PUT | RTE_MEMPOOL_F_SC_GET | RTE_MEMPOOL_F_NO_IOVA_CONTIG));
  if (pool_ == nullptr) fail(buffers, rte_strerror(rte_errno));

  std::size_t chunk = 0;
  std::size_t alignment = 0;
  const ssize_t needed =
      rte_mempool_op_calc_mem_size_default(pool_.get(), count, 0, &chunk, &alignment);
  if (needed <= 0) fail(buffers, "its size is out of range");
  memory_bytes_ = whole_pages(static_cast<std::size_t>(needed));
  memory_.reset(static_cast<std::byte*>(rte_malloc("hawser", memory_bytes_, kPage)));
  if (memory_ == nullptr) {
    fail(buffers,
         "the program's EAL has too little memory for it: start EAL with more, or lower "
         "packet_buffers");
  }
  const int populated =
      rte_mempool_populate_iova(pool_.get(), reinterpret_cast<char*>(memory_.get()), RTE_BAD_IOVA,
                                memory_bytes_, nullptr, nullptr);
  if (populated < 0) fail(buffers, rte_strerror(-populated));
  HAWSER_ASSERT(static_cast<unsigned>(populated) == count);
  cache_.reset(rte_mempool_cache_create(kCacheBuffers, SOCKET_ID_ANY));
  if (cache_ == nullptr) fail(buffers, rte_strerror(rte_errno));
  // rte_mempool keeps its own data outside of the buffers, so these may be poisoned.
  rte_mempool_obj_iter(
      pool_.get(),
      [](rte_mempool*, void*, void* buffer, unsigned) {
        poison(static_cast<PacketBuffer*>(buffer));
      },
      nullptr);
}

MempoolPacketPool::~MempoolPacketPool() {
  check_all_back(in_use_);
  rte_mempool_cache_flush(cache_.get(), pool_.get());
  HAWSER_ASSERT(rte_mempool_avail_count(pool_.get()) == capacity_);
  HAWSER_UNPOISON(memory_.get(), memory_bytes_);
}

std::size_t MempoolPacketPool::take(std::span<PacketBuffer*> buffers) {
  const std::size_t count = std::min(buffers.size(), capacity_ - in_use_);
  if (count == 0) return 0;
  const int taken = rte_mempool_generic_get(pool_.get(), reinterpret_cast<void**>(buffers.data()),
                                            static_cast<unsigned>(count), cache_.get());
  HAWSER_ASSERT(taken == 0, "the pool lacks buffers that are not in use");
  in_use_ += count;
  unpoison(buffers.first(count));
  return count;
}

void MempoolPacketPool::give(std::span<PacketBuffer* const> buffers) {
  HAWSER_ASSERT(buffers.size() <= in_use_, "more buffers returned than taken");
  for (PacketBuffer* buffer : buffers) {
    check_returned(buffer, memory());
    poison(buffer);
  }
  if (buffers.empty()) return;
  rte_mempool_generic_put(pool_.get(), reinterpret_cast<void* const*>(buffers.data()),
                          static_cast<unsigned>(buffers.size()), cache_.get());
  in_use_ -= buffers.size();
}

}  // namespace hawser::engine
