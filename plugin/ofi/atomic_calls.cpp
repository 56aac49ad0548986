// SPDX-License-Identifier: Apache-2.0
// fi_atomic, fi_fetch_atomic, fi_compare_atomic. Each word of a call is an operation of its own.
// Words have 4 or 8 bytes, and are integers: Hawser adds no floating-point numbers.
#include <rdma/fi_errno.h>

#include <array>
#include <cstring>

#include "plugin/ofi/endpoint.hpp"
#include "plugin/ofi/object.hpp"
#include "plugin/ofi/one_sided.hpp"

namespace hawser::ofi {
namespace {

// Walks through the words of a vector.
template <class Vector>
class Words {
 public:
  Words(std::span<const Vector> vectors, std::uint8_t width) : vectors_(vectors), width_(width) {
    skip_empty();
  }
  [[nodiscard]] bool is_over() const { return at_ == vectors_.size(); }
  [[nodiscard]] const Vector& vector() const { return vectors_[at_]; }
  // Bytes from the beginning of the vector.
  [[nodiscard]] std::size_t offset() const { return index_ * width_; }
  void advance() {
    ++index_;
    skip_empty();
  }

 private:
  void skip_empty() {
    while (!is_over() && index_ >= vectors_[at_].count) {
      ++at_;
      index_ = 0;
    }
  }

