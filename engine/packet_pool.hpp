// SPDX-License-Identifier: Apache-2.0
// The pools of packet buffers: one for each endpoint, which one thread uses.
//
// Buffers lie in memory that is mapped for the pool, and those that are free on a stack, whose top
// was used last and is still in the processor's cache. A process that Hawser is linked into gets
// nothing else by it: no thread, no file, no descriptor.
//
// A program that has started DPDK's environment abstraction layer (EAL) itself gets an rte_mempool
// in that one's memory, so that its huge pages serve.
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
  // All buffers lie in it: for NICs that must know where they send from. Page aligned.
  [[nodiscard]] virtual std::span<const std::byte> memory() const = 0;
};

// Of `buffers` buffers, the kind that fits the process. Throws hawser::Error.
[[nodiscard]] std::unique_ptr<EndpointPool> make_packet_pool(std::size_t buffers);

class StackPacketPool final : public EndpointPool {
 public:
  // Throws hawser::Error.
  explicit StackPacketPool(std::size_t buffers);
  // All buffers are back: one that is missing is a leak, and asserted on.
  ~StackPacketPool() override;
  StackPacketPool(const StackPacketPool&) = delete;
  StackPacketPool& operator=(const StackPacketPool&) = delete;

  [[nodiscard]] std::size_t take(std::span<proto::PacketBuffer*> buffers) override;
  // Asserts that the buffers are of this pool and that no more come back than were taken.
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

// Of the program's EAL. rte_mempool gives threads that DPDK doesn't know no cache, and without a
// cache its ring hands out the coldest buffer; so the pool owns a cache.
class MempoolPacketPool final : public EndpointPool {
 public:
  // Whether the program has started EAL, without which there is no rte_mempool.
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
  std::unique_ptr<std::byte[], FreeMemory> memory_;  // outlives the pool that lies over it
  std::unique_ptr<rte_mempool, FreeMempool> pool_;
  std::unique_ptr<rte_mempool_cache, FreeCache> cache_;
  std::size_t in_use_ = 0;
};

}  // namespace hawser::engine
