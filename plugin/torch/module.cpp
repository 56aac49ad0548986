// SPDX-License-Identifier: Apache-2.0
// The Python module hawser_torch._C.
#include <pybind11/chrono.h>
#include <torch/extension.h>

#include "plugin/torch/process_group.hpp"

namespace {

using hawser::torch_plugin::ProcessGroup;
using hawser::torch_plugin::RankFailure;
using hawser::torch_plugin::Transport;

// Raises hawser_torch.RankFailure with its rank and status.
void raise(const RankFailure& failure) {
  const py::object type = py::module_::import("hawser_torch").attr("RankFailure");
  const py::object made =
      type(failure.what(), failure.rank(), std::string(hawser::to_string(failure.status())));
  PyErr_SetObject(type.ptr(), made.ptr());
}

}  // namespace

PYBIND11_MODULE(TORCH_EXTENSION_NAME, module) {
  py::register_exception_translator([](std::exception_ptr error) {
    try {
      if (error) std::rethrow_exception(error);
    } catch (const RankFailure& failure) {
      raise(failure);
    }
  });
  module.def(
      "make_process_group",
      [](const c10::intrusive_ptr<c10d::Store>& store, int rank,
         const std::vector<std::int64_t>& ranks, std::chrono::milliseconds timeout) {
        const py::gil_scoped_release release;
        return c10::static_intrusive_pointer_cast<c10d::ProcessGroup>(
            c10::make_intrusive<ProcessGroup>(store, rank, ranks, timeout));
      },
      py::arg("store"), py::arg("rank"), py::arg("ranks"), py::arg("timeout"));
  module.def("shutdown", &Transport::end_of_process, py::call_guard<py::gil_scoped_release>());
  module.def(
      "inject_fault",
      [](std::size_t nic, const std::string& words) {
        Transport::of_process()->inject_fault(nic, words);
      },
      py::arg("nic"), py::arg("words"), py::call_guard<py::gil_scoped_release>());
  module.def("nics", [] {
    py::list list;
    for (const hawser::NicStats& nic : Transport::of_process()->nics()) {
      py::dict row;
      row["name"] = nic.name;
      row["state"] = std::string(hawser::to_string(nic.state));
      row["packets_sent"] = nic.packets_sent;
      row["packets_received"] = nic.packets_received;
      row["packets_lost"] = nic.packets_lost;
      list.append(row);
    }
    return list;
  });
}
