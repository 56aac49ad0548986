# SPDX-License-Identifier: Apache-2.0
# Where things are installed, known before the folders are read, so that each can name its own:
# CMAKE_INSTALL_* of GNUInstallDirs, and HAWSER_PROVIDER_DIR for providers of libfabric.

include_guard(GLOBAL)

# Debian's folder for libraries under any prefix: its libfabric looks for providers in
# /usr/lib/TRIPLET/libfabric and nowhere else, and one build makes the packages and local installations.
if(NOT DEFINED CMAKE_INSTALL_LIBDIR AND CMAKE_LIBRARY_ARCHITECTURE AND EXISTS /etc/debian_version)
  set(CMAKE_INSTALL_LIBDIR lib/${CMAKE_LIBRARY_ARCHITECTURE} CACHE PATH "Folder of libraries")
endif()
set(CMAKE_INSTALL_DOCDIR share/doc/hawser CACHE PATH "Folder of the pages")
include(GNUInstallDirs)

set(HAWSER_PROVIDER_DIR ${CMAKE_INSTALL_LIBDIR}/libfabric)
