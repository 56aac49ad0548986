#include "tool/storm/progress.hpp"

#include <unistd.h>

#include <algorithm>

#include <fmt/format.h>

#include "tool/run/clock.hpp"

namespace hawser::tool {
namespace {

constexpr std::uint64_t kTerminalNs = 250'000'000;
constexpr std::uint64_t kLineNs = 3'000'000'000;

}  // namespace

SwarmProgress::SwarmProgress(std::FILE* out, std::uint64_t count, double limit_s)
    : out_(out),
      terminal_(out != nullptr && ::isatty(::fileno(out)) == 1),
      count_(count),
      seconds_(limit_s),
      began_ns_(now_ns()),
      shown_ns_(began_ns_) {}

SwarmProgress::~SwarmProgress() {
  if (drawn_ && terminal_) fmt::print(out_, "\r\x1b[K");
  if (drawn_) (void)std::fflush(out_);
}

void SwarmProgress::show(std::uint64_t now, std::uint64_t done, std::uint64_t packets,
                         std::uint64_t failures) {
  if (out_ == nullptr || now - shown_ns_ < (terminal_ ? kTerminalNs : kLineNs)) return;
  const double passed = seconds(now - shown_ns_);
  double share = static_cast<double>(done) / static_cast<double>(count_);
  if (seconds_ > 0) share = std::max(share, std::min(1.0, seconds(now - began_ns_) / seconds_));
  fmt::print(out_, "{}{:3.0f}%  {} seeds  {:.1f} runs/s  {:.0f} k packets/s  {} failed{}",
             terminal_ ? "\r\x1b[K" : "", 100 * share, done,
             static_cast<double>(done - shown_done_) / passed,
             1e-3 * static_cast<double>(packets - shown_packets_) / passed, failures,
             terminal_ ? "" : "\n");
  (void)std::fflush(out_);
  drawn_ = true;
  shown_ns_ = now;
  shown_done_ = done;
  shown_packets_ = packets;
}

}  // namespace hawser::tool
