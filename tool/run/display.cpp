// SPDX-License-Identifier: Apache-2.0
#include "tool/run/display.hpp"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <climits>

#include <fmt/format.h>

#include "tool/run/clock.hpp"
#include "tool/run/summary.hpp"
#include "tool/standard_output.hpp"

namespace hawser::tool {
namespace {

constexpr std::uint64_t kTableIntervalNs = 250'000'000;
constexpr std::uint64_t kLineIntervalNs = 2'000'000'000;
constexpr int kBarWidth = 40;

std::vector<NicRow> rows_of(const std::vector<Progress>& ranks) {
  std::vector<const std::vector<NicSample>*> nics;
  for (const Progress& progress : ranks) nics.push_back(&progress.nics);
  return add_up_nics(nics);
}

}  // namespace

Display::Display(std::FILE* out, std::uint32_t ranks)
    : out_(out), terminal_(::isatty(::fileno(out)) == 1), ranks_(ranks), drawn_ns_(now_ns()) {}

Display::~Display() {
  wipe();
  (void)std::fwrite(waiting_.data(), 1, waiting_.size(), out_);  // put() may throw
  (void)std::fflush(out_);
}

void Display::progress(std::uint32_t rank, Progress progress) {
  ranks_[rank] = std::move(progress);
}

void Display::note(std::string_view text) {
  wipe();
  waiting_ += text;
  waiting_ += '\n';
  flush();
}

// A pipe that poll reports as writable takes this much without blocking (pipe(7)).
void Display::flush() {
  while (!waiting_.empty() && !would_block()) {
    const std::size_t bytes = std::min<std::size_t>(waiting_.size(), PIPE_BUF);
    const std::string piece = waiting_.substr(0, bytes);
    waiting_.erase(0, bytes);
    put(out_, piece);
    (void)std::fflush(out_);
  }
}

bool Display::would_block() const {
  pollfd writable{::fileno(out_), POLLOUT, 0};
  return ::poll(&writable, 1, 0) == 0;
}

void Display::refresh(std::uint64_t now) {
  flush();
  if (!waiting_.empty()) return;
  if (now - drawn_ns_ < (terminal_ ? kTableIntervalNs : kLineIntervalNs)) return;
  draw(now);
  drawn_ns_ = now;
}

void Display::wipe() {
  // Goes up by the table's lines, then clears to the end of the screen.
  if (lines_ > 0) waiting_ += fmt::format("\x1b[{}A\x1b[J", lines_);
  lines_ = 0;
}

double Display::least_done() const {
  double least = 1;
  for (const Progress& progress : ranks_) least = std::min(least, progress.done);
  return least;
}

std::string Display::table(double interval_s) const {
  const double done = least_done();
  const int filled = static_cast<int>(done * kBarWidth);
  std::string text =
      fmt::format("[{}{}] {:.0f}%\n", std::string(static_cast<std::size_t>(filled), '#'),
                  std::string(static_cast<std::size_t>(kBarWidth - filled), '.'), 100 * done);
  const std::vector<NicRow> rows = rows_of(ranks_);
  if (rows.empty()) return text;
  text += nic_table_head();
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::uint64_t before = i < bytes_before_.size() ? bytes_before_[i] : 0;
    const double bits = 8 * static_cast<double>(rows[i].sum.bytes_sent - before);
    text += nic_table_row(i, rows[i], bits / interval_s);
  }
  return text;
}

std::string Display::line(double interval_s) const {
  NicRow all;
  std::uint64_t before = 0;
  for (const NicRow& row : rows_of(ranks_)) {
    all.sum.bytes_sent += row.sum.bytes_sent;
    all.sum.data_packets_sent += row.sum.data_packets_sent;
    all.sum.packets_lost += row.sum.packets_lost;
    all.sum.retransmits += row.sum.retransmits;
    for (std::size_t state = 0; state < row.states.size(); ++state)
      all.states[state] += row.states[state];
  }
  for (const std::uint64_t bytes : bytes_before_) before += bytes;
  // Buffers are filled and verified between the collectives; a rate of that time is meaningless.
  const char* const quiet = all.sum.bytes_sent == 0 ? "starting" : "filling and verifying";
  if (all.sum.bytes_sent <= before) return fmt::format("{:3.0f}%  {}\n", 100 * least_done(), quiet);
  const auto lost = static_cast<double>(all.sum.packets_lost);
  const auto sent = static_cast<double>(std::max<std::uint64_t>(all.sum.data_packets_sent, 1));
  const std::uint32_t up = all.states[static_cast<std::size_t>(PathState::up)];
  std::uint32_t nics = 0;
  for (const std::uint32_t count : all.states) nics += count;
  return fmt::format("{:3.0f}%  {:.2f} Gb/s  loss {:.3f}%  {} retransmits  {} of {} NICs up\n",
                     100 * least_done(),
                     8e-9 * static_cast<double>(all.sum.bytes_sent - before) / interval_s,
                     100 * lost / sent, all.sum.retransmits, up, nics);
}

void Display::draw(std::uint64_t now) {
  const double interval_s = std::max(seconds(now - drawn_ns_), 1e-3);
  const std::string text = terminal_ ? table(interval_s) : line(interval_s);
  wipe();
  waiting_ += text;
  if (terminal_) lines_ = static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
  bytes_before_.clear();
  for (const NicRow& row : rows_of(ranks_)) bytes_before_.push_back(row.sum.bytes_sent);
  flush();
}

}  // namespace hawser::tool
