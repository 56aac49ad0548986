# SPDX-License-Identifier: Apache-2.0
# Debian packages, by `cpack -G DEB` in a build folder:
#
#   libhawser0       the shared library
#   libhawser-dev    the files that programs are built with
#   hawser           the command and the pages
#   hawser-libfabric the provider of libfabric, if it is built
#   python3-hawser-torch the backend of torch.distributed, if it is built
#
# Each package is a group: a component of install.cmake, and the files that only Debian wants. The
# latter are in a component of their own, so that `cmake --install` leaves them out.

set(HAWSER_PACKAGER "The authors of Hawser <hawser@example.org>" CACHE STRING
  "Maintainer of the Debian packages")

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME hawser)
set(CPACK_PACKAGE_CONTACT "${HAWSER_PACKAGER}")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_VERBATIM_VARIABLES ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS
  OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_GROUPING ONE_PER_GROUP)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS_POLICY ">=")
# In this folder dpkg-shlibdeps finds a library of another package of this build.
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${PROJECT_BINARY_DIR})

# The copyright file gives the sources of the package's files and their licences. The changelog
# names no changes, since a package of one version has none to tell.
set(texts ${PROJECT_BINARY_DIR}/package)
file(READ ${PROJECT_SOURCE_DIR}/cmake/package/copyright copyright)
foreach(part libdpdk-dev libboost-dev libcli11-dev nlohmann-json3-dev)
  if(EXISTS /usr/share/doc/${part}/copyright)
    file(READ /usr/share/doc/${part}/copyright text)
    string(APPEND copyright "\n\n==== ${part} ====\n\n${text}")
  endif()
endforeach()
file(WRITE ${texts}/copyright "${copyright}")
execute_process(COMMAND git -C ${PROJECT_SOURCE_DIR} log -1 --format=%aD
  OUTPUT_VARIABLE date ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
if(NOT date)
  set(date "Thu, 01 Jan 1970 00:00:00 +0000")
endif()
file(WRITE ${texts}/changelog "hawser (${PROJECT_VERSION}) unstable; urgency=medium

  * Built from its source tree by cpack.

 -- ${HAWSER_PACKAGER}  ${date}
")
execute_process(COMMAND gzip -9nkf ${texts}/changelog COMMAND_ERROR_IS_FATAL ANY)
# This trigger comes beside the calls of ldconfig that cpack writes into the scripts.
file(WRITE ${texts}/triggers "activate-noawait ldconfig\n")

include(CPackComponent)
set(CPACK_COMPONENTS_ALL "")
# Makes the package NAME of COMPONENT, in the archive's SECTION; HAS ends its description.
macro(hawser_package component name section has)
  install(FILES ${texts}/copyright ${texts}/changelog.gz DESTINATION share/doc/${name}
    COMPONENT debian_${component} EXCLUDE_FROM_ALL)
  list(APPEND CPACK_COMPONENTS_ALL ${component} debian_${component})
  foreach(part ${component} debian_${component})
    string(TOUPPER ${part} upper)
    set(CPACK_COMPONENT_${upper}_GROUP package_${component})
  endforeach()
  string(TOUPPER package_${component} upper)
  set(CPACK_DEBIAN_${upper}_PACKAGE_NAME ${name})
  set(CPACK_DEBIAN_${upper}_PACKAGE_SECTION ${section})
  set(CPACK_DEBIAN_${upper}_DESCRIPTION
    "Hawser moves messages between processes, reliably, over unreliable\n\
datagrams on every NIC of a host at once: UDP sockets, or queue pairs of\n\
RDMA devices. Any piece of a message may go over any NIC, and a dead NIC is\n\
one path less, never a broken connection.\n\n${has}")
endmacro()

hawser_package(runtime libhawser0 libs "This package has the shared library.")
hawser_package(development libhawser-dev libdevel
  "This package has the headers, and the files for CMake and pkg-config.")
hawser_package(command hawser net
  "This package has the command, which replays the communication of training\n\
workloads with faults, and the pages.")
set(CPACK_DEBIAN_PACKAGE_DEVELOPMENT_PACKAGE_DEPENDS "libhawser0 (= ${PROJECT_VERSION})")
set(CPACK_DEBIAN_PACKAGE_DEVELOPMENT_PACKAGE_SHLIBDEPS OFF)
set(CPACK_DEBIAN_PACKAGE_COMMAND_PACKAGE_SUGGESTS libpmix2)  # loaded under mpirun and srun
if(TARGET hawser-fi)
  hawser_package(provider hawser-libfabric libs "This package has the provider of libfabric.")
endif()
if(TARGET hawser_torch)
  hawser_package(torch python3-hawser-torch python
    "This package has the backend of torch.distributed.")
  # A module works with the version of Python, and of PyTorch, that it was built for.
  find_package(Python3 REQUIRED COMPONENTS Interpreter)
  math(EXPR next_minor "${Python3_VERSION_MINOR} + 1")
  set(CPACK_DEBIAN_PACKAGE_TORCH_PACKAGE_DEPENDS
    "libhawser0 (= ${PROJECT_VERSION}), python3 (>= 3.${Python3_VERSION_MINOR}), python3 (<< 3.${next_minor}), python3-torch (>= 1.13), python3-torch (<< 1.14)")
endif()
set(CPACK_DEBIAN_PACKAGE_RUNTIME_PACKAGE_CONTROL_EXTRA ${texts}/triggers)
include(CPack)
