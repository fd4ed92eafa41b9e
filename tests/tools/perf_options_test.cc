// SPDX-License-Identifier: Apache-2.0
#include "bench/perf_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "bench/perf_report.h"
#include "bench/perf_types.h"
#include "bench/perf_workload.h"
#include "tests/tools/programs.h"

namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

int parse(std::vector<std::string> words, perf::PerfOptions& options) {
  words.insert(words.begin(), "redsum-perf");
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  return perf::parse_options(static_cast<int>(argv.size()), argv.data(), options);
}

std::string parse_error(std::vector<std::string> words) {
  perf::PerfOptions options;
  testing::internal::CaptureStderr();
  EXPECT_EQ(parse(std::move(words), options), 2);
  return testing::internal::GetCapturedStderr();
}

TEST(Types, SizesAsUsersTypeThem) {
  EXPECT_EQ(perf::parse_bytes("16"), 16u);
  EXPECT_EQ(perf::parse_bytes("4K"), 4096u);
  EXPECT_EQ(perf::parse_bytes("64m"), 64u << 20);
  EXPECT_EQ(perf::parse_bytes("1.5MiB"), 3u << 19);
  EXPECT_EQ(perf::parse_bytes("2GB"), 2ull << 30);
  for (const char* bad : {"", "K", "-1", "1X", "1KK", "1e30", "nan", "4 K"})
    EXPECT_FALSE(perf::parse_bytes(bad)) << bad;
}

TEST(Types, NamesOfBothWorlds) {
  EXPECT_EQ(perf::parse_dtype("half"), REDSUM_FP16);
  EXPECT_EQ(perf::parse_dtype("bfloat16"), REDSUM_BF16);
  EXPECT_EQ(perf::parse_dtype("fp8_e5m2"), REDSUM_FP8_E5M2);
  EXPECT_EQ(perf::parse_dtype("uint64"), REDSUM_UINT64);
  EXPECT_FALSE(perf::parse_dtype("fp31"));
  std::string unknown;
  EXPECT_EQ(perf::parse_dtypes("all", unknown).size(), 17u);
  EXPECT_THAT(perf::parse_ops("sum,avg", unknown), ElementsAre(REDSUM_SUM, REDSUM_AVG));
  EXPECT_TRUE(perf::parse_ops("sum,,avg", unknown).empty());
  EXPECT_TRUE(perf::parse_dtypes("fp32,what", unknown).empty());
  EXPECT_EQ(unknown, "what");
}

TEST(Types, TheNumbersAreThoseOfTheLibrary) {
  for (int i = 0; i < perf::kDtypes; ++i) {
    redsum_dtype dtype = REDSUM_FP64;
    EXPECT_EQ(redsum_dtype_from_name(perf::dtype_name(static_cast<redsum_dtype>(i)), &dtype), REDSUM_OK) << i;
    EXPECT_EQ(dtype, i);
  }
  for (int i = 0; i < perf::kOps; ++i) {
    redsum_op op = REDSUM_SUM;
    EXPECT_EQ(redsum_op_from_name(perf::op_name(static_cast<redsum_op>(i)), &op), REDSUM_OK) << i;
    EXPECT_EQ(op, i);
  }
}

TEST(Options, LettersOfNcclTests) {
  perf::PerfOptions options;
  EXPECT_EQ(parse({"-b",  "16", "-e",         "1M", "-f", "4",  "-n", "3",  "-w", "0",  "-c",     "0",        "-o",
                   "max", "-d", "float,int8", "-a", "1",  "-I", "1",  "-u", "3",  "-J", "x.json", "--format", "csv"},
                  options),
            -1);
  EXPECT_THAT(perf::table_sizes(options), ElementsAre(16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576));
  EXPECT_FALSE(options.check);
  EXPECT_TRUE(options.in_place);
  EXPECT_EQ(options.tensors, 3u);
  EXPECT_EQ(options.time_of, perf::TimeOf::average);
  EXPECT_THAT(options.dtypes, ElementsAre(REDSUM_FP32, REDSUM_INT8));
  perf::PerfOptions steps;
  EXPECT_EQ(parse({"-b", "0", "-e", "10", "-i", "4"}, steps), -1);
  EXPECT_THAT(perf::table_sizes(steps), ElementsAre(0, 4, 8));
}

TEST(Options, CollectivesAndWhatTheyTake) {
  struct Kind {
    const char* name;
    bool reduces, parts, tensors, in_place;
  };
  const Kind kinds[] = {{"allreduce", true, false, true, true},   {"reduce", true, false, true, true},
                        {"broadcast", false, false, true, true},  {"reduce_scatter", true, true, false, true},
                        {"all_gather", false, true, false, true}, {"all_to_all", false, true, false, false},
                        {"gather", false, true, false, true},     {"scatter", false, true, false, true},
                        {"sendrecv", false, false, false, false}};
  ASSERT_EQ(std::size(kinds), std::size(perf::kCollectiveNames));
  for (const Kind& kind : kinds) {
    perf::PerfOptions options;
    EXPECT_EQ(parse({"--collective", kind.name, "-o", "min,max"}, options), -1);
    EXPECT_STREQ(perf::kCollectiveNames[static_cast<int>(options.collective)], kind.name);
    EXPECT_EQ(perf::reduces(options), kind.reduces) << kind.name;
    EXPECT_EQ(options.ops.size(), kind.reduces ? 2u : 1u) << kind.name;
    EXPECT_EQ(perf::has_parts(options), kind.parts) << kind.name;
    if (kind.in_place) {
      EXPECT_EQ(parse({"--collective", kind.name, "-I", "1"}, options), -1) << kind.name;
    } else {
      EXPECT_THAT(parse_error({"--collective", kind.name, "-I", "1"}),
                  AllOf(HasSubstr("-I 1"), HasSubstr(kind.name), HasSubstr("in place")));
    }
    if (kind.tensors) {
      EXPECT_EQ(parse({"--collective", kind.name, "-u", "3"}, options), -1) << kind.name;
    } else {
      EXPECT_THAT(parse_error({"--collective", kind.name, "-u", "3"}), AllOf(HasSubstr("-u 3"), HasSubstr(kind.name)));
    }
    if (!kind.reduces) {
      EXPECT_THAT(parse_error({"--collective", kind.name, "--wire-dtype", "bf16"}),
                  AllOf(HasSubstr("--wire-dtype"), HasSubstr(kind.name)));
    }
  }
  EXPECT_THAT(parse_error({"--collective", "alltoall"}), AllOf(HasSubstr("alltoall"), HasSubstr(" all_to_all ")));
}

