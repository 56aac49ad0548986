// SPDX-License-Identifier: Apache-2.0
// Damaged workload files. Whatever its bytes, each is either accepted as a workload within the
// limits, or refused with the file's name and one of its lines.
#include <algorithm>
#include <catch2/catch.hpp>
#include <random>
#include <string>

#include "tool/error.hpp"
#include "tool/workload/files.hpp"

namespace hawser::tool {
namespace {

const std::string kText =
    "HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: 2 ep: 4 pp: 1 all_gpus: 8 "
    "checkpoints: 1 0 checkpoint_initiates: 0\n"
    "3\n"
    "embedding\t-1\t1\tALLREDUCE\t100\t1\tNONE\t0\t1\tNONE\t0\t1\n"
    "mlp\t-1\t1\tALLTOALL_EP\t200\t1\tALLGATHER\t16\t1\tREDUCESCATTER_DP_EP\t32\t1\r\n"
    "head\t0\t1\tBROADCAST\t8\t1\tNONE\t0\t1\tALLREDUCE\t64\t1\n";
const std::string kCsv =
    "[ pp_stage0: [rank0] ]\n"
    "comm_type,comm_group,comm_group_size,msg_size,stage,dst,src,additional,_elapsed_time,count\n"
    "CommType.broadcast,CommGroup.tp_group,8,24,init,None,0,,None,1\n"
    "CommType.epoch_end,None,None,0,,None,None,,None,1\n"
    "CommType.all_reduce,CommGroup.dp_group,16,4096,forward,None,None,,None,1\n"
    "CommType.isend,CommGroup.pp_group,1,64,forward,None,None,send_next,None,1\n"
    "[ pp_stage1: [rank1] ]\n"
    "comm_type,comm_group,comm_group_size,msg_size,stage,dst,src,additional,_elapsed_time,count\n"
    "CommType.irecv,CommGroup.pp_group,1,64,forward,None,None,recv_prev,None,1\n";

class Damage {
 public:
  explicit Damage(std::uint64_t seed) : random_(seed) {}

  std::string operator()(std::string text) {
    for (std::uint64_t changes = 1 + below(4); changes > 0; --changes) change(text);
    return text;
  }

 private:
  std::uint64_t below(std::uint64_t n) { return random_() % n; }

  void change(std::string& text) {
    if (text.empty()) return;
    const std::size_t at = below(text.size());
    switch (below(7)) {
      case 0: text[at] = static_cast<char>(below(256)); break;
      case 1: text.erase(at, 1 + below(8)); break;
      case 2: text.insert(at, text.substr(below(text.size()), below(40))); break;
      case 3: text.resize(at); break;
      case 4: text.insert(at, "99999999999999999999"); break;
      case 5: text.insert(at, 1, "\n\r\t,:-0"[below(7)]); break;
      case 6: text.insert(at, 1 + below(300), static_cast<char>(below(256))); break;
    }
  }

  std::mt19937_64 random_;
};

// Counts lines as editors do. A file that is no text is refused in its first line.
std::size_t lines_of(const std::string& text) {
  return 1 +
         static_cast<std::size_t>(std::ranges::count(text, '\n') + std::ranges::count(text, '\r'));
}

void check_within_limits(const Workload& workload) {
  REQUIRE_FALSE(workload.step.empty());
  for (const auto* phases : {&workload.init, &workload.step}) {
    for (const Phase& phase : *phases) {
      REQUIRE(phase.bytes <= kMaxPhaseBytes);
      REQUIRE(phase.stage.size() <= 130);
    }
  }
}

void damage_and_parse(const std::string& original, std::uint64_t first_seed) {
  std::size_t accepted = 0;
  constexpr std::uint64_t kRounds = 20'000;
  for (std::uint64_t seed = first_seed; seed < first_seed + kRounds; ++seed) {
    const std::string text = Damage(seed)(original);
    INFO("seed " << seed);
    try {
      check_within_limits(parse_workload("job", text));
      ++accepted;
    } catch (const InputError& error) {
      const std::string what = error.what();
      const std::size_t end = what.find(": ", 4);
      REQUIRE(what.rfind("job:", 0) == 0);
      REQUIRE(end != std::string::npos);
      const unsigned long line = std::stoul(what.substr(4, end - 4));
      REQUIRE(line >= 1);
      REQUIRE(line <= lines_of(text) + 1);
      REQUIRE(what.find_first_of("\n\r") == std::string::npos);
    }
  }
  // Both outcomes occur, so the test checks both.
  CHECK(accepted > kRounds / 100);
  CHECK(accepted < kRounds * 9 / 10);
}

TEST_CASE("workload_mutation: text") {
  REQUIRE(parse_workload("job", kText).step.size() == 6);
  damage_and_parse(kText, 1);
}

TEST_CASE("workload_mutation: csv") {
  REQUIRE(parse_workload("job", kCsv).step.size() == 2);
  damage_and_parse(kCsv, 1'000'000);
}

}  // namespace
}  // namespace hawser::tool
