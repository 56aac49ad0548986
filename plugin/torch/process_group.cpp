// SPDX-License-Identifier: Apache-2.0
#include "plugin/torch/process_group.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstring>

namespace hawser::torch_plugin {
namespace {

using c10d::OpType;

// A store of bytes.
class Board {
 public:
  explicit Board(c10d::Store& store) : store_(store) {}
  void set(const std::string& key, std::span<const std::byte> value) {
    const auto* const first = reinterpret_cast<const std::uint8_t*>(value.data());
    store_.set("hawser/" + key, {first, first + value.size()});
  }
  // Waits until somebody has set it.
  [[nodiscard]] std::vector<std::byte> get(const std::string& key) {
    const std::vector<std::uint8_t> got = store_.get("hawser/" + key);
    const auto* const first = reinterpret_cast<const std::byte*>(got.data());
    return {first, first + got.size()};
  }

 private:
  c10d::Store& store_;
};

// Member 0 makes it for the group. Members whose transport exists already keep that one's.
Secret share_secret(Board& board, int rank) {
  Secret secret;
  if (rank == 0) {
    if (::getentropy(&secret, sizeof secret) != 0) throw Error("The system gave no random bytes");
    board.set("secret", std::as_bytes(std::span(&secret, 1)));
    return secret;
  }
  const std::vector<std::byte> shared = board.get("secret");
  if (shared.size() != sizeof secret) throw Error("The store has a secret of another version");
  std::memcpy(&secret, shared.data(), sizeof secret);
  return secret;
}

std::shared_ptr<Group> make_group(c10d::Store& store, int rank,
                                  const std::vector<std::int64_t>& ranks) {
  Board board(store);
  const auto exchange = [&](std::span<const std::byte> own) {
    board.set(std::to_string(rank), own);
    std::vector<std::vector<std::byte>> all;
    for (std::size_t other = 0; other < ranks.size(); ++other) {
      all.push_back(board.get(std::to_string(other)));
    }
    return all;
  };
  return std::make_shared<Group>(Transport::of_process(share_secret(board, rank)),
                                 static_cast<coll::Rank>(rank),
                                 std::vector<std::uint32_t>(ranks.begin(), ranks.end()), exchange);
}

std::shared_ptr<TensorOperation> make_operation(const std::string& call, OpType kind) {
  return std::make_shared<TensorOperation>(call, kind);
}

std::vector<Dense> dense(const std::vector<at::Tensor>& tensors) {
  std::vector<Dense> made;
  for (const at::Tensor& one : tensors) made.emplace_back(one);
  return made;
}

// `tensor` is as large as all `parts` together.
void check_parts(const std::string& call, const at::Tensor& tensor, std::uint64_t parts,
                 const at::Tensor& part) {
  check_tensor(call, tensor);
  check_tensor(call, part);
  if (tensor.scalar_type() == part.scalar_type() && bytes_of(tensor) == parts * bytes_of(part)) {
    return;
  }
  throw std::invalid_argument(call + ": the larger tensor must have the type, and " +
                              std::to_string(parts) + " times the elements, of the smaller one");
}

// Blocks of rows of a tensor, one for each member.
std::vector<coll::Segment> rows_of(const std::string& call, const at::Tensor& tensor,
                                   const std::vector<std::int64_t>& splits, std::uint64_t members) {
  const std::uint64_t rows = tensor.dim() == 0 ? 0 : static_cast<std::uint64_t>(tensor.size(0));
  const std::uint64_t row_bytes = rows == 0 ? 0 : bytes_of(tensor) / rows;
  const bool is_negative = std::ranges::any_of(splits, [](std::int64_t one) { return one < 0; });
  std::vector<std::uint64_t> counts(splits.begin(), splits.end());
  if (splits.empty() && rows % members == 0) counts.assign(members, rows / members);
  std::vector<coll::Segment> blocks;
  std::uint64_t row = 0;
  for (const std::uint64_t count : counts) {
    blocks.push_back({.offset = row * row_bytes, .bytes = count * row_bytes});
    row += count;
  }
  if (blocks.size() == members && row == rows && !is_negative) return blocks;
  throw std::invalid_argument(call + ": the splits must be " + std::to_string(members) +
                              " numbers, whose sum is the tensor's first dimension");
}

}  // namespace

ProcessGroup::ProcessGroup(const c10::intrusive_ptr<c10d::Store>& store, int rank,
                           const std::vector<std::int64_t>& ranks,
                           std::chrono::milliseconds timeout)
    : ProcessGroup(make_group(*store, rank, ranks), timeout) {}

ProcessGroup::ProcessGroup(std::shared_ptr<Group> group, std::chrono::milliseconds timeout)
    : c10d::ProcessGroup(static_cast<int>(group->rank()), static_cast<int>(group->ranks().size())),
      timeout_(timeout),
      group_(std::move(group)) {
  init();
}

c10::intrusive_ptr<ProcessGroup> ProcessGroup::shrink(const std::vector<coll::Rank>& without) {
  for (const coll::Rank rank : without) (void)member("shrink", static_cast<int>(rank));
  return c10::make_intrusive<ProcessGroup>(group_->shrink(without), timeout_);
}

coll::Rank ProcessGroup::root_of(const std::string& call, std::int64_t root,
                                 std::int64_t tensor) const {
  if (tensor != 0) throw std::invalid_argument(call + ": the root has one tensor, number 0");
  return member(call, static_cast<int>(root));
}

coll::Rank ProcessGroup::member(const std::string& call, int rank) const {
  if (rank >= 0 && rank < size_) return static_cast<coll::Rank>(rank);
  throw std::invalid_argument(call + ": the group has no rank " + std::to_string(rank));
}

void ProcessGroup::check_list(const std::string& call, const Tensors& tensors) const {
  if (tensors.size() != static_cast<std::size_t>(size_)) {
    throw std::invalid_argument(call + ": the list must have " + std::to_string(size_) +
                                " tensors, not " + std::to_string(tensors.size()));
  }
  for (const at::Tensor& one : tensors) check_tensor(call, one);
}

ProcessGroup::WorkPointer ProcessGroup::launch(OperationPointer operation, OpType kind,
                                               std::chrono::milliseconds timeout) {
  const std::chrono::milliseconds limit = timeout == c10d::kUnsetTimeout ? timeout_ : timeout;
  if (limit != kNoTimeout) operation->deadline = Clock::now() + limit;
  auto work = c10::make_intrusive<Work>(group_, rank_, kind);
  operation->work = work;
  if (!operation->is_message) ++collectives_;
  group_->submit(operation);
  return work;
}

ProcessGroup::WorkPointer ProcessGroup::broadcast(Tensors& tensors,
                                                  const c10d::BroadcastOptions& options) {
  const std::string call = "broadcast";
  const coll::Rank root = root_of(call, options.rootRank, options.rootTensor);
  const OperationPointer operation = make_operation(call, OpType::BROADCAST);
  const Dense& data = operation->outputs.emplace_back(only_one(call, tensors));
  operation->starts.emplace_back(
      [at = data.data(), bytes = data.bytes(), root](auto& group, auto& request) {
        return group.broadcast(at, bytes, root, request);
      });
  return launch(operation, OpType::BROADCAST, options.timeout);
}

ProcessGroup::WorkPointer ProcessGroup::all_reduce(const std::string& call, Tensors& tensors,
                                                   c10d::ReduceOp op,
                                                   std::chrono::milliseconds timeout, OpType kind) {
  const OperationPointer operation = make_operation(call, kind);
  UsedMemory used;
  for (const at::Tensor& tensor : tensors) {
    check_tensor(call, tensor);
    const ElementReduction how = reduction_of(call, op, tensor);
    Dense& data = operation->outputs.emplace_back(tensor);
    // A tensor may be in the list twice: its sums get the same values.
    if (!used.take(data)) data.own();
    operation->starts.emplace_back([at = data.data(), count = data.elements() * how.per_element,
                                    how](auto& group, auto& request) {
      return group.all_reduce(at, at, count, how.type, how.op, request);
    });
  }
  return launch(operation, kind, timeout);
}

ProcessGroup::WorkPointer ProcessGroup::allreduce(Tensors& tensors,
                                                  const c10d::AllreduceOptions& options) {
  (void)only_one("all_reduce", tensors);
  return all_reduce("all_reduce", tensors, options.reduceOp, options.timeout, OpType::ALLREDUCE);
}

ProcessGroup::WorkPointer ProcessGroup::allreduce_coalesced(
    Tensors& tensors, const c10d::AllreduceCoalescedOptions& options) {
  return all_reduce("all_reduce_coalesced", tensors, options.reduceOp, options.timeout,
                    OpType::ALLREDUCE_COALESCED);
}

ProcessGroup::WorkPointer ProcessGroup::reduce(Tensors& tensors,
                                               const c10d::ReduceOptions& options) {
  const std::string call = "reduce";
  const coll::Rank root = root_of(call, options.rootRank, options.rootTensor);
  const ElementReduction how = reduction_of(call, options.reduceOp, only_one(call, tensors));
  const OperationPointer operation = make_operation(call, OpType::REDUCE);
  const Dense& data = operation->outputs.emplace_back(tensors.front());
  operation->starts.emplace_back([at = data.data(), count = data.elements() * how.per_element, how,
                                  root](auto& group, auto& request) {
    return group.reduce(at, group.rank() == root ? at : nullptr, count, how.type, how.op, root,
                        request);
  });
  return launch(operation, OpType::REDUCE, options.timeout);
}

ProcessGroup::WorkPointer ProcessGroup::allgather(std::vector<Tensors>& outputs, Tensors& inputs,
                                                  const c10d::AllgatherOptions& options) {
  const std::string call = "all_gather";
  (void)only_one(call, inputs);
  if (outputs.size() != 1) throw std::invalid_argument(call + ": it needs one list of outputs");
  return all_gather(call, outputs, inputs, options);
}

ProcessGroup::WorkPointer ProcessGroup::allgather_coalesced(std::vector<Tensors>& outputs,
                                                            Tensors& inputs,
                                                            const c10d::AllgatherOptions& options) {
  // PyTorch gives a list for each rank, with an output for each input.
  const std::string call = "all_gather_coalesced";
  std::vector<Tensors> by_input(inputs.size());
  const bool fits = outputs.size() == static_cast<std::size_t>(size_) &&
                    std::ranges::all_of(outputs, [&inputs](const Tensors& of_rank) {
                      return of_rank.size() == inputs.size();
                    });
  if (!fits) {
    throw std::invalid_argument(
        call + ": it needs a list of outputs for each rank, with an output for each input");
  }
  for (const Tensors& of_rank : outputs) {
    for (std::size_t i = 0; i < inputs.size(); ++i) by_input[i].push_back(of_rank[i]);
  }
  return all_gather(call, by_input, inputs, options);
}

ProcessGroup::WorkPointer ProcessGroup::all_gather(const std::string& call,
                                                   std::vector<Tensors>& outputs, Tensors& inputs,
                                                   const c10d::AllgatherOptions& options) {
  const OperationPointer operation = make_operation(call, OpType::ALLGATHER);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    check_tensor(call, inputs[i]);
    check_list(call, outputs[i]);
    check_parts(call, outputs[i][static_cast<std::size_t>(rank_)], 1, inputs[i]);
    const std::vector<Dense> list = dense(outputs[i]);
    const Dense& data = operation->inputs.emplace_back(inputs[i]);
    operation->outputs.insert(operation->outputs.end(), list.begin(), list.end());
    operation->starts.emplace_back(
        [at = data.data(), keep = &operation->places(list)](auto& group, auto& request) {
          return group.all_gather_v(at, keep->base(), keep->segments(), request);
        });
  }
  return launch(operation, OpType::ALLGATHER, options.timeout);
}

