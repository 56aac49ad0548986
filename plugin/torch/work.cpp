// SPDX-License-Identifier: Apache-2.0
#include "plugin/torch/work.hpp"

#include <ATen/core/ivalue.h>

#include "plugin/torch/notifier.hpp"

namespace hawser::torch_plugin {
namespace {

std::exception_ptr for_python(std::exception_ptr failure) {
  if (failure == nullptr) return failure;
  try {
    std::rethrow_exception(failure);
  } catch (const RankFailure& of_rank) {
    return std::make_exception_ptr(PythonFailure(of_rank.what()));
  } catch (...) {
    return failure;
  }
}

}  // namespace

// The module lives as long as the process, and its class with it.
PyObject* PythonFailure::python_type() {
  return PyObject_GetAttrString(PyImport_AddModule("hawser_torch"), "RankFailure");
}

TensorOperation::TensorOperation(std::string call, c10d::OpType kind) {
  name = std::move(call);
  is_message = c10d::isP2POp(kind);
}

void TensorOperation::on_end(std::exception_ptr failure) {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> results;
  for (Dense& one : outputs) {
    if (failure == nullptr) one.copy_back();
    results.push_back(one.user_tensor());
  }
  work->end(for_python(failure), std::move(results), from ? static_cast<int>(*from) : -1);
}

bool Work::isCompleted() {
  {
    const std::lock_guard guard(mutex_);
    if (completed_) return true;
  }
  // A program that only asks must not depend on the background thread's pace.
  if (const auto transport = transport_.lock()) transport->make_progress();
  const std::lock_guard guard(mutex_);
  return completed_;
}

bool Work::wait(std::chrono::milliseconds timeout) {
  const Clock::time_point deadline =
      timeout == kNoTimeout ? Clock::time_point::max() : Clock::now() + timeout;
  const auto is_over = [this] {
    const std::lock_guard guard(mutex_);
    return completed_;
  };
  // Without a transport the operation has ended.
  const std::shared_ptr<Transport> transport = transport_.lock();
  if (transport != nullptr && !transport->wait_until(is_over, deadline)) {
    throw std::runtime_error("Hawser: " + c10d::opTypeToString(opType_) + " has not ended within " +
                             std::to_string(timeout.count()) + " ms");
  }
  const std::lock_guard guard(mutex_);
  if (exception_) std::rethrow_exception(exception_);
  return true;
}

void Work::abort() {
  if (const auto group = group_.lock()) group->abort();
}

int Work::sourceRank() const {
  const std::lock_guard guard(mutex_);
  return source_;
}

std::vector<at::Tensor> Work::result() {
  const std::lock_guard guard(mutex_);
  return outputs_;
}

c10::intrusive_ptr<c10::ivalue::Future> Work::getFuture() {
  // Whoever waits for a future makes no progress.
  if (const auto transport = transport_.lock()) transport->wake();
  const std::lock_guard guard(mutex_);
  if (future_ == nullptr) {
    future_ =
        c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()));
    if (completed_) complete_future();
  }
  return future_;
}

// Callbacks may call into the process group, so they run elsewhere.
void Work::complete_future() {
  Notifier::of_process().run([future = future_, outputs = outputs_, failure = exception_] {
    if (failure) {
      future->setError(failure);
    } else {
      future->markCompleted(c10::IValue(outputs));
    }
  });
}

void Work::end(std::exception_ptr failure, std::vector<at::Tensor> outputs, int source) {
  const std::lock_guard guard(mutex_);
  completed_ = true;
  exception_ = std::move(failure);
  outputs_ = std::move(outputs);
  source_ = source;
  if (future_ != nullptr) complete_future();
  if (recordFunctionEndCallback_) recordFunctionEndCallback_();
  cv_.notify_all();
}

}  // namespace hawser::torch_plugin
