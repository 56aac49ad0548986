// SPDX-License-Identifier: Apache-2.0
#define CATCH_CONFIG_RUNNER
#include <catch2/catch.hpp>

int main(int argc, char** argv) {
  Catch::Session session;
  // Each case has its file as a tag, [#bitmap_test]: cmake/tests.cmake selects the cases of a file
  // by it.
  session.configData().filenamesAsTags = true;
  return session.run(argc, argv);
}
