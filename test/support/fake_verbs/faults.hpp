// SPDX-License-Identifier: Apache-2.0
// Scripted faults: which calls fail, and which completions lie. Tests set them through Fabric.
#pragma once

#include <infiniband/verbs.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>

namespace hawser::test::fake {

// Calls of libibverbs that can fail. Those before kSetupCalls belong to the setup.
enum class Call : std::uint8_t {
  get_device_list,
  open_device,
  query_port,
  query_gid_table,
  alloc_pd,
  reg_mr,
  create_comp_channel,
  create_cq,
  create_qp,
  modify_qp,
  kSetupCalls,
  query_device = kSetupCalls,
  query_pkey,
  create_ah,
  post_send,
  post_recv,
  poll_cq,
  req_notify_cq,
  get_cq_event,
  get_async_event,
  kCalls,
};

enum class Side : std::uint8_t { send, receive };

// The world's lock protects all of it. Nothing here allocates on the datapath.
class Faults {
 public:
  void fail(Call call, int error, std::uint64_t skip, std::uint64_t times) {
    rules_[index(call)] = {error, calls_[index(call)] + skip, times};
  }
  // Makes the n-th setup call from now on fail, whichever it is; n counts from 0.
  void fail_setup(std::uint64_t n, int error) { setup_ = {error, setup_calls_ + n, 1}; }

  // Counts a call; returns zero, or the error that the call fails with.
  [[nodiscard]] int strike(Call call) {
    const std::uint64_t number = calls_[index(call)]++;
    if (const int error = rules_[index(call)].error_of(number)) return error;
    if (call >= Call::kSetupCalls) return 0;
    return setup_.error_of(setup_calls_++);
  }
  [[nodiscard]] std::uint64_t calls(Call call) const { return calls_[index(call)]; }
  [[nodiscard]] std::uint64_t setup_calls() const { return setup_calls_; }

  // Lets post calls accept `requests` more requests, and refuse the next one.
  void refuse_after(Side side, std::uint64_t requests, int error) {
    refusals_[index(side)] = {true, requests, error};
  }
  [[nodiscard]] int refuses(Side side) {
    Refusal& refusal = refusals_[index(side)];
    if (!refusal.set || refusal.requests-- > 0) return 0;
    refusal.set = false;
    return refusal.error;
  }

  // After `skip` others, completes a request with `status`; its queue pair fails.
  void complete_with(Side side, ibv_wc_status status, std::uint64_t skip) {
    errors_[index(side)] = {true, skip, status};
  }
  [[nodiscard]] ibv_wc_status status_of(Side side) {
    Error& error = errors_[index(side)];
    if (!error.set || error.skip-- > 0) return IBV_WC_SUCCESS;
    error.set = false;
    return error.status;
  }

  // After `skip` others, falsifies a completion.
  void lie(Side side, std::function<void(ibv_wc&)> how, std::uint64_t skip) {
    lies_[index(side)] = {std::move(how), skip};
  }
  void bend(Side side, ibv_wc& completion) {
    Lie& lie = lies_[index(side)];
    if (!lie.how || lie.skip-- > 0) return;
    lie.how(completion);
    lie.how = nullptr;
  }

 private:
  struct Rule {
    int error = 0;
    std::uint64_t first = 0;
    std::uint64_t times = 0;
    [[nodiscard]] int error_of(std::uint64_t number) const {
      return number >= first && number - first < times ? error : 0;
    }
  };
  struct Refusal {
    bool set = false;
    std::uint64_t requests = 0;
    int error = 0;
  };
  struct Error {
    bool set = false;
    std::uint64_t skip = 0;
    ibv_wc_status status = IBV_WC_SUCCESS;
  };
  struct Lie {
    std::function<void(ibv_wc&)> how{};
    std::uint64_t skip = 0;
  };
  template <class Enum>
  static std::size_t index(Enum value) {
    return static_cast<std::size_t>(value);
  }

  std::array<Rule, static_cast<std::size_t>(Call::kCalls)> rules_{};
  std::array<std::uint64_t, static_cast<std::size_t>(Call::kCalls)> calls_{};
  Rule setup_{};
  std::uint64_t setup_calls_ = 0;
  std::array<Refusal, 2> refusals_{};
  std::array<Error, 2> errors_{};
  std::array<Lie, 2> lies_{};
};

}  // namespace hawser::test::fake
