# SPDX-License-Identifier: Apache-2.0
# Writes the commit of the tree SOURCE to the file OUTPUT as a C++ source, each time the build runs.
# Only a changed commit changes the file, so that nothing is compiled in vain. "+changes" marks a
# tree that differs from its commit.
execute_process(
  COMMAND git -C ${SOURCE} describe --always --dirty=+changes --abbrev=12 --exclude=*
  OUTPUT_VARIABLE commit RESULT_VARIABLE failed ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
if(failed OR NOT commit)
  set(commit unknown)
endif()
set(text "#include \"tool/storm/commit.hpp\"\n
namespace hawser::tool {
std::string_view commit() { return \"${commit}\"; }
}  // namespace hawser::tool\n")
set(before "")
if(EXISTS ${OUTPUT})
  file(READ ${OUTPUT} before)
endif()
if(NOT before STREQUAL text)
  file(WRITE ${OUTPUT} "${text}")
endif()
