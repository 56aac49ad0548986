#include "engine/packet_pool.hpp"

#include <rte_config.h>
#include <rte_errno.h>
#include <rte_mempool.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <string>

#include "engine/eal.hpp"
#include "engine/log.hpp"
#include "hawser/engine.hpp"
#include "proto/assert.hpp"

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

// Enough to hold the buffers of a few turns, so that the ring behind it is rarely touched.
constexpr std::uint32_t kCacheBuffers = RTE_MEMPOOL_CACHE_MAX_SIZE;

[[noreturn]] void fail(std::size_t buffers, const std::string& reason) {
  throw Error("A pool of " + std::to_string(buffers) + " packet buffers (" +
              std::to_string(buffers * sizeof(proto::PacketBuffer) / 1048576) +
              " MiB, tunable packet_buffers) can't be made: " + reason);
}

std::string unique_name() {
  static std::atomic<unsigned> made{0};
  return "hawser_" + std::to_string(made.fetch_add(1));
}

}  // namespace

void MempoolPacketPool::FreeMempool::operator()(rte_mempool* pool) const { rte_mempool_free(pool); }

void MempoolPacketPool::FreeCache::operator()(rte_mempool_cache* cache) const {
  rte_mempool_cache_free(cache);
}

void MempoolPacketPool::FreePages::operator()(std::byte* pages) const { ::munmap(pages, bytes); }

MempoolPacketPool::MempoolPacketPool(std::size_t buffers) : capacity_(buffers) {
  ensure_eal();
  const auto count = static_cast<unsigned>(buffers);
  pool_.reset(rte_mempool_create_empty(
      unique_name().c_str(), count, sizeof(proto::PacketBuffer), 0, 0, SOCKET_ID_ANY,
      RTE_MEMPOOL_F_SP_PUT | RTE_MEMPOOL_F_SC_GET | RTE_MEMPOOL_F_NO_IOVA_CONTIG));
  if (pool_ == nullptr) fail(buffers, rte_strerror(rte_errno));

  std::size_t chunk = 0;
  std::size_t alignment = 0;
  const ssize_t needed =
      rte_mempool_op_calc_mem_size_default(pool_.get(), count, 0, &chunk, &alignment);
  if (needed <= 0) fail(buffers, "its size is out of range");
  memory_bytes_ = (static_cast<std::size_t>(needed) + 4095) / 4096 * 4096;
  void* pages =
      ::mmap(nullptr, memory_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED) fail(buffers, "the system has no memory for it");
  memory_ = {static_cast<std::byte*>(pages), FreePages{memory_bytes_}};

  const int populated =
      rte_mempool_populate_iova(pool_.get(), reinterpret_cast<char*>(memory_.get()), RTE_BAD_IOVA,
                                memory_bytes_, nullptr, nullptr);
  if (populated < 0) fail(buffers, rte_strerror(-populated));
  HAWSER_ASSERT(static_cast<unsigned>(populated) == count);
  cache_.reset(rte_mempool_cache_create(kCacheBuffers, SOCKET_ID_ANY));
  if (cache_ == nullptr) fail(buffers, rte_strerror(rte_errno));
  // From here on a buffer in the pool is nobody's to touch; rte_mempool keeps its own words
  // outside.
  rte_mempool_obj_iter(
      pool_.get(),
      [](rte_mempool*, void*, void* buffer, unsigned) {
        HAWSER_POISON(buffer, sizeof(proto::PacketBuffer));
        static_cast<void>(buffer);
      },
      nullptr);
}

MempoolPacketPool::~MempoolPacketPool() {
  if (in_use_ != 0) log_error(std::to_string(in_use_) + " packet buffers leaked");
  HAWSER_ASSERT(in_use_ == 0, "packet buffers leaked");
  rte_mempool_cache_flush(cache_.get(), pool_.get());
  HAWSER_ASSERT(rte_mempool_avail_count(pool_.get()) == capacity_);
  HAWSER_UNPOISON(memory_.get(), memory_bytes_);
}

std::size_t MempoolPacketPool::take(std::span<proto::PacketBuffer*> buffers) {
  const std::size_t count = std::min(buffers.size(), capacity_ - in_use_);
  if (count == 0) return 0;
  const int taken = rte_mempool_generic_get(pool_.get(), reinterpret_cast<void**>(buffers.data()),
                                            static_cast<unsigned>(count), cache_.get());
  HAWSER_ASSERT(taken == 0, "what is not in use is in the pool");
  in_use_ += count;
  for (proto::PacketBuffer* buffer : buffers.first(count)) {
    HAWSER_UNPOISON(buffer, sizeof(proto::PacketBuffer));
    static_cast<void>(buffer);
  }
  return count;
}

void MempoolPacketPool::give(std::span<proto::PacketBuffer* const> buffers) {
  HAWSER_ASSERT(buffers.size() <= in_use_, "more buffers come back than were taken");
  const std::byte* const begin = memory_.get();
  for (proto::PacketBuffer* buffer : buffers) {
    HAWSER_ASSERT(buffer->bytes >= begin && buffer->bytes < begin + memory_bytes_,
                  "a buffer of another pool");
#if defined(__SANITIZE_ADDRESS__)
    HAWSER_ASSERT(__asan_address_is_poisoned(buffer) == 0, "a buffer came back twice");
#endif
    HAWSER_POISON(buffer, sizeof(proto::PacketBuffer));
  }
  if (buffers.empty()) return;
  rte_mempool_generic_put(pool_.get(), reinterpret_cast<void* const*>(buffers.data()),
                          static_cast<unsigned>(buffers.size()), cache_.get());
  in_use_ -= buffers.size();
}

}  // namespace hawser::engine