ProcessGroup::WorkPointer ProcessGroup::_allgather_base(at::Tensor& output, at::Tensor& input,
                                                        const c10d::AllgatherOptions& options) {
  const std::string call = "all_gather_into_tensor";
  check_parts(call, output, static_cast<std::uint64_t>(size_), input);
  const OperationPointer operation = make_operation(call, OpType::_ALLGATHER_BASE);
  const Dense& from = operation->inputs.emplace_back(input);
  const Dense& to = operation->outputs.emplace_back(output);
  operation->starts.emplace_back(
      [in = from.data(), out = to.data(), bytes = from.bytes()](auto& group, auto& request) {
        return group.all_gather(in, out, bytes, request);
      });
  return launch(operation, OpType::_ALLGATHER_BASE, options.timeout);
}

ProcessGroup::WorkPointer ProcessGroup::gather(std::vector<Tensors>& outputs, Tensors& inputs,
                                               const c10d::GatherOptions& options) {
  const std::string call = "gather";
  const coll::Rank root = root_of(call, options.rootRank, 0);
  const bool is_root = static_cast<int>(root) == rank_;
  const OperationPointer operation = make_operation(call, OpType::GATHER);
  const Dense& data = operation->inputs.emplace_back(only_one(call, inputs));
  if (outputs.size() != (is_root ? 1u : 0u)) {
    throw std::invalid_argument(call + ": the root alone has a list of outputs");
  }
  if (is_root) {
    check_list(call, outputs.front());
    operation->outputs = dense(outputs.front());
  }
  operation->starts.emplace_back(
      [at = data.data(), bytes = data.bytes(), root, keep = &operation->places(operation->outputs)](
          auto& group, auto& request) {
        return group.gather_v(at, bytes, keep->base(), keep->segments(), root, request);
      });
  return launch(operation, OpType::GATHER, options.timeout);
}

