// The pool of packet buffers of one endpoint: an rte_mempool over memory of our own.
//
// One thread uses a pool. rte_mempool gives threads that DPDK doesn't know no cache, and without a
// cache its ring hands out the coldest buffer; so the pool owns a cache: a stack, whose top was
// used last and is still in the processor's cache.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "proto/nic.hpp"

struct rte_mempool;
struct rte_mempool_cache;

namespace hawser::engine {

class MempoolPacketPool final : public proto::PacketPool {
 public:
  // `buffers` buffers. Initialises EAL on first need. Throws hawser::Error.
  explicit MempoolPacketPool(std::size_t buffers);
  // All buffers are back: one that is missing is a leak, and asserted on.
  ~MempoolPacketPool() override;
  MempoolPacketPool(const MempoolPacketPool&) = delete;
  MempoolPacketPool& operator=(const MempoolPacketPool&) = delete;

  [[nodiscard]] std::size_t take(std::span<proto::PacketBuffer*> buffers) override;
  // Asserts that the buffers are of this pool and that no more come back than were taken.
  void give(std::span<proto::PacketBuffer* const> buffers) override;
  [[nodiscard]] std::size_t in_use() const override { return in_use_; }

  [[nodiscard]] std::size_t capacity() const { return capacity_; }
  // All buffers lie in it: for NICs that must know where they send from. Page aligned.
  [[nodiscard]] std::span<const std::byte> memory() const { return {memory_.get(), memory_bytes_}; }

 private:
  struct FreeMempool {
    void operator()(rte_mempool* pool) const;
  };
  struct FreeCache {
    void operator()(rte_mempool_cache* cache) const;
  };
  struct FreePages {
    std::size_t bytes;
    void operator()(std::byte* pages) const;
  };

  std::size_t capacity_;
  std::size_t memory_bytes_ = 0;
  std::unique_ptr<std::byte[], FreePages> memory_;  // outlives the pool that lies over it
  std::unique_ptr<rte_mempool, FreeMempool> pool_;
  std::unique_ptr<rte_mempool_cache, FreeCache> cache_;
  std::size_t in_use_ = 0;
};

}  // namespace hawser::engine