  std::span<const Vector> vectors_;
  std::uint8_t width_;
  std::size_t at_ = 0;
  std::size_t index_ = 0;
};

using Local = std::span<const fi_ioc>;

struct AtomicCall {
  AtomicForm form = AtomicForm::base;
  Local operands{};  // FI_ATOMIC_READ has none
  Local compares{};
  Local results{};
  std::span<const fi_rma_ioc> remote{};
  fi_datatype type = FI_UINT64;
  fi_op op = FI_SUM;
};

std::byte* place_of(const Words<fi_ioc>& words) {
  return static_cast<std::byte*>(words.vector().addr) + words.offset();
}

std::uint64_t value_of(const Words<fi_ioc>& words, std::uint8_t width) {
  std::uint64_t value = 0;
  std::memcpy(&value, place_of(words), width);
  return value;
}

// Fills `call.parts` from `atomic`. Returns 0, or what is wrong.
ssize_t cut(const AtomicCall& atomic, std::array<OneSidedPart, kParts>& parts, OneSidedCall& call) {
  const std::optional<Word> word = word_of(atomic.type, atomic.op, atomic.form);
  if (!word) return -FI_EOPNOTSUPP;
  if (std::max({atomic.operands.size(), atomic.compares.size(), atomic.results.size(),
                atomic.remote.size()}) > kVectors) {
    return -FI_EINVAL;
  }
  const bool has_operand = atomic.op != FI_ATOMIC_READ;
  const bool compares = atomic.form == AtomicForm::compare;
  Words operand(has_operand ? atomic.operands : Local{}, word->width);
  Words compare(compares ? atomic.compares : Local{}, word->width);
  Words result(word->fetches ? atomic.results : Local{}, word->width);
  std::size_t count = 0;
  for (Words remote(atomic.remote, word->width); !remote.is_over(); remote.advance()) {
    if ((has_operand && operand.is_over()) || (compares && compare.is_over()) ||
        (word->fetches && result.is_over())) {
      return -FI_EINVAL;
    }
    if (count == kWords) return -FI_EMSGSIZE;
    OneSidedPart& part = parts[count++];
    part = {.local = word->fetches ? place_of(result) : nullptr,
            .bytes = word->width,
            .address = remote.vector().addr + remote.offset(),
            .key = remote.vector().key,
            .operand = has_operand ? value_of(operand, word->width) : 0,
            .compare = compares ? value_of(compare, word->width) : 0};
    for (auto* words : {&operand, &compare, &result}) {
      if (!words->is_over()) words->advance();
    }
  }
  if (count == 0 || !operand.is_over() || !compare.is_over() || !result.is_over()) {
    return -FI_EINVAL;
  }
  call.act = Act::atomic;
  call.word = *word;
  call.parts = std::span(parts).first(count);
  return 0;
}

ssize_t start(fid_ep* ep, const AtomicCall& atomic, OneSidedCall call) {
  std::array<OneSidedPart, kParts> parts;
  if (const ssize_t wrong = cut(atomic, parts, call); wrong != 0) return wrong;
  return object_of<Endpoint>(ep).start(call);
}

// As `start`, for one range of the peer's memory.
ssize_t start_at(fid_ep* ep, AtomicCall atomic, fi_addr_t to, std::uint64_t address,
                 std::uint64_t key, void* context) {
  std::size_t count = 0;
  const Local sized = atomic.op == FI_ATOMIC_READ ? atomic.results : atomic.operands;
  for (const fi_ioc& vector : sized) count += vector.count;
  const fi_rma_ioc remote{.addr = address, .count = count, .key = key};
  atomic.remote = {&remote, 1};
  return start(ep, atomic,
               {.to = to,
                .flags = object_of<Endpoint>(ep).one_sided_flags(Act::atomic),
                .op_context = context});
}

ssize_t start_message(fid_ep* ep, AtomicCall atomic, const fi_msg_atomic& msg,
                      std::uint64_t flags) {
  atomic.operands = {msg.msg_iov, msg.iov_count};
  atomic.remote = {msg.rma_iov, msg.rma_iov_count};
  atomic.type = msg.datatype;
  atomic.op = msg.op;
  return start(ep, atomic,
               {.to = msg.addr,
                .flags = flags & ~(FI_FETCH_ATOMIC | FI_COMPARE_ATOMIC),
                .op_context = msg.context});
}

ssize_t base_vector(fid_ep* ep, const fi_ioc* iov, void**, std::size_t count, fi_addr_t to,
                    std::uint64_t address, std::uint64_t key, fi_datatype type, fi_op op,
                    void* context) {
  return start_at(ep, {.operands = {iov, count}, .type = type, .op = op}, to, address, key,
                  context);
}

ssize_t base(fid_ep* ep, const void* data, std::size_t count, void*, fi_addr_t to,
             std::uint64_t address, std::uint64_t key, fi_datatype type, fi_op op, void* context) {
  const fi_ioc operands{const_cast<void*>(data), count};
  return base_vector(ep, &operands, nullptr, 1, to, address, key, type, op, context);
}

ssize_t base_message(fid_ep* ep, const fi_msg_atomic* msg, std::uint64_t flags) {
  return start_message(ep, {}, *msg, flags);
}

ssize_t inject(fid_ep* ep, const void* data, std::size_t count, fi_addr_t to, std::uint64_t address,
               std::uint64_t key, fi_datatype type, fi_op op) {
  const fi_ioc operands{const_cast<void*>(data), count};
  const fi_rma_ioc remote{.addr = address, .count = count, .key = key};
  return start(ep, {.operands = {&operands, 1}, .remote = {&remote, 1}, .type = type, .op = op},
               {.to = to, .flags = FI_INJECT, .is_silent = true});
}

ssize_t fetch_vector(fid_ep* ep, const fi_ioc* iov, void**, std::size_t count, fi_ioc* results,
                     void**, std::size_t result_count, fi_addr_t to, std::uint64_t address,
                     std::uint64_t key, fi_datatype type, fi_op op, void* context) {
  return start_at(ep,
                  {.form = AtomicForm::fetch,
                   .operands = {iov, count},
                   .results = {results, result_count},
                   .type = type,
                   .op = op},
                  to, address, key, context);
}

ssize_t fetch(fid_ep* ep, const void* data, std::size_t count, void*, void* result, void*,
              fi_addr_t to, std::uint64_t address, std::uint64_t key, fi_datatype type, fi_op op,
              void* context) {
  const fi_ioc operands{const_cast<void*>(data), count};
  fi_ioc results{result, count};
  return fetch_vector(ep, &operands, nullptr, 1, &results, nullptr, 1, to, address, key, type, op,
                      context);
}

ssize_t fetch_message(fid_ep* ep, const fi_msg_atomic* msg, fi_ioc* results, void**,
                      std::size_t result_count, std::uint64_t flags) {
  return start_message(ep, {.form = AtomicForm::fetch, .results = {results, result_count}}, *msg,
                       flags);
}

ssize_t compare_vector(fid_ep* ep, const fi_ioc* iov, void**, std::size_t count,
                       const fi_ioc* compares, void**, std::size_t compare_count, fi_ioc* results,
                       void**, std::size_t result_count, fi_addr_t to, std::uint64_t address,
                       std::uint64_t key, fi_datatype type, fi_op op, void* context) {
  return start_at(ep,
                  {.form = AtomicForm::compare,
                   .operands = {iov, count},
                   .compares = {compares, compare_count},
                   .results = {results, result_count},
                   .type = type,
                   .op = op},
                  to, address, key, context);
}

ssize_t compare(fid_ep* ep, const void* data, std::size_t count, void*, const void* expected, void*,
                void* result, void*, fi_addr_t to, std::uint64_t address, std::uint64_t key,
                fi_datatype type, fi_op op, void* context) {
  const fi_ioc operands{const_cast<void*>(data), count};
  const fi_ioc compares{const_cast<void*>(expected), count};
  fi_ioc results{result, count};
  return compare_vector(ep, &operands, nullptr, 1, &compares, nullptr, 1, &results, nullptr, 1, to,
                        address, key, type, op, context);
}

ssize_t compare_message(fid_ep* ep, const fi_msg_atomic* msg, const fi_ioc* compares, void**,
                        std::size_t compare_count, fi_ioc* results, void**,
                        std::size_t result_count, std::uint64_t flags) {
  return start_message(ep,
                       {.form = AtomicForm::compare,
                        .compares = {compares, compare_count},
                        .results = {results, result_count}},
                       *msg, flags);
}

template <AtomicForm form>
int is_valid(fid_ep*, fi_datatype type, fi_op op, std::size_t* count) {
  if (!word_of(type, op, form)) return -FI_EOPNOTSUPP;
  if (count != nullptr) *count = kWords;
  return 0;
}

// The operations that may fetch or not. Nothing: none of them.
std::optional<AtomicOperation> sum_or_bits(fi_op op, bool is_signed) {
  switch (op) {
    case FI_SUM: return AtomicOperation::add;
    case FI_BAND: return AtomicOperation::bit_and;
    case FI_BOR: return AtomicOperation::bit_or;
    case FI_BXOR: return AtomicOperation::bit_xor;
    case FI_MIN: return is_signed ? AtomicOperation::min_signed : AtomicOperation::min_unsigned;
    case FI_MAX: return is_signed ? AtomicOperation::max_signed : AtomicOperation::max_unsigned;
    default: return std::nullopt;
  }
}

}  // namespace

std::optional<Word> word_of(fi_datatype type, fi_op op, AtomicForm form) {
  Word word;
  word.fetches = form != AtomicForm::base;
  switch (type) {
    case FI_INT32:
    case FI_UINT32: word.width = 4; break;
    case FI_INT64:
    case FI_UINT64: word.width = 8; break;
    default: return std::nullopt;
  }
  if (form == AtomicForm::compare) {
    if (op != FI_CSWAP) return std::nullopt;
    word.operation = AtomicOperation::compare_and_swap;
  } else if (op == FI_ATOMIC_WRITE) {
    word.operation = word.fetches ? AtomicOperation::swap : AtomicOperation::store;
  } else if (op == FI_ATOMIC_READ && word.fetches) {
    word.operation = AtomicOperation::load;
  } else {
    const auto operation = sum_or_bits(op, type == FI_INT32 || type == FI_INT64);
    if (!operation) return std::nullopt;
    word.operation = *operation;
  }
  return word;
}

int query_atomic(fid_domain*, fi_datatype type, fi_op op, fi_atomic_attr* attr,
                 std::uint64_t flags) {
  constexpr std::uint64_t kForms = FI_FETCH_ATOMIC | FI_COMPARE_ATOMIC;
  if (attr == nullptr || (flags & ~(kForms | FI_TAGGED)) != 0 || (flags & kForms) == kForms) {
    return -FI_EINVAL;
  }
  if ((flags & FI_TAGGED) != 0) return -FI_EOPNOTSUPP;
  AtomicForm form = AtomicForm::base;
  if ((flags & FI_FETCH_ATOMIC) != 0) form = AtomicForm::fetch;
  if ((flags & FI_COMPARE_ATOMIC) != 0) form = AtomicForm::compare;
  const std::optional<Word> word = word_of(type, op, form);
  if (!word) return -FI_EOPNOTSUPP;
  attr->count = kWords;
  attr->size = word->width;
  return 0;
}

fi_ops_atomic& atomic_calls() {
  static fi_ops_atomic calls{.size = sizeof calls,
                             .write = base,
                             .writev = base_vector,
                             .writemsg = base_message,
                             .inject = inject,
                             .readwrite = fetch,
                             .readwritev = fetch_vector,
                             .readwritemsg = fetch_message,
                             .compwrite = compare,
                             .compwritev = compare_vector,
                             .compwritemsg = compare_message,
                             .writevalid = is_valid<AtomicForm::base>,
                             .readwritevalid = is_valid<AtomicForm::fetch>,
                             .compwritevalid = is_valid<AtomicForm::compare>};
  return calls;
}

}  // namespace hawser::ofi
