// SPDX-License-Identifier: Apache-2.0
// A job of several processes that sum up a vector: the collectives of hawser/collectives.hpp.
//
//   ranks RANK RANKS FOLDER [NIC ...]     in each process; FOLDER is an empty one that all share
//
//   mkdir job; for rank in 0 1 2 3; do ./ranks $rank 4 job & done; wait
//
// docs/collectives.md explains the calls. docs/ranks.c is the same in C: ranks of both mix.
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "hawser/address.hpp"
#include "hawser/collectives.hpp"

namespace {

namespace coll = hawser::coll;
using hawser::Status;

constexpr std::uint64_t kCount = 1 << 20;
constexpr std::uint64_t kLook_ns = 100'000'000;
constexpr int kLooks = 600;  // a minute in all

// A reader sees the whole address or no file, because a rename takes place at once.
void write_address(const std::string& file, const hawser::Address& address) {
  const std::string part = file + ".part";
  std::ofstream out(part, std::ios::binary);
  out.write(reinterpret_cast<const char*>(address.data()),
            static_cast<std::streamsize>(address.size()));
  out.close();
  if (!out || std::rename(part.c_str(), file.c_str()) != 0) {
    throw std::runtime_error("can't write " + file +
                             ": make a folder first, and name it at all ranks.");
  }
}

hawser::Address await_address(hawser::Endpoint& endpoint, const std::string& file) {
  std::array<hawser::Completion, 1> none;
  for (int look = 0; look < kLooks; ++look) {
    hawser::Address address(hawser::kMaxAddressBytes);
    std::ifstream in(file, std::ios::binary);
    in.read(reinterpret_cast<char*>(address.data()), static_cast<std::streamsize>(address.size()));
    address.resize(static_cast<std::size_t>(in.gcount()));
    if (!address.empty()) return address;
    endpoint.wait(none, kLook_ns);  // nothing is posted, so this lets the time pass
  }
  throw std::runtime_error("there was no " + file + " for a minute. Were all ranks started?");
}

void check(const coll::Communicator& world, Status status, const char* what) {
  if (status == Status::ok) return;
  const coll::Failure* failure = world.failure();
  throw std::runtime_error(std::string(what) + ": " +
                           (failure != nullptr ? failure->text : std::string(to_string(status))));
}

void run(coll::Rank rank, coll::Rank ranks, const std::string& folder,
         const std::vector<std::string>& nics) {
  // The engine may use buffers until the endpoint's destructor returns, so they come first.
  std::vector<float> gradient(kCount, static_cast<float>(rank + 1));
  std::uint64_t seed = rank == 0 ? 4711 : 0;
  hawser::Engine engine({.nics = nics});
  const std::unique_ptr<hawser::Endpoint> endpoint = engine.create_endpoint({});

  write_address(folder + "/" + std::to_string(rank), endpoint->address());
  std::vector<hawser::PeerId> peers(ranks);
  for (coll::Rank other = 0; other < ranks; ++other) {
    if (other == rank) continue;
    const auto address = await_address(*endpoint, folder + "/" + std::to_string(other));
    if (endpoint->connect(address, peers[other]) != Status::ok) {
      throw std::runtime_error("rank " + std::to_string(other) +
                               "'s address is of no use here. Name NICs of one kind at all ranks.");
    }
  }

  coll::CompletionRouter router(*endpoint);
  coll::Communicator world(router, {.id = 1, .rank = rank, .peers = peers});
  coll::Request first;
  coll::Request second;
  check(world, world.broadcast(&seed, sizeof seed, 0, first), "broadcast");
  check(world,
        world.all_reduce(gradient.data(), gradient.data(), kCount, coll::DataType::f32,
                         coll::ReduceOp::average, second),
        "all-reduce");
  check(world, world.wait(first), "broadcast");
  check(world, world.wait(second), "all-reduce");
  std::printf("rank %u of %u: seed %llu, average %.1f\n", rank, ranks,
              static_cast<unsigned long long>(seed), static_cast<double>(gradient[kCount - 1]));
  // Others may still need acknowledgements from this rank, so all leave together.
  check(world, world.barrier(first), "barrier");
  check(world, world.wait(first), "barrier");
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv, argv + argc);
  const auto rank = argc > 2 ? static_cast<coll::Rank>(std::atoi(argv[1])) : 1;
  const auto ranks = argc > 2 ? static_cast<coll::Rank>(std::atoi(argv[2])) : 0;
  if (argc < 4 || rank >= ranks || ranks > 250) {
    std::fprintf(stderr, "usage: ranks RANK RANKS FOLDER [NIC ...], with RANK below RANKS\n");
    return 2;
  }
  std::vector<std::string> nics(words.begin() + 4, words.end());
  if (nics.empty()) {
    const std::string host = std::to_string(rank + 1);
    nics = {"udp:127.0.1." + host, "udp:127.0.2." + host};
  }
  try {
    run(rank, ranks, words[3], nics);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "ranks: rank %u: %s\n", rank, error.what());
    return 1;
  }
}
