// SPDX-License-Identifier: Apache-2.0
// Readers of training workloads: every sample, known contents, broken files, and randomly damaged
// texts.
#include <algorithm>
#include <catch2/catch.hpp>
#include <initializer_list>
#include <map>
#include <optional>

#include "proto/base/random.hpp"
#include "sim/input/aicb.hpp"
#include "sim/input/text_workload.hpp"
#include "sim/traffic/training.hpp"
#include "test/sim/fabric/samples.hpp"

namespace hawser::fabric {
namespace {

bool have_workloads() {
  for (const char* folder : {"simai", "simai_aicb", "astra_text"}) {
    if (std::filesystem::is_directory(samples() / folder)) continue;
    WARN("skipped: no " << folder << " in " << samples()
                        << "; HAWSER_WORKLOADS may name their folder");
    return false;
  }
  return true;
}

TextWorkload text_sample(const char* folder, const char* name) {
  return read_text_workload(name, content(samples() / folder / name));
}

AicbWorkload aicb_sample(const char* name) {
  return read_aicb(name, content(samples() / "simai_aicb" / name));
}

// All files are read but one, which is a table of models. One is cut short, which gives a warning.
TEST_CASE("workloads__every_published_file_is_read_or_refused_with_reason") {
  if (!have_workloads()) return;
  std::map<std::string, std::string> refused;
  std::vector<std::string> warnings;
  int read = 0;
  for (const char* folder : {"simai", "simai_aicb", "astra_text"}) {
    for (const auto& entry : std::filesystem::directory_iterator(samples() / folder)) {
      const std::string name = entry.path().filename().string();
      INFO(name);
      const std::string text = content(entry.path());
      try {
        if (entry.path().extension() == ".txt") {
          const TextWorkload workload = read_text_workload(name, text);
          read += workload.layers.empty() ? 0 : 1;
          warnings.insert(warnings.end(), workload.warnings.begin(), workload.warnings.end());
        } else if (entry.path().extension() == ".csv") {
          const AicbWorkload workload = read_aicb(name, text);
          read += workload.stages.empty() ? 0 : 1;
          warnings.insert(warnings.end(), workload.warnings.begin(), workload.warnings.end());
        }
      } catch (const InputError& error) {
        refused[name] = error.what();
      }
    }
  }
  CHECK(read == 24);
  CHECK(warnings ==
        std::vector<std::string>{"L65B-M1-C05_Llama65B_megatron_tp8_pp1_mbs1_A100.txt:2: 839 "
                                 "layers are announced, but 33 follow: is the file whole?"});
  CHECK(refused ==
        std::map<std::string, std::string>{
            {"Workload_spec_v1.1.csv",
             "Workload_spec_v1.1.csv:1: the columns (comm_type,comm_group,...) must be named "
             "before the first call"}});
}

TEST_CASE("text_workload__known_files") {
  if (!have_workloads()) return;
  const TextWorkload moe = text_sample("simai", "workload_analytical.txt");
  CHECK(moe.ranks == 9216);
  CHECK(moe.tensor == 2);
  CHECK(moe.expert == 16);
  CHECK(moe.stages == 12);
  CHECK(moe.stage_bytes == 50'331'648);
  REQUIRE(moe.layers.size() == 1789);
  CHECK(moe.layers[0].weight_gradient.collective == Collective::all_gather);
  CHECK(moe.layers[0].weight_gradient.axis == Axis::data);
  CHECK(moe.layers[0].weight_gradient.bytes == 2'807'758'848);
  CHECK(moe.layers[4].weight_gradient.axis == Axis::data_of_expert);
  CHECK(moe.layers[7].forward.compute == nanoseconds(1'750'840));
  CHECK(moe.layers[7].forward.axis == Axis::tensor);
  CHECK(moe.layers[11].forward.axis == Axis::expert);
  CHECK(moe.layers[11].forward.collective == Collective::all_to_all);
  const TextWorkload again =
      text_sample("astra_text", "Transformer_HybridParallel_Fwd_In_Bckwd.txt");
  CHECK(again.layers[2].is_checkpoint);
  CHECK(again.layers[11].is_checkpoint);
  CHECK(again.layers[19].begins_again);
  CHECK(again.layers[10].begins_again);
  CHECK_FALSE(again.layers[12].is_checkpoint);
}

TEST_CASE("aicb__known_files") {
  if (!have_workloads()) return;
  const AicbWorkload pipeline = aicb_sample("L65B-M1-C05_Llama65B_megatron_tp2_pp8_mbs1.csv");
  CHECK(pipeline.ranks == 128);
  CHECK(pipeline.tensor == 2);
  REQUIRE(pipeline.stages.size() == 8);
  REQUIRE(pipeline.stages[0].size() == 3);  // set-up, an iteration, and nothing after it
  CHECK(pipeline.stages[0][0].size() == 10);
  CHECK(pipeline.stages[0][2].empty());
  const Operation& first = pipeline.stages[0][1][0].operation;
  CHECK(first.line == 14);
  CHECK(first.collective == Collective::broadcast);
  CHECK(first.axis == Axis::tensor);
  CHECK(first.bytes == 40);
  // 8 micro-batches each way through 7 boundaries between stages.
  std::size_t sends = 0;
  const Workload workload = workload_of(pipeline, {});
  for (const auto& stage : workload.stages) {
    sends += static_cast<std::size_t>(
        std::ranges::count(stage, Operation::What::send, &Operation::what));
  }
  CHECK(sends == 2 * 7 * 8);
  const AicbWorkload zero = aicb_sample("L7B-D1-C02_Llama7B_zero3_mbs1.csv");
  CHECK(zero.ranks == 128);
  CHECK(zero.tensor == 0);
  CHECK(zero.stages[0][0][0].operation.bytes == 262'144'000);
  CHECK(aicb_sample("all_to_all_workload.csv").ranks == 0);
}

const std::string kHead =
    "HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: 2 ep: 2 pp: 2 vpp: 1 ga: 1 "
    "all_gpus: 16 checkpoints: 1 0 checkpoint_initiates: 1 1 pp_comm 5000\n2\n";
const std::string kLayers =
    "one -1 10 ALLGATHER 4000 20 REDUCESCATTER 4000 30 ALLREDUCE 8000 40\n"
    "two -1 11 ALLTOALL_EP 4000 21 NONE 0 31 ALLREDUCE_DP_EP 8000 41\n";

// Returns `whole` with the first `what` replaced.
std::string damaged(std::string whole, const std::string& what, const std::string& with) {
  const std::size_t at = whole.find(what);
  REQUIRE(at != std::string::npos);
  return whole.replace(at, what.size(), with);
}

void refused(const std::string& what, const std::string& with, const std::string& error) {
  INFO(what << " -> " << with);
  CHECK_THROWS_WITH(read_text_workload("w.txt", damaged(kHead + kLayers, what, with)),
                    Catch::Contains(error));
}

TEST_CASE("text_workload__what_is_broken_is_refused_with_line_and_field") {
  CHECK(read_text_workload("w.txt", "# read as well\r\n" + kHead + "\n" + kLayers).layers.size() ==
        2);
  CHECK_THROWS_WITH(read_text_workload("w.txt", ""),
                    Catch::StartsWith("w.txt:1: a workload begins"));
  CHECK_THROWS_WITH(read_text_workload("w.txt", "DATA\n"), Catch::Contains("count of layers"));
  refused("HYBRID_TRANSFORMER_FWD_IN_BCKWD", "HYBRID",
          "w.txt:1: 'HYBRID' is not a known parallelism");
  CHECK_THROWS_WITH(read_text_workload("w.cm", "Nodes 4\nConnections 1\n0->1 start 0 size 4096\n"),
                    Catch::StartsWith("w.cm:1: this is a connection matrix"));
  refused("NPU_group: 2", "NPU_group: x",
          "w.txt:1: model_parallel_NPU_group must be a whole number");
  refused("ep: 2", "ep: 0", "w.txt:1: ep is '0', but must be 1 to");
  refused("ep: 2", "ep 2", "w.txt:1: a key such as 'ep:' is expected instead of 'ep'");
  refused("vpp: 1", "ep: 1", "w.txt:1: 'ep' is given twice");
  refused("pp_comm 5000", "all:", "w.txt:1: 'all' has no value");
  refused("checkpoints: 1 0", "checkpoints: 9 0", "w.txt:1: checkpoints are 9, but 6 words follow");
  refused("initiates: 1 1", "initiates: 1 2",
          "w.txt:1: checkpoint_initiates name layer 2, but there are 2");
  refused("checkpoints: 1 0", "checkpoints: 0",
          "w.txt:1: checkpoint_initiates name the layer of line 4, which no checkpoint precedes");
  refused("\n2\n", "\n2 3\n", "w.txt:2: the second line is the count of layers, alone");
  refused("\n2\n", "\n0\n", "w.txt:2: the count of layers is '0', but must be 1 to");
  refused("\n2\n", "\n1\n", "w.txt:4: 1 layers are announced in line 2, and this is one more");
  refused("one -1", "one", "w.txt:3: a layer has 12 fields, not 11");
  refused("one -1", "one x", "w.txt:3: the dependency must be a whole number, not 'x'");
  refused("-1 11", "-1 1.5x", "w.txt:4: the forward pass's time must be a number, not '1.5x'");
  refused("-1 11", "-1 -5", "w.txt:4: the forward pass's time must be a number, not '-5'");
  refused("-1 11", "-1 nan", "w.txt:4: the forward pass's time must be a number, not 'nan'");
  refused("-1 11", "-1 2000000000000",
          "w.txt:4: the forward pass's time is '2000000000000', but must be 0 to 1000000000000");
  refused("ALLTOALL_EP", "ALLTOALLEP",
          "w.txt:4: the forward pass's type is 'ALLTOALLEP', but must");
  refused("20 REDUCESCATTER 4000", "20 REDUCESCATTER -1",
          "w.txt:3: the input gradient's bytes must be a whole number, not '-1'");
  refused("NONE 0", "NONE 7.5", "w.txt:4: the input gradient's bytes must be a whole number");
  refused("8000 41", "8000 x", "w.txt:4: the update's time must be a number");
  CHECK_THROWS_WITH(read_text_workload("w.txt", "DATA\n3\n"), "w.txt:2: no layer follows");
  CHECK_THROWS_WITH(read_text_workload("w.txt", "HYBRID_DLRM x\n1\n"),
                    "w.txt:1: the last layer of the bottom must be a whole number, not 'x'");
}

TEST_CASE("text_workload__is_read_whatever_its_encoding_and_line_ends") {
  for (const std::string& text : saved_forms(kHead + kLayers)) {
    INFO(text);
    const TextWorkload read = read_text_workload("w.txt", text);
    CHECK(read.warnings.empty());
    CHECK(read.ranks == 16);
    CHECK(read.stage_bytes == 5000);
    REQUIRE(read.layers.size() == 2);
    CHECK(read.layers[1].weight_gradient.bytes == 8000);
    CHECK_FALSE(is_aicb("w.txt", text));
  }
}

TEST_CASE("text_workload__comments_may_stand_anywhere") {
  for (const auto& [what, with] : std::initializer_list<std::pair<const char*, const char*>>{
           {"HYBRID", "# first\nHYBRID"},
           {"\n2\n", "\n# second\n2\n"},
           {"\none", "\n# the layers\none"},
           {"\ntwo", "\n  # between layers\n\ntwo"},
           {"8000 40", "8000 40 # behind a layer"},
           {"8000 41\n", "8000 41\n# last"}}) {
    INFO(with);
    const TextWorkload read = read_text_workload("w.txt", damaged(kHead + kLayers, what, with));
    CHECK(read.warnings.empty());
    REQUIRE(read.layers.size() == 2);
    CHECK(read.layers[1].forward.compute == nanoseconds(11));
  }
}

// The damaged text is read, with this warning.
void warned(const std::string& what, const std::string& with, const std::string& warning) {
  INFO(what << " -> " << with);
  const TextWorkload read = read_text_workload("w.txt", damaged(kHead + kLayers, what, with));
  CHECK(read.warnings == std::vector<std::string>{warning});
}

TEST_CASE("text_workload__what_generators_write_is_read") {
  const std::string whole = kHead + kLayers;
  const TextWorkload plain = read_text_workload("w.txt", whole);
  CHECK(plain.warnings.empty());
  CHECK(plain.stage_bytes == 5000);
  for (const auto& [what, with] : std::initializer_list<std::pair<const char*, const char*>>{
           {"pp_comm 5000", "pp_comm: 5000.0"},
           {"pp_comm 5000", "mode: 1 pp_comm: 5000"},
           {"ga: 1", "ga: 1.0"},
           {"ga: 1", "ga: 0"},
           {"vpp: 1", "vpp: 0"},
           {"30 ALLREDUCE 8000", "30.0 ALLREDUCE 8000.0"},
           {"NONE 0", "NONE 7"}}) {
    INFO(what << " -> " << with);
    const TextWorkload read = read_text_workload("w.txt", damaged(whole, what, with));
    CHECK(read.warnings.empty());
    CHECK(read.stage_bytes == 5000);
    CHECK(read.layers[0].weight_gradient.bytes == 8000);
    CHECK(read.layers[0].weight_gradient.compute == nanoseconds(30));
    CHECK(read.layers[1].input_gradient.collective == Collective::none);
  }
  for (const char* none : {"pp_comm", "pp_comm:", "pp_comm: None", "pp_comm: 0"}) {
    INFO(none);
    CHECK(read_text_workload("w.txt", damaged(whole, "pp_comm 5000", none)).stage_bytes == 0);
  }
  CHECK(
      read_text_workload("w.txt", damaged(whole, "-1 10", "-1 10.25")).layers[0].forward.compute ==
      Span{10'250});
  warned("ep: 2", "eq: 2",
         "w.txt:1: 'eq' is ignored; the known keys are model_parallel_NPU_group, ep, pp, all_gpus, "
         "checkpoints, checkpoint_initiates and pp_comm");
  warned("\n2\n", "\n3\n", "w.txt:2: 3 layers are announced, but 2 follow: is the file whole?");
  warned("two -1", "two 0",
         "w.txt:4: the second field, a layer's dependency, is ignored: layers run in order");
}

// Layers that are all computed forward again from the first one.
std::string all_again(std::size_t layers) {
  std::string text = "HYBRID_TRANSFORMER_FWD_IN_BCKWD checkpoints: 1 0 checkpoint_initiates: " +
                     std::to_string(layers);
  for (std::size_t i = 0; i < layers; ++i) text += " " + std::to_string(i);
  text += "\n" + std::to_string(layers) + "\n";
  for (std::size_t i = 0; i < layers; ++i) text += "a -1 1 ALLGATHER 8 1 NONE 0 1 NONE 0 1\n";
  return text;
}

TEST_CASE("text_workload__an_iteration_has_a_limit") {
  CHECK_THROWS_WITH(read_text_workload("w.txt", all_again(40'000)),
                    "w.txt:1: an iteration is more than 8000000 operations, with the layers that "
                    "checkpoint_initiates computes again");
  const TextWorkload most = read_text_workload("w.txt", all_again(2000));
  CHECK_THROWS_WITH(workload_of(most, {.iterations = 2}),
                    "iterations are at least 1, and the operations of all stages in all of them at "
                    "most 8000000");
  const Workload few = workload_of(most, {.layers = 3});
  // A layer has two operations forward and three backward. Before it goes backward, 0, 1 or 2
  // others go forward again.
  CHECK(few.stages[0].size() == 3 * (2 + 3) + 2 * (0 + 1 + 2) + 1);
}

TEST_CASE("text_workload__collectives_go_where_the_parallelism_says") {
  const std::string layer = "a -1 1 ALLREDUCE 8 1 ALLREDUCE 16 1 ALLREDUCE 32 1";
  using Axes = std::vector<std::optional<Axis>>;
  const auto axes = [](const TextWorkload& text, std::size_t i) {
    Axes all;
    for (const LayerWork* work : {&text.layers[i].forward, &text.layers[i].input_gradient,
                                  &text.layers[i].weight_gradient}) {
      all.push_back(work->collective == Collective::none ? std::nullopt
                                                         : std::optional(work->axis));
    }
    return all;
  };
  for (const char* name : {"DATA", "MICRO"}) {
    const TextWorkload data = read_text_workload("w.txt", std::string(name) + "\n1\n" + layer);
    CHECK(axes(data, 0) == Axes{std::nullopt, std::nullopt, Axis::all});
    CHECK(data.warnings ==
          std::vector<std::string>{
              "w.txt:3: 2 collectives are left out, as their parallelism has no group for them"});
  }
  for (const char* name : {"MODEL", "DISTRIBUTED_INFERENCE"}) {
    const TextWorkload model = read_text_workload("w.txt", std::string(name) + "\n1\n" + layer);
    CHECK(axes(model, 0) == Axes{Axis::all, Axis::all, std::nullopt});
  }
  for (const char* head :
       {"HYBRID_DLRM 4", "HYBRID_DLRM_ENHANCED", "HYBRID_DLRM DLRM_LAST_BOTTOM_LAYER: 4"}) {
    INFO(head);
    const TextWorkload dlrm =
        read_text_workload("w.txt", std::string(head) + "\n2\n" + layer + "\n" + layer);
    CHECK(axes(dlrm, 0) == Axes{Axis::all, Axis::all, Axis::all});
    CHECK(axes(dlrm, 1) == Axes{std::nullopt, std::nullopt, Axis::all});
  }
  const TextWorkload custom = read_text_workload(
      "w.txt", "HYBRID_CUSTOMIZED\n2\n" + layer + " MODEL\n" + layer + " HYBRID_TRANSFORMER\n");
  CHECK(axes(custom, 0) == Axes{Axis::all, Axis::all, std::nullopt});
  CHECK(axes(custom, 1) == Axes{Axis::tensor, Axis::tensor, Axis::data});
  CHECK_THROWS_WITH(read_text_workload("w.txt", "HYBRID_CUSTOMIZED\n1\n" + layer + " MODAL\n"),
                    Catch::StartsWith("w.txt:3: 'MODAL' is not a known parallelism"));
}

const std::string kCalls =
    "[ pp_stage0: [rank0, rank1, rank2, rank3] ]\n"
    "comm_type,comm_group,comm_group_size,msg_size,stage,dst,src,additional,_elapsed_time,count\n"
    "CommType.all_reduce,CommGroup.all,8,8,init,None,None,,None,1\n"
    "CommType.epoch_end,None,None,0,,None,None,,None,1\n"
    "CommType.broadcast,CommGroup.tp_group,2,4000,x,None,0,,None,1\n"
    "CommType.isend,CommGroup.pp_group,1,5000,x,None,None,send_next,None,2\n"
    "CommType.irecv,CommGroup.pp_group,1,5000,x,None,None,recv_next,None,1\n"
    "CommType.epoch_end,None,None,0,,None,None,,None,1\n"
    "[ pp_stage1: [rank4, rank5, rank6, rank7] ]\n"
    "comm_type,comm_group,comm_group_size,msg_size,stage,dst,src,additional,_elapsed_time,count\n"
    "CommType.all_reduce,CommGroup.all,8,8,init,None,None,,None,1\n"
    "CommType.epoch_end,None,None,0,,None,None,,None,1\n"
    "CommType.irecv,CommGroup.pp_group,1,5000,x,None,None,recv_prev,None,2\n"
    "CommType.reduce_scatter,CommGroup.dp_group,2,4000,x,None,None,,None,1\n"
    "CommType.isend,CommGroup.pp_group,1,5000,x,None,None,send_prev,None,1\n";

void refused_calls(const std::string& what, const std::string& with, const std::string& error) {
  INFO(what << " -> " << with);
  CHECK_THROWS_WITH(read_aicb("c.csv", damaged(kCalls, what, with)), Catch::Contains(error));
}

TEST_CASE("aicb__what_is_broken_is_refused_with_line_and_field") {
  const AicbWorkload read = read_aicb("c.csv", kCalls);
  CHECK(read.ranks == 8);
  CHECK(read.tensor == 2);
  CHECK(workload_of(read, {}).stages[0].size() == 4);
  CHECK(workload_of(read, {.layers = 1, .iterations = 3}).stages[0].size() == 3);
  CHECK_THROWS_WITH(read_aicb("c.csv", ""),
                    Catch::StartsWith("c.csv:1: no line names the columns"));
  CHECK_THROWS_WITH(read_aicb("c.csv", "comm_type,comm_group,msg_size\n"),
                    "c.csv:1: there are no calls");
  CHECK_THROWS_WITH(read_aicb("c.csv", "a,b,c\n"),
                    Catch::Contains("must be named before the first"));
  refused_calls("stage0:", "stage1:", "c.csv:1: stage 1 follows here, but stage 0 is next");
  refused_calls("rank2", "rank3", "c.csv:1: 'rank3' doesn't follow the rank before it");
  refused_calls("rank2", "2", "c.csv:1: a rank is written rank0, rank1 ..., not '2'");
  refused_calls("rank3] ]", "rank3] ", "c.csv:1: a stage's ranks are written [rank0, rank1 ...]");
  refused_calls("rank3] ]", "rank3", "c.csv:1: ']' is missing at the end");
  refused_calls("[rank4, rank5, rank6, rank7]", "[rank4, rank5]",
                "c.csv:9: a stage of 2 ranks, but the first has 4");
  refused_calls("[rank4, rank5, rank6, rank7]", "[rank5, rank6, rank7, rank8]",
                "c.csv:9: ranks 5 to 8 are named, but 4 is next");
  refused_calls("[ pp_stage1: [rank4, rank5, rank6, rank7] ]", "[rank4 ~ rank7]",
                "c.csv:9: the line that names the ranks is [rank0 ~ rank127], once");
  refused_calls("dst,src", "dst,dst", "c.csv:2: 'dst' occurs twice");
  refused_calls("msg_size,stage", "stage", "c.csv:2: the column msg_size is missing");
  refused_calls(",8,init", ",init", "c.csv:3: a call has 10 fields, not 9");
  refused_calls("CommType.all_reduce", "CommType.gather",
                "c.csv:3: comm_type is 'CommType.gather', which is unknown; known are");
  refused_calls("CommType.all_reduce", "\"CommType.all_reduce",
                "c.csv:3: a quote is opened and not closed");
  refused_calls("CommType.all_reduce", "\"CommType\".all_reduce",
                "c.csv:3: a field continues after its closing quote");
  refused_calls("CommGroup.all", "CommGroup.cp_group",
                "c.csv:3: comm_group is 'CommGroup.cp_group', which is not a known group");
  refused_calls("CommGroup.all,8,8", "CommGroup.all,8,-8",
                "c.csv:3: msg_size must be a whole number");
  refused_calls("CommGroup.all,8", "CommGroup.all,7",
                "c.csv:11: comm_group_size is 8, but 7 for the same group in line 3");
  CHECK(read_aicb("c.csv", damaged(kCalls, "dp_group,2", "dp_group,4")).warnings ==
        std::vector<std::string>{
            "c.csv:14: comm_group_size is 4, but a stage's ranks by tensor groups are 2"});
  refused_calls("send_next", "recv_next", "c.csv:6: additional is 'recv_next', but of isend it is");
  refused_calls("isend,CommGroup.pp_group", "isend,CommGroup.dp_group",
                "c.csv:6: comm_group is 'CommGroup.dp_group', but isend and irecv are of");
  refused_calls("send_next,None,2", "send_next,None,0", "c.csv:6: count is '0', but must be 1 to");
  refused_calls("None,0,,None,1\n", "None,x,,None,1\n", "c.csv:5: src must be a whole number");
}

std::string replaced(std::string text, char what, char with) {
  std::ranges::replace(text, what, with);
  return text;
}

const std::string kColumns =
    "comm_type,comm_group,comm_group_size,msg_size,stage,dst,src,additional,_elapsed_time,count\n";
const std::string kCall = "CommType.all_reduce,CommGroup.dp_group,4,65536,fwd,None,None,,None,";

// The text has one call, as kCall describes it, three times.
void check_call(const std::string& text) {
  INFO(text);
  const AicbWorkload read = read_aicb("c.csv", text);
  REQUIRE(read.stages.size() == 1);
  REQUIRE(read.stages[0][0].size() == 1);
  const AicbCall& one = read.stages[0][0][0];
  CHECK(one.count == 3);
  CHECK(one.operation.bytes == 65536);
  CHECK(one.operation.axis == Axis::data);
  CHECK(read.sizes.at(Axis::data) == 4);
  CHECK(read.names.at(one.operation.line) == "fwd");
  CHECK(read.warnings.empty());
  CHECK(workload_of(read, {}).stages[0].size() == 3);
  CHECK(workload_of(read, {.layers = 2}).stages[0].size() == 2);
}

TEST_CASE("aicb__what_generators_and_spreadsheets_write_is_read") {
  for (const std::string& text :
       {kColumns + kCall + "3\n", "# x\n" + kColumns + "\n# y\n" + kCall + "3.0\n",
        replaced(kColumns + kCall + "3\n", ',', ';'), replaced(kColumns + kCall + "3\n", ',', '\t'),
        kColumns +
            "\"CommType.all_reduce\" , CommGroup.dp_group,4,\"65536.0\",\"fwd\",,nan,-1,,3\n",
        kColumns + "all_reduce,dp_group,4,65536,fwd,None,None,,None,3\n",
        kColumns + "CommType.computation,None,None,\"((1, 2), (3, 4))\",fwd,None,None,,None,1\n" +
            kCall + "3\n",
        kColumns +
            "CommType.computation,None,None,((4096, 1, 640), (640, 5120)),forward,None,None,,None,"
            "1\n" +
            kCall + "3\n"}) {
    check_call(text);
  }
  CHECK(read_aicb("c.csv", kColumns + damaged(kCall, ",None,None,,", ",-1.0,<NA>,-1,") + "-1.0\n")
            .stages[0][0][0]
            .count == 1);
  const AicbWorkload rooted = read_aicb(
      "c.csv", kColumns + "CommType.reduce,CommGroup.all_nodes,None,64,x,3,None,,None,None\n");
  CHECK(rooted.stages[0][0][0].operation.to_root);
  CHECK(rooted.stages[0][0][0].operation.root == 3);
  CHECK(rooted.stages[0][0][0].operation.axis == Axis::all);
  CHECK(
      read_aicb("c.csv", "comm_type,comm_group,msg_size,colour\nall_reduce,all,8,red\n").warnings ==
      std::vector<std::string>{"c.csv:1: the column 'colour' is unknown, and is ignored"});
}

TEST_CASE("aicb__is_read_whatever_its_encoding_and_line_ends") {
  for (const std::string& text : saved_forms(kColumns + kCall + "3\n")) {
    check_call(text);
    CHECK(is_aicb("c.csv", text));
  }
}

TEST_CASE("aicb__columns_are_found_by_name_and_rows_may_be_filled_up") {
  check_call(kColumns + ",,,,\n" + kCall + "3,,\n\"\",\"\"\n");
  check_call(damaged(kColumns, "\n", ",,\n") + "\"# one, two\",,\n" + kCall + "3,,,\n");
  // The index that pandas writes, and its floats.
  check_call("," + kColumns +
             "0,CommType.all_reduce,CommGroup.dp_group,4.0,65536.0,fwd,-1.0,-1,,None,3\n");
  check_call(replaced("," + kColumns + "0," + kCall + "3\n", ',', '\t'));
  check_call(
      "\"count\",\"msg_size\",\"comm_group_size\",\"comm_group\",\"comm_type\",\"stage\"\n"
      "3,65536,4,dp_group,all_reduce,fwd\n");
  // A tab at the end is the separator of an empty field.
  check_call(
      "comm_group\tcomm_type\tcomm_group_size\tmsg_size\tcount\tstage\tdst\n"
      "dp_group\tall_reduce\t4\t65536\t3\tfwd\t\n");
}

TEST_CASE("aicb__ranks_are_read_as_spreadsheets_write_them") {
  const std::string calls =
      "comm_group,comm_type,comm_group_size,msg_size\nCommGroup.all,CommType.all_reduce,4,8\n";
  for (const char* ranks :
       {"[rank0 ~ rank3]", "[rank0 ~ rank3],,,", "\"[rank0 ~ rank3]\",,,", "[rank0 ~ rank3];;; ",
        "[rank0 ~ rank3]\t\t", "[ pp_stage0: [rank0, rank1, rank2, rank3] ],,",
        "\"[ pp_stage0: [rank0, rank1, rank2, rank3] ]\",,",
        "[ pp_stage0: [rank0; rank1; rank2; rank3] ];",
        "[ pp_stage0: [rank0\t rank1\t rank2\t rank3] ]\t"}) {
    INFO(ranks);
    const std::string text = std::string(",,,\n") + ranks + "\n" + calls;
    CHECK(is_aicb("c.csv", text));
    const AicbWorkload read = read_aicb("c.csv", text);
    CHECK(read.ranks == 4);
    CHECK(read.stages[0][0].size() == 1);
  }
  CHECK(is_aicb("c.csv", calls));
  CHECK_FALSE(is_aicb("w.txt", kHead + kLayers));
  CHECK_THROWS_WITH(is_aicb("c.csv", ",,,\n"), "c.csv:1: the file is empty");
  CHECK_THROWS_WITH(read_aicb("c.csv", calls + calls), "c.csv:3: the columns are already named");
}

// Changes, removes, doubles and swaps bytes and words. Any result must be read or refused without
// harm, and so must the matrix that is made of it.
std::string damage(std::string text, proto::Random& random) {
  static constexpr std::string_view kBytes = "0123456789-,:[]#\n\r\t ~_A\xff";
  for (auto times = 1 + random.below(3); times > 0 && !text.empty(); --times) {
    const std::size_t at = random.below(text.size());
    const std::size_t some = std::min<std::size_t>(text.size() - at, 1 + random.below(40));
    switch (random.below(5)) {
      case 0: text[at] = kBytes[random.below(kBytes.size())]; break;
      case 1: text.erase(at, some); break;
      case 2: text.insert(at, text.substr(random.below(text.size()), some)); break;
      case 3: text.resize(at); break;
      default: text.insert(at, 1, kBytes[random.below(kBytes.size())]); break;
    }
  }
  return text;
}

template <class Read>
std::pair<int, int> read_damaged(const std::string& whole, std::uint64_t seed, const Read& read) {
  std::pair<int, int> counts;  // matrices made, and refused
  for (std::uint64_t i = 0; i < 8000; ++i) {
    proto::Random random(seed + i);
    const std::string text = damage(whole, random);
    try {
      const Workload workload = read(text);
      if (workload.ranks > 64 || workload.stages.size() > 8) continue;
      (void)training(workload, {.ranks_per_host = 1 + static_cast<std::uint32_t>(random.below(4))});
      ++counts.first;
    } catch (const InputError& error) {
      if (*error.what() == '\0') FAIL("seed " << seed + i << " is refused without a word");
      ++counts.second;
    }
  }
  return counts;
}

TEST_CASE("workloads__damaged_texts_are_read_or_refused") {
  const auto text = [](const std::string& damaged_text) {
    return workload_of(read_text_workload("w.txt", damaged_text), {.layers = 50, .iterations = 2});
  };
  const auto [made, refused] = read_damaged(kHead + kLayers, 1, text);
  CHECK(made > 100);
  CHECK(refused > 1000);
  const auto calls = [](const std::string& damaged_text) {
    return workload_of(read_aicb("c.csv", damaged_text), {.iterations = 2});
  };
  const auto [made_of_calls, refused_calls] = read_damaged(kCalls, 1, calls);
  CHECK(made_of_calls > 100);
  CHECK(refused_calls > 1000);
}

}  // namespace
}  // namespace hawser::fabric
