# How every target of the tree is built. The folders call these functions and nothing else:
#
#   hawser_library(NAME SOURCES a.cpp ... LINKS target ...)     static library; LINKS are PUBLIC
#   hawser_executable(NAME SOURCES a.cpp ... LINKS target ...)
#   hawser_test(NAME SOURCES a_test.cpp ... LINKS target ...    Catch2 executable, one ctest per case
#               [TIMEOUT seconds] [SERIAL] [THREADED] [PROCESSES])
#   hawser_fuzzer(NAME SOURCES x_fuzz.cpp LINKS target ... [CORPUS folder] [REPLAYS n])
#
# Source lists are explicit. Includes are written from the root ("proto/time.hpp"), and of include/
# from there ("hawser/types.hpp"). Which folder may include which is checked by test/style.

include_guard(GLOBAL)

set(HAWSER_SANITIZE "" CACHE STRING "Sanitizers of the tree, as in -fsanitize=")
# x86-64-v3 (Haswell, 2013) has AVX2, BMI and F16C: bitmaps, copies and reductions of f16 gain by
# them, and every host whose NICs are worth this library has them. One baseline, not -march=native:
# ranks of one job exchange binaries, and figures compare. An older build host falls back to v2.
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
option(HAWSER_FUZZ "Build proto/ and its fuzzers with libFuzzer (clang only)" OFF)

# All that a target of ours is compiled with and a third party's header is not.
add_library(hawser_build INTERFACE)
target_compile_features(hawser_build INTERFACE cxx_std_20)
target_compile_options(hawser_build INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Werror
  # clang counts this to -Wconversion, g++ does not; the tree goes by g++.
  $<$<CXX_COMPILER_ID:Clang>:-Wno-sign-conversion>
  # Code for shared objects (plugins), yet nobody puts functions of ours in place of others: g++ may
  # inline across what could be exported, as clang does anyhow.
  $<$<CXX_COMPILER_ID:GNU>:-fno-semantic-interposition>)
target_include_directories(hawser_build INTERFACE ${PROJECT_SOURCE_DIR})
# Container checks of the standard library wherever speed is not the point.
target_compile_definitions(hawser_build INTERFACE
  $<$<NOT:$<CONFIG:Release>>:_GLIBCXX_ASSERTIONS>)
if(HAWSER_ARCH)
  # Tuned for recent servers: what g++ thinks of as any processor clears a struct by `rep stos`, which
  # costs more than what is then done with it.
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

# What the tsan preset builds: the tests that are THREADED.
add_custom_target(hawser_threaded)

function(hawser_library name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;LINKS")
  add_library(${name} STATIC ${arg_SOURCES})
  target_link_libraries(${name} PUBLIC ${arg_LINKS} PRIVATE hawser_build)
endfunction()

function(hawser_executable name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;LINKS")
  add_executable(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE ${arg_LINKS} hawser_build)
endfunction()

# TIMEOUT: of one case, in seconds (120); sanitizers get three times as much.
# Cases tagged [long] measure, or repeat with many seeds what others do with few: sanitizers, which
# would need minutes for each and see no code in them that they don't see elsewhere, leave them out.
# SERIAL: ctest runs nothing else beside it (it measures time, or takes all memory).
# THREADED: the code under test has threads; the tsan preset runs these.
# PROCESSES: it starts processes of its own.
function(hawser_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "SERIAL;THREADED;PROCESSES" "TIMEOUT" "SOURCES;LINKS")
  hawser_executable(${name} SOURCES ${arg_SOURCES} LINKS ${arg_LINKS})
  target_link_libraries(${name} PRIVATE catch_main)
  # What is tested is optimized; Catch2's templates at -O3 only cost build time.
  target_compile_options(${name} PRIVATE $<$<CONFIG:Release>:-O1>)
  if(HAWSER_SANITIZE)
    # Instrumented and optimized, Catch2's macros take a minute a file; what is tested stays at -O1.
    target_compile_options(${name} PRIVATE -O0)
  endif()
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 120)
  endif()
  if(HAWSER_SANITIZE)
    math(EXPR arg_TIMEOUT "3 * ${arg_TIMEOUT}")
  endif()
  set(properties TIMEOUT ${arg_TIMEOUT})
  if(arg_SERIAL)
    list(APPEND properties RUN_SERIAL ON)
  endif()
  # One label a test: catch_discover_tests splits lists.
  if(arg_THREADED)
    list(APPEND properties LABELS threaded)
    add_dependencies(hawser_threaded ${name})
  elseif(arg_PROCESSES)
    list(APPEND properties LABELS processes)
  endif()
  set_property(TARGET ${name} PROPERTY HAWSER_TEST_PROPERTIES "${properties}")
  if(HAWSER_SANITIZE)
    set(spec TEST_SPEC "~[long]")
  endif()
  catch_discover_tests(${name} ${spec} TEST_PREFIX "${name}: " PROPERTIES ${properties})
endfunction()

# All cases of a test once more, with a variable of the environment set.
function(hawser_test_again name how variable)
  get_target_property(properties ${name} HAWSER_TEST_PROPERTIES)
  # Its list of tests is named by the arguments: they have to differ from the first time's.
  catch_discover_tests(${name} TEST_PREFIX "${name}, ${how}: " EXTRA_ARGS --use-colour no
    PROPERTIES ${properties} ENVIRONMENT ${variable})
endfunction()

# A file with LLVMFuzzerTestOneInput. With HAWSER_FUZZ it is linked with libFuzzer; in every other
# preset with a main that feeds it the folder CORPUS, the folder corpus/NAME beside it, and REPLAYS
# (50) seeded random inputs of each length, as a test.
function(hawser_fuzzer name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "CORPUS;REPLAYS" "SOURCES;LINKS")
  set(corpus "")
  foreach(folder IN ITEMS ${arg_CORPUS} corpus/${name})
    get_filename_component(folder ${folder} ABSOLUTE)
    # What is kept in the repository is there already; seeds are made by the build.
    if(arg_CORPUS OR IS_DIRECTORY ${folder})
      list(APPEND corpus ${folder})
    endif()
  endforeach()
  if(HAWSER_FUZZ)
    hawser_executable(${name} SOURCES ${arg_SOURCES} LINKS ${arg_LINKS})
    target_link_options(${name} PRIVATE -fsanitize=fuzzer)
    set_property(GLOBAL APPEND PROPERTY HAWSER_FUZZERS ${name})
  else()
    hawser_executable(${name} LINKS ${arg_LINKS}
      SOURCES ${arg_SOURCES} ${PROJECT_SOURCE_DIR}/test/support/fuzz_replay.cpp)
    if(NOT arg_REPLAYS)
      set(arg_REPLAYS 50)
    endif()
    add_test(NAME "${name}: replay" COMMAND ${name} ${arg_REPLAYS} ${corpus})
    set_tests_properties("${name}: replay" PROPERTIES TIMEOUT 120)
  endif()
endfunction()
