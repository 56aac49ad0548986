// SPDX-License-Identifier: Apache-2.0
// Two endpoints, two NICs each, one packet in twenty lost on the way: a message there and its
// answer back.
//
// In a real job each endpoint is in a process of its own, and addresses are exchanged by whatever
// starts the job. Here each has an engine thread, which makes its progress. With `threads = 0` it
// would be made by this thread, in poll and wait.
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "hawser/engine.hpp"

namespace {

constexpr std::uint16_t kChannel = 1;
constexpr std::uint64_t kQuestion = 42;  // tags are the caller's choice
constexpr std::uint64_t kAnswer = 43;
constexpr std::uint64_t kPatience = 20'000'000'000;  // ns

hawser::EngineConfig two_nics(const std::string& first, const std::string& second) {
  hawser::EngineConfig config;
  config.nics = {"udp:" + first, "udp:" + second};
  config.threads = 1;
  config.faults = "loss=0.05,seed=1";
  return config;
}

// Waits for the next completion of a receive; those of sends are of no further interest here.
bool await_receive(hawser::Endpoint& endpoint, hawser::Completion& found) {
  std::array<hawser::Completion, 1> completion;
  while (endpoint.wait(completion, kPatience) == 1) {
    found = completion[0];
    if (found.status != hawser::Status::ok) return false;
    if (found.kind == hawser::OperationKind::receive) return true;
  }
  return false;
}

int run() {
  hawser::Engine left_engine(two_nics("127.0.0.1", "127.0.0.2"));
  hawser::Engine right_engine(two_nics("127.0.0.3", "127.0.0.4"));
  const std::unique_ptr<hawser::Endpoint> left = left_engine.create_endpoint({});
  const std::unique_ptr<hawser::Endpoint> right = right_engine.create_endpoint({});

  // One side is enough; the handshake runs with the first operations. The other side learns its
  // peer from the receive's completion.
  hawser::PeerId peer{};
  if (left->connect(right->address(), peer) != hawser::Status::ok) return 1;

  std::vector<std::uint32_t> question(1 << 20);
  for (std::size_t i = 0; i < question.size(); ++i) question[i] = static_cast<std::uint32_t>(i);
  std::vector<std::uint32_t> heard(question.size());
  std::uint64_t answer = 0;
  hawser::OperationId operation{};

  // From here to their completions the buffers are the engine's.
  if (right->receive({.peer = hawser::kAnyPeer,
                      .channel = kChannel,
                      .tag = kQuestion,
                      .data = heard.data(),
                      .bytes = heard.size() * sizeof heard[0]},
                     operation) != hawser::Status::ok ||
      left->receive({.peer = peer,
                     .channel = kChannel,
                     .tag = kAnswer,
                     .data = &answer,
                     .bytes = sizeof answer},
                    operation) != hawser::Status::ok ||
      left->send({.peer = peer,
                  .channel = kChannel,
                  .tag = kQuestion,
                  .data = question.data(),
                  .bytes = question.size() * sizeof question[0]},
                 operation) != hawser::Status::ok) {
    return 1;
  }

  hawser::Completion completion;
  if (!await_receive(*right, completion)) return 1;
  std::uint64_t sum = 0;
  for (const std::uint32_t word : heard) sum += word;
  if (right->send({.peer = completion.peer,
                   .channel = kChannel,
                   .tag = kAnswer,
                   .data = &sum,
                   .bytes = sizeof sum},
                  operation) != hawser::Status::ok) {
    return 1;
  }
  if (!await_receive(*left, completion)) return 1;

  const hawser::EndpointStats stats = left->stats();
  std::printf("%zu bytes there, the sum %llu back; %llu packets lost and sent again\n",
              question.size() * sizeof question[0], static_cast<unsigned long long>(answer),
              static_cast<unsigned long long>(stats.fragments_retransmitted));
  return heard == question && answer == sum ? 0 : 1;
}

}  // namespace

int main() {
  try {
    return run();
  } catch (const hawser::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
