// SPDX-License-Identifier: Apache-2.0
// A completion queue. If the provider supports it, completions are polled one at a time
// (ibv_start_poll), without the provider's lock and reading only the fields that are needed.
// Otherwise they are polled as copies. Only one thread at a time may use it.
#pragma once

#include <array>
#include <cerrno>
#include <cstdint>

#include "engine/driver/verbs/verbs_port.hpp"

namespace hawser::engine {

// A completion. If it failed, only the number and the status are valid.
struct VerbsCompletion {
  std::uint64_t id = 0;
  ibv_wc_status status = IBV_WC_SUCCESS;
  ibv_wc_opcode opcode = IBV_WC_SEND;
  std::uint32_t bytes = 0;  // of a receive
  bool has_route_header = false;
};

class VerbsCompletions {
 public:
  VerbsCompletions() = default;  // no queue
  // `channel` may be null. The object is null, with errno set, if the device refuses.
  VerbsCompletions(const VerbsPort& port, std::uint32_t entries, ibv_comp_channel* channel);

  [[nodiscard]] explicit operator bool() const { return queue_ != nullptr; }
  [[nodiscard]] ibv_cq* get() const { return queue_.get(); }
  void reset() { *this = VerbsCompletions(); }

  static constexpr int kMost = 64;
  // Calls take(const VerbsCompletion&) for up to `most` (1 to kMost) completions. Returns their
  // number: fewer than `most` means that the queue was seen empty. Returns below 0 if the queue
  // can't be polled.
  template <class Take>
  [[nodiscard]] int poll(int most, Take take) {
    return extended_ != nullptr ? poll_each(most, take) : poll_copies(most, take);
  }
  // Takes out all completions. Returns false if the queue can't be polled.
  [[nodiscard]] bool discard();

 private:
  template <class Take>
  int poll_copies(int most, Take take) {
    std::array<ibv_wc, kMost> copies;
    const int count = ibv_poll_cq(queue_.get(), most, copies.data());
    for (int i = 0; i < count; ++i) {
      const ibv_wc& wc = copies[static_cast<std::size_t>(i)];
      take(VerbsCompletion{wc.wr_id, wc.status, wc.opcode, wc.byte_len,
                           (wc.wc_flags & IBV_WC_GRH) != 0});
    }
    return count;
  }

  template <class Take>
  int poll_each(int most, Take take) {
    ibv_poll_cq_attr attributes{};
    int error = ibv_start_poll(extended_, &attributes);
    if (error != 0) return error == ENOENT ? 0 : -1;
    int count = 0;
    while (error == 0) {
      VerbsCompletion completion{extended_->wr_id, extended_->status};
      if (completion.status == IBV_WC_SUCCESS) {
        completion.opcode = ibv_wc_read_opcode(extended_);
        if (completion.opcode == IBV_WC_RECV) {
          completion.bytes = ibv_wc_read_byte_len(extended_);
          completion.has_route_header = (ibv_wc_read_wc_flags(extended_) & IBV_WC_GRH) != 0;
        }
      }
      take(completion);
      if (++count == most) break;
      error = ibv_next_poll(extended_);
    }
    ibv_end_poll(extended_);
    return error == 0 || error == ENOENT ? count : -1;
  }

  VerbsCompletionQueue queue_;
  ibv_cq_ex* extended_ = nullptr;  // the same queue, if it is an extended one
};

}  // namespace hawser::engine
