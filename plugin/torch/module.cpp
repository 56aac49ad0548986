// SPDX-License-Identifier: Apache-2.0
// The Python module hawser_torch._C.
#include <pybind11/chrono.h>
#include <torch/extension.h>

#include "plugin/torch/process_group.hpp"

namespace {

using hawser::torch_plugin::ProcessGroup;
using hawser::torch_plugin::PythonFailure;
using hawser::torch_plugin::RankFailure;
using hawser::torch_plugin::Transport;
using GroupPointer = c10::intrusive_ptr<c10d::ProcessGroup>;

// Raises what calls of this module throw. PyTorch's own calls throw a PythonFailure.
void raise(const std::string& text) {
  PyErr_SetString(PythonFailure(text).python_type(), text.c_str());
}

GroupPointer make_process_group(const c10::intrusive_ptr<c10d::Store>& store, int rank,
                                const std::vector<std::int64_t>& ranks,
                                std::chrono::milliseconds timeout) {
  return c10::make_intrusive<ProcessGroup>(store, rank, ranks, timeout);
}

// The new group, and its members' ranks in the world.
std::pair<GroupPointer, std::vector<std::uint32_t>> shrink(
    const GroupPointer& group, const std::vector<hawser::coll::Rank>& without) {
  auto* const ours = dynamic_cast<ProcessGroup*>(group.get());
  if (ours == nullptr) throw std::invalid_argument("shrink: this process group is not Hawser's");
  const c10::intrusive_ptr<ProcessGroup> made = ours->shrink(without);
  return {made, made->ranks()};
}

void inject_fault(std::size_t nic, const std::string& words) {
  Transport::existing()->inject_fault(nic, words);
}

py::list nics() {
  py::list list;
  for (const hawser::NicStats& nic : Transport::existing()->nics()) {
    py::dict row;
    row["name"] = nic.name;
    row["state"] = std::string(hawser::to_string(nic.state));
    row["packets_sent"] = nic.packets_sent;
    row["packets_received"] = nic.packets_received;
    row["packets_lost"] = nic.packets_lost;
    list.append(row);
  }
  return list;
}

}  // namespace

PYBIND11_MODULE(TORCH_EXTENSION_NAME, module) {
  py::register_exception_translator([](std::exception_ptr error) {
    try {
      if (error) std::rethrow_exception(error);
    } catch (const RankFailure& failure) {
      raise(failure.what());
    } catch (const PythonFailure& failure) {
      raise(failure.what());
    }
  });
  const auto blocks = py::call_guard<py::gil_scoped_release>();
  module.def("make_process_group", &make_process_group, py::arg("store"), py::arg("rank"),
             py::arg("ranks"), py::arg("timeout"), blocks);
  module.def("shrink", &shrink, py::arg("group"), py::arg("without"), blocks);
  module.def("shutdown", &Transport::end_of_process, blocks);
  module.def("inject_fault", &inject_fault, py::arg("nic"), py::arg("words"), blocks);
  module.def("nics", &nics);
}
