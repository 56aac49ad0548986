// SPDX-License-Identifier: Apache-2.0
// Hawser's lanes, as docs/internals/protocol.md says in section 10. Packets take the NICs one after
// the other, and on each NIC its entropies one after the other. An entropy from which a packet came
// back marked is skipped once; if all are marked, none is skipped.
#pragma once

#include <vector>

#include "proto/base/assert.hpp"
#include "sim/baseline/spray.hpp"

namespace hawser::baseline {

class Lanes final : public Spray {
 public:
  Lanes(std::uint32_t nics, std::uint32_t lanes) : nics_(nics, Nic(lanes)) {
    HAWSER_ASSERT(nics > 0 && lanes > 0 && lanes <= 1u << 16);
  }

  [[nodiscard]] Way next() override {
    const std::uint32_t number = turn_;
    turn_ = (turn_ + 1) % static_cast<std::uint32_t>(nics_.size());
    Nic& nic = nics_[number];
    if (nic.count == nic.marked.size()) {
      nic.marked.assign(nic.marked.size(), false);
      nic.count = 0;
    }
    for (; nic.marked[nic.next]; nic.next = nic.after()) {
      nic.marked[nic.next] = false;
      --nic.count;
    }
    const Way way{number, static_cast<std::uint16_t>(nic.next)};
    nic.next = nic.after();
    return way;
  }

  void on_ack(Way way, fabric::Span, bool is_marked) override {
    Nic& nic = nics_[way.nic];
    if (!is_marked || nic.marked[way.entropy]) return;
    nic.marked[way.entropy] = true;
    ++nic.count;
  }

 private:
  struct Nic {
    explicit Nic(std::uint32_t lanes) : marked(lanes, false) {}
    [[nodiscard]] std::size_t after() const { return (next + 1) % marked.size(); }
    std::vector<bool> marked;
    std::size_t count = 0;  // of them
    std::size_t next = 0;
  };
  std::vector<Nic> nics_;
  std::uint32_t turn_ = 0;
};

}  // namespace hawser::baseline
