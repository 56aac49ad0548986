// SPDX-License-Identifier: Apache-2.0
// The handle of an operation in PyTorch.
#pragma once

#include <torch/csrc/Exceptions.h>
#include <list>
#include <memory>
#include <span>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <vector>

#include "plugin/torch/group.hpp"
#include "plugin/torch/tensors.hpp"

namespace hawser::torch_plugin {

class Work;

// A RankFailure, as PyTorch's own code hands it to Python: as hawser_torch.RankFailure.
class PythonFailure final : public torch::PyTorchError {
 public:
  using torch::PyTorchError::PyTorchError;
  PyObject* python_type() override;
};

// The operation of a Work. It owns the tensors, so that they live as long as the engine uses them.
class TensorOperation final : public Operation {
 public:
  TensorOperation(std::string call, c10d::OpType kind);

  void on_end(std::exception_ptr failure) override;

  // The places of tensors, which live as long as the operation.
  [[nodiscard]] const Places& places(std::span<const Dense> tensors) {
    return places_.emplace_back(tensors);
  }

  std::vector<Dense> inputs;
  std::vector<Dense> outputs;
  c10::intrusive_ptr<Work> work;

 private:
  std::list<Places> places_;
};

class Work final : public c10d::Work {
 public:
  Work(const std::shared_ptr<Group>& group, int rank, c10d::OpType kind)
      : c10d::Work(rank, kind), group_(group), transport_(group->transport()) {}

  bool isCompleted() override;
  bool wait(std::chrono::milliseconds timeout) override;
  void abort() override;
  int sourceRank() const override;
  std::vector<at::Tensor> result() override;
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;

  // ---- for TensorOperation
  void end(std::exception_ptr failure, std::vector<at::Tensor> outputs, int source);

 private:
  // Requires the mutex of the base class.
  void complete_future();

  // A work that a thread of the transport destroys must not be the last to know of either.
  std::weak_ptr<Group> group_;
  std::weak_ptr<Transport> transport_;
  std::vector<at::Tensor> outputs_;  // after the end
  int source_ = -1;
  c10::intrusive_ptr<c10::ivalue::Future> future_;  // null until somebody asks for it
};

}  // namespace hawser::torch_plugin
