// SPDX-License-Identifier: Apache-2.0
// The files that a plan names.
#pragma once

#include <map>
#include <string>

namespace hawser::tool {

// Relative names are looked for beside the plan, then in the folder that HAWSER_WORKLOADS names.
class PlanInputs {
 public:
  // `workloads` may be empty: there is none.
  PlanInputs(std::string beside, std::string workloads)
      : beside_(std::move(beside)), workloads_(std::move(workloads)) {}

  // What the file holds; it is kept. Throws InputError if it can't be read: where it was looked
  // for, and `get`, how one comes by it, if that is known.
  [[nodiscard]] const std::string& content(const std::string& name, const std::string& get);

 private:
  std::string beside_;
  std::string workloads_;
  std::map<std::string, std::string> known_;
};

// The folder of a file; "." if its name has none.
[[nodiscard]] std::string folder_of(const std::string& file);
// All of a file. Throws InputError, `what` being what it should hold.
[[nodiscard]] std::string read_file(const std::string& file, const std::string& what);

}  // namespace hawser::tool
