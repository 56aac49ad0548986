#include <catch2/catch.hpp>
#include <string>

#include "tool/workload/files.hpp"

namespace hawser::tool {
namespace {

Workload parse(const std::string& text) { return parse_workload(Source("job.txt", text)); }

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
  CHECK(workload.warnings.empty());
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
      "all_gpus: 9216 checkpoints: 2 2 11 checkpoint_initiates: 0 pp_comm 50331648\n"
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
  CHECK(error_of("\n \n") == "job.txt:1: the file is empty");
  CHECK(error_of("DATA\n") == "job.txt:1: expected the parallelism, then the number of layers");
  CHECK(error_of("\nDATA\n1\n" + layer) ==
        "job.txt:1: expected the parallelism, found an empty line");
  CHECK(error_of("DATER\n1\n" + layer).rfind("job.txt:1: 'DATER' is no parallelism", 0) == 0);
  CHECK(error_of("HYBRID_TRANSFORMER ep 4\n1\n" + layer) ==
        "job.txt:1: expected a key such as 'ep:', not 'ep'");
  CHECK(error_of("HYBRID_TRANSFORMER ep:\n1\n" + layer) == "job.txt:1: 'ep:' has no number");
  CHECK(error_of("HYBRID_TRANSFORMER ep: x\n1\n" + layer) ==
        "job.txt:1: 'ep:' must be a whole number, not 'x'");
  // Nothing of the file goes to the terminal as it is.
  CHECK(error_of("HYBRID_TRANSFORMER \033[2J: x\n1\n" + layer) ==
        "job.txt:1: '?[2J:' must be a whole number, not 'x'");
  CHECK(error_of(std::string(kMaxLines + 1, '\n')) ==
        "job.txt:8000001: a workload has at most 8000000 lines");
  CHECK(error_of("HYBRID_TRANSFORMER ep: 0\n1\n" + layer) ==
        "job.txt:1: ep: 0: a group has 1 to 1000000 ranks");
  CHECK(error_of(kHeader + "many\n" + layer) ==
        "job.txt:2: number of layers must be a whole number, not 'many'");
  CHECK(error_of(kHeader + "1\n") == "job.txt:2: no layer follows");
  CHECK(error_of(kHeader + "1\n" + layer + layer) ==
        "job.txt:4: line 2 announces 1 layers, here is one more");
  CHECK(error_of(kHeader + "1\nx -1 1 ALLREDUCE 8 1 NONE\n") ==
        "job.txt:3: a layer has 12 fields, this line 7");
  CHECK(error_of(kHeader + "1\nx -1 1 ALLREDUCE -8 1 NONE 0 1 NONE 0 1\n") ==
        "job.txt:3: forward bytes must be a whole number, not '-8'");
  CHECK(error_of(kHeader + "1\nx -1 1 ALLREDUCE 8 1 NONE 0 1 NONE 1e6 1\n") ==
        "job.txt:3: weight gradient bytes must be a whole number, not '1e6'");
  CHECK(error_of(kHeader + "1\nx -1 1 ALLREDUCE 99999999999999999999 1 NONE 0 1 NONE 0 1\n") ==
        "job.txt:3: forward bytes is '99999999999999999999'; the most is 1125899906842624");
  CHECK(error_of(kHeader + "1\nx -1 1 ALLREDUCEALLTOALL 8 1 NONE 0 1 NONE 0 1\n")
            .rfind("job.txt:3: forward type 'ALLREDUCEALLTOALL' is unknown", 0) == 0);
  CHECK(error_of(kHeader + "1\nx -1 soon ALLREDUCE 8 1 NONE 0 1 NONE 0 1\n") ==
        "job.txt:3: time must be a whole number, not 'soon'");
  CHECK(error_of("DATA\n1\n" + layer) == "job.txt:2: no layer communicates");
}

TEST_CASE("astra_text: fewer layers than announced is a warning") {
  const Workload workload = parse(kHeader + "839\nx -1 1 ALLREDUCE 8 1 NONE 0 1 NONE 0 1\n");
  CHECK(workload.step.size() == 1);
  REQUIRE(workload.warnings.size() == 1);
  CHECK(workload.warnings[0] == "job.txt:2: announces 839 layers, the file has 1");
}

}  // namespace
}  // namespace hawser::tool
