// SPDX-License-Identifier: Apache-2.0
// Registers and deregisters memory for the cache, in a thread that may block.
//
// Each slot's stage tells who owns it. The datapath hands a slot over by `asked` or `dropped`. The
// other thread returns it by `registered`, `refused` or `gone`. Memory is watched before it is
// pinned, so that a mapping that changes while the kernel pins is noticed, too.
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
  // `news` is told when a slot comes back or goes stale. `wake` makes the other thread call serve.
  // All arguments outlive this.
  CacheRegistrar(std::size_t slots, const Pinning& pinning, Userfault& userfault, News& news,
                 std::function<void()> wake);
  // Requires that serve is not called any more. The NICs keep the registrations, and end them when
  // they are destroyed.
  ~CacheRegistrar() override;

  // For the datapath.
  void ask(Slot slot, const PageRange& pages) override;
  [[nodiscard]] bool is_reading(Slot slot) const override;
  void forget(Slot slot) override;
  void drop(Slot slot) override;
  // Tells the cache which slots have come back or gone stale.
  void deliver(RegistrationCache& cache);

  // For the thread that may block: does the work that was asked for.
  void serve();
  // Returns the last refusal, except refusals for memory of the wrong kind; ok if there was none.
  // Returns each once.
  [[nodiscard]] Status take_refusal();

 private:
  enum class Stage : std::uint8_t { idle, asked, registered, refused, standing, dropped, gone };
  struct Place {
    std::atomic<Stage> stage{Stage::idle};
    bool stale = false;  // the cache has been told
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
