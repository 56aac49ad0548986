// SPDX-License-Identifier: Apache-2.0
// The rendezvous: how the ranks of a job find each other. One process (a launcher, or rank 0) runs
// a RendezvousServer; each rank joins it, gets the job's epoch and secret, makes its endpoint with
// them, and exchanges addresses by all_gather. Nothing of it is on the path of messages.
//
// Not for hostile networks: the secret crosses TCP in the clear. Who can read that network, or
// reaches the port before the ranks do, can join the job.
//
// Format. TCP, little-endian; a frame is
//
//   u32 bytes of the body · u8 type · u8 detail · u16 reserved · body
//
//   type       from    body                                          detail
//   1 JOIN     rank    "HAWSER01", u32 rank, u32 size
//   2 POST     rank    u32 timeout in ms, the rank's blob
//   3 ABORT    rank    text
//   4 LEAVE    rank    -
//   5 WELCOME  server  u64 epoch, 32 bytes secret; to a rank that joins again, the last GATHERED
//   6 GATHERED server  for each rank: u32 length, its blob
//   7 FAILED   server  u32 rank concerned or 0xffffffff, text         a BootstrapFailure
//   8 HELLO    rank    "HAWSER01", u64 nonce
//   9 HERE     server  u64 nonce
//
// A rank that knows several addresses of the server first asks HELLO at each of them, as others
// may listen there: only the server that has this nonce answers HERE, once a connection. It answers
// the nonce 0, of a rank that knows none, too. The rank joins over one connection and closes the
// others.
//
// JOIN is answered by WELCOME or FAILED; the n-th POSTs of all ranks together by GATHERED to each.
// A rank whose connection ends without LEAVE, or that says ABORT, fails the job: all others get
// FAILED, now or with their next call. A rank that may return is the exception: when its connection
// ends, its place is free, and a new process joins with a higher epoch. Others wait for it in their
// next round, as for one that is late, or until whoever starts the ranks says that no other process
// will come. After FAILED the server closes the connection. Frames of
// bodies longer than the format can need, of unknown types, or before JOIN end their connection and
// nothing else.
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
  bad_address = 1,        // not "HOST:PORT", or no address of a host (to listen: of this host)
  port_in_use = 2,        // another program listens there
  unreachable = 3,        // no server answered within the timeout, or it went away
  rank_out_of_range = 4,  // rank is not below size
  rank_taken = 5,         // another process joined as this rank
  size_mismatch = 6,      // the server's job has another size
  rank_left = 7,          // a rank ended or left while others wait for it
  aborted = 8,            // a rank said that the job can't go on
  timeout = 9,            // some ranks did not come
};

// One sentence; `rank` is the rank that it is about, if there is one.
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

  // Listens at "HOST:PORT" or "[IPV6]:PORT"; port 0 means any that is free. The processes of ranks
  // in `may_return` may end and join again, each as often as it is named. Throws BootstrapError.
  RendezvousServer(const std::string& address, std::uint32_t size,
                   const std::vector<std::uint32_t>& may_return = {});
  // Listens at every address of this host, at a free port; address() then has all those of `where`.
  RendezvousServer(const Everywhere& where, std::uint32_t size);
  // What was answered is still delivered; ranks that wait get an error.
  ~RendezvousServer();
  RendezvousServer(const RendezvousServer&) = delete;
  RendezvousServer& operator=(const RendezvousServer&) = delete;

  // With the port that it has: what ranks are to be told. Several addresses are separated by
  // commas.
  [[nodiscard]] const std::string& address() const;

  // The last process of this rank has ended, joined or not, and no other will come: who waits for
  // it gets an error at once. Nothing, if it has left in good order. Any thread may call it.
  void will_not_return(std::uint32_t rank);

 private:
  class Service;
  std::unique_ptr<Service> service_;
};

// A rank's side. One thread uses it. All calls block, at most for their timeout, and throw
// BootstrapError; after an error only the destructor is of use.
class Rendezvous {
 public:
  // Joins; tries again until the server is there, and its host's name is known. Several addresses,
  // and those that a name stands for, are tried side by side.
  Rendezvous(const std::string& address, std::uint32_t rank, std::uint32_t size,
             std::uint32_t timeout_ms);
  ~Rendezvous();  // leaves: no error to the others unless they wait for this rank
  Rendezvous(const Rendezvous&) = delete;
  Rendezvous& operator=(const Rendezvous&) = delete;

  // Of the job: the same for all ranks, higher than that of any job before on this server's host;
  // higher by one for each time that this rank has joined again.
  [[nodiscard]] std::uint64_t epoch() const { return epoch_; }
  [[nodiscard]] const std::vector<std::byte>& job_secret() const { return secret_; }

  // What all ranks gave in the last round, by rank, if this one has joined again after it; else
  // empty.
  [[nodiscard]] const std::vector<std::vector<std::byte>>& last_round() const {
    return last_round_;
  }

  // Gives this rank's blob, returns those of all ranks, by rank. All must call it equally often.
  [[nodiscard]] std::vector<std::vector<std::byte>> all_gather(std::span<const std::byte> blob,
                                                               std::uint32_t timeout_ms);
  // The same without waiting: begin_all_gather gives the blob, try_all_gather returns nothing until
  // all have; fd() is readable when it is worth a call.
  void begin_all_gather(std::span<const std::byte> blob, std::uint32_t timeout_ms);
  [[nodiscard]] std::optional<std::vector<std::vector<std::byte>>> try_all_gather();
  // Returns when all ranks have called it.
  void barrier(std::uint32_t timeout_ms) { static_cast<void>(all_gather({}, timeout_ms)); }

  // Tells all others that the job can't go on, and why.
  void abort(std::string_view reason) noexcept;

  // Readable when the server has said something: outside of calls, that the job has failed.
  [[nodiscard]] int fd() const noexcept { return socket_.get(); }

 private:
  void send(bootstrap::FrameType type, std::span<const std::byte> body, proto::Time deadline);
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
