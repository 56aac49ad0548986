// SPDX-License-Identifier: Apache-2.0
// The verbs NIC and every step that can fail while it is made. Each failure gives one clear
// sentence and leaves nothing behind (the double counts the objects that exist).
#include <set>

#include "hawser/engine.hpp"
#include "test/engine/driver/fake_verbs/two_nics.hpp"

namespace hawser::test {
namespace {

using Catch::Contains;
using Catch::EndsWith;
using fake::Call;

// The reason why no NIC can be made on rxe_a0; empty if one can.
std::string refusal(const engine::VerbsNicConfig& config = verbs_config(kMine)) {
  SimplePool pool(4);
  try {
    const engine::VerbsNic nic(config, pool);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

Cables make_cables() { return Cables(RoceV6{}, IBV_MTU_4096); }

}  // namespace

TEST_CASE("verbs NIC: each call of its making fails once") {
  std::uint64_t calls = 0;
  {
    const Cables cables = make_cables();
    CHECK(refusal().empty());
    calls = cables.fabric.setup_calls();
  }
  REQUIRE(calls > 20);
  std::size_t survived = 0;
  for (const int error : {ENOMEM, EINVAL, EIO, ENODEV, EPERM}) {
    for (std::uint64_t n = 0; n < calls; ++n) {
      CAPTURE(error, n);
      Cables cables = make_cables();
      cables.fabric.fail_setup(n, error);
      const std::string words = refusal();
      survived += words.empty() ? 1 : 0;
      if (!words.empty()) CHECK_THAT(words, Contains("verbs:rxe_a0: "));
      CHECK(cables.fabric.objects() == 0);
    }
  }
  // With each of the five errors the driver asks for two queue pairs again, without inline room.
  // Once it asks for the GID table again, with room for more. If extended completion queues are not
  // offered (EINVAL), it makes all three of them the older way.
  CHECK(survived == (devices_are_extended() ? 14 : 11));
}

TEST_CASE("verbs NIC: soft RoCE's newer calls are not trusted") {
  for (const std::uint32_t vendor : {0x15b3u, 0xffffffu}) {
    Cables cables = make_cables();
    cables.fabric.change(kMine, [&](fake::DeviceSettings& device) { device.vendor_id = vendor; });
    CHECK(engine::open_verbs_port({.device = kMine}).newer_calls == (vendor == 0x15b3));
  }
}

TEST_CASE("verbs NIC: what is wrong is said") {
  struct {
    Call call;
    int error;
    const char* words;
  } const table[] = {
      {Call::open_device, EACCES, "may not open the device"},
      {Call::open_device, EPERM, "/dev/infiniband"},
      {Call::open_device, ENODEV, "can't be opened: No such device; check its driver"},
      {Call::get_device_list, ENOSYS, "none at all"},
      {Call::get_device_list, EMFILE,
       "the list of RDMA devices can't be read: Too many open files; raise the limit of open"},
      {Call::get_device_list, EACCES, "can't be read: Permission denied; check that this user"},
      {Call::query_port, ENODEV, "may have been removed"},
      {Call::query_port, EINVAL, "no port 1"},
      {Call::query_gid_table, EIO, "its table of GIDs can't be read: Input/output error; check"},
      {Call::alloc_pd, ENOMEM, "; end other programs that use it (`rdma resource show pd`"},
      {Call::reg_mr, ENOMEM, "ulimit -l"},
      {Call::reg_mr, EFAULT, "can't be registered with the device: Bad address; check"},
      {Call::create_comp_channel, EMFILE, "completion channel"},
      {Call::create_cq, ENOMEM, "completion queue of"},
      {Call::modify_qp, EINVAL, "can't be brought up: Invalid argument; check its link"},
      {Call::create_cq, EIO, "Input/output error; check its driver"},
  };
  for (const auto& row : table) {
    Cables cables = make_cables();
    cables.fabric.fail(row.call, row.error);
    CHECK_THAT(refusal(), Contains("verbs:rxe_a0: ") && Contains(row.words));
  }
}

TEST_CASE("verbs NIC: that devices can't be listed is not that there are none") {
  Cables cables = make_cables();
  cables.fabric.fail(Call::get_device_list, EMFILE);
  const std::vector<engine::VerbsPortInfo> ports = engine::verbs_ports();
  REQUIRE(ports.size() == 1);
  CHECK(ports[0].name == "*");
  CHECK_FALSE(ports[0].usable);
  CHECK_THAT(ports[0].description, Contains("can't be read: Too many open files; raise"));
  cables.fabric.fail(Call::get_device_list, ENOSYS);  // a kernel without RDMA
  CHECK(engine::verbs_ports().empty());
  CHECK(engine::verbs_ports().size() == 4);
}

// A device's driver locks memory for queues too, and may reach the limit first.
TEST_CASE("verbs NIC: queues that can't be made for want of locked memory say so") {
  struct {
    Call call;
    int error;
    const char* what;
    const char* words;
  } const table[] = {
      {Call::create_cq, ENOMEM, "a completion queue of 512 entries", "ulimit -l unlimited"},
      {Call::create_cq, EINVAL, "a completion queue of 512 entries", "nic_receive_bytes"},
      {Call::create_qp, ENOMEM, "a UD queue pair of 256 sends", "ulimit -l unlimited"},
      {Call::create_qp, EPERM, "a UD queue pair of 256 sends", "ulimit -l unlimited"},
      {Call::create_qp, EINVAL, "a UD queue pair of 256 sends", "nic_receive_bytes"},
  };
  for (const auto& row : table) {
    CAPTURE(row.what, row.error);
    Cables cables = make_cables();
    constexpr std::uint64_t kTries = 4;  // newer and older calls, with and without inline room
    cables.fabric.fail(row.call, row.error, 0, kTries);
    CHECK_THAT(refusal(), Contains("verbs:rxe_a0: ") && Contains(row.what) && Contains(row.words));
  }
}

// The first completion queue is that of the sends.
TEST_CASE("verbs NIC: a completion queue of receives that can't be made says so too") {
  Cables cables = make_cables();
  cables.fabric.fail(Call::create_cq, ENOMEM, 1, 1);
  CHECK_THAT(refusal(), Contains("a completion queue of ") && Contains("ulimit -l unlimited"));
}

// The threads that make the NIC's address handles end, whatever they are about to do.
TEST_CASE("verbs NIC: one that is refused as soon as its threads have begun ends them") {
  for (int i = 0; i < 5000; ++i) {
    Cables cables = make_cables();
    cables.fabric.fail(Call::create_cq, ENOMEM, 1, 1);
    REQUIRE_FALSE(refusal().empty());
  }
}

TEST_CASE("verbs NIC: a port that can't be used is said in a sentence") {
  const auto with = [](const std::function<void(fake::PortSettings&)>& how) {
    Cables cables = make_cables();
    cables.fabric.change(kMine, [&](fake::DeviceSettings& device) { how(device.ports[0]); });
    return refusal();
  };
  using Port = fake::PortSettings;
  CHECK_THAT(with([](Port& port) { port.gids.clear(); }), Contains("no GID"));
  CHECK_THAT(with([](Port& port) { port.gids[0].type = IBV_GID_TYPE_ROCE_V1; }),
             Contains("no GID of RoCE v2"));
  for (const ibv_port_state state : {IBV_PORT_NOP, IBV_PORT_DOWN, IBV_PORT_INIT, IBV_PORT_ARMED}) {
    CHECK_THAT(with([&](Port& port) { port.state = state; }), Contains("the port is"));
  }
  for (const int code : {IBV_MTU_256, IBV_MTU_512}) {
    CHECK_THAT(with([&](Port& port) { port.mtu = static_cast<std::uint8_t>(code); }),
               Contains("is below the minimum"));
  }
  for (const int code : {0, 6, 7}) {
    CHECK_THAT(with([&](Port& port) { port.mtu = static_cast<std::uint8_t>(code); }),
               Contains("reports no valid MTU") && Contains("; update the drivers"));
  }
  CHECK(with([](Port& port) { port.speed = 77; }).empty());  // shown as an unknown speed
}

// Such a port counts as unusable, so the default choice of NICs turns to the network interfaces.
TEST_CASE("verbs NIC: a port that no peer could reach is refused, and listed with the reason") {
  const auto listed = [](Cables& cables, const std::function<void(fake::DeviceSettings&)>& how) {
    cables.fabric.change(kMine, how);
    const engine::VerbsPortInfo port = engine::verbs_port({.device = kMine});
    CHECK_FALSE(port.usable);
    CHECK(refusal() == port.description);
    return port.description;
  };
  {
    Cables cables = make_cables();
    const auto transport = [&](ibv_transport_type type) {
      return listed(cables, [&](fake::DeviceSettings& device) { device.transport = type; });
    };
    CHECK_THAT(transport(IBV_TRANSPORT_IWARP),
               Contains("another transport than InfiniBand or RoCE (iWARP); use udp:ADDRESS"));
    CHECK_THAT(transport(IBV_TRANSPORT_UNSPECIFIED),
               Contains("another transport than InfiniBand or RoCE; use udp:ADDRESS"));
  }
  {
    Cables cables = make_cables();
    CHECK_THAT(listed(cables,
                      [](fake::DeviceSettings& device) { device.ports[0].has_link_layer = false; }),
               Contains("link layer is neither Ethernet nor InfiniBand; use udp:ADDRESS"));
  }
  Cables cables(Infiniband{}, IBV_MTU_4096);
  CHECK_THAT(listed(cables, [](fake::DeviceSettings& device) { device.ports[0].lid = 0; }),
             Contains("the port has no LID") && Contains("have the subnet manager assign it"));
}

TEST_CASE("verbs NIC: who asks for a port that a device lacks learns which it has") {
  Cables cables = make_cables();
  engine::VerbsNicConfig config = verbs_config(kMine);
  config.port.port = 2;
  CHECK_THAT(
      refusal(config),
      EndsWith("the device has no port 2; it has only port 1 (`hawser info` lists the ports)"));
  cables.fabric.change(
      kMine, [](fake::DeviceSettings& device) { device.ports.push_back(device.ports[0]); });
  config.port.port = 3;
  CHECK_THAT(
      refusal(config),
      EndsWith("the device has no port 3; it has ports 1 to 2 (`hawser info` lists the ports)"));
}

TEST_CASE("verbs NIC: tables of more GIDs than address handles can name") {
  Cables cables = make_cables();
  std::vector<fake::GidRow> rows;
  for (std::uint32_t index = 0; index < 300; ++index) {
    const bool last = index == 299;
    rows.push_back({index, last || index == 200 ? IBV_GID_TYPE_ROCE_V2 : IBV_GID_TYPE_ROCE_V1,
                    fake::gid_of(last ? "10.0.0.9" : "fe80::a0")});
  }
  cables.fabric.set_gids(kMine, 1, rows);
  SimplePool pool(4);
  {
    // The best GID has an index that no address handle can name.
    const engine::VerbsNic nic(verbs_config(kMine), pool);
    engine::VerbsAddress address;
    REQUIRE(from_nic_address(nic.address(), address));
    CHECK(address.gid == fake::gid_of("fe80::a0"));
  }
  engine::VerbsNicConfig config = verbs_config(kMine);
  config.port.gid_index = 299;
  CHECK_THAT(refusal(config), Contains("GID index is at most 255"));
  cables.fabric.set_gids(kMine, 1, {});
  config.port.gid_index = 3;
  CHECK_THAT(refusal(config), Contains("it has none; give its interface an address"));
  rows[200].type = IBV_GID_TYPE_ROCE_V1;
  cables.fabric.set_gids(kMine, 1, rows);
  CHECK_THAT(refusal(), Contains("no GID of RoCE v2"));
  config.port.gid_index = rows[200].index;
  CHECK_THAT(refusal(config),
             Contains("the GID at that index is of RoCE v1") && Contains("after the @"));
}

TEST_CASE("verbs NIC: a partition key that stands for none is said in a sentence") {
  Cables cables(Infiniband{}, IBV_MTU_4096);
  CHECK(refusal().empty());
  cables.fabric.fail(Call::query_pkey, EIO);
  CHECK_THAT(refusal(),
             Contains("verbs:rxe_a0: its P_Key can't be read") && Contains("; check its driver"));
  cables.fabric.change(kMine, [](fake::DeviceSettings& device) { device.ports[0].pkey = 0; });
  CHECK_THAT(refusal(), Contains("P_Key at index 0"));
}

TEST_CASE("verbs NIC: traffic class and service level are in every address handle") {
  const auto handles_with = [](std::uint8_t traffic_class, std::uint8_t service_level) {
    PooledVerbsRig rig;
    Nic& theirs = rig.make();
    engine::VerbsNicConfig config = verbs_config(kTheirs);
    config.traffic_class = traffic_class;
    config.service_level = service_level;
    engine::VerbsNic mine(config, rig.pool);
    (void)open(mine, theirs);
    return rig.fabric.handles(kTheirs);
  };
  for (const std::uint8_t given : {std::uint8_t{104}, std::uint8_t{106}}) {
    const auto handles = handles_with(given, 5);
    REQUIRE(handles.size() == 4);
    for (const fake::HandleInfo& handle : handles) {
      CHECK(handle.attributes.grh.traffic_class == 106);  // ECT(0)
      CHECK(handle.attributes.sl == 5);
    }
  }
  CHECK(handles_with(0, 0).front().attributes.grh.traffic_class == 2);
  const Cables cables = make_cables();
  engine::VerbsNicConfig config = verbs_config(kMine);
  for (const std::uint8_t wrong : {std::uint8_t{105}, std::uint8_t{3}}) {
    config.traffic_class = wrong;
    CHECK_THAT(refusal(config), Contains("verbs:rxe_a0: ") && Contains("low two bits"));
  }
  config.traffic_class = 0;
  config.service_level = 16;
  CHECK_THAT(refusal(config), Contains("a service level is 0 to 15"));
}

TEST_CASE("verbs NIC: datagrams that a port turned away are shown with it") {
  PooledVerbsRig rig;
  Nic& sender = rig.make();
  Nic& receiver = rig.make();
  (void)open(sender, receiver);
  CHECK_FALSE(Contains("QKey").match(engine::verbs_ports().at(1).description));
  proto::NicAddress forged = receiver.address();
  forged.bytes[engine::VerbsAddressLayout::kQkey] ^= std::byte{1};
  RemoteHandle wrong = proto::kNoRemote;
  REQUIRE(sender.open_remote(forged, wrong) == Status::ok);  // the port is known by now
  CHECK(exchange(rig, sender, wrong, receiver, 3) == 0);
  CHECK_THAT(engine::verbs_ports().at(1).description, Contains("3 datagrams with a wrong QKey"));
  rig.fabric.change(kMine, [](fake::DeviceSettings& device) { device.ports[0].pkey = 0x8002; });
  CHECK(exchange(rig, sender, open(sender, receiver), receiver, 5) == 0);
  CHECK_THAT(engine::verbs_ports().at(1).description, Contains("5 with a wrong P_Key"));
  CHECK(engine::verbs_port({.device = kTheirs}).pkey_violations == 5);
}

TEST_CASE("verbs NIC: ports are listed with what has to agree with their peers'") {
  {
    const Cables cables(RoceV4{}, IBV_MTU_1024);
    CHECK(engine::verbs_ports().at(1).description ==
          "up, 100 Gb/s, MTU 1024, GID 0, 10.0.0.2 (RoCE v2, IPv4)");
    CHECK_THAT(engine::verbs_port({.device = kMine, .gid_index = 7}).description,
               Contains("rxe_a0@7: its table of GIDs has no entry at that index"));
  }
  {
    const Cables cables = make_cables();
    CHECK(engine::verbs_ports().at(0).description ==
          "up, 100 Gb/s, MTU 4096, GID 0, fe80::a0 (RoCE v2, IPv6 of its link)");
  }
  Cables cables(Infiniband{}, IBV_MTU_4096);
  CHECK(engine::verbs_ports().at(0).description ==
        "up, 100 Gb/s, MTU 4096, GID 0, fe80::1 (InfiniBand), LID 10, P_Key 0xffff");
  cables.fabric.change(kMine, [](fake::DeviceSettings& device) { device.ports[0].pkey = 0x0012; });
  CHECK_THAT(engine::verbs_ports().at(0).description, EndsWith(", P_Key 0x0012 (limited member)"));
}

TEST_CASE("verbs NIC: a port is listed with its speed and, on InfiniBand, its place") {
  Cables cables(Infiniband{}, IBV_MTU_4096);
  const auto change = [&](auto how) {
    cables.fabric.change(kMine, [&](fake::DeviceSettings& device) { how(device.ports[0]); });
    return engine::verbs_ports().at(0).description;
  };
  CHECK(change([](fake::PortSettings& port) {
          port.speed = 64;
          port.width = 2;
          port.pkey = 0xffff;
        }) == "up, 200 Gb/s, MTU 4096, GID 0, fe80::1 (InfiniBand), LID 10, P_Key 0xffff");
  CHECK_THAT(change([](fake::PortSettings& port) { port.pkey = 0x7fff; }),
             Contains("P_Key 0x7fff (limited member)"));
  CHECK_THAT(change([](fake::PortSettings& port) {
               port.speed = 1;
               port.width = 1;
             }),
             Contains("up, 2.5 Gb/s, MTU"));
  CHECK_THAT(change([](fake::PortSettings& port) { port.width = 0; }),
             Contains("up, speed unknown, MTU"));
}

TEST_CASE("verbs NIC: source ports of RoCE are those of its address handles' flow labels") {
  PooledVerbsRig rig;
  Nic& mine = rig.make();
  Nic& theirs = rig.make();
  (void)open(mine, theirs);
  const std::vector<std::uint16_t> ports = engine::roce_source_ports();
  const auto handles = rig.fabric.handles(kMine);
  REQUIRE(handles.size() == verbs_config(kMine).entropies);
  REQUIRE(ports.size() >= handles.size());
  for (std::size_t i = 0; i < handles.size(); ++i) {
    CHECK(ports[i] == ibv_flow_label_to_udp_sport(handles[i].attributes.grh.flow_label));
  }
  CHECK(std::set<std::uint16_t>(ports.begin(), ports.end()).size() == ports.size());
}

TEST_CASE("verbs NIC: a device without room inside requests") {
  PooledVerbsRig rig;
  for (const std::string& name : {kMine, kTheirs}) {
    rig.fabric.change(name, [](fake::DeviceSettings& device) { device.max_inline_bytes = 0; });
  }
  auto& mine = dynamic_cast<engine::VerbsNic&>(rig.make());
  Nic& theirs = rig.make();
  CHECK(exchange(rig, mine, open(mine, theirs), theirs, 10) == 10);
  CHECK(mine.stats(Queue::data).send.inlined == 0);
}

TEST_CASE("verbs NIC: ports of a device that does not answer are listed with the reason") {
  Cables cables = make_cables();
  cables.fabric.fail(Call::open_device, EACCES, 0, ~std::uint64_t{0});
  for (const auto& port : engine::verbs_ports()) {
    CHECK_FALSE(port.usable);
    CHECK_THAT(port.description, Contains("may not open the device"));
  }
  CHECK(engine::verbs_ports().size() == 4);
}

}  // namespace hawser::test
