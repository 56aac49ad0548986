// SPDX-License-Identifier: Apache-2.0
#include "plugin/ofi/log.hpp"

#include <unistd.h>

#include <cerrno>
#include <mutex>
#include <set>

#include "plugin/ofi/provider.hpp"
#include "plugin/ofi/uncancelled.hpp"

// Included after ours, because it uses errno without including it.
#include <rdma/providers/fi_log.h>

namespace hawser::ofi {

void log_info(const std::string& text) {
  const Uncancelled uncancelled;
  FI_INFO(&provider(), FI_LOG_CORE, "%s\n", text.c_str());
}

void log_warning(const std::string& text) {
  const Uncancelled uncancelled;
  FI_WARN(&provider(), FI_LOG_CORE, "%s\n", text.c_str());
}

void complain(const std::string& text) {
  static std::mutex mutex;
  static std::set<std::string> said;
  const std::lock_guard lock(mutex);
  if (!said.insert(text).second) return;
  log_warning(text);
  say("libfabric provider hawser: " + text + "\n");
}

void say(const std::string& text) {
  const Uncancelled uncancelled;
  // One call, so that lines of several processes don't mix.
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, text.data(), text.size());
}

}  // namespace hawser::ofi
