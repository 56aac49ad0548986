// The verbs NIC and everything that can fail while it is made: one clear sentence each, and
// nothing is left behind (the double counts what exists).
#include "hawser/engine.hpp"
#include "test/engine/driver/fake_verbs/two_nics.hpp"

namespace hawser::test {
namespace {

using Catch::Contains;
using fake::Call;

// Why there can be no NIC on rxe_a0; empty if there can.
std::string refusal() {
  SimplePool pool(4);
  try {
    const engine::VerbsNic nic(verbs_config(kMine), pool);
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
  // A queue pair is asked for again without room inside requests, twice in five rounds.
  CHECK(survived == 10);
}

TEST_CASE("verbs NIC: what is wrong is said") {
  struct {
    Call call;
    int error;
    const char* words;
  } const table[] = {
      {Call::open_device, EACCES, "no permission"},
      {Call::open_device, EPERM, "/dev/infiniband"},
      {Call::open_device, ENODEV, "can't be opened"},
      {Call::get_device_list, ENOSYS, "none at all"},
      {Call::query_port, ENODEV, "may have been removed"},
      {Call::query_port, EINVAL, "no port 1"},
      {Call::query_gid_table, EINVAL, "no GID"},
      {Call::alloc_pd, ENOMEM, "protection domain"},
      {Call::reg_mr, ENOMEM, "ulimit -l"},
      {Call::reg_mr, EFAULT, "can't be registered"},
      {Call::create_comp_channel, EMFILE, "completion channel"},
      {Call::create_cq, ENOMEM, "completion queue of"},
      {Call::modify_qp, EINVAL, "doesn't get ready"},
  };
  for (const auto& row : table) {
    Cables cables = make_cables();
    cables.fabric.fail(row.call, row.error);
    CHECK_THAT(refusal(), Contains("verbs:rxe_a0: ") && Contains(row.words));
  }
  Cables cables = make_cables();
  cables.fabric.fail(Call::create_qp, ENOMEM, 0, 2);
  CHECK_THAT(refusal(), Contains("no UD queue pair of 256 sends"));
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
               Contains("is too small"));
  }
  for (const int code : {0, 6, 7}) {
    CHECK_THAT(with([&](Port& port) { port.mtu = static_cast<std::uint8_t>(code); }),
               Contains("states no MTU"));
  }
  CHECK(with([](Port& port) { port.speed = 77; }).empty());  // unknown speed: said to be unknown
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
    CHECK_THAT(port.description, Contains("no permission"));
  }
  CHECK(engine::verbs_ports().size() == 4);
}

}  // namespace hawser::test
