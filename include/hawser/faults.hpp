// SPDX-License-Identifier: Apache-2.0
// The words of fault injection, which EngineConfig::faults and Engine::inject_fault take.
//
// A specification is a list of words with commas between them, such as
// "loss=0.001,duplicate=0.01,reorder=0.05,corrupt=0.001,seed=7". docs/faults.md has the grammar and
// what each word does.
#pragma once

#include <string>
#include <string_view>

namespace hawser {

// Checks `spec`. Returns a sentence that names the wrong word, or "" if all words are right.
// Opens no NIC. It therefore accepts a word that a particular NIC can't do ("corrupt" where packets
// carry no checksum of Hawser's) and that the NIC would refuse.
[[nodiscard]] std::string complaint_about_faults(std::string_view spec);

}  // namespace hawser
