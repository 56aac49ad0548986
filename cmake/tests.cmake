# SPDX-License-Identifier: Apache-2.0
# Builds and labels every test of the tree. The folders call these functions instead of add_test:
#
#   hawser_test(NAME LINKS target ...                        Catch2 executable
#               [VIRTUAL a_test.cpp ...] [CLOCK b_test.cpp ...] [SOURCES helper.cpp ...]
#               [DEEP c_test.cpp ...] [LONG d_test.cpp ...] [TIMEOUT seconds] [THREADED])
#   hawser_test_again(NAME how variable=value)               all its cases again, as deep tests
#   hawser_add_test(NAME name KIND virtual|clock TIER gate|deep COMMAND ... [PROPERTIES ...])
#   hawser_script_tests(PREFIX prefix KIND ... SCRIPT file.py [ARGUMENTS ...] [PROPERTIES ...])
#   hawser_fuzzer(NAME SOURCES x_fuzz.cpp LINKS target ... [CORPUS folder] [REPLAYS n])
#   hawser_gate_needs(target ...)                            the gate builds these targets
#
# Every test has one label of each pair (docs/internals/testing.md says what follows from them):
#
#   virtual   It reads no clock, opens no socket and starts no process.
#   clock     It does one of these.
#   gate      Each change has to pass it: `./test.sh` and `.ci/run` run it.
#   deep      `./test.sh deep` runs it.

include_guard(GLOBAL)

# All that the gate needs in this preset: its test programs and the programs they start.
add_custom_target(hawser_gate)
# All that the tsan preset builds: the tests that are THREADED.
add_custom_target(hawser_threaded)

# With sanitizers the gate runs only the test programs.
function(hawser_gate_needs)
  if(NOT HAWSER_SANITIZE)
    add_dependencies(hawser_gate ${ARGN})
  endif()
endfunction()

# A time limit only ends a hang. It is ten times what the slowest tests take on a quiet machine.
set(HAWSER_TEST_TIMEOUT 300)
# A script itself ends its processes after HANG_LIMIT_S (test/tool/cases.py), with their output.
set(HAWSER_SCRIPT_TIMEOUT 660)

# Options for the sanitizers' runtimes in tests of each tier. Detecting the use of a local after its
# function has returned doubles the time of a test. Deep tests do it, and those of the gate run a
# second time with it.
set(HAWSER_GATE_ENVIRONMENT "")
if(HAWSER_SANITIZE MATCHES "address")
  set(asan_options ASAN_OPTIONS=abort_on_error=0:strict_string_checks=1:detect_stack_use_after_return)
  set(HAWSER_GATE_ENVIRONMENT ${asan_options}=0 UBSAN_OPTIONS=print_stacktrace=1)
  set(HAWSER_DEEP_ENVIRONMENT ${asan_options}=1 UBSAN_OPTIONS=print_stacktrace=1)
elseif(HAWSER_SANITIZE MATCHES "thread")
  # Children of fork may start threads: some tests are about that.
  set(HAWSER_GATE_ENVIRONMENT
      TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1:die_after_fork=0)
  set(HAWSER_DEEP_ENVIRONMENT ${HAWSER_GATE_ENVIRONMENT})
endif()

function(hawser_add_test)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "NAME;KIND;TIER" "COMMAND;PROPERTIES")
  if(NOT "${arg_KIND}" MATCHES "^(virtual|clock)$" OR NOT "${arg_TIER}" MATCHES "^(gate|deep)$")
    message(FATAL_ERROR "${arg_NAME}: KIND is virtual or clock, TIER is gate or deep")
  endif()
  if(HAWSER_SANITIZE AND arg_KIND STREQUAL "clock")
    set(arg_TIER deep)  # hawser_gate_needs() does not build what it starts
  endif()
  string(TOUPPER ${arg_TIER} TIER)
  add_test(NAME ${arg_NAME} COMMAND ${arg_COMMAND})
  set_tests_properties(${arg_NAME} PROPERTIES
    TIMEOUT ${HAWSER_TEST_TIMEOUT} LABELS "${arg_KIND};${arg_TIER}"
    ENVIRONMENT "${HAWSER_${TIER}_ENVIRONMENT}")
  if(arg_PROPERTIES)
    set_tests_properties(${arg_NAME} PROPERTIES ${arg_PROPERTIES})
  endif()
  if(arg_TIER STREQUAL "gate")
    hawser_search_locals(${arg_NAME} "${arg_KIND}" "" ${HAWSER_TEST_TIMEOUT} ${arg_COMMAND})
  endif()
