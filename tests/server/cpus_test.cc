// SPDX-License-Identifier: Apache-2.0
// CPUs and memory inside a container, from a made-up /proc and /sys.
#include "server/cpus.h"

#include <sched.h>

#include "tests/server/temporary_folder.h"

namespace redsum::server {
namespace {

using test::TemporaryFolder;

TEST(Cpus, LIF_10_V2QuotaIsRoundedDown) {
  const TemporaryFolder root;
  root.write("proc/self/cgroup", "0::/pod\n");
  root.write("sys/fs/cgroup/pod/cpu.max", "250000 100000\n");
  const CpuLimits limits = cpus_allowed(8, root.path());
  EXPECT_DOUBLE_EQ(limits.quota.value_or(0), 2.5);
  EXPECT_EQ(limits.allowed, 2u);
}

TEST(Cpus, LIF_10_MaxMeansAffinity) {
  const TemporaryFolder root;
  root.write("proc/self/cgroup", "0::/pod\n");
  root.write("sys/fs/cgroup/pod/cpu.max", "max 100000\n");
  EXPECT_FALSE(cpus_allowed(8, root.path()).quota);
  EXPECT_EQ(cpus_allowed(8, root.path()).allowed, 8u);
  EXPECT_EQ(cpus_allowed(2, root.path()).allowed, 2u);
}

TEST(Cpus, LIF_10_LessThanOneIsOne) {
  const TemporaryFolder root;
  root.write("proc/self/cgroup", "0::/\n");
  root.write("sys/fs/cgroup/cpu.max", "50000 100000\n");
  EXPECT_EQ(cpus_allowed(8, root.path()).allowed, 1u);
  EXPECT_EQ(cpus_allowed(0, root.path()).allowed, 1u);
}

TEST(Cpus, LIF_10_TheTightestGroupAboveCounts) {
  const TemporaryFolder root;
  root.write("proc/self/cgroup", "0::/slice/pod/container\n");
  root.write("sys/fs/cgroup/slice/cpu.max", "300000 100000\n");
  root.write("sys/fs/cgroup/slice/pod/container/cpu.max", "700000 100000\n");
  EXPECT_EQ(cpus_allowed(8, root.path()).allowed, 3u);
}

TEST(Cpus, LIF_10_V1QuotaInAnyOfItsPlaces) {
  for (const char* mount : {"cpu", "cpu,cpuacct"}) {
    const TemporaryFolder root;
    root.write("proc/self/cgroup", "4:cpu,cpuacct:/docker/abc\n3:memory:/docker/abc\n0::/\n");
    const std::string folder = "sys/fs/cgroup/" + std::string(mount);
    root.write(folder + "/docker/abc/cpu.cfs_quota_us", "250000\n");
    root.write(folder + "/docker/abc/cpu.cfs_period_us", "100000\n");
    EXPECT_EQ(cpus_allowed(8, root.path()).allowed, 2u) << mount;
    root.write(folder + "/docker/abc/cpu.cfs_quota_us", "-1\n");
    EXPECT_EQ(cpus_allowed(8, root.path()).allowed, 8u) << mount;
  }
}

TEST(Cpus, LIF_10_APathAsTheHostSeesItFallsBackToTheMount) {
  const TemporaryFolder root;
  root.write("proc/self/cgroup", "4:cpu,cpuacct:/kubepods/pod1/c1\n0::/kubepods/pod1/c1\n");
  root.write("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "400000\n");
  root.write("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(cpus_allowed(8, root.path()).allowed, 4u);
}

TEST(Cpus, LIF_10_NoOrBrokenFilesMeanNoQuota) {
  const TemporaryFolder root;
  EXPECT_EQ(cpus_allowed(8, root.path()).allowed, 8u);
  root.write("proc/self/cgroup", "nonsense\n0:::\n");
  root.write("sys/fs/cgroup/cpu.max", "many 100000\n");
  EXPECT_EQ(cpus_allowed(8, root.path()).allowed, 8u);
  root.write("sys/fs/cgroup/cpu.max", "100000 0\n");
  EXPECT_EQ(cpus_allowed(8, root.path()).allowed, 8u);
}

TEST(Cpus, LIF_10_TheAffinityMaskCounts) {
  cpu_set_t before;
  ASSERT_EQ(::sched_getaffinity(0, sizeof before, &before), 0);
  int first = 0;
  while (!CPU_ISSET(first, &before)) ++first;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(first, &one);
  const TemporaryFolder root;
  EXPECT_EQ(cpus_allowed(root.path()).affinity, static_cast<std::uint32_t>(CPU_COUNT(&before)));
  ASSERT_EQ(::sched_setaffinity(0, sizeof one, &one), 0);
  EXPECT_EQ(cpus_allowed(root.path()).allowed, 1u);
  ASSERT_EQ(::sched_setaffinity(0, sizeof before, &before), 0);
}

TEST(Memory, TheTighterOfMachineAndCgroup) {
  const TemporaryFolder root;
  root.write("proc/self/cgroup", "9:memory:/job\n0::/job\n");
  const MemoryLimits free = memory_allowed(root.path());
  EXPECT_FALSE(free.cgroup_bytes);
  EXPECT_GT(free.physical_bytes, 0u);
  EXPECT_EQ(free.allowed_bytes, free.physical_bytes);
  root.write("sys/fs/cgroup/memory/job/memory.limit_in_bytes", "9223372036854771712\n");  // v1's "unlimited"
  EXPECT_FALSE(memory_allowed(root.path()).cgroup_bytes);
  root.write("sys/fs/cgroup/memory/job/memory.limit_in_bytes", "8388608\n");
  EXPECT_EQ(memory_allowed(root.path()).allowed_bytes, 8388608u);
  root.write("sys/fs/cgroup/job/memory.max", "4194304\n");
  EXPECT_EQ(memory_allowed(root.path()).allowed_bytes, 4194304u);
  root.write("sys/fs/cgroup/job/memory.max", "max\n");
  EXPECT_EQ(memory_allowed(root.path()).allowed_bytes, 8388608u);
}

}  // namespace
}  // namespace redsum::server
