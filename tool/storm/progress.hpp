// The line that tells how far a swarm is: over and over in its place on a terminal, else a new one
// every few seconds.
#pragma once

#include <cstdint>
#include <cstdio>

namespace hawser::tool {

class SwarmProgress {
 public:
  // `out` may be null. `seconds`: when the swarm is to end; 0: when all of `count` are done.
  SwarmProgress(std::FILE* out, std::uint64_t count, double seconds);
  ~SwarmProgress();
  SwarmProgress(const SwarmProgress&) = delete;
  SwarmProgress& operator=(const SwarmProgress&) = delete;

  // If it is time for it. All of them are sums from the start.
  void show(std::uint64_t now, std::uint64_t done, std::uint64_t packets, std::uint64_t failures);

 private:
  std::FILE* out_;
  bool terminal_ = false;
  std::uint64_t count_;
  double seconds_;
  std::uint64_t began_ns_;
  std::uint64_t shown_ns_;
  std::uint64_t shown_done_ = 0;
  std::uint64_t shown_packets_ = 0;
  bool drawn_ = false;
};

}  // namespace hawser::tool
