// SPDX-License-Identifier: Apache-2.0
// The files that a plan names.
#pragma once

#include <map>
#include <string>

namespace hawser::tool {

// Looks for relative names beside the plan, then in the folder that HAWSER_WORKLOADS names.
class PlanInputs {
 public:
  // `workloads` may be empty: then there is none.
  PlanInputs(std::string beside, std::string workloads)
      : beside_(std::move(beside)), workloads_(std::move(workloads)) {}

  // The file's content, which is kept. Throws InputError if the file can't be read. The error says
  // where it was looked for, and `get`: how one obtains it, if that is known.
  [[nodiscard]] const std::string& content(const std::string& name, const std::string& get);

 private:
  std::string beside_;
  std::string workloads_;
  std::map<std::string, std::string> known_;
};

// The folder of a file; "." if its name has none.
[[nodiscard]] std::string folder_of(const std::string& file);

}  // namespace hawser::tool
