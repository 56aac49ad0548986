// SPDX-License-Identifier: Apache-2.0
// Presents a finished operation to the program.
#pragma once

#include <rdma/fi_eq.h>

#include <cstddef>
#include <string>

#include "plugin/ofi/operation.hpp"

namespace hawser::ofi {

// Returns the size of an entry of that format.
std::size_t write_entry(const Operation& operation, fi_cq_format format, std::byte* out);

// True if err_data has more to tell than the status' name. If not, err_data and err_data_size are
// not touched: programs leave them unset, in the hope that no provider uses them.
[[nodiscard]] bool has_details(Status status);

// `text` is empty or has details. It must then stay unchanged until the next error is read.
// `version` belongs to the program's fi_cq_err_entry, which lacks err_data_size before 1.5.
void write_error(const Operation& operation, const std::string& text, std::uint32_t version,
                 fi_cq_err_entry& entry);

// For fi_cq_strerror: `data` is an entry's err_data. Returns `out`, or a static string.
const char* error_text(int error, const void* data, char* out, std::size_t bytes);

// True if the session with the peer has ended, and with it all operations in progress.
[[nodiscard]] bool is_end_of_session(Status status);

// FI_E... for a completion's status other than ok.
[[nodiscard]] int error_of(Status status);
// -FI_E... for the status of a call.
[[nodiscard]] ssize_t answer_of(Status status);

}  // namespace hawser::ofi
