// SPDX-License-Identifier: Apache-2.0
// The folder of an experiment's results. Files get their names when all of them are complete, and
// then replace older files of these names. Nothing else in the folder is touched.
#pragma once

#include <fstream>
#include <map>
#include <string>
#include <string_view>

namespace hawser::tool {

class ResultsFolder {
 public:
  // Makes the folder if it is not there. Throws InputError, as all calls do, if it can't be
  // written.
  explicit ResultsFolder(std::string folder);
  ~ResultsFolder();  // removes unfinished files
  ResultsFolder(const ResultsFolder&) = delete;
  ResultsFolder& operator=(const ResultsFolder&) = delete;

  // Appends to the file, which the first call creates.
  void write(const std::string& name, std::string_view text);
  void finish();

 private:
  [[nodiscard]] std::string path(const std::string& name) const { return folder_ + "/" + name; }
  [[nodiscard]] std::string part(const std::string& name) const { return path(name) + ".part"; }

  std::string folder_;
  bool made_folder_ = false;
  std::map<std::string, std::ofstream> files_;
};

}  // namespace hawser::tool
