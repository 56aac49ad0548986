// SPDX-License-Identifier: Apache-2.0
#include "plugin/torch/tensors.hpp"

#include <algorithm>
#include <iterator>
#include <optional>
#include <stdexcept>

namespace hawser::torch_plugin {
namespace {

std::optional<coll::DataType> data_type(at::ScalarType type) {
  switch (type) {
    case at::kFloat:
    case at::kComplexFloat: return coll::DataType::f32;
    case at::kDouble:
    case at::kComplexDouble: return coll::DataType::f64;
    case at::kHalf: return coll::DataType::f16;
    case at::kBFloat16: return coll::DataType::bf16;
    case at::kInt: return coll::DataType::i32;
    case at::kLong: return coll::DataType::i64;
    case at::kChar: return coll::DataType::i8;
    case at::kByte:
    case at::kBool: return coll::DataType::u8;
    default: return std::nullopt;
  }
}

std::optional<coll::ReduceOp> reduce_op(c10d::ReduceOp op) {
  switch (op) {
    case c10d::ReduceOp::SUM: return coll::ReduceOp::sum;
    case c10d::ReduceOp::AVG: return coll::ReduceOp::average;
    case c10d::ReduceOp::PRODUCT: return coll::ReduceOp::prod;
    case c10d::ReduceOp::MIN: return coll::ReduceOp::min;
    case c10d::ReduceOp::MAX: return coll::ReduceOp::max;
    case c10d::ReduceOp::BAND: return coll::ReduceOp::bit_and;
    case c10d::ReduceOp::BOR: return coll::ReduceOp::bit_or;
    case c10d::ReduceOp::BXOR: return coll::ReduceOp::bit_xor;
    default: return std::nullopt;
  }
}

std::optional<coll::ReduceOp> of_truth_values(coll::ReduceOp op) {
  switch (op) {
    case coll::ReduceOp::sum:
    case coll::ReduceOp::max: return coll::ReduceOp::bit_or;
    case coll::ReduceOp::prod:
    case coll::ReduceOp::min: return coll::ReduceOp::bit_and;
    case coll::ReduceOp::average: return std::nullopt;
    default: return op;
  }
}

}  // namespace

void check_tensor(const std::string& call, const at::Tensor& tensor) {
  const char* wrong = nullptr;
  if (!tensor.defined()) {
    wrong = "an undefined tensor";
  } else if (!tensor.device().is_cpu()) {
    wrong = "a tensor that is not on the CPU";
  } else if (tensor.layout() != at::kStrided) {
    wrong = "a sparse tensor";
  }
  if (wrong != nullptr) throw std::invalid_argument(call + ": Hawser can't carry " + wrong);
}

at::Tensor& only_one(const std::string& call, std::vector<at::Tensor>& tensors) {
  if (tensors.size() != 1) {
    throw std::invalid_argument(call + ": Hawser takes one tensor, not " +
                                std::to_string(tensors.size()));
  }
  check_tensor(call, tensors.front());
  return tensors.front();
}

std::uint64_t bytes_of(const at::Tensor& tensor) {
  return static_cast<std::uint64_t>(tensor.numel()) * tensor.element_size();
}

ElementReduction reduction_of(const std::string& call, c10d::ReduceOp op,
                              const at::Tensor& tensor) {
  const at::ScalarType scalar = tensor.scalar_type();
  const std::optional<coll::DataType> type = data_type(scalar);
  std::optional<coll::ReduceOp> found = reduce_op(op);
  if (found && scalar == at::kBool) found = of_truth_values(*found);
  const bool is_linear = found == coll::ReduceOp::sum || found == coll::ReduceOp::average;
  if (!type || !found || (at::isComplexType(scalar) && !is_linear)) {
    throw std::invalid_argument(call + ": Hawser has no reduction number " +
                                std::to_string(static_cast<int>(op)) + " of " +
                                at::toString(scalar));
  }
  return {.type = *type, .op = *found, .per_element = at::isComplexType(scalar) ? 2u : 1u};
}

bool UsedMemory::take(const Dense& tensor) {
  const auto begin = reinterpret_cast<std::uintptr_t>(tensor.data());
  const std::uintptr_t end = begin + tensor.bytes();
  if (begin == end) return true;
  const auto behind = ends_.lower_bound(begin);
  if (behind != ends_.end() && behind->first < end) return false;
  if (behind != ends_.begin() && std::prev(behind)->second > begin) return false;
  ends_.emplace(begin, end);
  return true;
}

Places::Places(std::span<const Dense> tensors) {
  const auto address = [](const Dense& one) {
    return reinterpret_cast<std::uintptr_t>(one.data());
  };
  for (const Dense& one : tensors) {
    if (one.bytes() > 0 && (base_ == 0 || address(one) < base_)) base_ = address(one);
  }
  for (const Dense& one : tensors) {
    const std::uint64_t offset = one.bytes() > 0 ? address(one) - base_ : 0;
    segments_.push_back({.offset = offset, .bytes = one.bytes()});
  }
}

}  // namespace hawser::torch_plugin
