// SPDX-License-Identifier: Apache-2.0
// Endpoints of the provider in one process, made as a program would make them.
#pragma once

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_tagged.h>
#include <rdma/providers/fi_prov.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "test/support/hang_limit.hpp"

namespace hawser::test {

// If this variable is set, endpoints close as they do by default, and else within 20 ms.
inline constexpr const char* kClosesByDefault = "TEST_CLOSES_BY_DEFAULT";

// Sets environment variables for as long as it lives. The first object also tells libfabric where
// the provider is.
class Variables {
 public:
  using Pairs = std::initializer_list<std::pair<std::string, std::string>>;
  explicit Variables(Pairs pairs = {});
  ~Variables();
  Variables(const Variables&) = delete;
  Variables& operator=(const Variables&) = delete;

 private:
  std::vector<std::string> names_;
};

struct FreeInfo {
  void operator()(fi_info* info) const { fi_freeinfo(info); }
};
using Info = std::unique_ptr<fi_info, FreeInfo>;

// Hints for the provider, with only the usual fields set.
[[nodiscard]] Info hints();
// The provider as libfabric gets it from the library.
[[nodiscard]] fi_provider* provider();
// The result of fi_getinfo, or null. `answer`, if not null, gets its status.
[[nodiscard]] Info get_info(const fi_info* hints, int* answer = nullptr);

struct CloseFid {
  template <class Object>
  void operator()(Object* object) const {
    (void)fi_close(&object->fid);
  }
};
template <class Object>
using Owned = std::unique_ptr<Object, CloseFid>;

struct Entry {
  ssize_t answer = 0;  // 1; -FI_EAVAIL for an error; -FI_EAGAIN if none came in time
  fi_cq_tagged_entry entry{};
  fi_addr_t source = FI_ADDR_NOTAVAIL;
  fi_cq_err_entry error{};
  std::string text{};  // of an error
};

struct NodeOptions {
  std::uint64_t caps = FI_MSG | FI_TAGGED | FI_MULTI_RECV | FI_SOURCE | FI_DIRECTED_RECV;
  std::uint64_t send_flags = 0;
  std::uint64_t bind_flags = 0;  // FI_SELECTIVE_COMPLETION
  fi_wait_obj wait_obj = FI_WAIT_NONE;
  fi_threading threading = FI_THREAD_SAFE;
  std::size_t least_multi_bytes = 0;  // 0: the default
  std::size_t send_count = 0;
  std::size_t receive_count = 0;
  std::uint32_t version = FI_VERSION(1, 17);  // for which the program was written
  bool counts = false;                        // with counters for both directions
  int mr_mode = 0;                            // that the program can do with
  // The arguments of fi_getinfo.
  std::string node{};  // "": none
  std::string service{};
  std::uint64_t info_flags = 0;
  std::uint32_t addr_format = FI_FORMAT_UNSPEC;
};

// A fabric, a domain, an AV, a CQ for both directions, and an enabled endpoint.
class Node {
 public:
  explicit Node(const NodeOptions& options = {});

  [[nodiscard]] std::vector<std::byte> name() const;
  [[nodiscard]] fi_addr_t insert(const std::vector<std::byte>& address);
  // Reads until an entry comes. It also polls `other`, as nothing else does.
  [[nodiscard]] Entry next(Node* other = nullptr, int timeout_ms = kHangLimitMs);
  [[nodiscard]] Entry look();  // once

  Info info;
  Owned<fid_fabric> fabric;
  Owned<fid_domain> domain;
  Owned<fid_av> av;
  Owned<fid_cq> cq;
  Owned<fid_cntr> sent;
  Owned<fid_cntr> received;
  Owned<fid_ep> ep;
};

// Two nodes with each other's address.
struct Pair {
  explicit Pair(const NodeOptions& options = {});
  Entry next_a() { return a.next(&b); }
  Entry next_b() { return b.next(&a); }
  // Polls both nodes until the condition is true. False if it was not within kHangLimit.
  template <class Condition>
  bool until(Condition&& condition);

  Variables variables;
  Node a;
  Node b;
  fi_addr_t to_a = FI_ADDR_NOTAVAIL;  // b's name for a
  fi_addr_t to_b = FI_ADDR_NOTAVAIL;
};

// Milliseconds of a steady clock.
[[nodiscard]] std::int64_t now_ms();

template <class Condition>
bool Pair::until(Condition&& condition) {
  for (const HangLimit limit; !condition();) {
    if (limit.is_over()) return condition();
    for (Node* node : {&a, &b}) (void)fi_cq_read(node->cq.get(), nullptr, 0);
  }
  return true;
}

// Bytes that differ by seed and place.
[[nodiscard]] std::vector<std::uint8_t> pattern(std::size_t bytes, std::uint8_t seed);

}  // namespace hawser::test
