// SPDX-License-Identifier: Apache-2.0
// Tensors as collectives see them: memory, elements and operations on these.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <torch/csrc/distributed/c10d/Types.hpp>
#include <vector>

#include "hawser/collectives.hpp"

namespace hawser::torch_plugin {

// Throws std::invalid_argument, which names the call, if Hawser can't carry the tensor.
void check_tensor(const std::string& call, const at::Tensor& tensor);
// Requires one tensor, as each process has one device.
[[nodiscard]] at::Tensor& only_one(const std::string& call, std::vector<at::Tensor>& tensors);

[[nodiscard]] std::uint64_t bytes_of(const at::Tensor& tensor);

// A reduction of a tensor's elements. Complex numbers are pairs of real ones. The sum and the
// maximum of truth values are `or`, product and minimum are `and`.
struct ElementReduction {
  coll::DataType type = coll::DataType::f32;
  coll::ReduceOp op = coll::ReduceOp::sum;
  std::uint64_t per_element = 1;  // elements of `type`
};
// Throws std::invalid_argument.
[[nodiscard]] ElementReduction reduction_of(const std::string& call, c10d::ReduceOp op,
                                            const at::Tensor& tensor);

// The tensor itself, or one in dense memory that stands for it.
class Dense {
 public:
  explicit Dense(const at::Tensor& tensor) : tensor_(tensor), dense_(tensor.contiguous()) {}
  [[nodiscard]] void* data() const { return dense_.data_ptr(); }
  [[nodiscard]] std::uint64_t bytes() const { return bytes_of(dense_); }
  [[nodiscard]] std::uint64_t elements() const {
    return static_cast<std::uint64_t>(dense_.numel());
  }
  [[nodiscard]] const at::Tensor& user_tensor() const { return tensor_; }
  // Afterwards the memory belongs to nothing else.
  void own() {
    if (tensor_.is_same(dense_)) dense_ = tensor_.clone();
  }
  // For outputs.
  void copy_back() {
    if (!tensor_.is_same(dense_)) tensor_.copy_(dense_);
  }

 private:
  at::Tensor tensor_;
  at::Tensor dense_;
};

// Memory that is in use, to find what overlaps.
class UsedMemory {
 public:
  // False: some of it is in use already.
  [[nodiscard]] bool take(const Dense& tensor);

 private:
  std::map<std::uintptr_t, std::uintptr_t> ends_;  // by the begin of each piece; none overlap
};

// Places of several tensors in the memory from the first one on, so that nothing need be copied.
class Places {
 public:
  explicit Places(std::span<const Dense> tensors);
  [[nodiscard]] void* base() const { return reinterpret_cast<void*>(base_); }
  [[nodiscard]] std::span<const coll::Segment> segments() const { return segments_; }

 private:
  std::uintptr_t base_ = 0;
  std::vector<coll::Segment> segments_;
};

}  // namespace hawser::torch_plugin
