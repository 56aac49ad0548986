// SPDX-License-Identifier: Apache-2.0
// How a finished operation looks to the program.
#pragma once

#include <rdma/fi_eq.h>

#include <cstddef>
#include <string>

#include "plugin/ofi/operation.hpp"

namespace hawser::ofi {

// Returns how many bytes an entry of that format takes.
std::size_t write_entry(const Operation& operation, fi_cq_format format, std::byte* out);

// Whether err_data has more to tell than the status' name. Where not, nothing is made of err_data
// and err_data_size: programs leave them unset, hoping that no provider has anything to say.
[[nodiscard]] bool has_details(Status status);

// `text`: empty, or details, and then it stays as it is until the next error is read.
// `version`: of the program's fi_cq_err_entry, which ends before err_data_size before 1.5.
void write_error(const Operation& operation, const std::string& text, std::uint32_t version,
                 fi_cq_err_entry& entry);

// fi_cq_strerror: `data` is an entry's err_data. Returns `out`, or a static string.
const char* error_text(int error, const void* data, char* out, std::size_t bytes);

// Whether the session with the peer has ended, and with it all that was under way.
[[nodiscard]] bool is_end_of_session(Status status);

// FI_E... for a completion's status that is not ok.
[[nodiscard]] int error_of(Status status);
// -FI_E... for a call's.
[[nodiscard]] ssize_t answer_of(Status status);

}  // namespace hawser::ofi
