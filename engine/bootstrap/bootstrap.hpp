// SPDX-License-Identifier: Apache-2.0
// The rendezvous, by which the ranks of a job find each other. One process (a launcher, or rank 0)
// runs a RendezvousServer. Each rank joins it, receives the job's epoch and secret, makes its
// endpoint with them, and exchanges addresses by all_gather. Messages never pass through it.
//
// Not for hostile networks: the secret crosses TCP in the clear. Anyone who can read that network,
// or who reaches the port before the ranks do, can join the job.
//
// Format: TCP, little-endian. A frame is
//
//   u32 bytes of the body · u8 type · u8 detail · u16 reserved · body
//
//   type       from    body                                          detail
//   1 JOIN     rank    "HAWSER01", u32 rank, u32 size
//   2 POST     rank    u32 timeout in ms, the rank's blob            1: needs none of the round
//   3 ABORT    rank    text
//   4 LEAVE    rank    -
//   5 WELCOME  server  u64 epoch, 32 bytes secret; to a rank that joins again, the last GATHERED
//   6 GATHERED server  for each rank: u32 length, its blob; nothing if POST's detail is 1
//   7 FAILED   server  u32 rank concerned or 0xffffffff, text         a BootstrapFailure
//   8 HELLO    rank    "HAWSER01", u64 nonce
//   9 HERE     server  u64 nonce
//
// A rank that knows the server's name, or several addresses, first sends HELLO to each address, as
// other programs may listen there. Only the server with this nonce answers HERE, once per
// connection. It also answers the nonce 0, from a rank that knows none. The rank joins over one
// connection and closes the others.
//
// The server answers JOIN with WELCOME or FAILED. When all ranks have sent their n-th POST, it
// sends GATHERED to each. A rank fails the job if it sends ABORT, or if its connection ends without
// LEAVE. All others then get FAILED, now or with their next call.
//
// A rank that may return is the exception. When its connection ends, its place becomes free, and a
// new process may join with a higher epoch. In their next round the other ranks wait for it as for
// a late one, unless the launcher reports that no other process will come.
//
// After FAILED the server closes the connection. A frame that is longer than the format can need,
// of unknown type, or sent before JOIN ends its own connection and nothing else.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/descriptor.hpp"
#include "hawser/engine.hpp"
#include "proto/base/time.hpp"

namespace hawser::engine {

namespace bootstrap {
enum class FrameType : std::uint8_t;
struct Frame;
}  // namespace bootstrap

enum class BootstrapFailure : std::uint8_t {
  bad_address = 1,        // not "HOST:PORT", or not a host's address (to listen: this host's)
  port_in_use = 2,        // another program listens there
  unreachable = 3,        // no server answered within the timeout, or it went away
  rank_out_of_range = 4,  // rank is not below size
  rank_taken = 5,         // another process joined as this rank
  size_mismatch = 6,      // the server's job has another size
  rank_left = 7,          // a rank ended or left while others wait for it
  aborted = 8,            // a rank said that the job can't go on
  timeout = 9,            // some ranks did not come
};

// The failure in one sentence. `rank` is the rank that it concerns, if there is one.
class BootstrapError : public Error {
 public:
  BootstrapError(BootstrapFailure failure, const std::string& text,
                 std::optional<std::uint32_t> rank = {})
      : Error(text), failure_(failure), rank_(rank) {}
  [[nodiscard]] BootstrapFailure failure() const noexcept { return failure_; }
  [[nodiscard]] std::optional<std::uint32_t> rank() const noexcept { return rank_; }

 private:
  BootstrapFailure failure_;
  std::optional<std::uint32_t> rank_;
};

// Longest blob of an all_gather.
inline constexpr std::size_t kMaxBlobBytes = 65536;
inline constexpr std::uint32_t kMaxJobSize = 65536;

// Serves one job, in a thread of its own.
class RendezvousServer {
 public:
  // Addresses of this host, without ports, by which the ranks of other hosts may reach it.
  struct Everywhere {
    std::vector<std::string> hosts;
  };

