# SPDX-License-Identifier: Apache-2.0
# Sets the installation folders: CMAKE_INSTALL_* of GNUInstallDirs, HAWSER_PROVIDER_DIR for providers
# of libfabric, and HAWSER_PYTHON_DIR for packages of Python. The folders of the tree are read after
# this, so that they can use them.

include_guard(GLOBAL)

# Use Debian's folder for libraries under any prefix. Its libfabric looks for providers only in
# /usr/lib/TRIPLET/libfabric, and one build makes both the packages and local installations.
if(NOT DEFINED CMAKE_INSTALL_LIBDIR AND CMAKE_LIBRARY_ARCHITECTURE AND EXISTS /etc/debian_version)
  set(CMAKE_INSTALL_LIBDIR lib/${CMAKE_LIBRARY_ARCHITECTURE} CACHE PATH "Folder of libraries")
endif()
set(CMAKE_INSTALL_DOCDIR share/doc/hawser CACHE PATH "Folder of the pages")
include(GNUInstallDirs)

set(HAWSER_PROVIDER_DIR ${CMAKE_INSTALL_LIBDIR}/libfabric)
set(HAWSER_PYTHON_DIR lib/python3/dist-packages)
