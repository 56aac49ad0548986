// SPDX-License-Identifier: Apache-2.0
// A first program: two processes with two NICs each, and one packet in twenty lost on the way.
//
//   example serve FILE [NIC ...]   Writes its address to FILE, and answers one question.
//   example ask FILE [NIC ...]     Reads the address, sends 4 MiB, and receives their sum.
//
// docs/start.md builds, runs and explains it. docs/example.c is the same in C: either one answers
// the other.
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <fstream>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

#include "hawser/address.hpp"
#include "hawser/engine.hpp"

namespace {

using Words = std::vector<std::uint32_t>;

constexpr std::size_t kWords = 1 << 20;
constexpr std::uint16_t kChannel = 1;  // channels and tags are the program's choice
constexpr std::uint64_t kQuestion = 42;
constexpr std::uint64_t kAnswer = 43;
constexpr std::uint64_t kPatience_ns = 600'000'000'000;  // ten minutes
constexpr std::uint64_t kLook_ns = 100'000'000;
constexpr int kLooks = 600;  // a minute in all

std::string advice(hawser::Status status) {
  if (status == hawser::Status::peer_unreachable) {
    return "Nobody answers at the address in FILE. Is it that of an earlier server? Between hosts, "
           "name NICs that reach each other, and let all UDP pass.";
  }
  if (hawser::is_peer_failure(status)) return "The other process has gone: start both anew.";
  if (status == hawser::Status::invalid_argument) {
    return "FILE holds no address of this version of Hawser: start the server anew.";
  }
  if (status == hawser::Status::no_route) {
    return "Name NICs of one kind and one IP version at both ends.";
  }
  return "docs/troubleshooting.md may help.";
}

void check(hawser::Status status, const std::string& what) {
  if (status == hawser::Status::ok) return;
  throw std::runtime_error(what + ": " + std::string(to_string(status)) + ". " + advice(status));
}

// Waits for the completion of `operation`. The program needs no other one.
hawser::Completion await(hawser::Endpoint& endpoint, hawser::OperationId operation,
                         const std::string& what) {
  std::array<hawser::Completion, 1> completion;
  while (endpoint.wait(completion, kPatience_ns) == 1) {
    if (completion[0].operation != operation) continue;
    check(completion[0].status, what);
    return completion[0];
  }
  throw std::runtime_error(what + ": nothing has come for ten minutes. Is the other side there?");
}

// A reader sees the whole address or no file, because a rename takes place at once.
void write_address(const std::string& file, const hawser::Address& address) {
  const std::string part = file + ".part";
  std::ofstream out(part, std::ios::binary);
  out.write(reinterpret_cast<const char*>(address.data()),
            static_cast<std::streamsize>(address.size()));
  out.close();
  if (!out || std::rename(part.c_str(), file.c_str()) != 0) {
    throw std::runtime_error("can't write " + file + ": name a file in a folder of yours.");
  }
}

// Waits for the server's file. Nothing is posted, and so `wait` just lets the time pass.
hawser::Address await_address(hawser::Endpoint& endpoint, const std::string& file) {
  std::array<hawser::Completion, 1> none;
  for (int look = 0; look < kLooks; ++look) {
    hawser::Address address(hawser::kMaxAddressBytes);
    std::ifstream in(file, std::ios::binary);
    in.read(reinterpret_cast<char*>(address.data()), static_cast<std::streamsize>(address.size()));
    address.resize(static_cast<std::size_t>(in.gcount()));
    if (!address.empty()) return address;
    endpoint.wait(none, kLook_ns);
  }
  throw std::runtime_error("there was no " + file +
                           " for a minute: start the server, and name the same file.");
}

void serve(hawser::Engine& engine, const std::string& file) {
  // The engine may use buffers until the endpoint's destructor returns, so the endpoint comes last.
  Words question(kWords);
  std::uint64_t sum = 0;
  const std::unique_ptr<hawser::Endpoint> endpoint = engine.create_endpoint({});
  write_address(file, endpoint->address());
  std::printf("waiting for a question; the address is in %s\n", file.c_str());
  std::fflush(stdout);

  hawser::OperationId operation{};
  check(endpoint->receive({.peer = hawser::kAnyPeer,
                           .channel = kChannel,
                           .tag = kQuestion,
                           .data = question.data(),
                           .bytes = question.size() * sizeof question[0]},
                          operation),
        "receive");
  const hawser::Completion asked = await(*endpoint, operation, "the question");
  question.resize(asked.bytes / sizeof question[0]);
  sum = std::accumulate(question.begin(), question.end(), sum);
  check(endpoint->send({.peer = asked.peer,
                        .channel = kChannel,
                        .tag = kAnswer,
                        .data = &sum,
                        .bytes = sizeof sum},
                       operation),
        "send");
  await(*endpoint, operation, "the answer");
  std::printf("%llu bytes received, their sum %llu sent\n",
              static_cast<unsigned long long>(asked.bytes), static_cast<unsigned long long>(sum));
  std::remove(file.c_str());
}

void ask(hawser::Engine& engine, const std::string& file) {
  Words question(kWords);
  std::iota(question.begin(), question.end(), 0u);
  const std::uint64_t bytes = question.size() * sizeof question[0];
  std::uint64_t answer = 0;
  const std::unique_ptr<hawser::Endpoint> endpoint = engine.create_endpoint({});
  hawser::PeerId server{};
  check(endpoint->connect(await_address(*endpoint, file), server), "connect");

  hawser::OperationId received{};
  hawser::OperationId sent{};
  check(endpoint->receive({.peer = server,
                           .channel = kChannel,
                           .tag = kAnswer,
                           .data = &answer,
                           .bytes = sizeof answer},
                          received),
        "receive");
  check(endpoint->send({.peer = server,
                        .channel = kChannel,
                        .tag = kQuestion,
                        .data = question.data(),
                        .bytes = bytes},
                       sent),
        "send");
  await(*endpoint, received, "the answer");  // it shows that the question has arrived
  if (answer != std::accumulate(question.begin(), question.end(), std::uint64_t{0})) {
    throw std::runtime_error("the sum is wrong. Have both hosts the same byte order?");
  }
  const hawser::EndpointStats stats = endpoint->stats();
  std::printf(
      "%llu bytes sent, their sum %llu received; %llu packets lost, %llu fragments "
      "retransmitted\n",
      static_cast<unsigned long long>(bytes), static_cast<unsigned long long>(answer),
      static_cast<unsigned long long>(stats.packets_lost),
      static_cast<unsigned long long>(stats.fragments_retransmitted));
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv, argv + argc);
  if (argc < 3 || (words[1] != "serve" && words[1] != "ask")) {
    std::fprintf(stderr, "usage: example serve|ask FILE [NIC ...]\n");
    return 2;
  }
  const bool serves = words[1] == "serve";
  std::vector<std::string> nics(words.begin() + 3, words.end());
  if (nics.empty() && serves) nics = {"udp:127.0.0.1", "udp:127.0.0.2"};
  if (nics.empty()) nics = {"udp:127.0.0.3", "udp:127.0.0.4"};
  try {
    hawser::Engine engine({.nics = nics, .faults = "loss=0.05,seed=1"});
    serves ? serve(engine, words[2]) : ask(engine, words[2]);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "example: %s\n", error.what());
    return 1;
  }
}
