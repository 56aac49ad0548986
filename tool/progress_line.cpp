// SPDX-License-Identifier: Apache-2.0
#include "tool/progress_line.hpp"

#include <unistd.h>

#include <fmt/format.h>

#include "tool/run/clock.hpp"
#include "tool/standard_output.hpp"

namespace hawser::tool {
namespace {

constexpr std::uint64_t kTerminalNs = 250'000'000;
constexpr std::uint64_t kLineNs = 3'000'000'000;

}  // namespace

ProgressLine::ProgressLine(std::FILE* out)
    : out_(out), terminal_(out != nullptr && ::isatty(::fileno(out)) == 1), shown_ns_(now_ns()) {}

ProgressLine::~ProgressLine() {
  if (drawn_ && terminal_) (void)std::fputs("\r\x1b[K", out_);  // a destructor throws nothing
  if (drawn_) (void)std::fflush(out_);
}

bool ProgressLine::is_due(std::uint64_t now) const {
  return out_ != nullptr && now - shown_ns_ >= (terminal_ ? kTerminalNs : kLineNs);
}

void ProgressLine::show(std::uint64_t now, std::string_view text) {
  if (out_ == nullptr) return;
  print_to(out_, "{}{}{}", terminal_ ? "\r\x1b[K" : "", text, terminal_ ? "" : "\n");
  (void)std::fflush(out_);
  drawn_ = true;
  shown_ns_ = now;
}

}  // namespace hawser::tool