endfunction()

# Runs a gate test again, as a deep test that detects uses of locals after their function's return.
function(hawser_search_locals name labels environment timeout)
  if(HAWSER_SANITIZE MATCHES "address")
    add_test(NAME "${name}, locals after return" COMMAND ${ARGN})
    set_tests_properties("${name}, locals after return" PROPERTIES TIMEOUT ${timeout}
      LABELS "${labels};deep" ENVIRONMENT "${HAWSER_DEEP_ENVIRONMENT};${environment}")
  endif()
endfunction()

# Makes a test of each case of a script. `script --list gate` names those of the gate, and `--list
# deep` the others. PROPERTIES hold for all of them. A case that lacks what it needs says so and
# returns 77.
function(hawser_script_tests)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "PREFIX;KIND;SCRIPT" "ARGUMENTS;PROPERTIES")
  find_package(Python3 REQUIRED COMPONENTS Interpreter)
  set(script ${CMAKE_CURRENT_SOURCE_DIR}/${arg_SCRIPT})
  file(GLOB beside CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.py ${PROJECT_SOURCE_DIR}/test/tool/cases.py)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${beside})
  foreach(tier IN ITEMS gate deep)
    execute_process(COMMAND ${Python3_EXECUTABLE} ${script} --list ${tier}
      OUTPUT_VARIABLE cases COMMAND_ERROR_IS_FATAL ANY)
    string(STRIP "${cases}" cases)
    string(REPLACE "\n" ";" cases "${cases}")
    foreach(name IN LISTS cases)
      hawser_add_test(NAME "${arg_PREFIX}: ${name}" KIND ${arg_KIND} TIER ${tier}
        COMMAND ${Python3_EXECUTABLE} ${script} ${arg_ARGUMENTS} ${name}
        PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT ${HAWSER_SCRIPT_TIMEOUT} ${arg_PROPERTIES})
    endforeach()
  endforeach()
endfunction()

function(hawser_test_options name)
  # The tested code is optimized; for Catch2's templates -O3 would only cost build time.
  target_compile_options(${name} PRIVATE $<$<CONFIG:Release>:-O1>)
  if(HAWSER_SANITIZE)
    # Instrumented and optimized, Catch2's macros take a minute a file. The tested code has -O1.
    target_compile_options(${name} PRIVATE -O0)
  endif()
endfunction()

# VIRTUAL and CLOCK list the files with cases of each kind. DEEP and LONG name some of them again:
#   DEEP    the gate leaves these out
#   LONG    sanitizers leave these out, since all their cases are tagged [long]
# Cases tagged [long] measure, or repeat with many seeds what others do with few. Sanitizers would
# need minutes for each and would see no other code.
# TIMEOUT is for one case, in seconds. Sanitizers get three times as much for each file.
# THREADED: the tested code has threads; the tsan preset runs these programs.
function(hawser_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "THREADED" "TIMEOUT" "VIRTUAL;CLOCK;SOURCES;DEEP;LONG;LINKS")
  hawser_executable(${name} SOURCES ${arg_VIRTUAL} ${arg_CLOCK} ${arg_SOURCES} LINKS ${arg_LINKS})
  target_link_libraries(${name} PRIVATE catch_main)
  hawser_test_options(${name})
  target_precompile_headers(${name} REUSE_FROM precompiled)
  add_dependencies(hawser_gate ${name})
  if(arg_THREADED)
    add_dependencies(hawser_threaded ${name})
  endif()
  foreach(source IN LISTS arg_SOURCES)
    file(STRINGS ${source} cases REGEX "^TEST(_CASE|_CASE_METHOD|EMPLATE_TEST_CASE)\\(" LIMIT_COUNT 1)
    if(cases)
      message(FATAL_ERROR "${name}: ${source} has cases: list it under VIRTUAL or CLOCK")
    endif()
  endforeach()
  foreach(source IN LISTS arg_DEEP arg_LONG)
    if(NOT source IN_LIST arg_VIRTUAL AND NOT source IN_LIST arg_CLOCK)
      message(FATAL_ERROR "${name}: ${source} stands neither under VIRTUAL nor under CLOCK")
    endif()
  endforeach()
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT ${HAWSER_TEST_TIMEOUT})
  endif()
  foreach(list IN ITEMS VIRTUAL CLOCK DEEP LONG TIMEOUT THREADED)
    set_property(TARGET ${name} PROPERTY HAWSER_TEST_${list} "${arg_${list}}")
  endforeach()
  hawser_register_cases(${name} ${name} "" "")
