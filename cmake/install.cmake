# SPDX-License-Identifier: Apache-2.0
# The files that `cmake --install` installs and that cpack packs into Debian packages
# (package/debian.cmake). The target hawser_installed has to be built first.
#
#   component     what
#   runtime       libhawser.so.0
#   development   headers, the link to the library, the files for find_package and pkg-config
#   command       hawser, its manual page, the pages
#   provider      the provider for libfabric, which plugin/ofi installs if there are its headers
#   torch         the backend of torch.distributed, which plugin/torch installs in the preset `torch`
#
# The library is shared. It is made of a dozen archives of ours and six of DPDK, one of which has to
# be linked whole. An archive of all that would leave the linking, and all dependencies, to every
# user. A shared library needs one line to link, and shows only the API (libhawser.map).

include_guard(GLOBAL)
include(CMakePackageConfigHelpers)

# These objects have the API's functions; the archives have what those need.
add_library(hawser_shared SHARED $<TARGET_OBJECTS:hawser_engine> $<TARGET_OBJECTS:hawser_coll>
  $<TARGET_OBJECTS:hawser_coll_c>)
target_link_libraries(hawser_shared PRIVATE hawser_engine hawser_build)
target_include_directories(hawser_shared INTERFACE
  $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
set(map ${PROJECT_SOURCE_DIR}/cmake/libhawser.map)
target_link_options(hawser_shared PRIVATE
  -Wl,--version-script=${map} -Wl,--no-undefined -Wl,--gc-sections
  # The library has code that runs when a program exits, such as the logger's end: it stays loaded.
  -Wl,-z,nodelete)
# Before 1.0 a new minor version may change the C++ API's layouts, and then changes this number.
set_target_properties(hawser_shared PROPERTIES
  OUTPUT_NAME hawser EXPORT_NAME hawser LINKER_LANGUAGE CXX LINK_DEPENDS ${map}
  VERSION 0.${PROJECT_VERSION_MINOR}.${PROJECT_VERSION_PATCH} SOVERSION 0)

install(TARGETS hawser_shared EXPORT HawserTargets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT runtime NAMELINK_COMPONENT development)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/hawser DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
  COMPONENT development FILES_MATCHING PATTERN "*.hpp" PATTERN "*.h")

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/Hawser)
install(EXPORT HawserTargets NAMESPACE Hawser:: DESTINATION ${package_dir} COMPONENT development)
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/package/HawserConfig.cmake.in
  ${PROJECT_BINARY_DIR}/package/HawserConfig.cmake INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/package/HawserConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES
  ${PROJECT_BINARY_DIR}/package/HawserConfig.cmake
  ${PROJECT_BINARY_DIR}/package/HawserConfigVersion.cmake
  DESTINATION ${package_dir} COMPONENT development)

# The path from hawser.pc's folder to the prefix is relative, so that the prefix may be moved.
file(RELATIVE_PATH HAWSER_PC_TO_PREFIX /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
string(REGEX REPLACE "/$" "" HAWSER_PC_TO_PREFIX "${HAWSER_PC_TO_PREFIX}")
configure_file(${PROJECT_SOURCE_DIR}/cmake/package/hawser.pc.in
  ${PROJECT_BINARY_DIR}/package/hawser.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/package/hawser.pc
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT development)

if(TARGET hawser)
  install(TARGETS hawser RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT command)
  execute_process(COMMAND gzip -9nc ${PROJECT_SOURCE_DIR}/docs/hawser.1
    OUTPUT_FILE ${PROJECT_BINARY_DIR}/package/hawser.1.gz COMMAND_ERROR_IS_FATAL ANY)
  install(FILES ${PROJECT_BINARY_DIR}/package/hawser.1.gz DESTINATION ${CMAKE_INSTALL_MANDIR}/man1
    COMPONENT command)
endif()
foreach(page README.md CHANGELOG.md CODE_OF_CONDUCT.md CONTRIBUTING.md SECURITY.md LICENSE NOTICE)
  install(FILES ${PROJECT_SOURCE_DIR}/${page} DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT command)
endforeach()
install(DIRECTORY ${PROJECT_SOURCE_DIR}/docs DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT command
  FILES_MATCHING PATTERN "*.md" PATTERN "*.yaml" PATTERN "example.c*" PATTERN "ranks.c*")

# Builds all that is installed, and nothing else.
add_custom_target(hawser_installed DEPENDS hawser_shared)
foreach(target hawser hawser-fi hawser_torch)
  if(TARGET ${target})
    add_dependencies(hawser_installed ${target})
  endif()
endforeach()

include(${PROJECT_SOURCE_DIR}/cmake/package/debian.cmake)