ProcessGroup::WorkPointer ProcessGroup::scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                                                const c10d::ScatterOptions& options) {
  const std::string call = "scatter";
  const coll::Rank root = root_of(call, options.rootRank, 0);
  const bool is_root = static_cast<int>(root) == rank_;
  const OperationPointer operation = make_operation(call, OpType::SCATTER);
  const Dense& data = operation->outputs.emplace_back(only_one(call, outputs));
  if (inputs.size() != (is_root ? 1u : 0u)) {
    throw std::invalid_argument(call + ": the root alone has a list of inputs");
  }
  if (is_root) {
    check_list(call, inputs.front());
    operation->inputs = dense(inputs.front());
  }
  operation->starts.emplace_back(
      [at = data.data(), bytes = data.bytes(), root, keep = &operation->places(operation->inputs)](
          auto& group, auto& request) {
        return group.scatter_v(keep->base(), keep->segments(), at, bytes, root, request);
      });
  return launch(operation, OpType::SCATTER, options.timeout);
}

ProcessGroup::WorkPointer ProcessGroup::reduce_scatter(Tensors& outputs,
                                                       std::vector<Tensors>& inputs,
                                                       const c10d::ReduceScatterOptions& options) {
  const std::string call = "reduce_scatter";
  const at::Tensor& output = only_one(call, outputs);
  const ElementReduction how = reduction_of(call, options.reduceOp, output);
  if (inputs.size() != 1) throw std::invalid_argument(call + ": it needs one list of inputs");
  check_list(call, inputs.front());
  for (const at::Tensor& input : inputs.front()) {
    if (input.scalar_type() == output.scalar_type()) continue;
    throw std::invalid_argument(call + ": inputs and output must have the same type");
  }
  check_parts(call, output, 1, inputs.front()[static_cast<std::size_t>(rank_)]);
  const OperationPointer operation = make_operation(call, OpType::REDUCE_SCATTER);
  operation->inputs = dense(inputs.front());
  const Dense& to = operation->outputs.emplace_back(output);
  operation->starts.emplace_back([at = to.data(), how,
                                  keep = &operation->places(operation->inputs)](auto& group,
                                                                                auto& request) {
    return group.reduce_scatter_v(keep->base(), keep->segments(), at, how.type, how.op, request);
  });
  return launch(operation, OpType::REDUCE_SCATTER, options.timeout);
}