endfunction()

function(hawser_test_again name how variable)
  hawser_register_cases(${name} "${name}, ${how}" deep ${variable})
endfunction()

# Makes the ctests of a program: one per case, or, with sanitizers, one per source file, since there
# a process takes longer to start than most cases take. Catch2 selects the cases of a file by the
# tag [#file] (support/catch_main.cpp).
function(hawser_register_cases name prefix only_tier environment)
  foreach(list IN ITEMS VIRTUAL CLOCK DEEP LONG TIMEOUT THREADED)
    get_target_property(arg_${list} ${name} HAWSER_TEST_${list})
  endforeach()
  foreach(kind IN ITEMS virtual clock)
    string(TOUPPER ${kind} KIND)
    foreach(tier IN ITEMS gate deep)
      set(files "")
      foreach(source IN LISTS arg_${KIND})
        set(file_tier gate)
        if(source IN_LIST arg_DEEP OR only_tier STREQUAL "deep")
          set(file_tier deep)
        endif()
        if(file_tier STREQUAL tier AND NOT (HAWSER_SANITIZE AND source IN_LIST arg_LONG))
          list(APPEND files ${source})
        endif()
      endforeach()
      if(NOT files)
        continue()
      endif()
      set(labels ${kind})
      if(arg_THREADED)
        list(APPEND labels threaded)
      endif()
      if(HAWSER_SANITIZE)
        math(EXPR limit "3 * ${arg_TIMEOUT}")
        foreach(source IN LISTS files)
          get_filename_component(stem ${source} NAME_WLE)
          set(command ${name} -w NoTests "[#${stem}]~[long]")
          string(TOUPPER ${tier} TIER)
          add_test(NAME "${prefix}: ${source}" COMMAND ${command})
          set_tests_properties("${prefix}: ${source}" PROPERTIES
            TIMEOUT ${limit} LABELS "${labels};${tier}"
            ENVIRONMENT "${HAWSER_${TIER}_ENVIRONMENT};${environment}")
          if(tier STREQUAL "gate")
            hawser_search_locals("${prefix}: ${source}" "${labels}" "${environment}" ${limit} ${command})
          endif()
        endforeach()
        continue()
      endif()
      set(spec "")
      foreach(source IN LISTS files)
        get_filename_component(stem ${source} NAME_WLE)
        string(APPEND spec ",[#${stem}]")
      endforeach()
      string(SUBSTRING "${spec}" 1 -1 spec)
      string(MAKE_C_IDENTIFIER "${prefix} ${kind} ${tier}" list)
      set(properties TIMEOUT ${arg_TIMEOUT})
      if(environment)
        list(APPEND properties ENVIRONMENT ${environment})
      endif()
      # A name without a case must fail. (CMake would cut a name at a semicolon.)
      set(arguments -w NoTests)
      # CMake names the list's file by the specification and the arguments: no two lists may agree.
      if(environment)
        list(APPEND arguments --use-colour no)
      endif()
      catch_discover_tests(${name} TEST_SPEC "${spec}" TEST_PREFIX "${prefix}: " TEST_LIST ${list}
        EXTRA_ARGS ${arguments} PROPERTIES ${properties})
      # catch_discover_tests takes one label per test, so this gives each test its two.
      set(labelling ${CMAKE_CURRENT_BINARY_DIR}/${list}_labels.cmake)
      file(WRITE ${labelling}
        "if(${list})\n  set_tests_properties(\${${list}} PROPERTIES LABELS \"${labels};${tier}\")\nendif()\n")
      set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES ${labelling})
    endforeach()
  endforeach()
endfunction()

# Builds a file with LLVMFuzzerTestOneInput. With HAWSER_FUZZ it is linked with libFuzzer. In every
# other preset it becomes a test: its main feeds it the folder CORPUS, the folder corpus/NAME beside
# it, and REPLAYS (50) seeded random inputs of each length.
function(hawser_fuzzer name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "CORPUS;REPLAYS" "SOURCES;LINKS")
  set(corpus "")
  foreach(folder IN ITEMS ${arg_CORPUS} corpus/${name})
    get_filename_component(folder ${folder} ABSOLUTE)
    # The repository's corpus is there already; the build makes the seeds.
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
    add_dependencies(hawser_gate ${name})
    hawser_add_test(NAME "${name}: replay" KIND virtual TIER gate
      COMMAND ${name} ${arg_REPLAYS} ${corpus})
  endif()
endfunction()
