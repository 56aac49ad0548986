// SPDX-License-Identifier: Apache-2.0
// Every status that hawser/engine.hpp documents for a call is provoked: with inline progress and
// with engine threads, in C++ and in C. Those that only RDMA devices give are excepted. The table
// and the header are compared in both directions.
#include <array>
#include <catch2/catch.hpp>
#include <fstream>
#include <functional>
#include <regex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "hawser/engine.hpp"
#include "test/engine/one_sided_statuses.hpp"
#include "test/engine/statuses_scene.hpp"

namespace hawser::engine {
namespace {

constexpr std::uint64_t kLong = 8'000'000;  // more than a sender sends before its grant

SendRequest small_send(Scene& scene) {
  return {.peer = scene.peer, .tag = 2, .data = scene.bytes.data(), .bytes = 8};
}
// Wrong lists.
constexpr std::array<SendPiece, kMostPieces + 1> kTooMany{};
constexpr std::array<SendPiece, 2> kNoBytes{};
constexpr std::array<SendPiece, 2> kNull{SendPiece{}, SendPiece{nullptr, 1}};
const std::array<SendPiece, 2> kTooLong{SendPiece{&kNull, kMaxMessageBytes}, SendPiece{&kNull, 1}};
void spoil_pieces(SendRequest& request, std::span<const SendPiece> pieces) {
  request.data = nullptr;
  request.bytes = 0;
  request.pieces = pieces;
}
constexpr std::array<ReceivePiece, kMostPieces + 1> kTooManyPlaces{};
constexpr std::array<ReceivePiece, 1> kNowhere{ReceivePiece{nullptr, 1}};

ReceiveRequest small_receive(Scene& scene) {
  return {.peer = scene.peer, .tag = 2, .data = scene.bytes.data(), .bytes = 8};
}

void add_connect(std::vector<Row>& rows) {
  rows.push_back({"connect", Status::ok, [](Scene& scene) {
                    return scene.subject().connect(scene.far_address(), scene.peer);
                  }});
  rows.push_back({"connect", Status::again, [](Scene& scene) {
                    const auto third = scene.third();
                    PeerId other = kAnyPeer;
                    return scene.subject().connect(third->address(), other);
                  }});
  rows.push_back({"connect", Status::invalid_argument, [](Scene& scene) {
                    PeerId other = kAnyPeer;
                    const Status own = scene.subject().connect(scene.subject().address(), other);
                    const Status junk = scene.subject().connect(scene.bytes, other);
                    return own == junk ? own : Status::ok;
                  }});
  rows.push_back({"connect", Status::no_route, [](Scene& scene) {
                    Engine other_kind({{"udp:127.0.0.1"}});
                    PeerId other = kAnyPeer;
                    return scene.subject().connect(other_kind.create_endpoint({})->address(),
                                                   other);
                  }});
  rows.push_back({"connect", Status::endpoint_closed, [](Scene& scene) {
                    scene.subject().close();
                    return scene.subject().connect(scene.far_address(), scene.peer);
                  }});
}

void add_send(std::vector<Row>& rows) {
  const auto send = [](Scene& scene, const SendRequest& request) {
    return scene.subject().send(request, scene.operation);
  };
  rows.push_back({"send", Status::ok, [=](Scene& scene) {  //
                    return scene.outcome(send(scene, small_send(scene)));
                  }});
  rows.push_back({"send", Status::again, [=](Scene& scene) {
                    SendRequest request = small_send(scene);
                    request.level = Level::delivered;
                    for (int i = 0; i < 4; ++i) REQUIRE(send(scene, request) == Status::ok);
                    return send(scene, request);
                  }});
  const std::vector<std::pair<std::string, std::function<void(SendRequest&)>>> wrong{
      {"null", [](SendRequest& request) { request.data = nullptr; }},
      {"too long", [](SendRequest& request) { request.bytes = kMaxMessageBytes + 1; }},
      {"of no level", [](SendRequest& request) { request.level = static_cast<Level>(2); }},
      {"of collectives", [](SendRequest& request) { request.channel = kCollectiveChannel; }},
      {"of adapters", [](SendRequest& request) { request.channel = kAdapterChannel; }},
      {"of nobody", [](SendRequest& request) { request.owner = static_cast<ChannelOwner>(3); }},
      {"of applications", [](SendRequest& request) { request.owner = ChannelOwner::adapter; }},
      {"of a buffer and pieces", [](SendRequest& request) { request.pieces = kNoBytes; }},
      {"of too many pieces", [](SendRequest& request) { spoil_pieces(request, kTooMany); }},
      {"of null pieces", [](SendRequest& request) { spoil_pieces(request, kNull); }},
      {"of too long pieces", [](SendRequest& request) { spoil_pieces(request, kTooLong); }}};
  for (const auto& [what, spoil] : wrong) {
    rows.push_back({"send", Status::invalid_argument, [=, spoil = spoil](Scene& scene) {
                      SendRequest request = small_send(scene);
                      spoil(request);
                      return send(scene, request);
                    }});
  }
  rows.push_back({"send", Status::unknown_peer, [=](Scene& scene) {
                    SendRequest request = small_send(scene);
                    request.peer = kStranger;
                    return send(scene, request);
                  }});
  rows.push_back({"send", Status::endpoint_closed, [=](Scene& scene) {
                    scene.subject().close();
                    return send(scene, small_send(scene));
                  }});
  rows.push_back({"send", Status::peer_closed, [=](Scene& scene) {
                    scene.close_far();
                    return scene.outcome(send(scene, small_send(scene)));
                  }});
}

void add_inject(std::vector<Row>& rows) {
  const auto inject = [](Scene& scene) { return scene.subject().inject(small_send(scene)); };
  rows.push_back({"inject", Status::ok, inject});
  rows.push_back({"inject", Status::again, [=](Scene& scene) {
                    scene.use_up_operations();
                    return inject(scene);
                  }});
  rows.push_back(
      {"inject", Status::invalid_argument, [](Scene& scene) {
         const std::vector<std::byte> long_data(257);
         return scene.subject().inject(
             {.peer = scene.peer, .tag = 2, .data = long_data.data(), .bytes = long_data.size()});
       }});
  rows.push_back({"inject", Status::invalid_argument, [](Scene& scene) {
                    return scene.subject().inject({.peer = scene.peer, .tag = 2, .bytes = 8});
                  }});
  rows.push_back({"inject", Status::invalid_argument, [](Scene& scene) {
                    SendRequest request = small_send(scene);
                    request.channel = kCollectiveChannel;
                    return scene.subject().inject(request);
                  }});
  rows.push_back({"inject", Status::invalid_argument, [](Scene& scene) {
                    const std::vector<std::byte> half(129);
                    const SendPiece piece{half.data(), half.size()};
                    const std::array<SendPiece, 2> halves{piece, piece};
                    return scene.subject().inject({.peer = scene.peer, .tag = 2, .pieces = halves});
                  }});
  rows.push_back({"inject", Status::unknown_peer, [](Scene& scene) {
                    SendRequest request = small_send(scene);
                    request.peer = kStranger;
                    return scene.subject().inject(request);
                  }});
  rows.push_back({"inject", Status::endpoint_closed, [=](Scene& scene) {
                    scene.subject().close();
                    return inject(scene);
                  }});
  rows.push_back({"inject", Status::peer_closed, [=](Scene& scene) {
                    scene.close_far();
                    return scene.outcome(inject(scene));
                  }});
}

void add_receive(std::vector<Row>& rows) {
  const auto receive = [](Scene& scene, const ReceiveRequest& request) {
    return scene.subject().receive(request, scene.operation);
  };
  rows.push_back({"receive", Status::ok, [=](Scene& scene) {
                    scene.send_from_far(2, 8);
                    return scene.outcome(receive(scene, small_receive(scene)));
                  }});
  rows.push_back({"receive", Status::again, [=](Scene& scene) {
                    scene.use_up_operations();
                    return receive(scene, small_receive(scene));
                  }});
  rows.push_back({"receive", Status::invalid_argument, [=](Scene& scene) {
                    ReceiveRequest request = small_receive(scene);
                    request.data = nullptr;
                    return receive(scene, request);
                  }});
  for (const std::span<const ReceivePiece> wrong :
       {std::span<const ReceivePiece>(kTooManyPlaces), std::span<const ReceivePiece>(kNowhere)}) {
    rows.push_back({"receive", Status::invalid_argument, [=](Scene& scene) {
                      return receive(scene, {.peer = scene.peer, .tag = 2, .pieces = wrong});
                    }});
  }
  rows.push_back({"receive", Status::invalid_argument, [=](Scene& scene) {
                    ReceiveRequest request = small_receive(scene);
                    request.channel = kAdapterChannel;
                    return receive(scene, request);
                  }});
  rows.push_back({"receive", Status::unknown_peer, [=](Scene& scene) {
                    ReceiveRequest request = small_receive(scene);
                    request.peer = kStranger;
                    return receive(scene, request);
                  }});
  rows.push_back({"receive", Status::endpoint_closed, [=](Scene& scene) {
                    scene.subject().close();
                    return receive(scene, small_receive(scene));
                  }});
  rows.push_back({"receive", Status::peer_closed, [=](Scene& scene) {
                    scene.close_far();
                    return scene.outcome(receive(scene, small_receive(scene)));
                  }});
}

// `probe` and `claim` answer alike.
void add_looks(std::vector<Row>& rows) {
  using Look = std::function<Status(Scene&, const ProbeRequest&)>;
  const std::vector<std::pair<std::string, Look>> looks{
      {"probe",
       [](Scene& scene, const ProbeRequest& request) {
         return scene.subject().probe(request, scene.envelope);
       }},
      {"claim", [](Scene& scene, const ProbeRequest& request) {
         return scene.subject().claim(request, scene.envelope, scene.message);
       }}};
  for (const auto& [call, look] : looks) {
    rows.push_back({call, Status::ok, [look = look](Scene& scene) {
                      scene.let_arrive(2, 8);
                      return look(scene, {.peer = scene.envelope.peer, .tag = 2});
                    }});
    rows.push_back({call, Status::again, [look = look](Scene& scene) {
                      return look(scene, {.peer = scene.peer, .tag = 2});
                    }});
    rows.push_back({call, Status::invalid_argument, [look = look](Scene& scene) {
                      return look(scene, {.channel = kCollectiveChannel});
                    }});
    rows.push_back({call, Status::unknown_peer, [look = look](Scene& scene) {
                      return look(scene, {.peer = kStranger, .tag = 2});
                    }});
    rows.push_back({call, Status::endpoint_closed, [look = look](Scene& scene) {
                      scene.subject().close();
                      return look(scene, {.peer = scene.peer, .tag = 2});
                    }});
    rows.push_back({call, Status::peer_closed, [look = look](Scene& scene) {
                      scene.close_far();
                      return look(scene, {.peer = scene.peer, .tag = 2});
                    }});
  }
}

void add_claimed(std::vector<Row>& rows) {
  const auto receive = [](Scene& scene) {
    return scene.subject().receive_claimed(scene.message, {.data = scene.bytes.data(), .bytes = 8},
                                           scene.operation);
  };
  rows.push_back({"receive_claimed", Status::ok, [=](Scene& scene) {
                    scene.claim_one();
                    return scene.outcome(receive(scene));
                  }});
  rows.push_back({"receive_claimed", Status::again, [=](Scene& scene) {
                    scene.claim_one();
                    scene.use_up_operations();
                    return receive(scene);
                  }});
  rows.push_back({"receive_claimed", Status::invalid_argument, [](Scene& scene) {
                    scene.claim_one();
                    return scene.subject().receive_claimed(scene.message, {.bytes = 8},
                                                           scene.operation);
                  }});
  rows.push_back({"receive_claimed", Status::invalid_argument, [](Scene& scene) {
                    scene.claim_one();
                    return scene.subject().receive_claimed(
                        scene.message, {.pieces = kTooManyPlaces}, scene.operation);
                  }});
  rows.push_back({"receive_claimed", Status::unknown_operation, receive});
  rows.push_back({"receive_claimed", Status::unknown_operation, [=](Scene& scene) {
                    scene.claim_one();
                    REQUIRE(scene.outcome(receive(scene)) == Status::ok);
                    return scene.outcome(receive(scene));
                  }});
  rows.push_back({"receive_claimed", Status::endpoint_closed, [=](Scene& scene) {
                    scene.claim_one();
                    scene.subject().close();
                    return receive(scene);
                  }});
  const auto put_back = [](Scene& scene) { return scene.subject().put_back(scene.message); };
  rows.push_back({"put_back", Status::ok, [=](Scene& scene) {
                    scene.claim_one();
                    return put_back(scene);
                  }});
  rows.push_back({"put_back", Status::unknown_operation, put_back});
}

void add_ends(std::vector<Row>& rows) {
  rows.push_back({"cancel", Status::ok, [](Scene& scene) {
                    REQUIRE(scene.subject().receive({.tag = 5}, scene.operation) == Status::ok);
                    return scene.subject().cancel(scene.operation);
                  }});
  rows.push_back(
      {"cancel", Status::too_late, [](Scene& scene) {
         // The receive matches the message's first bytes. The far end, which nobody
         // polls, doesn't send the others.
         scene.let_arrive(5, kLong);
         std::vector<std::byte> buffer(kLong);
         REQUIRE(scene.subject().receive({.tag = 5, .data = buffer.data(), .bytes = buffer.size()},
                                         scene.operation) == Status::ok);
         const Status status = scene.subject().cancel(scene.operation);
         // The endpoint owns the buffer until the completion.
         REQUIRE(scene.outcome(Status::ok) == Status::ok);
         return status;
       }});
  rows.push_back({"cancel", Status::unknown_operation, [](Scene& scene) {  //
                    return scene.subject().cancel(kNoOperation);
                  }});
  rows.push_back({"disconnect", Status::ok, [](Scene& scene) {
                    REQUIRE(scene.subject().disconnect(scene.peer) == Status::ok);
                    return scene.subject().disconnect(scene.peer);
                  }});
  rows.push_back({"disconnect", Status::unknown_peer, [](Scene& scene) {  //
                    return scene.subject().disconnect(kStranger);
                  }});
  rows.push_back({"peer_stats", Status::ok, [](Scene& scene) {
                    PeerStats stats;
                    return scene.subject().peer_stats(scene.peer, stats);
                  }});
  rows.push_back({"peer_stats", Status::unknown_peer, [](Scene& scene) {
                    PeerStats stats;
                    return scene.subject().peer_stats(kStranger, stats);
                  }});
}

void add_registrations(std::vector<Row>& rows) {
  const auto add = [](Scene& scene, std::size_t from, std::size_t length) {
    return scene.subject().register_memory(scene.bytes.data() + from, length, scene.registration);
  };
  rows.push_back({"register_memory", Status::ok, [=](Scene& scene) { return add(scene, 0, 8); }});
  rows.push_back({"register_memory", Status::again, [=](Scene& scene) {
                    REQUIRE(add(scene, 0, 8) == Status::ok);
                    return add(scene, 16, 8);
                  }});
  rows.push_back({"register_memory", Status::overlapping, [=](Scene& scene) {
                    REQUIRE(add(scene, 0, 8) == Status::ok);
                    return add(scene, 4, 8);
                  }});
  rows.push_back({"register_memory", Status::invalid_argument, [](Scene& scene) {
                    return scene.subject().register_memory(nullptr, 8, scene.registration);
                  }});
  rows.push_back({"register_memory", Status::endpoint_closed, [=](Scene& scene) {
                    scene.subject().close();
                    return add(scene, 0, 8);
                  }});
  const auto end = [](Scene& scene) {
    return scene.subject().deregister_memory(scene.registration);
  };
  rows.push_back({"deregister_memory", Status::ok, [=](Scene& scene) {
                    REQUIRE(add(scene, 0, 8) == Status::ok);
                    return end(scene);
                  }});
  rows.push_back({"deregister_memory", Status::unknown_operation, end});
  const auto dmabuf = [](Scene& scene, int fd) {
    return scene.subject().register_dmabuf({.fd = fd, .bytes = 8, .address = scene.bytes.data()},
                                           scene.registration);
  };
  rows.push_back(
      {"register_dmabuf", Status::unsupported, [=](Scene& scene) { return dmabuf(scene, 0); }});
  rows.push_back({"register_dmabuf", Status::invalid_argument,
                  [=](Scene& scene) { return dmabuf(scene, -1); }});
  rows.push_back({"register_dmabuf", Status::endpoint_closed, [=](Scene& scene) {
                    scene.subject().close();
                    return dmabuf(scene, 0);
                  }});
}

void add_faults(std::vector<Row>& rows) {
  rows.push_back({"inject_fault", Status::ok, [](Scene& scene) {  //
                    return scene.engine().inject_fault(0, "loss=0.5");
                  }});
  rows.push_back({"inject_fault", Status::invalid_argument, [](Scene& scene) {  //
                    return scene.engine().inject_fault(0, "maim");
                  }});
  rows.push_back({"inject_fault", Status::unsupported, [](Scene&) {
                    Engine without({{"memory:statuses"}});
                    return without.inject_fault(0, "loss=0.5");
                  }});
}

std::vector<Row> all_rows() {
  std::vector<Row> rows;
  add_connect(rows);
  add_send(rows);
  add_inject(rows);
  add_receive(rows);
  add_looks(rows);
  add_claimed(rows);
  add_ends(rows);
  add_one_sided(rows);
  add_registrations(rows);
  add_faults(rows);
  return rows;
}

using Documented = std::set<std::pair<std::string, std::string>>;

// Only RDMA devices give these. test/engine/registration/ provokes them over a double of a device.
const Documented& of_devices() {
  static const Documented all{{"register_memory", "too_large"},   {"register_memory", "lock_limit"},
                              {"register_memory", "nic_error"},   {"deregister_memory", "in_use"},
                              {"register_dmabuf", "ok"},          {"register_dmabuf", "again"},
                              {"register_dmabuf", "overlapping"}, {"register_dmabuf", "too_large"},
                              {"register_dmabuf", "lock_limit"},  {"register_dmabuf", "nic_error"}};
  return all;
}

// The statuses that the header lists above each call. "The status with which the session ended"
// counts as peer_closed.
Documented documented_statuses() {
  std::ifstream file(HAWSER_INCLUDE "/hawser/engine.hpp");
  REQUIRE(file);
  const std::regex item("^ *//   ((?:`[a-z_]+`(?:, or |, )?)+)(.*)$");
  const std::regex word("`([a-z_]+)`");
  const std::regex call(R"(^ *\[\[nodiscard\]\] (?:virtual )?Status ([a-z_]+)\()");
  const std::string session = "the status with which the";
  Documented found;
  std::set<std::string> statuses;
  std::string line;
  std::smatch match;
  while (std::getline(file, line)) {
    if (std::regex_search(line, match, item)) {
      const std::string words = match[1];
      for (std::sregex_iterator at(words.begin(), words.end(), word), end; at != end; ++at) {
        statuses.insert((*at)[1]);
      }
      if (line.find(session) != std::string::npos) statuses.insert("peer_closed");
    } else if (std::regex_search(line, match, call)) {
      for (const std::string& status : statuses) found.emplace(match[1], status);
      statuses.clear();
    } else if (line.find("//") == std::string::npos) {
      statuses.clear();
    }
  }
  return found;
}

}  // namespace

TEST_CASE("Statuses__each_documented_one_has_its_row") {
  Documented rows = of_devices();
  for (const char* call : {"write", "read", "atomic"}) rows.emplace(call, "unsupported");
  for (const Row& row : all_rows()) rows.emplace(row.call, to_string(row.status));
  const Documented documented = documented_statuses();
  for (const auto& [call, status] : documented) {
    CAPTURE(call, status);
    CHECK(rows.count({call, status}) == 1);
  }
  for (const auto& [call, status] : rows) {
    CAPTURE(call, status);
    CHECK(documented.count({call, status}) == 1);
  }
}

TEST_CASE("Statuses__calls_answer_what_is_documented") {
  const Variant variant =
      GENERATE(Variant{0, false}, Variant{0, true}, Variant{1, false}, Variant{1, true});
  CAPTURE(variant);
  for (const Row& row : all_rows()) {
    CAPTURE(row.call, to_string(row.status));
    Scene scene(variant);
    CHECK(row.provoke(scene) == row.status);
  }
}

}  // namespace hawser::engine