ProcessGroup::WorkPointer ProcessGroup::_reduce_scatter_base(
    at::Tensor& output, at::Tensor& input, const c10d::ReduceScatterOptions& options) {
  const std::string call = "reduce_scatter_tensor";
  check_parts(call, input, static_cast<std::uint64_t>(size_), output);
  const ElementReduction how = reduction_of(call, options.reduceOp, output);
  const OperationPointer operation = make_operation(call, OpType::_REDUCE_SCATTER_BASE);
  const Dense& from = operation->inputs.emplace_back(input);
  const Dense& to = operation->outputs.emplace_back(output);
  operation->starts.emplace_back([in = from.data(), out = to.data(),
                                  count = to.elements() * how.per_element,
                                  how](auto& group, auto& request) {
    return group.reduce_scatter(in, out, count, how.type, how.op, request);
  });
  return launch(operation, OpType::_REDUCE_SCATTER_BASE, options.timeout);
}

ProcessGroup::WorkPointer ProcessGroup::alltoall_base(at::Tensor& output, at::Tensor& input,
                                                      std::vector<std::int64_t>& output_splits,
                                                      std::vector<std::int64_t>& input_splits,
                                                      const c10d::AllToAllOptions& options) {
  const std::string call = "all_to_all_single";
  check_tensor(call, output);
  check_tensor(call, input);
  const auto members = static_cast<std::uint64_t>(size_);
  const OperationPointer operation = make_operation(call, OpType::ALLTOALL_BASE);
  const Dense& from = operation->inputs.emplace_back(input);
  const Dense& to = operation->outputs.emplace_back(output);
  operation->starts.emplace_back(
      [in = from.data(), out = to.data(), to_blocks = rows_of(call, input, input_splits, members),
       from_blocks = rows_of(call, output, output_splits, members)](auto& group, auto& request) {
        return group.all_to_all_v(in, to_blocks, out, from_blocks, request);
      });
  return launch(operation, OpType::ALLTOALL_BASE, options.timeout);
}

