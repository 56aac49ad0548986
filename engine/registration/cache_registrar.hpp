// SPDX-License-Identifier: Apache-2.0
// Registers and deregisters for the cache, in a thread that may block.
//
// Each slot has a stage, which says whose it is: the datapath hands it over by `asked` or
// `dropped`, the other thread hands it back by `registered`, `refused` or `gone`. What is watched
// is watched before it is pinned: a mapping that changes while the kernel pins is seen too.
#pragma once

#include <atomic>
#include <functional>
#include <vector>

#include "engine/registration/pinning.hpp"
#include "engine/registration/registration_cache.hpp"
#include "engine/registration/userfault.hpp"

namespace hawser::engine {

class CacheRegistrar final : public Registrar {
 public:
  // `news` are told when a slot comes back or goes stale, `wake` makes somebody call serve. All
  // arguments outlive this.
  CacheRegistrar(std::size_t slots, const Pinning& pinning, Userfault& userfault, News& news,
                 std::function<void()> wake);
  // serve is not called any more. What is registered stays the NICs', who end it when they end.
  ~CacheRegistrar() override;

  // The datapath.
  void ask(Slot slot, const PageRange& pages) override;
  [[nodiscard]] bool is_reading(Slot slot) const override;
  void forget(Slot slot) override;
  void drop(Slot slot) override;
  // Passes on what has come back or gone stale.
  void deliver(RegistrationCache& cache);

  // The thread that may block: does what was asked for.
  void serve();
  // The last refusal that isn't for want of memory of the right kind; ok if there was none. Once.
  [[nodiscard]] Status take_refusal();

 private:
  enum class Stage : std::uint8_t { idle, asked, registered, refused, standing, dropped, gone };
  struct Place {
    std::atomic<Stage> stage{Stage::idle};
    bool stale = false;  // and the cache was told
    Watch watch;
    Pins pins{};
  };

  [[nodiscard]] bool register_pages(Place& place);

  const Pinning& pinning_;
  Userfault& userfault_;
  News& news_;
  std::function<void()> wake_;
  std::vector<Place> places_;
  std::atomic<Status> refusal_{Status::ok};
};

}  // namespace hawser::engine
