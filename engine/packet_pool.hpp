// SPDX-License-Identifier: Apache-2.0
// The pools of packet buffers: one per endpoint, used by one thread.
//
// The buffers lie in memory mapped for the pool. A stack holds the free ones: its top was used last
// and is still in the processor's cache. The pool adds nothing else to the process: no thread, no
// file, no descriptor.
//
// If the program has started DPDK's environment abstraction layer (EAL) itself, the pool is an
// rte_mempool in EAL's memory, to use its huge pages.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "proto/nic.hpp"

struct rte_mempool;
struct rte_mempool_cache;

namespace hawser::engine {

class EndpointPool : public proto::PacketPool {
 public:
  [[nodiscard]] virtual std::size_t capacity() const = 0;
  // The memory that contains all buffers, page aligned, for NICs that must know where they send
  // from.
  [[nodiscard]] virtual std::span<const std::byte> memory() const = 0;
};

// Makes a pool of `buffers` buffers, of the kind that fits the process. Throws hawser::Error.
[[nodiscard]] std::unique_ptr<EndpointPool> make_packet_pool(std::size_t buffers);

class StackPacketPool final : public EndpointPool {
 public:
  // Throws hawser::Error.
  explicit StackPacketPool(std::size_t buffers);
  // Asserts that all buffers are back: a missing one is a leak.
  ~StackPacketPool() override;
  StackPacketPool(const StackPacketPool&) = delete;
  StackPacketPool& operator=(const StackPacketPool&) = delete;

  [[nodiscard]] std::size_t take(std::span<proto::PacketBuffer*> buffers) override;
  // Asserts that the buffers belong to this pool, and that no more return than were taken.
  void give(std::span<proto::PacketBuffer* const> buffers) override;
  [[nodiscard]] std::size_t in_use() const override { return capacity_ - free_.size(); }
  [[nodiscard]] std::size_t capacity() const override { return capacity_; }
  [[nodiscard]] std::span<const std::byte> memory() const override {
    return {memory_.get(), memory_.get_deleter().bytes};
  }

 private:
  struct FreePages {
    std::size_t bytes;
    void operator()(std::byte* pages) const;
  };

  std::size_t capacity_;
  std::unique_ptr<std::byte[], FreePages> memory_;
  std::vector<proto::PacketBuffer*> free_;  // never grows beyond capacity_
};

// A pool in the program's EAL. It owns a cache, because rte_mempool has no cache for threads
// unknown to DPDK. Without one the pool's ring would hand out the coldest buffer.
class MempoolPacketPool final : public EndpointPool {
 public:
  // True if the program has started EAL, which rte_mempool needs.
  [[nodiscard]] static bool is_possible();

  // Throws hawser::Error.
  explicit MempoolPacketPool(std::size_t buffers);
  ~MempoolPacketPool() override;
  MempoolPacketPool(const MempoolPacketPool&) = delete;
  MempoolPacketPool& operator=(const MempoolPacketPool&) = delete;

  [[nodiscard]] std::size_t take(std::span<proto::PacketBuffer*> buffers) override;
  void give(std::span<proto::PacketBuffer* const> buffers) override;
  [[nodiscard]] std::size_t in_use() const override { return in_use_; }
  [[nodiscard]] std::size_t capacity() const override { return capacity_; }
  [[nodiscard]] std::span<const std::byte> memory() const override {
    return {memory_.get(), memory_bytes_};
  }

 private:
  struct FreeMempool {
    void operator()(rte_mempool* pool) const;
  };
  struct FreeCache {
    void operator()(rte_mempool_cache* cache) const;
  };
  struct FreeMemory {
    void operator()(std::byte* memory) const;
  };

  std::size_t capacity_;
  std::size_t memory_bytes_ = 0;
  std::unique_ptr<std::byte[], FreeMemory> memory_;  // outlives pool_, which lies in it
  std::unique_ptr<rte_mempool, FreeMempool> pool_;
  std::unique_ptr<rte_mempool_cache, FreeCache> cache_;
  std::size_t in_use_ = 0;
};

}  // namespace hawser::engine
