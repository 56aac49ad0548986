// SPDX-License-Identifier: Apache-2.0
// The process group of PyTorch 1.13 over Hawser: checks arguments, and starts collectives.
//
// Calls return once the operation has started. They throw std::invalid_argument where PyTorch's
// caller is at fault, and RankFailure if the group has failed already.
#pragma once

#include <chrono>
#include <memory>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <vector>

#include "plugin/torch/group.hpp"
#include "plugin/torch/work.hpp"

namespace hawser::torch_plugin {

class ProcessGroup final : public c10d::ProcessGroup {
 public:
  using Tensors = std::vector<at::Tensor>;
  using WorkPointer = c10::intrusive_ptr<c10d::Work>;

  // `ranks` are the members' ranks in the world. Blocks until all members have come.
  ProcessGroup(const c10::intrusive_ptr<c10d::Store>& store, int rank,
               const std::vector<std::int64_t>& ranks, std::chrono::milliseconds timeout);

  ProcessGroup(std::shared_ptr<Group> group, std::chrono::milliseconds timeout);

  // A process group of the members that are left (Group::shrink).
  [[nodiscard]] c10::intrusive_ptr<ProcessGroup> shrink(const std::vector<coll::Rank>& without);
  // The members, as ranks of the world.
  [[nodiscard]] const std::vector<std::uint32_t>& ranks() const { return group_->ranks(); }

  const std::string getBackendName() const override { return "hawser"; }

  WorkPointer broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override;
  WorkPointer allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override;
  WorkPointer allreduce_coalesced(Tensors& tensors,
                                  const c10d::AllreduceCoalescedOptions& options) override;
  WorkPointer reduce(Tensors& tensors, const c10d::ReduceOptions& options) override;
  WorkPointer allgather(std::vector<Tensors>& outputs, Tensors& inputs,
                        const c10d::AllgatherOptions& options) override;
  WorkPointer _allgather_base(at::Tensor& output, at::Tensor& input,
                              const c10d::AllgatherOptions& options) override;
  WorkPointer allgather_coalesced(std::vector<Tensors>& outputs, Tensors& inputs,
                                  const c10d::AllgatherOptions& options) override;
  WorkPointer gather(std::vector<Tensors>& outputs, Tensors& inputs,
                     const c10d::GatherOptions& options) override;
  WorkPointer scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                      const c10d::ScatterOptions& options) override;
  WorkPointer reduce_scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                             const c10d::ReduceScatterOptions& options) override;
  WorkPointer _reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                   const c10d::ReduceScatterOptions& options) override;
  WorkPointer alltoall_base(at::Tensor& output, at::Tensor& input,
                            std::vector<std::int64_t>& output_splits,
                            std::vector<std::int64_t>& input_splits,
                            const c10d::AllToAllOptions& options) override;
  WorkPointer alltoall(Tensors& outputs, Tensors& inputs,
                       const c10d::AllToAllOptions& options) override;
  WorkPointer send(Tensors& tensors, int to, int tag) override;
  WorkPointer recv(Tensors& tensors, int from, int tag) override;
  WorkPointer recvAnysource(Tensors& tensors, int tag) override;
  WorkPointer barrier(const c10d::BarrierOptions& options) override;

  void setSequenceNumberForGroup() override {}
  std::uint64_t getSequenceNumberForGroup() override { return collectives_; }

 private:
  using OperationPointer = std::shared_ptr<TensorOperation>;

  [[nodiscard]] coll::Rank root_of(const std::string& call, std::int64_t root,
                                   std::int64_t tensor) const;
  [[nodiscard]] coll::Rank member(const std::string& call, int rank) const;
  // As many tensors as members, which Hawser can carry.
  void check_list(const std::string& call, const Tensors& tensors) const;
  WorkPointer all_reduce(const std::string& call, Tensors& tensors, c10d::ReduceOp op,
                         std::chrono::milliseconds timeout, c10d::OpType kind);
  // `outputs[i]` has a tensor of each rank for `inputs[i]`.
  WorkPointer all_gather(const std::string& call, std::vector<Tensors>& outputs, Tensors& inputs,
                         const c10d::AllgatherOptions& options);
  WorkPointer receive(Tensors& tensors, coll::Rank from, int tag, c10d::OpType kind);
  // Submits it. `timeout` may be unset.
  WorkPointer launch(OperationPointer operation, c10d::OpType kind,
                     std::chrono::milliseconds timeout = c10d::kUnsetTimeout);

  std::chrono::milliseconds timeout_;
  std::shared_ptr<Group> group_;
  std::uint64_t collectives_ = 0;  // started so far
};

}  // namespace hawser::torch_plugin