ProcessGroup::WorkPointer ProcessGroup::alltoall(Tensors& outputs, Tensors& inputs,
                                                 const c10d::AllToAllOptions& options) {
  const std::string call = "all_to_all";
  check_list(call, outputs);
  check_list(call, inputs);
  const OperationPointer operation = make_operation(call, OpType::ALLTOALL);
  operation->inputs = dense(inputs);
  operation->outputs = dense(outputs);
  operation->starts.emplace_back([from = &operation->places(operation->inputs),
                                  to = &operation->places(operation->outputs)](auto& group,
                                                                               auto& request) {
    return group.all_to_all_v(from->base(), from->segments(), to->base(), to->segments(), request);
  });
  return launch(operation, OpType::ALLTOALL, options.timeout);
}

ProcessGroup::WorkPointer ProcessGroup::send(Tensors& tensors, int to, int tag) {
  const std::string call = "send";
  const coll::Rank rank = member(call, to);
  const OperationPointer operation = make_operation(call, OpType::SEND);
  const Dense& data = operation->inputs.emplace_back(only_one(call, tensors));
  operation->starts.emplace_back(
      [at = data.data(), bytes = data.bytes(), rank, tag](auto& group, auto& request) {
        return group.send(at, bytes, rank, static_cast<std::uint32_t>(tag), request);
      });
  return launch(operation, OpType::SEND);
}

ProcessGroup::WorkPointer ProcessGroup::receive(Tensors& tensors, coll::Rank from, int tag,
                                                OpType kind) {
  const std::string call = "recv";
  const OperationPointer operation = make_operation(call, kind);
  const Dense& data = operation->outputs.emplace_back(only_one(call, tensors));
  operation->awaited_bytes = data.bytes();
  operation->starts.emplace_back(
      [at = data.data(), bytes = data.bytes(), from, tag](auto& group, auto& request) {
        return group.receive(at, bytes, from, static_cast<std::uint32_t>(tag), request);
      });
  return launch(operation, kind);
}

ProcessGroup::WorkPointer ProcessGroup::recv(Tensors& tensors, int from, int tag) {
  return receive(tensors, member("recv", from), tag, OpType::RECV);
}

ProcessGroup::WorkPointer ProcessGroup::recvAnysource(Tensors& tensors, int tag) {
  return receive(tensors, coll::kAnyRank, tag, OpType::RECVANYSOURCE);
}

ProcessGroup::WorkPointer ProcessGroup::barrier(const c10d::BarrierOptions& options) {
  const OperationPointer operation = make_operation("barrier", OpType::BARRIER);
  operation->starts.emplace_back([](auto& group, auto& request) { return group.barrier(request); });
  return launch(operation, OpType::BARRIER, options.timeout);
}

}  // namespace hawser::torch_plugin
