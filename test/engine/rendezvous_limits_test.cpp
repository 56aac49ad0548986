// SPDX-License-Identifier: Apache-2.0
// The rendezvous where something runs short: descriptors, ports, or the server's time.
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <catch2/catch.hpp>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "engine/bootstrap/bootstrap.hpp"
#include "engine/bootstrap/bootstrap_wire.hpp"
#include "engine/descriptor.hpp"
#include "test/engine/rendezvous_scene.hpp"
#include "test/support/hang_limit.hpp"

namespace {

// While it isn't 0, connections over IPv4 start from this port of their target's address.
std::atomic<in_port_t> source_port{0};

// While it is set, no connection gets a descriptor. (Sanitizers need descriptors themselves, so the
// process keeps its own.)
std::atomic<bool> out_of_descriptors{false};

// While it isn't negative, each read of this process finds more bytes from this socket.
std::atomic<int> flood_from{-1};

// Where the bytes end that this process sends at least kManyBytes at a time of: a place for each
// buffer that it sends from.
constexpr std::size_t kManyBytes = 32768;
std::mutex ends_mutex;
std::set<const std::byte*> ends_of_sent;

}  // namespace

// These replace libc's functions.
extern "C" int accept4(int fd, sockaddr* from, socklen_t* bytes, int flags) {
  if (out_of_descriptors) {
    errno = EMFILE;
    return -1;
  }
  return static_cast<int>(::syscall(SYS_accept4, fd, from, bytes, flags));
}

extern "C" int connect(int fd, const sockaddr* to, socklen_t bytes) {
  const in_port_t port = source_port;
  if (port != 0 && to->sa_family == AF_INET) {
    sockaddr_in from{};
    std::memcpy(&from, to, sizeof from);
    from.sin_port = port;
    (void)::bind(fd, reinterpret_cast<const sockaddr*>(&from), sizeof from);
  }
  return static_cast<int>(::syscall(SYS_connect, fd, to, bytes));
}

extern "C" ssize_t send(int fd, const void* from, std::size_t bytes, int flags) {
  if (bytes >= kManyBytes) {
    const std::lock_guard lock(ends_mutex);
    ends_of_sent.insert(static_cast<const std::byte*>(from) + bytes);
  }
  return ::syscall(SYS_sendto, fd, from, bytes, flags, nullptr, 0);
}

extern "C" ssize_t recv(int fd, void* to, std::size_t bytes, int flags) {
  if (const int from = flood_from; from >= 0) {
    static const std::array<std::byte, 32768> junk{};
    (void)::send(from, junk.data(), junk.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  }
  return ::syscall(SYS_recvfrom, fd, to, bytes, flags, nullptr, nullptr);
}

namespace hawser::engine {
namespace {

using bootstrap::BodyWriter;
using bootstrap::FrameType;
using test::kHangLimitMs;

class OpenFilesLimit {
 public:
  explicit OpenFilesLimit(rlim_t files) {
    REQUIRE(::getrlimit(RLIMIT_NOFILE, &before_) == 0);
    const rlimit limit{files, before_.rlim_max};
    REQUIRE(::setrlimit(RLIMIT_NOFILE, &limit) == 0);
  }
  ~OpenFilesLimit() { ::setrlimit(RLIMIT_NOFILE, &before_); }
  OpenFilesLimit(const OpenFilesLimit&) = delete;
  OpenFilesLimit& operator=(const OpenFilesLimit&) = delete;

 private:
  rlimit before_{};
};

// Opens the file that tells the state of the only thread with this name.
Descriptor open_state_of(const std::string& name) {
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream file(task.path() / "comm");
    std::string found;
    if (!std::getline(file, found) || found != name) continue;
    return Descriptor(::open((task.path() / "stat").c_str(), O_RDONLY | O_CLOEXEC));
  }
  return {};
}

bool sleeps(const Descriptor& state) {
  std::array<char, 128> text{};
  if (::pread(state.get(), text.data(), text.size() - 1, 0) <= 0) return false;
  const char* const end_of_name = std::strrchr(text.data(), ')');
  return end_of_name != nullptr && end_of_name[2] == 'S';
}

}  // namespace

TEST_CASE("RendezvousServer__without_descriptors_it_rests_and_then_goes_on") {
  RendezvousServer server("127.0.0.1:0", 1);
  const Descriptor state = open_state_of("hawser-rendez");
  REQUIRE(state);
  const std::vector<bootstrap::Endpoint> at = bootstrap::resolve(server.address());
  const Descriptor client(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  out_of_descriptors = true;
  REQUIRE(::connect(client.get(), at[0].get(), at[0].bytes) == 0);
  CHECK(test::comes_true([&] { return sleeps(state); }));
  out_of_descriptors = false;
  std::vector<std::byte> hello;
  bootstrap::append_frame(hello, FrameType::hello, 0,
                          BodyWriter().text(bootstrap::kMagic).number(std::uint64_t{0}).body());
  REQUIRE(::send(client.get(), hello.data(), hello.size(), 0) == ssize_t(hello.size()));
  std::array<std::byte, bootstrap::kHeadBytes + bootstrap::kHereBytes> here{};
  CHECK(::recv(client.get(), here.data(), here.size(), MSG_WAITALL) == ssize_t(here.size()));
}

TEST_CASE("RendezvousServer__of_many_ranks_it_raises_the_limit_of_open_files") {
  const OpenFilesLimit limit(256);
  const RendezvousServer few("127.0.0.1:0", 16);
  rlimit now{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &now) == 0);
  CHECK(now.rlim_cur == 256);
  const RendezvousServer many("127.0.0.1:0", 1000);
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &now) == 0);
  CHECK(now.rlim_cur == now.rlim_max);
}

