// SPDX-License-Identifier: Apache-2.0
#include "proto/base/pages.hpp"

#include <sys/mman.h>

#include <new>

namespace hawser::proto {

void* take_pages(std::size_t bytes) {
  void* const pages =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED) throw std::bad_alloc();
  return pages;
}

void give_pages(void* pages, std::size_t bytes) noexcept { ::munmap(pages, bytes); }

}  // namespace hawser::proto
