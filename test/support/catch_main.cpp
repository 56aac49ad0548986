// SPDX-License-Identifier: Apache-2.0
#define CATCH_CONFIG_RUNNER
#include <catch2/catch.hpp>

int main(int argc, char** argv) {
  Catch::Session session;
  // Each case gets its file as a tag, such as [#bitmap_test]. By this tag cmake/tests.cmake selects
  // the cases of a file.
  session.configData().filenamesAsTags = true;
  return session.run(argc, argv);
}
