// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>
#include <string>

#include "sim/input/text.hpp"
#include "tool/error.hpp"
#include "tool/workload/files.hpp"

namespace hawser::tool {
namespace {

Workload parse(const std::string& text) { return parse_workload("job.txt", text); }

std::string error_of(const std::string& text) {
  try {
    (void)parse(text);
  } catch (const InputError& error) {
    return error.what();
  }
  return "accepted";
}

const std::string kHeader = "HYBRID_TRANSFORMER\tmodel_parallel_NPU_group: 4\n";

TEST_CASE("astra_text: a step is forward, then backward with inputs before weights") {
  const Workload workload = parse(
      "HYBRID_TRANSFORMER\tmodel_parallel_NPU_group: 4\t\t\r\n"
      "2\t\t\r\n"
      "a\t-1\t10\tALLGATHER\t100\t5\tREDUCESCATTER\t200\t5\tALLREDUCE\t300\t1\r\n"
      "b\t0\t10\tNONE\t0\t5   ALLTOALL_EP\t400\t5\tALLREDUCE_DP_EP\t500\t1\r\n");
  REQUIRE(workload.step.size() == 5);
  CHECK(workload.init.empty());
  REQUIRE(workload.warnings.size() == 1);
  CHECK(workload.warnings[0].starts_with("job.txt:4: the second field, a layer's dependency"));
  CHECK(workload.sizes[GroupKind::tensor] == 4);
  struct Expected {
    Operation operation;
    GroupKind group;
    std::uint64_t bytes;
    std::string stage;
  };
  const std::vector<Expected> expected{
      {Operation::all_gather, GroupKind::tensor, 100, "forward a"},
      {Operation::all_to_all, GroupKind::expert, 400, "input gradient b"},
      {Operation::all_reduce, GroupKind::expert_data, 500, "weight gradient b"},
      {Operation::reduce_scatter, GroupKind::tensor, 200, "input gradient a"},
      {Operation::all_reduce, GroupKind::data, 300, "weight gradient a"},
  };
  for (std::size_t i = 0; i < expected.size(); ++i) {
    INFO(i);
    CHECK(workload.step[i].operation == expected[i].operation);
    CHECK(workload.step[i].group == expected[i].group);
    CHECK(workload.step[i].bytes == expected[i].bytes);
    CHECK(workload.step[i].stage == expected[i].stage);
  }
}

TEST_CASE("astra_text: group sizes come from the first line") {
  const Workload workload = parse(
      "HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: 2 ep: 16 pp: 12 vpp: 8 ga: 24 "
      "all_gpus: 9216 checkpoints: 1 0 checkpoint_initiates: 0 pp_comm 50331648\n"
      "1\n"
      "x -1 1 ALLREDUCE 8 1 NONE 0 1 NONE 0 1\n");
  CHECK(workload.sizes[GroupKind::tensor] == 2);
  CHECK(workload.sizes[GroupKind::expert] == 16);
  CHECK(workload.sizes[GroupKind::pipeline] == 12);
  CHECK(workload.sizes[GroupKind::data] == 9216 / 24);
}

TEST_CASE("astra_text: the parallelism says which passes communicate") {
  const std::string layer = "x -1 1 ALLREDUCE 8 1 ALLREDUCE 16 1 ALLREDUCE 32 1\n";
  const Workload data = parse("DATA\n1\n" + layer);
  REQUIRE(data.step.size() == 1);
  CHECK(data.step[0].bytes == 32);
  CHECK(data.step[0].group == GroupKind::world);

  const Workload model = parse("MODEL\n1\n" + layer);
  REQUIRE(model.step.size() == 2);
  CHECK(model.step[1].bytes == 16);

  // DLRM's first layer, the embedding tables, is spread over all ranks; the others are replicas.
  const Workload dlrm = parse("HYBRID_DLRM 4\n2\n" + layer + layer);
  REQUIRE(dlrm.step.size() == 4);
  CHECK(dlrm.step[0].bytes == 8);
  CHECK(dlrm.step[1].bytes == 32);

  const Workload custom = parse(
      "HYBRID_CUSTOMIZED\n2\nx -1 1 ALLREDUCE 8 1 NONE 0 1 NONE 0 1 DATA\n"
      "y -1 1 ALLREDUCE 8 1 NONE 0 1 NONE 0 1 MODEL\n");
  REQUIRE(custom.step.size() == 1);
  CHECK(custom.step[0].stage == "forward y");
}

TEST_CASE("astra_text: what is wrong is said with file and line") {
  const std::string layer = "x -1 1 ALLREDUCE 8 1 NONE 0 1 NONE 0 1\n";
  CHECK(error_of("") == "job.txt:1: the file is empty");
  CHECK(error_of("\n \n# nothing\n") == "job.txt:1: the file is empty");
  CHECK(error_of("DATA\n") ==
        "job.txt:1: a workload begins with its parallelism and its count of layers");
  CHECK(
      error_of("DATER\n1\n" + layer).starts_with("job.txt:1: 'DATER' is not a known parallelism"));
  CHECK(error_of("\nDATER\n1\n" + layer)
            .starts_with("job.txt:2: 'DATER' is not a known parallelism"));
  CHECK(error_of("HYBRID_TRANSFORMER ep 4\n1\n" + layer) ==
        "job.txt:1: a key such as 'ep:' is expected instead of 'ep'");
  CHECK(error_of("HYBRID_TRANSFORMER ep:\n1\n" + layer) == "job.txt:1: 'ep' has no value");
  CHECK(error_of("HYBRID_TRANSFORMER ep: x\n1\n" + layer) ==
        "job.txt:1: ep must be a whole number, not 'x'");
  // The command prints nothing of the file to the terminal without escaping it.
  CHECK(error_of("HYBRID_TRANSFORMER \033[2J x\n1\n" + layer) ==
        "job.txt:1: a key such as 'ep:' is expected instead of '?[2J'");
  CHECK(error_of(std::string(fabric::Text::kMostLines + 1, '\n')) ==
        "job.txt:8000001: a file has at most 8000000 lines");
  CHECK(error_of("HYBRID_TRANSFORMER ep: 0\n1\n" + layer) ==
        "job.txt:1: ep is '0', but must be 1 to 1048576");
  CHECK(error_of(kHeader + "many\n" + layer) ==
        "job.txt:2: the count of layers must be a whole number, not 'many'");
  CHECK(error_of(kHeader + "1\n") == "job.txt:2: no layer follows");
  CHECK(error_of(kHeader + "1\n" + layer + layer) ==
        "job.txt:4: 1 layers are announced in line 2, and this is one more");
  CHECK(error_of(kHeader + "1\nx -1 1 ALLREDUCE 8 1 NONE\n") ==
        "job.txt:3: a layer has 12 fields, not 7");
  CHECK(error_of(kHeader + "1\nx -1 1 ALLREDUCE -8 1 NONE 0 1 NONE 0 1\n") ==
        "job.txt:3: the forward pass's bytes must be a whole number, not '-8'");
  CHECK(error_of(kHeader + "1\nx -1 1 ALLREDUCE 8 1 NONE 0 1 NONE 1e6 1\n") ==
        "job.txt:3: the weight gradient's bytes must be a whole number, not '1e6'");
  CHECK(error_of(kHeader + "1\nx -1 1 ALLREDUCE 99999999999999999999 1 NONE 0 1 NONE 0 1\n") ==
        "job.txt:3: the forward pass's bytes is '99999999999999999999', but must be 0 to "
        "1099511627776");
  CHECK(error_of(kHeader + "1\nx -1 1 ALLREDUCEALLTOALL 8 1 NONE 0 1 NONE 0 1\n")
            .starts_with("job.txt:3: the forward pass's type is 'ALLREDUCEALLTOALL', but must be"));
  CHECK(error_of(kHeader + "1\nx -1 soon ALLREDUCE 8 1 NONE 0 1 NONE 0 1\n") ==
        "job.txt:3: the forward pass's time must be a number, not 'soon'");
  CHECK(error_of("DATA\n1\n" + layer) == "job.txt:1: nothing in the file communicates");
}

TEST_CASE("astra_text: layers after a checkpoint go forward again before they go backward") {
  const Workload workload = parse(
      "HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: 4 checkpoints: 1 0 "
      "checkpoint_initiates: 1 1\n2\n"
      "a -1 1 ALLREDUCE 8 1 ALLREDUCE 16 1 NONE 0 1\nb -1 1 ALLREDUCE 32 1 NONE 0 1 NONE 0 1\n");
  std::vector<std::string> stages;
  for (const Phase& phase : workload.step) stages.push_back(phase.stage);
  CHECK(stages ==
        std::vector<std::string>{"forward a", "forward b", "forward a", "input gradient a"});
}

TEST_CASE("astra_text: stages pass on what they compute, forward and backward") {
  const std::string layer = "1\nx -1 1 ALLREDUCE 8 1 NONE 0 1 NONE 0 1\n";
  const std::string head = "HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: 2 pp: 2 ";
  for (const char* said : {"pp_comm: 8388608.0", "pp_comm: 8388608", "pp_comm 8388608"}) {
    INFO(said);
    const Workload workload = parse(head + said + "\n" + layer);
    REQUIRE(workload.step.size() == 3);
    CHECK(workload.step[1].operation == Operation::shift_next);
    CHECK(workload.step[2].operation == Operation::shift_prev);
    CHECK(workload.step[2].group == GroupKind::pipeline);
    CHECK(workload.step[2].bytes == 8388608);
    CHECK(workload.sizes[GroupKind::pipeline] == 2);
  }
  CHECK(parse(head + "pp_comm: None\n" + layer).step.size() == 1);
}

TEST_CASE("astra_text: fewer layers than announced is a warning") {
  const Workload workload = parse(kHeader + "839\nx -1 1 ALLREDUCE 8 1 NONE 0 1 NONE 0 1\n");
  CHECK(workload.step.size() == 1);
  REQUIRE(workload.warnings.size() == 1);
  CHECK(workload.warnings[0] ==
        "job.txt:2: 839 layers are announced, but 1 follow: is the file whole?");
}

// 2000 layers, each of which all before it go before once more.
TEST_CASE("astra_text: a step has no more calls than one of a csv") {
  std::string text = "HYBRID_TRANSFORMER_FWD_IN_BCKWD checkpoints: 1 0 checkpoint_initiates: 2000";
  for (int i = 0; i < 2000; ++i) text += " " + std::to_string(i);
  text += "\n2000\n";
  for (int i = 0; i < 2000; ++i) text += "a -1 1 ALLGATHER 8 1 NONE 0 1 NONE 0 1\n";
  CHECK_THAT(error_of(text), Catch::Matches("job\\.txt:[0-9]+: more than 1000000 calls in one "
                                            "iteration"));
}

}  // namespace
}  // namespace hawser::tool
