# SPDX-License-Identifier: Apache-2.0
# Third-party libraries, all from Debian packages (packages.txt), as targets whose includes are
# SYSTEM: hawser_dpdk, hawser_verbs (where libibverbs is), hawser_isal, hawser_sodium,
# Boost::headers, CLI11::CLI11, fmt::fmt, spdlog::spdlog, nlohmann_json::nlohmann_json,
# Catch2::Catch2, rapidcheck, Threads::Threads.

include_guard(GLOBAL)

find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(HAWSER_ISAL REQUIRED libisal)
pkg_check_modules(HAWSER_SODIUM REQUIRED libsodium)

foreach(library isal sodium)
  string(TOUPPER ${library} upper)
  add_library(hawser_${library} INTERFACE)
  target_include_directories(hawser_${library} SYSTEM INTERFACE ${HAWSER_${upper}_INCLUDE_DIRS})
  target_link_libraries(hawser_${library} INTERFACE ${HAWSER_${upper}_LINK_LIBRARIES})
endforeach()

find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)

# libFuzzer builds need only the libraries of proto/ and of the readers of text.
if(HAWSER_FUZZ)
  return()
endif()

find_package(Boost 1.74 REQUIRED)
find_package(Catch2 2.13 REQUIRED)
find_package(rapidcheck REQUIRED)
find_package(CLI11 REQUIRED)
find_package(nlohmann_json 3 REQUIRED)
include(Catch)

# RDMA NICs need libibverbs. A build without it says so when a program asks for an RDMA NIC.
pkg_check_modules(HAWSER_VERBS libibverbs)
if(HAWSER_VERBS_FOUND)
  add_library(hawser_verbs INTERFACE)
  target_include_directories(hawser_verbs SYSTEM INTERFACE ${HAWSER_VERBS_INCLUDE_DIRS})
  # A program with HAWSER_FAKE_VERBS has the functions of its own (test/support/fake_verbs/).
  target_link_libraries(hawser_verbs INTERFACE
    $<$<NOT:$<BOOL:$<TARGET_PROPERTY:HAWSER_FAKE_VERBS>>>:${HAWSER_VERBS_LINK_LIBRARIES}>)
else()
  hawser_left_out("RDMA NICs, as libibverbs is not here (install libibverbs-dev)")
endif()

# The benches compare with UCX where it is.
pkg_check_modules(HAWSER_UCX ucx>=1.12)

# DPDK: rings, and mempools for programs that start EAL themselves. DPDK is linked statically, since
# a shared EAL would map some 130 driver libraries for NICs that Hawser never opens.
pkg_check_modules(HAWSER_DPDK REQUIRED libdpdk-libs>=22.11)
pkg_get_variable(HAWSER_DPDK_LIBDIR libdpdk-libs libdir)
function(hawser_dpdk_archive out name)
  find_library(HAWSER_DPDK_${name} NAMES lib${name}.a HINTS ${HAWSER_DPDK_LIBDIR} REQUIRED)
  set(${out} ${HAWSER_DPDK_${name}} PARENT_SCOPE)
endfunction()
foreach(name rte_mempool_ring rte_mempool rte_ring rte_telemetry rte_kvargs rte_eal)
  hawser_dpdk_archive(archive_${name} ${name})
endforeach()

add_library(hawser_dpdk INTERFACE)
target_include_directories(hawser_dpdk SYSTEM INTERFACE ${HAWSER_DPDK_INCLUDE_DIRS})
# DPDK's headers expect <rte_config.h> before them, and at least SSE4.2 (HAWSER_ARCH has it). The
# files that include them include it themselves: g++ uses no precompiled header after -include.
target_link_libraries(hawser_dpdk INTERFACE
  # A mempool's ring handler registers itself in a constructor that no code refers to.
  -Wl,--whole-archive ${archive_rte_mempool_ring} -Wl,--no-whole-archive
  -Wl,--start-group ${archive_rte_mempool} ${archive_rte_ring} ${archive_rte_eal}
  ${archive_rte_kvargs} ${archive_rte_telemetry} -Wl,--end-group
  bsd numa Threads::Threads ${CMAKE_DL_LIBS} m)
