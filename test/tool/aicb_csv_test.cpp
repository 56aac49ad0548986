// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>
#include <string>

#include "tool/error.hpp"
#include "tool/workload/files.hpp"

namespace hawser::tool {
namespace {

const std::string kHeader =
    "comm_type,comm_group,comm_group_size,msg_size,stage,dst,src,additional,_elapsed_time,algbw,"
    "busbw,count\n";
const std::string kTail = ",None,None,1\n";

std::string call(const std::string& type, const std::string& group, const std::string& size,
                 const std::string& bytes, const std::string& stage,
                 const std::string& additional = "") {
  return "CommType." + type + "," + group + "," + size + "," + bytes + "," + stage + ",None,None," +
         additional + ",None" + kTail;
}
std::string all_reduce(const std::string& bytes) {
  return call("all_reduce", "CommGroup.tp_group", "8", bytes, "forward");
}
const std::string kEpochEnd = call("epoch_end", "None", "None", "0", "");

Workload parse(const std::string& text) { return parse_workload("job.csv", text); }

std::string error_of(const std::string& text) {
  try {
    (void)parse(text);
  } catch (const InputError& error) {
    return error.what();
  }
  return "accepted";
}

TEST_CASE("aicb_csv: the first epoch is set-up, the others are the step") {
  const Workload workload = parse(
      "[rank0 ~ rank127]\n" + kHeader + call("broadcast", "CommGroup.tp_group", "8", "24", "init") +
      call("barrier", "CommGroup.all", "128", "0", "init") + kEpochEnd + all_reduce("100") +
      call("all_to_all", "CommGroup.ep_group", "4", "200", "moe") + kEpochEnd +
      call("all_gather", "CommGroup.dp_group", "16", "300", "step") + kEpochEnd);
  REQUIRE(workload.init.size() == 2);
  CHECK(workload.init[0].operation == Operation::broadcast);
  CHECK(workload.init[1].operation == Operation::barrier);
  CHECK(workload.init[1].group == GroupKind::world);
  REQUIRE(workload.step.size() == 3);
  CHECK(workload.step[0].operation == Operation::all_reduce);
  CHECK(workload.step[0].bytes == 100);
  CHECK(workload.step[0].stage == "forward");
  CHECK(workload.step[1].group == GroupKind::expert);
  CHECK(workload.step[2].group == GroupKind::data);
  CHECK(workload.sizes[GroupKind::tensor] == 8);
  CHECK(workload.sizes[GroupKind::data] == 16);
  CHECK(workload.sizes[GroupKind::expert] == 4);
}

TEST_CASE("aicb_csv: a file of one epoch has no set-up") {
  const Workload workload = parse(kHeader + all_reduce("100") + all_reduce("200") + kEpochEnd);
  CHECK(workload.init.empty());
  CHECK(workload.step.size() == 2);
}

TEST_CASE("aicb_csv: columns are found by name, comm_group_size may be absent") {
  const Workload workload = parse(
      "comm_type,comm_group,msg_size,stage,dst,src,additional,_elapsed_time,algbw,busbw,count\n"
      "CommType.all_to_all,CommGroup.dp_group,4096,warmup,None,None,,None,None,None,1\n");
  REQUIRE(workload.step.size() == 1);
  CHECK(workload.step[0].bytes == 4096);
  CHECK(workload.sizes[GroupKind::data] == 0);
}

TEST_CASE("aicb_csv: columns may come in any order, and behind an index") {
  for (const char* const text : {"msg_size,comm_type,comm_group\n4096,all_reduce,tp_group\n",
                                 ",comm_type,comm_group,msg_size\n0,all_reduce,tp_group,4096\n",
                                 "\tcomm_type\tcomm_group\tmsg_size\tdst\n"
                                 "0\tall_reduce\ttp_group\t4096\t\n",
                                 "[rank0 ~ rank1],,\n,,\nmsg_size,comm_type,comm_group\n"
                                 "4096,all_reduce,tp_group\n"}) {
    INFO(text);
    const Workload workload = parse(text);
    REQUIRE(workload.step.size() == 1);
    CHECK(workload.step[0].bytes == 4096);
    CHECK(workload.warnings.empty());
  }
}

TEST_CASE("aicb_csv: groups of tensor and expert are apart from expert groups") {
  const Workload workload =
      parse(kHeader + call("all_reduce", "CommGroup.tp_group", "2", "100", "forward") +
            call("all_to_all", "CommGroup.ep_group", "4", "200", "moe") +
            call("all_gather", "CommGroup.ep_tp_group", "8", "300", "moe"));
  REQUIRE(workload.step.size() == 3);
  CHECK(workload.step[1].group == GroupKind::expert);
  CHECK(workload.step[2].group == GroupKind::expert_tensor);
  CHECK(workload.sizes[GroupKind::expert] == 4);
  CHECK(workload.sizes[GroupKind::expert_tensor] == 8);
}

TEST_CASE("aicb_csv: transfers of the first stage move every pipeline") {
  const std::string stages =
      "[ pp_stage0: [rank0, rank1] ]\n" + kHeader +
      call("isend", "CommGroup.pp_group", "1", "64", "forward_step", "send_next") +
      call("irecv", "CommGroup.pp_group", "1", "64", "backward_step", "recv_next") +
      "[ pp_stage1: [rank2, rank3] ]\n" + kHeader +
      call("irecv", "CommGroup.pp_group", "1", "64", "forward_step", "recv_prev") +
      call("isend", "CommGroup.pp_group", "1", "64", "backward_step", "send_prev");
  const Workload workload = parse(stages);
  REQUIRE(workload.step.size() == 2);
  CHECK(workload.step[0].operation == Operation::shift_next);
  CHECK(workload.step[1].operation == Operation::shift_prev);
  CHECK(workload.sizes[GroupKind::pipeline] == 2);
  CHECK(workload.warnings.size() == 1);
  // The reader checks the other sections, too.
  CHECK(error_of(stages + "nonsense\n") == "job.csv:9: a call has 12 fields, not 1");
}

TEST_CASE("aicb_csv: what is wrong is said with file and line") {
  CHECK(error_of("[rank0 ~ rank1]\nCommType.all_reduce\n") ==
        "job.csv:2: the columns (comm_type,comm_group,...) must be named before the first call");
  CHECK(error_of("comm_type,comm_group,stage,additional\n") ==
        "job.csv:1: the column msg_size is missing");
  CHECK(error_of(kHeader) == "job.csv:1: there are no calls");
  CHECK(error_of(kHeader + "CommType.all_reduce,CommGroup.tp_group,8,100,x\n") ==
        "job.csv:2: a call has 12 fields, not 5");
  CHECK(error_of(kHeader + all_reduce("1.5")) ==
        "job.csv:2: msg_size must be a whole number, not '1.5'");
  CHECK(error_of(kHeader + all_reduce("1") + "\n" + all_reduce("")) ==
        "job.csv:4: msg_size must be a whole number, not ''");
  CHECK(error_of(kHeader + call("all_reduce", "CommGroup.xx_group", "8", "1", "x")) ==
        "job.csv:2: comm_group is 'CommGroup.xx_group', which is not a known group");
  CHECK(error_of(kHeader + call("all_produce", "CommGroup.tp_group", "8", "1", "x"))
            .starts_with("job.csv:2: comm_type is 'CommType.all_produce', which is unknown"));
  CHECK(error_of(kHeader + call("all_reduce", "CommGroup.tp_group", "0", "1", "x")) ==
        "job.csv:2: comm_group_size is '0', but must be 1 to 1048576");
  CHECK(error_of(kHeader + call("isend", "CommGroup.pp_group", "1", "1", "x", "sideways")) ==
        "job.csv:2: additional is 'sideways', but of isend it is send_next or send_prev");
}

TEST_CASE("aicb_csv: a call is made as often as its count says") {
  const std::string line =
      "CommType.all_reduce,CommGroup.dp_group,4,65536,fwd,None,None,,None,None,None,";
  CHECK(parse(kHeader + line + "3\n").step.size() == 3);
  CHECK(parse(kHeader + line + "None\n").step.size() == 1);
  CHECK(error_of(kHeader + line + "1000001\n") ==
        "job.csv:2: more than 1000000 calls in one iteration");
  CHECK(error_of(kHeader + line + "4000001\n") ==
        "job.csv:2: count is '4000001', but must be 1 to 4000000");
  CHECK(error_of(kHeader + line + "4000000\n" + line + "1\n") ==
        "job.csv:3: a workload has at most 4000000 calls");
}

TEST_CASE("aicb_csv: a reduce goes to the first rank of its group") {
  const Workload workload =
      parse(kHeader + call("reduce", "CommGroup.dp_group", "4", "4096", "sync"));
  REQUIRE(workload.step.size() == 1);
  CHECK(workload.step[0].operation == Operation::reduce);
  CHECK(workload.step[0].group == GroupKind::data);
}

}  // namespace
}  // namespace hawser::tool
