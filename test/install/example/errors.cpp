// What the library throws is caught by its type, on the other side of the shared library.
#include <cstdio>

#include "hawser/engine.hpp"

int main() {
  try {
    hawser::EngineConfig config;
    config.nics = {"carrier-pigeon:7"};
    const hawser::Engine engine(config);
  } catch (const hawser::Error& error) {
    std::printf("caught: %s\n", error.what());
    return 0;
  }
  return 1;
}
