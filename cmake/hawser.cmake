# SPDX-License-Identifier: Apache-2.0
# Builds every target of the tree. The folders call these functions, and those of tests.cmake:
#
#   hawser_library(NAME SOURCES a.cpp ... [ALONE b.cpp ...] LINKS target ...)   static library; LINKS are PUBLIC
#   hawser_executable(NAME SOURCES a.cpp ... LINKS target ...)
#
# Source lists are explicit. Includes are written from the root ("proto/base/time.hpp"), and those of
# include/ from there ("hawser/types.hpp"). test/style checks which folder may include which.

include_guard(GLOBAL)

# Says what this build leaves out, and what to do about it. ./test.sh repeats it.
function(hawser_left_out what)
  message(STATUS "Left out: ${what}")
  set_property(GLOBAL APPEND_STRING PROPERTY HAWSER_LEFT_OUT "${what}\n")
endfunction()

set(HAWSER_SANITIZE "" CACHE STRING "Sanitizers of the tree, as in -fsanitize=")
# x86-64-v3 (Haswell, 2013) has AVX2 and BMI, with which a short send takes 3 to 6% less time than
# with v2 (docs/lab/results.md). Every host whose NICs are worth this library has them. One baseline
# is better than -march=native: ranks of one job exchange binaries, and figures compare. An older
# build host uses v2. Reductions choose their instructions at run time (coll/reduce.cpp).
if(NOT DEFINED HAWSER_ARCH AND CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  include(CheckCXXSourceRuns)
  check_cxx_source_runs("int main() {
    return !(__builtin_cpu_supports(\"avx2\") && __builtin_cpu_supports(\"bmi2\") &&
             __builtin_cpu_supports(\"fma\")); }" HAWSER_HOST_IS_V3)
  if(HAWSER_HOST_IS_V3)
    set(HAWSER_ARCH x86-64-v3 CACHE STRING "Value of -march=")
  else()
    message(STATUS "No AVX2 here: built for x86-64-v2, slower")
    set(HAWSER_ARCH x86-64-v2 CACHE STRING "Value of -march=")
  endif()
endif()
option(HAWSER_COVERAGE "Count the branches that proto/ takes (g++ only)" OFF)
option(HAWSER_TORCH "Build the backend of torch.distributed" OFF)
option(HAWSER_FUZZ "Build proto/ and its fuzzers with libFuzzer (clang only)" OFF)

# The options that apply to our targets and not to third-party headers.
add_library(hawser_build INTERFACE)
target_compile_features(hawser_build INTERFACE cxx_std_20)
target_compile_options(hawser_build INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Werror
  # clang includes this in -Wconversion and g++ does not; the tree follows g++.
  $<$<CXX_COMPILER_ID:Clang>:-Wno-sign-conversion>
  # The code goes into shared objects (plugins), but no other library replaces our functions. So let
  # g++ inline across functions that could be exported, as clang does anyway.
  $<$<CXX_COMPILER_ID:GNU>:-fno-semantic-interposition>)
target_include_directories(hawser_build INTERFACE ${PROJECT_SOURCE_DIR})
# The standard library checks its containers in every build that isn't for speed.
target_compile_definitions(hawser_build INTERFACE
  $<$<NOT:$<CONFIG:Release>>:_GLIBCXX_ASSERTIONS>)
if(HAWSER_ARCH)
  # Tuned for recent servers. For a generic processor g++ clears a struct by `rep stos`, which costs
  # more than the work that follows.
  target_compile_options(hawser_build INTERFACE -march=${HAWSER_ARCH} -mtune=icelake-server)
endif()
if(HAWSER_SANITIZE)
  target_compile_options(hawser_build INTERFACE
    -fsanitize=${HAWSER_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(hawser_build INTERFACE -fsanitize=${HAWSER_SANITIZE})
endif()
if(HAWSER_FUZZ)
  if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    message(FATAL_ERROR "HAWSER_FUZZ needs clang++ (preset fuzz).")
  endif()
  target_compile_options(hawser_build INTERFACE -fsanitize=fuzzer-no-link)
endif()

# Installed files name no path of the build machine. g++ takes these paths from __FILE__.
set(hawser_relative_paths "-ffile-prefix-map=${PROJECT_SOURCE_DIR}/=")

# Headers take most of a file's compile time. With sanitizers, eight files are compiled as one.
# (UNITY_BUILD would write absolute paths into them, and the compiler cache could not share the
# objects among checkouts.)
function(hawser_join_sources name sources)
  set(joined "")
  set(content "")
  set(count 0)
  foreach(source IN LISTS ${sources})
    get_filename_component(path ${source} ABSOLUTE)
    file(RELATIVE_PATH path ${PROJECT_SOURCE_DIR} ${path})
    string(APPEND content "#include \"${path}\"\n")
    math(EXPR count "${count} + 1")
    math(EXPR rest "${count} % 8")
    list(LENGTH ${sources} all)
    if(rest EQUAL 0 OR count EQUAL all)
      set(file ${CMAKE_CURRENT_BINARY_DIR}/${name}_to_${count}.cpp)
      file(CONFIGURE OUTPUT ${file} CONTENT "${content}" @ONLY)
      list(APPEND joined ${file})
      set(content "")
    endif()
  endforeach()
  set(${sources} ${joined} PARENT_SCOPE)
endfunction()

# ALONE lists the sources whose names would clash with others' if they were compiled as one.
function(hawser_library name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;ALONE;LINKS")
  if(HAWSER_SANITIZE)
    hawser_join_sources(${name} arg_SOURCES)
  endif()
  add_library(${name} STATIC ${arg_SOURCES} ${arg_ALONE})
  target_link_libraries(${name} PUBLIC ${arg_LINKS} PRIVATE hawser_build)
  target_compile_options(${name} PRIVATE $<$<CONFIG:Release>:${hawser_relative_paths}>)
endfunction()

function(hawser_executable name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;LINKS")
  add_executable(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE ${arg_LINKS} hawser_build)
endfunction()
