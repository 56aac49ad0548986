// Every sequence space crosses the end of its 32 bits on the wire: message numbers and path numbers
// start just below it, and traffic with losses runs across.
#include <catch2/catch.hpp>

#include "test/support/virtual_world.hpp"

namespace hawser::test {
namespace {

using proto::milliseconds;

TEST_CASE("wrap__message_and_path_numbers_cross_2_to_the_32") {
  for (const std::uint64_t below : {1, 7, 40, 300}) {
    INFO("starts " << below << " below the wrap");
    WorldConfig config;
    config.nics = 2;
    config.seed = below;
    config.faults = "delay=5us,loss=0.03,duplicate=0.01,reorder=0.03";
    config.tunables.initial_sequence = (std::uint64_t{1} << 32) - below;
    World world(config);
    world.connect_all();
    constexpr std::size_t kMessages = 400;
    std::vector<std::string> sent;
    std::vector<std::string> got;
    for (std::size_t i = 0; i < kMessages; ++i) {
      sent.push_back(pattern(i, i % 9 == 0 ? 20000 : 64));
      got.emplace_back(sent.back().size(), 'x');
    }
    for (std::size_t i = 0; i < kMessages; ++i) {
      world.receive(1, world.peer(1, 0), i, got[i]);
      world.send(0, 1, i, sent[i]);
    }
    REQUIRE(world.run_until_completed(1, kMessages, milliseconds(5000)));
    REQUIRE(world.run_until_completed(0, kMessages, milliseconds(5000)));
    CHECK(got == sent);
    for (const Completion& completion : world.completions(0))
      CHECK(completion.status == Status::ok);
    const EndpointStats stats = world.stats(1);
    CHECK(stats.drops[static_cast<std::size_t>(DropReason::bad_field)] == 0);
    CHECK(stats.drops[static_cast<std::size_t>(DropReason::beyond_window)] == 0);
  }
}

}  // namespace
}  // namespace hawser::test
