// SPDX-License-Identifier: Apache-2.0
// The readers: every published file, known contents, and broken inputs, each refused with its line.
#include "sim/traffic/triggers.hpp"
#include "test/sim/fabric/samples.hpp"
#include "test/sim/fabric/scene.hpp"

namespace hawser::fabric {
namespace {

TEST_CASE("inputs__every_published_file_is_read") {
  if (!have_samples()) return;
  std::size_t topologies = 0;
  std::size_t matrices = 0;
  for (const char* folder : {"htsim_cm", "reps_cm"}) {
    for (const auto& entry : std::filesystem::directory_iterator(samples() / folder)) {
      const std::filesystem::path& path = entry.path();
      INFO(path);
      if (path.extension() == ".topo") {
        const Wiring wiring(read_topology(path.string(), content(path)));
        CHECK(wiring.ports() >= 32);
        ++topologies;
      } else if (path.extension() == ".cm") {
        CHECK_FALSE(read_connections(path.string(), content(path)).connections.empty());
        ++matrices;
      }
    }
  }
  CHECK(topologies == 6);
  CHECK(matrices == 16);
}

TEST_CASE("inputs__known_topologies") {
  if (!have_samples()) return;
  const Wiring spines(topology("leaf_spine_8192_400g.topo"));
  CHECK(spines.ports() == 8192);
  CHECK(spines.count_of_tier(0) == 128);
  CHECK(spines.count_of_tier(1) == 64);
  CHECK(spines.links() == 4 * 8192);
  CHECK(spines.settings(0).bits_per_s == 400 * kGigabit);
  CHECK(spines.settings(0).latency == microseconds(1));
  const Wiring tree(topology("fat_tree_8192_1os.topo"));
  CHECK(tree.count_of_tier(0) == 512);
  CHECK(tree.count_of_tier(1) == 512);
  CHECK(tree.count_of_tier(2) == 256);
  CHECK(tree.links() == 6 * 8192);
  const Wiring tiny(topology("leaf_spine_tiny.topo"));  // four times oversubscribed
  CHECK(tiny.ports() == 32);
  CHECK(tiny.at(0).up == 2);
  CHECK(tiny.count_of_tier(1) == 2);
}

TEST_CASE("inputs__known_matrices") {
  if (!have_samples()) return;
  const ConnectionMatrix one = matrix("htsim_cm", "one.cm");
  CHECK(one.nodes == 16);
  REQUIRE(one.connections.size() == 1);
  CHECK(one.connections[0].from == 0);
  CHECK(one.connections[0].to == 13);
  CHECK(one.connections[0].bytes == 2'000'000);
  const ConnectionMatrix all = matrix("htsim_cm", "perm_8192n_8192c_1MB.cm");
  CHECK(all.connections.size() == 8192);
  std::vector<bool> sends(8192);
  std::vector<bool> receives(8192);
  for (const Connection& each : all.connections) {
    sends[each.from] = receives[each.to] = true;
    CHECK(each.bytes == 1'000'000);
  }
  CHECK(std::ranges::count(sends, true) == 8192);
  CHECK(std::ranges::count(receives, true) == 8192);
  // Each node's list of 31 has windows of 4.
  const ConnectionMatrix windows = matrix("reps_cm", "alltoall4.cm");
  CHECK(windows.connections.size() == 992);
  CHECK(windows.triggers.size() == 224);
  CHECK(windows.triggers[0].kind == Trigger::Kind::multishot);
  CHECK(windows.connections[0].start == Instant{1'000'000});  // 1 us
  CHECK(std::ranges::count(windows.connections, 0u, &Connection::trigger) == 32 * 4);
}

// The most connections from `from` that are under way at once, if connections end in the order in
// which they began.
std::size_t most_under_way(const ConnectionMatrix& all, std::uint32_t from) {
  Triggers triggers(all);
  std::vector<std::uint32_t> begun;
  for (std::uint32_t i = 0; i < all.connections.size(); ++i) {
    if (all.connections[i].trigger == 0) begun.push_back(i);
  }
  std::size_t most = 0;
  std::size_t under_way = 0;
  const auto count = [&](std::uint32_t i, bool begins) {
    if (all.connections[i].from != from) return;
    under_way += begins ? 1 : ~std::size_t{0};
    most = std::max(most, under_way);
  };
  for (const std::uint32_t i : begun) count(i, true);
  for (std::size_t next = 0; next < begun.size(); ++next) {
    count(begun[next], false);
    for (const std::uint32_t i : triggers.on_sent(begun[next])) {
      begun.push_back(i);
      count(i, true);
    }
  }
  CHECK(begun.size() == all.connections.size());
  return most;
}

TEST_CASE("inputs__published_all_to_alls_keep_their_windows") {
  if (!have_samples()) return;
  CHECK(most_under_way(matrix("reps_cm", "alltoall1.cm"), 26) == 1);
  CHECK(most_under_way(matrix("reps_cm", "alltoall4.cm"), 26) == 4);
  CHECK(most_under_way(matrix("reps_cm", "alltoall16.cm"), 26) == 16);
}

// Runs the matrix on one switch; returns when the last connection is done.
Instant run(const ConnectionMatrix& all, std::uint64_t scale) {
  Scene scene(one_switch(all.nodes, 100 * kGigabit, microseconds(1)));
  Triggers triggers(all);
  for (const Connection& one : all.connections) {
    (void)scene.flows.add({.from = one.from,
                           .to = one.to,
                           .bytes = one.bytes / scale,
                           .start = one.trigger == 0 ? one.start : kNever,
                           .window = 100});
  }
  scene.flows.on_finished = [&](std::uint32_t flow) {
    for (const std::uint32_t next : triggers.on_sent(flow)) scene.flows.start(next);
  };
  scene.run();
  Instant last;
  for (std::uint32_t flow = 0; flow < scene.flows.count(); ++flow) {
    REQUIRE(scene.flows.state(flow).finished != kNever);
    last = std::max(last, scene.flows.state(flow).finished);
  }
  return last;
}

// Sixteen chains of 31 hops go around the ring. They meet only in acknowledgements: a node's
// acknowledgements use the same cable as its packets. A packet may have to let an acknowledgement
// pass on each cable.
TEST_CASE("inputs__a_published_ring_takes_the_time_of_its_chains") {
  if (!have_samples()) return;
  const ConnectionMatrix ring = matrix("reps_cm", "all_red_ring_8mb.cm");
  ConnectionMatrix one = ring;
  one.connections.resize(1);
  const Instant alone = run(one, 16);
  // 500,000 bytes are 123 packets, the last one of 1508 bytes.
  CHECK(alone.ps == 123 * 332'000 + (1508 + 64) * 80 + 4'000'000 + 2 * 5'120);
  const std::int64_t chained = run(ring, 16).ps;
  CHECK(chained > alone.ps * 31);
  CHECK(chained < alone.ps * 31 * (4150 + 64) / 4150);
}

ConnectionMatrix three(Trigger trigger) {
  ConnectionMatrix all;
  all.nodes = 8;
  for (std::uint32_t i = 0; i < 3; ++i) {
    all.connections.push_back({.from = i, .to = 7, .bytes = 1, .when_sent = 1});
    all.connections.push_back({.from = i, .to = 6, .bytes = 1, .trigger = 1});
  }
  trigger.id = 1;
  all.triggers = {trigger};
  return all;
}

TEST_CASE("triggers__each_kind_starts_what_it_says") {
  using Started = std::vector<std::uint32_t>;
  Triggers oneshot(three({.kind = Trigger::Kind::oneshot}));
  CHECK(oneshot.on_received(0).empty());  // it fires when the sender is done
  CHECK(oneshot.on_sent(0) == Started{1, 3, 5});
  CHECK(oneshot.on_sent(2).empty());
  Triggers multishot(three({.kind = Trigger::Kind::multishot}));
  CHECK(multishot.on_sent(4) == Started{1});
  CHECK(multishot.on_sent(0) == Started{3});
  CHECK(multishot.on_sent(2) == Started{5});
  CHECK(multishot.on_sent(2).empty());
  Triggers barrier(three({.kind = Trigger::Kind::barrier, .count = 3}));
  CHECK(barrier.on_sent(0).empty());
  CHECK(barrier.on_sent(2).empty());
  CHECK(barrier.on_sent(4) == Started{1, 3, 5});
  CHECK(barrier.on_sent(4).empty());
  CHECK_FALSE(waits_for_ever(three({.kind = Trigger::Kind::barrier, .count = 3})));
  CHECK(waits_for_ever(three({.kind = Trigger::Kind::barrier, .count = 4})) == 1);
}

void refused(const std::string& text, const std::string& error) {
  INFO(text);
  CHECK_THROWS_WITH(read_connections("f.cm", text), error);
}

TEST_CASE("connections__what_is_broken_is_refused_with_its_line") {
  const std::string head = "Nodes 4\nConnections 1\n";
  CHECK(read_connections("f.cm",
                         "# a comment\r\n\r\nNodes 4\r\nConnections 1\r\n"
                         "0->1 id 7 start 5 size 3 prio 2\r\n")
            .connections[0]
            .id == 7);
  refused("", "f.cm:1: Nodes is missing");
  refused(head + "0->1 start 0 size x", "f.cm:3: size must be a whole number, not 'x'");
  refused(head + "0->1 start 0 size 0",
          "f.cm:3: size 0 makes an endless connection in htsim, but a run must end: give the bytes "
          "that it sends");
  refused(head + "0->1 start 0 size 99999999999999999999",
          "f.cm:3: size is '99999999999999999999', but must be 0 to 1099511627776");
  refused(head + "0->1 start 0", "f.cm:3: size is missing");
  refused(head + "0->1 start 0 size", "f.cm:3: 'size' has no value");
  refused(head + "0->4 start 0 size 1", "f.cm:3: the receiving node is '4', but must be 0 to 3");
  refused(head + "->1 start 0 size 1", "f.cm:3: the sending node must be a whole number, not ''");
  refused(head + "1->1 start 0 size 1", "f.cm:3: a node that sends to itself needs no fabric");
  refused(head + "0->1 size 1", "f.cm:3: neither start nor trigger: it would never start");
  refused(head + "0->1 start 0 trigger 1 size 1", "f.cm:3: both start and trigger: leave one out");
  refused(head + "0->1 start 0 size 1 size 2", "f.cm:3: 'size' is given twice");
  refused(head + "0->1 start 0 start 5 size 2", "f.cm:3: 'start' is given twice");
  refused(head + "0->1 start 0 size 1 colour 3",
          "f.cm:3: 'colour' is not a field of a connection; known are id, start, trigger, size, "
          "send_done_trigger, recv_done_trigger, prio, msg");
  refused(head + "0->1 start -1 size 1", "f.cm:3: start must be a number, not '-1'");
  refused(head + "0->1 start 0 size 1 msg 0", "f.cm:3: msg is '0', but must be 1 to 4294967295");
  refused("Nodes 4\nConnections 2\n0->1 id 3 start 0 size 1 msg\n0->2 id 3 start 0 size 1 msg",
          "f.cm:4: id 3 is used before, in line 3");
  refused(head + "0->1 trigger 1 size 1", "f.cm:3: trigger 1 is not described in the file");
  refused("0->1 start 0 size 1", "f.cm:1: Nodes must come before the first connection");
  refused(head + "0->1 start 0 size 1\nNodes 3",
          "f.cm:4: Nodes is given once, before the first connection");
  refused("Nodes 4\nConnections 2\n0->1 start 0 size 1",
          "f.cm:2: Connections announces 2, but 1 follow: is the file whole?");
  refused(head + "failure switch_type TOR",
          "f.cm:3: this file can't describe failures: describe them in the experiment's plan");
  refused(head + "hello",
          "f.cm:3: a line begins with Nodes, Connections, Triggers, A->B or "
          "trigger, not 'hello'");
  const std::string more = "Nodes 4\nConnections 1\nTriggers 1\n0->1 start 0 size 1\n";
  refused(more, "f.cm:3: Triggers announces 1, but 0 follow: is the file whole?");
  refused(more + "trigger oneshot", "f.cm:5: a trigger needs an id");
  refused(more + "trigger id 1", "f.cm:5: a trigger is oneshot, multishot or barrier");
  refused(more + "trigger id 1 id 2 oneshot", "f.cm:5: 'id' is given twice");
  refused(more + "trigger id 1 barrier count 2 count 3", "f.cm:5: 'count' is given twice");
  refused(more + "trigger id 1 barrier", "f.cm:5: a barrier has a count, and nothing else has");
  refused(more + "trigger id 1 twice", "f.cm:5: 'twice' is not a field of a trigger");
  refused(more + "trigger id 1 oneshot\ntrigger id 1 oneshot",
          "f.cm:6: trigger 1 is described before, in line 5");
  refused("Nodes 4\nConnections 2\n0->1 id 3 start 0 size 1\n0->2 id 3 start 0 size 1",
          "f.cm:4: id 3 is used before, in line 3");
  // Each trigger waits for the other.
  refused(
      "Nodes 4\nConnections 2\nTriggers 2\n0->1 trigger 1 size 1 send_done_trigger 2\n"
      "1->0 trigger 2 size 1 send_done_trigger 1\ntrigger id 1 oneshot\ntrigger id 2 oneshot",
      "f.cm:4: this connection would never start: trigger 1 does not fire often enough, or only "
      "after this");
}

TEST_CASE("connections__what_generators_write_is_read") {
  const ConnectionMatrix read = read_connections(
      "f.cm",
      "# made by hand\n\nNodes 4\nConnections 4 # of them\n0->1 id 1 start 0.000000 size 4096\n"
      "2->3 id 2 start 1000.6 size 4096.0 # second\n"
      "1->2 id 3 start 0 size 5 msg 1\n1->2 id 3 start 7 msg size 6\n");
  REQUIRE(read.connections.size() == 4);
  CHECK(read.connections[0].start == Instant{0});
  CHECK(read.connections[1].start == Instant{1000});
  CHECK(read.connections[1].bytes == 4096);
  CHECK(read.connections[3].bytes == 6);
  CHECK(read.connections[3].start == Instant{7});
}

// The same four lines, as editors and other systems save them.
TEST_CASE("inputs__text_is_read_whatever_its_encoding_and_line_ends") {
  const std::string plain = "Nodes 4\nConnections 1\n0->1 id 1 start 0 size 4096\n";
  for (const std::string& text : saved_forms(plain)) {
    CHECK(read_connections("f.cm", text).connections.size() == 1);
  }
}

TEST_CASE("inputs__what_is_no_text_is_named") {
  using namespace std::string_literals;
  refused("\x1f\x8b\x08"s, "f.cm:1: the file is compressed by gzip: unpack it first (gunzip)");
  refused(
      "PK\x03\x04"s,
      "f.cm:1: the file is a zip archive or a spreadsheet: unpack it, or save the sheet as csv");
  const std::string chakra =
      "f.cm:1: the file is a Chakra execution trace (.et), which Hawser does not read; write the "
      "workload as ASTRA-sim text or AICB csv";
  refused(
      "\x0a\x0a"
      "0.0.4-hand\x12\x08\x08\x00\x12\x04"
      "comp"s,
      chakra);
  refused(
      "\x07\x0a\x05"
      "0.0.4\x1c\x08\x01"s,
      chakra);
  const std::string json =
      "f.cm:1: the file is JSON, such as a trace of PyTorch or PARAM, which Hawser does not read; "
      "write the workload as ASTRA-sim text or AICB csv";
  refused("{\"schema\": \"1.0.2-chakra.0.0.4\"}", json);
  refused(" [\n {\"op\": 1}]", json);
  refused("\xef\xbb\xbf{\"op\": 1}", json);
  refused("\xff\xfe[\0{\0\"\0a\0"s, json);
  refused("\xfe\xff\0[\0\n\0{"s, json);
  refused("{\0\"\0a\0\"\0"s, json);
  refused("Nodes 4\nConnec\0tions"s,
          "f.cm:2: the line has a NUL, so the file is binary: name a text file");
}

const char* const kTopology =
    "Nodes 8\nTiers 2\nPodsize 8\n"
    "Tier 0\nDownlink_speed_Gbps 100\nRadix_Down 4\nRadix_Up 2\nDownlink_Latency_ns 1000\n"
    "Oversubscribed 2\nQueue_Up 5000\n"
    "Tier 1\nDownlink_speed_Gbps 100\nRadix_Down 4\nDownlink_Latency_ns 500\nBundle 2\n"
    "Switch_Latency_ns 7\nQueue_Down 6000\n";

void refused_topology(const std::string& what, const std::string& with, const std::string& error) {
  std::string text = kTopology;
  const std::size_t at = text.find(what);
  REQUIRE(at != std::string::npos);
  text.replace(at, what.size(), with);
  INFO(text);
  CHECK_THROWS_WITH(read_topology("f.topo", text), Catch::Contains(error));
}

TEST_CASE("topology__says_what_it_says") {
  const Wiring wiring(read_topology("f.topo", kTopology));
  CHECK(wiring.ports() == 8);
  CHECK(wiring.count_of_tier(0) == 2);
  CHECK(wiring.count_of_tier(1) == 1);  // in bundles of two
  const LinkSettings& up = wiring.settings(wiring.up(0, 0));
  CHECK(up.queue.capacity == 5000);
  CHECK(up.latency == nanoseconds(507));
  const LinkSettings& down = wiring.settings(wiring.down(2, 0));
  CHECK(down.queue.capacity == 6000);
  CHECK(down.latency == nanoseconds(500));
  CHECK(wiring.settings(wiring.to_port(0)).latency == nanoseconds(1000));
}

TEST_CASE("topology__what_is_broken_is_refused_with_its_line") {
  CHECK_THROWS_WITH(read_topology("f.topo", ""), "f.topo:1: Nodes is missing");
  refused_topology("Nodes 8", "Nodes", "f.topo:1: a line is a key and a number");
  refused_topology("Nodes 8", "Nodes 0", "f.topo:1: nodes is '0', but must be 1 to");
  refused_topology("Nodes 8", "Hosts 8", "f.topo:1: before the first tier there are Nodes");
  refused_topology("Nodes 8", "Nodes 9", "f.topo:3: with two tiers all nodes are one pod");
  refused_topology("Tiers 2", "Tiers 4", "f.topo:2: tiers is '4', but must be 2 to 3");
  refused_topology("Tiers 2", "#", "f.topo:4: Tiers must come before the first tier");
  refused_topology("Tiers 2", "Tiers 3", "f.topo:2: Tier 2 of these is not described");
  refused_topology("Tier 1", "Tier 0", "f.topo:11: this tier is described twice, first in line 4");
  refused_topology("Tier 1", "Tier 2", "f.topo:11: a tier is '2', but must be 0 to 1");
  refused_topology("Radix_Up 2", "Radix_Down 2",
                   "f.topo:7: radix_down is given twice, first in line 6");
  refused_topology("Radix_Up 2", "# none", "f.topo:4: Radix_Up is missing");
  refused_topology("Radix_Up 2", "Colour 2", "f.topo:7: 'colour' is not a field of a tier");
  refused_topology("Radix_Up 2", "Radix_Up 4",
                   "f.topo:9: Oversubscribed is 2, but a switch has 400");
  refused_topology("Bundle 2", "Radix_Up 2", "f.topo:15: nothing is above the highest tier");
  refused_topology("Bundle 2", "Bundle 1",
                   "f.topo:11: tier 1: a switch has 4 cables downwards, but there are 2 leaves "
                   "below it and bundles of 1: it needs 2");
  refused_topology("Radix_Down 4", "Radix_Down 3\nQueue_Down 0",
                   "f.topo:7: queue_down is '0', but must be 1 to");
}

}  // namespace
}  // namespace hawser::fabric
