// Memory that the device may read: which bytes are registered, and under which key.
//
// Looking up is on the datapath: the region of the last hit first, then a search. Registering asks
// the kernel, pins pages and may take milliseconds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/driver/verbs_handles.hpp"
#include "hawser/status.hpp"

namespace hawser::engine {

class VerbsRegions {
 public:
  // Up to `capacity` regions at once; `domain` outlives this.
  VerbsRegions(ibv_pd* domain, std::size_t capacity);

  // The same bytes may be registered several times, and regions may overlap.
  //   ok · again: `capacity` regions are registered · nic_error: the kernel refused (see errno).
  [[nodiscard]] Status add(const void* data, std::size_t bytes);
  // Ends one add of exactly these bytes; none of what was sent from them is unreaped.
  void remove(const void* data, std::size_t bytes);

  // The device is going: everything is deregistered, and what is added is registered later. Nothing
  // is looked up meanwhile.
  void drop();
  // It is there again, and `domain` its own. What can't be registered any more is not found.
  void renew(ibv_pd* domain);

  // The key for these bytes, null if no single region has them all.
  [[nodiscard]] const std::uint32_t* find(const std::byte* data, std::size_t bytes);

 private:
  struct Region {
    const std::byte* begin = nullptr;
    const std::byte* end = nullptr;
    const std::byte* reach = nullptr;  // the largest end up to here: how far back to search
    std::uint32_t key = 0;
    std::uint32_t additions = 0;
    VerbsMemory memory;  // null if it could not be registered anew
  };
  [[nodiscard]] VerbsMemory make_memory(const std::byte* begin, const std::byte* end);
  [[nodiscard]] std::vector<Region>::iterator exact(const std::byte* begin, const std::byte* end);
  void update_reach();

  ibv_pd* domain_;
  std::vector<Region> regions_;  // by begin; its room is never given up
  std::size_t last_hit_ = 0;
};

}  // namespace hawser::engine