// Otherwise the answer to a round would take the square of the job's size.
TEST_CASE("RendezvousServer__all_ranks_get_a_round_from_one_copy") {
  constexpr std::uint32_t kRanks = 16;
  const std::vector<std::byte> blob(2 * kManyBytes / kRanks, std::byte{7});
  RendezvousServer server("127.0.0.1:0", kRanks);
  {
    const std::lock_guard lock(ends_mutex);
    ends_of_sent.clear();
  }
  run_ranks(kRanks, [&](std::uint32_t rank) {
    Rendezvous rendezvous(server.address(), rank, kRanks, kHangLimitMs);
    if (rendezvous.all_gather(blob, kHangLimitMs) != std::vector(kRanks, blob)) {
      throw std::runtime_error("blobs differ");
    }
  });
  const std::lock_guard lock(ends_mutex);
  CHECK(ends_of_sent.size() == 1);
}

// A connection that is ending may send without end: the others still get their answers.
TEST_CASE("RendezvousServer__a_stream_without_end_holds_up_nobody") {
  auto server = std::make_unique<RendezvousServer>("127.0.0.1:0", 1);
  const Descriptor client(connect_raw(server->address()));
  const std::uint32_t wrong_size = 7;
  std::vector<std::byte> join;
  bootstrap::append_frame(
      join, FrameType::join, 0,
      BodyWriter().text(bootstrap::kMagic).number(std::uint32_t{0}).number(wrong_size).body());
  REQUIRE(::send(client.get(), join.data(), join.size(), 0) == ssize_t(join.size()));
  flood_from = client.get();
  CHECK_NOTHROW([&] {
    Rendezvous rank(server->address(), 0, 1, kHangLimitMs / 4);
    rank.barrier(kHangLimitMs / 4);
  }());
  flood_from = -1;
  server.reset();  // its thread may be about to flood, so the client's socket ends after it
}

TEST_CASE("Rendezvous__a_connection_to_itself_is_none_to_the_server") {
  std::string address;
  {
    const RendezvousServer first("127.0.0.1:0", 1);  // finds a port that is free
    address = first.address();
  }
  source_port = htons(bootstrap::port_of(bootstrap::resolve(address)[0]));
  const BootstrapError error = error_of([&] { Rendezvous rank(address, 0, 1, 100); });
  source_port = 0;
  CHECK(error.failure() == BootstrapFailure::unreachable);
  CHECK_THAT(error.what(), Catch::Matchers::Contains("refused"));
  // Such a connection doesn't keep the server from listening there either.
  const RendezvousServer server(address, 1);
  Rendezvous rank(address, 0, 1, kHangLimitMs);
  rank.barrier(kHangLimitMs);
}

}  // namespace hawser::engine