TEST(Options, ErrorsNameTheFlag) {
  EXPECT_THAT(parse_error({"-b", "x"}), HasSubstr("-b x"));
  EXPECT_THAT(parse_error({"-b", "8", "-e", "4"}), HasSubstr("-e 4"));
  EXPECT_THAT(parse_error({"-f", "1"}), HasSubstr("-f"));
  EXPECT_THAT(parse_error({"-b", "0", "-e", "8", "-f", "2"}), HasSubstr("-f"));
  EXPECT_THAT(parse_error({"-d", "fp31"}), HasSubstr("fp31"));
  EXPECT_THAT(parse_error({"-o", "xor"}), HasSubstr("xor"));
  EXPECT_THAT(parse_error({"--mode", "auto"}), HasSubstr("--mode auto"));
  EXPECT_THAT(parse_error({"--ring-order", "left"}), HasSubstr("--ring-order left"));
  EXPECT_THAT(parse_error({"--wire-dtype", "bf16", "-d", "fp64"}), HasSubstr("--wire-dtype"));
  EXPECT_THAT(parse_error({"--wire-dtype", "int8"}), HasSubstr("--wire-dtype"));
  EXPECT_THAT(parse_error({"-z", "0", "-I", "1"}), HasSubstr("-z 0"));
  EXPECT_THAT(parse_error({"--what"}), HasSubstr("--what"));
}

TEST(Report, Quantiles) {
  EXPECT_EQ(perf::quantile({3, 1, 2}, 0.5), 2);
  EXPECT_EQ(perf::quantile({4, 1, 2, 3}, 0.5), 2);
  EXPECT_EQ(perf::quantile({5}, 0.99), 5);
  std::vector<double> hundred;
  for (int i = 1; i <= 100; ++i) hundred.push_back(i);
  EXPECT_EQ(perf::quantile(hundred, 0.99), 99);
}

struct Model {
  const char* file;
  std::uint64_t published;
};

class Workloads : public testing::TestWithParam<Model> {};

TEST_P(Workloads, HaveThePublishedNumberOfParameters) {
  std::string error;
  const perf::Workload workload =
      perf::load_workload(programs::source(std::string("configs/workloads/") + GetParam().file + ".json"), error);
  EXPECT_EQ(error, "");
  EXPECT_EQ(workload.name, GetParam().file);
  EXPECT_EQ(workload.count(), GetParam().published);
}

INSTANTIATE_TEST_SUITE_P(All, Workloads,
                         testing::Values(Model{"resnet50", 25'557'032}, Model{"bert_large", 335'141'888},
                                         Model{"gpt2_xl", 1'557'611'200}, Model{"llama3_8b", 8'030'261'248}),
                         [](const auto& model) { return std::string(model.param.file); });

TEST(Buckets, AreFilledFromTheBackAsDdpDoes) {
  const std::uint64_t mib = 1u << 18;  // fp32 elements of a MiB
  perf::Workload workload;
  for (const std::uint64_t size : {30 * mib, mib, 20 * mib, 6 * mib, mib / 2, mib / 2}) {
    workload.parameters.push_back({"p" + std::to_string(workload.parameters.size()), size});
  }
  const auto buckets = perf::make_buckets(workload, 4, 25u << 20);
  // The first closes at 1 MiB, the second at 25 (20 + 6), and what is larger than a bucket ends it.
  EXPECT_THAT(buckets, ElementsAre(ElementsAre(5, 4), ElementsAre(3, 2), ElementsAre(1, 0)));
}

TEST(Buckets, OfResnet50HoldEveryParameterOnce) {
  std::string error;
  const perf::Workload workload = perf::load_workload(programs::source("configs/workloads/resnet50.json"), error);
  const auto buckets = perf::make_buckets(workload, 4, 25u << 20);
  ASSERT_EQ(buckets.size(), 5u);
  EXPECT_EQ(workload.parameters[buckets[0][0]].name, "fc.bias");
  std::size_t expected = workload.parameters.size();
  for (const auto& bucket : buckets) {
    for (const std::size_t index : bucket) EXPECT_EQ(index, --expected);
  }
  EXPECT_EQ(expected, 0u);
}

TEST(Workload, BadFilesAreNamed) {
  std::string error;
  EXPECT_TRUE(perf::load_workload("/no/such/file.json", error).parameters.empty());
  EXPECT_THAT(error, HasSubstr("/no/such/file.json"));
  error.clear();
  EXPECT_TRUE(perf::load_workload(programs::source("CMakeLists.txt"), error).parameters.empty());
  EXPECT_THAT(error, HasSubstr("not JSON"));
  error.clear();
  EXPECT_TRUE(perf::load_workload(programs::source("CMakePresets.json"), error).parameters.empty());
  EXPECT_THAT(error, HasSubstr("name"));
}

}  // namespace
