// SPDX-License-Identifier: Apache-2.0
// What people see while work runs, where nobody reads it: a pipe that is full, or a stream that is
// gone.
#include "tool/run/display.hpp"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>

#include "engine/descriptor.hpp"
#include "tool/progress_line.hpp"
#include "tool/standard_output.hpp"

namespace hawser::tool {
namespace {

constexpr std::uint64_t kLater = std::uint64_t{1} << 62;  // due for any display

struct Close {
  void operator()(std::FILE* file) const { (void)std::fclose(file); }
};
using File = std::unique_ptr<std::FILE, Close>;

File full() { return File(std::fopen("/dev/full", "w")); }

// A pipe that is full until it is drained.
class FullPipe {
 public:
  FullPipe() {
    std::array<int, 2> ends{};
    REQUIRE(::pipe2(ends.data(), O_CLOEXEC) == 0);
    read_ = engine::Descriptor(ends[0]);
    write_.reset(::fdopen(ends[1], "w"));
    (void)::fcntl(read_.get(), F_SETFL, O_NONBLOCK);
    (void)::fcntl(ends[1], F_SETFL, O_NONBLOCK);
    const std::string page(4096, '.');
    while (::write(ends[1], page.data(), page.size()) > 0) {
    }
    (void)::fcntl(ends[1], F_SETFL, 0);
  }
  [[nodiscard]] std::FILE* file() const { return write_.get(); }
  // All that is there, without the filling.
  [[nodiscard]] std::string drain() const {
    std::string text;
    std::array<char, 4096> block;
    for (ssize_t n; (n = ::read(read_.get(), block.data(), block.size())) > 0;) {
      text.append(block.data(), static_cast<std::size_t>(n));
    }
    return text.substr(std::min(text.find_first_not_of('.'), text.size()));
  }

 private:
  engine::Descriptor read_;
  File write_;
};

TEST_CASE("display: it never waits for its reader, and keeps its notes in order") {
  const FullPipe pipe;
  std::optional<Display> display(std::in_place, pipe.file(), 1);
  display->refresh(kLater);
  display->note("first");
  display->refresh(2 * kLater);
  display->note("second");
  CHECK(pipe.drain().empty());
  display->flush();
  const std::string text = pipe.drain();
  CHECK_THAT(text, Catch::EndsWith("first\nsecond\n"));
  // A line of progress is left out while a note waits.
  CHECK(text.find('%') == text.rfind('%'));
  display->note("third");
  CHECK(pipe.drain() == "third\n");
}

TEST_CASE("display: what waits at its end is written then") {
  const FullPipe pipe;
  std::optional<Display> display(std::in_place, pipe.file(), 1);
  display->note("last words");
  CHECK(pipe.drain().empty());
  display.reset();
  CHECK(pipe.drain() == "last words\n");
}

TEST_CASE("display: much that waits keeps the ranks' output where it is") {
  const FullPipe pipe;
  Display display(pipe.file(), 1);
  CHECK_FALSE(display.is_behind());
  for (int i = 0; i < 300; ++i) display.note(std::string(1024, '#'));
  CHECK(display.is_behind());
  (void)pipe.drain();
  // All of it: the destructor would wait for a reader.
  std::size_t written = 0;
  std::size_t more = 0;
  do {
    display.flush();
    more = pipe.drain().size();
    written += more;
  } while (more > 0);
  CHECK(written == std::size_t{300} * 1025);
  CHECK_FALSE(display.is_behind());
}

TEST_CASE("display: a stream that takes nothing is nobody's failure") {
  const File file = full();
  REQUIRE(file);
  {
    Display display(file.get(), 2);
    display.note("a note");
    display.refresh(kLater);
    display.progress(1, Progress{0.5, {}});
    display.refresh(2 * kLater);
  }
  {
    ProgressLine line(file.get());
    line.show(kLater, "50%");
    line.show(2 * kLater, "60%");
  }
  CHECK_NOTHROW(print_to(file.get(), "{}", std::string(100'000, '#')));
}

// A terminal that is closed while its table is on the screen.
TEST_CASE("display: a terminal that is gone is nobody's failure") {
  engine::Descriptor master(::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC));
  REQUIRE(master);
  REQUIRE(::grantpt(master.get()) == 0);
  REQUIRE(::unlockpt(master.get()) == 0);
  std::array<char, 64> name{};
  REQUIRE(::ptsname_r(master.get(), name.data(), name.size()) == 0);
  const File file(::fdopen(::open(name.data(), O_RDWR | O_NOCTTY | O_CLOEXEC), "w"));
  REQUIRE(file);
  Display display(file.get(), 1);
  ProgressLine line(file.get());
  display.refresh(kLater);
  line.show(kLater, "50%");
  std::array<char, 4096> seen{};
  CHECK(::read(master.get(), seen.data(), seen.size()) > 0);
  master.reset();
  display.refresh(2 * kLater);
  display.note("a note");
  line.show(2 * kLater, "60%");
}

}  // namespace
}  // namespace hawser::tool