  // Listens at "HOST:PORT" or "[IPV6]:PORT"; port 0 means any free port. The processes of ranks in
  // `may_return` may end and join again, each as often as its rank is listed. Waits at most
  // `timeout_ms` until a host's name resolves to this host, since a cluster may publish it late.
  // Throws BootstrapError.
  RendezvousServer(const std::string& address, std::uint32_t size,
                   const std::vector<std::uint32_t>& may_return = {}, std::uint32_t timeout_ms = 0);
  // Listens at every address of this host, at a free port. address() then contains all of `where`.
  RendezvousServer(const Everywhere& where, std::uint32_t size);
  // Delivers the answers that are already under way. Ranks that still wait get an error.
  ~RendezvousServer();
  RendezvousServer(const RendezvousServer&) = delete;
  RendezvousServer& operator=(const RendezvousServer&) = delete;

  // The address to give to the ranks, with the actual port. Commas separate several addresses.
  [[nodiscard]] const std::string& address() const;

  // Reports that this rank's last process has ended, joined or not, and that no other will come.
  // Ranks that wait for it get an error at once. No effect if it has left in good order. Any thread
  // may call it.
  void will_not_return(std::uint32_t rank);

 private:
  class Service;
  std::unique_ptr<Service> service_;
};

// A rank's side. Only one thread may use it. All calls block, at most for their timeout, and throw
// BootstrapError; after an error only the destructor is of use.
class Rendezvous {
 public:
  // Joins the job. Retries until the host's name resolves and the server answers. Tries several
  // addresses, and all those that a name resolves to, side by side. Resolves names again meanwhile,
  // as their addresses may be out of date.
  Rendezvous(const std::string& address, std::uint32_t rank, std::uint32_t size,
             std::uint32_t timeout_ms);
  ~Rendezvous();  // leaves; causes an error only in ranks that wait for this one
  Rendezvous(const Rendezvous&) = delete;
  Rendezvous& operator=(const Rendezvous&) = delete;

  // The job's epoch, the same for all ranks and higher than that of any earlier job on this
  // server's host. It is higher by one for each time that this rank has joined again.
  [[nodiscard]] std::uint64_t epoch() const { return epoch_; }
  [[nodiscard]] const std::vector<std::byte>& job_secret() const { return secret_; }

  // The blobs of all ranks in the last round, by rank, if this rank has joined again after it.
  // Empty otherwise.
  [[nodiscard]] const std::vector<std::vector<std::byte>>& last_round() const {
    return last_round_;
  }

  // Contributes this rank's blob, and returns those of all ranks, by rank. All ranks must call it
  // equally often.
  [[nodiscard]] std::vector<std::vector<std::byte>> all_gather(std::span<const std::byte> blob,
                                                               std::uint32_t timeout_ms);
  // Contributes this rank's blob to a round in which other ranks call all_gather, and returns when
  // all have. None of the blobs comes here: where only one rank needs them all, that saves the
  // server a job's worth of bytes for each of the others.
  void contribute(std::span<const std::byte> blob, std::uint32_t timeout_ms);
  // all_gather without blocking: begin_all_gather contributes the blob, and try_all_gather returns
  // nothing until all ranks have. fd() is readable when a call may succeed.
  void begin_all_gather(std::span<const std::byte> blob, std::uint32_t timeout_ms);
  [[nodiscard]] std::optional<std::vector<std::vector<std::byte>>> try_all_gather();
  // Returns when all ranks have called it.
  void barrier(std::uint32_t timeout_ms) { static_cast<void>(all_gather({}, timeout_ms)); }

  // Tells all other ranks that the job can't go on, and why.
  void abort(std::string_view reason) noexcept;

  // Readable when the server has sent something. Outside of calls this means that the job has
  // failed.
  [[nodiscard]] int fd() const noexcept { return socket_.get(); }

 private:
  void post(std::uint8_t detail, std::span<const std::byte> blob, std::uint32_t timeout_ms);
  void send(bootstrap::FrameType type, std::uint8_t detail, std::span<const std::byte> body,
            proto::Time deadline);
  [[nodiscard]] std::optional<bootstrap::Frame> take(bootstrap::FrameType type);
  [[nodiscard]] bootstrap::Frame receive(bootstrap::FrameType type, proto::Time deadline);
  [[nodiscard]] std::vector<std::vector<std::byte>> blobs_of(
      std::span<const std::byte> gathered) const;
  [[noreturn]] void throw_gone(const std::string& what) const;

  std::string address_;
  std::uint32_t size_;
  Descriptor socket_;
  std::vector<std::byte> in_;
  proto::Time round_deadline_{};
  std::uint64_t epoch_ = 0;
  std::vector<std::byte> secret_;
  std::vector<std::vector<std::byte>> last_round_;
};

}  // namespace hawser::engine
