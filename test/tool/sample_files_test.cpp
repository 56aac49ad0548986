// SPDX-License-Identifier: Apache-2.0
// Every published sample must parse, and give a schedule for a few numbers of ranks.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>

#include "tool/error.hpp"
#include "tool/run/schedule.hpp"
#include "tool/workload/files.hpp"

namespace hawser::tool {
namespace {

std::filesystem::path samples() {
  const char* const folder = std::getenv("HAWSER_WORKLOADS");
  return folder != nullptr ? folder : HAWSER_WORKLOADS_DEFAULT;
}

// False if the samples are not at hand; the test's output then gives the reason.
bool have_samples() {
  if (std::filesystem::is_directory(samples())) return true;
  WARN("skipped: no sample workloads in " << samples()
                                          << "; HAWSER_WORKLOADS may name their folder");
  return false;
}

TEST_CASE("sample_files: all parse and can be scheduled") {
  if (!have_samples()) return;
  std::size_t files = 0;
  for (const char* folder : {"astra_text", "simai", "simai_aicb"}) {
    for (const auto& entry : std::filesystem::directory_iterator(samples() / folder)) {
      const std::filesystem::path path = entry.path();
      if (path.extension() != ".txt" && path.extension() != ".csv") continue;
      if (path.filename() == "Workload_spec_v1.1.csv") continue;  // a table of models
      INFO(path);
      const Workload workload = load_workload(path.string());
      CHECK_FALSE(workload.step.empty());
      for (const std::uint32_t ranks : {2u, 6u, 8u}) {
        const Schedule schedule = make_schedule(workload, ranks, 1024);
        CHECK(schedule.step.size() <= workload.step.size());
        CHECK(largest_buffer_bytes(schedule) > 0);
      }
      ++files;
    }
  }
  CHECK(files >= 24);
}

TEST_CASE("sample_files: known contents") {
  if (!have_samples()) return;
  const Workload resnet =
      load_workload((samples() / "astra_text/Resnet50_DataParallel.txt").string());
  CHECK(resnet.step.size() == 54);  // one weight gradient a layer
  const Workload gpt = load_workload(
      (samples() / "simai_aicb/G13B-M1-C02_GPT13B_megatron_tp8_pp1_mbs1_sp.csv").string());
  CHECK(gpt.init.size() == 7);
  CHECK(gpt.step.size() == 412);
  CHECK(gpt.sizes[GroupKind::tensor] == 8);
  CHECK(gpt.sizes[GroupKind::data] == 16);
  const Workload staged = load_workload(
      (samples() / "simai_aicb/L65B-M1-C05_Llama65B_megatron_tp2_pp8_mbs1.csv").string());
  CHECK(staged.sizes[GroupKind::pipeline] == 8);
  CHECK(std::count_if(staged.step.begin(), staged.step.end(), [](const Phase& phase) {
          return phase.operation == Operation::shift_next;
        }) == 8);
  const Workload moe = load_workload((samples() / "simai/workload_analytical.txt").string());
  CHECK(moe.sizes[GroupKind::data] == 384);
  CHECK(std::count_if(moe.step.begin(), moe.step.end(),
                      [](const Phase& phase) { return phase.group == GroupKind::expert; }) == 768);
}

TEST_CASE("sample_files: what is no workload is refused") {
  CHECK_THROWS_WITH(
      load_workload("no/such/file"),
      "workload 'no/such/file' is neither a file nor built in (gpt2, llama, moe, put, get, "
      "atomics, moe-dispatch)");
  CHECK_THROWS_WITH(load_workload("."), "workload '.' is not a regular file");
  if (!have_samples()) return;
  CHECK_THROWS_AS(load_workload((samples() / "simai_aicb/Workload_spec_v1.1.csv").string()),
                  InputError);
}

}  // namespace
}  // namespace hawser::tool
