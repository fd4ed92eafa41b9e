// SPDX-License-Identifier: Apache-2.0
// Where a setting comes from, and what several of them must agree on.
#include "server/config.h"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include <map>

#include "tests/server/temporary_folder.h"
#include "transport/tcp/interfaces.h"

namespace redsum::server {
namespace {

using test::TemporaryFolder;
using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

// A process as the daemon meets it: flags, variables, a file, a root with no cgroup limits.
struct World {
  TemporaryFolder folder;
  std::map<std::string, std::string> variables;

  Result<Settings> gather(std::vector<const char*> flags) const {
    flags.insert(flags.begin(), "redsumd");
    const auto line = parse_command_line(static_cast<int>(flags.size()), flags.data());
    if (!line) return failure(line.error());
    return gather_settings(*line, [this](const char* name) -> const char* {
      const auto found = variables.find(name);
      return found == variables.end() ? nullptr : found->second.c_str();
    });
  }
  Result<DaemonConfig> config(const std::vector<const char*>& flags) const {
    const auto settings = gather(flags);
    if (!settings) return failure(settings.error());
    return make_config(*settings, folder.path("root"));
  }
  std::string error(const std::vector<const char*>& flags) const {
    const auto made = config(flags);
    return made ? "no error" : made.error().to_string();
  }
};

TEST(Configuration, ALaterSourceBeatsAnEarlierOne) {
  World world;
  const std::string file =
      world.folder.write("r.toml", "[reducer]\nshards = 2\nname = 'from-file'\n[log]\nlevel = 'warn'\n");
  auto settings = world.gather({"--config", file.c_str()});
  ASSERT_TRUE(settings) << settings.error().text();
  EXPECT_EQ(settings->at("reducer.shards").text, "2");
  EXPECT_EQ(settings->at("reducer.shards").where, file + ":2");
  EXPECT_EQ(settings->at("control.address").source, Source::built_in);

  world.variables["REDSUM_REDUCER_SHARDS"] = "3";
  settings = world.gather({"--config", file.c_str()});
  ASSERT_TRUE(settings) << settings.error().text();
  EXPECT_EQ(settings->at("reducer.shards").text, "3");
  EXPECT_EQ(settings->at("reducer.shards").source, Source::environment);

  settings = world.gather({"--reducer.shards=4", "--config", file.c_str()});
  ASSERT_TRUE(settings) << settings.error().text();
  EXPECT_EQ(settings->at("reducer.shards").text, "4");
  EXPECT_EQ(settings->at("reducer.shards").source, Source::flag);
  EXPECT_EQ(settings->at("reducer.name").text, "from-file");
  EXPECT_EQ(settings->at("log.level").text, "warn");
}

TEST(Configuration, EveryKeyHasAVariableAndAFlag) {
  for (const Key& key : keys()) {
    World world;
    const std::string text = key.type == KeyType::boolean    ? "true"
                             : key.type == KeyType::list     ? "h1:1,h2:2"
                             : key.type == KeyType::address  ? "[::1]:99"
                             : key.type == KeyType::integer  ? "7"
                             : key.type == KeyType::bytes    ? "1MiB"
                             : key.type == KeyType::duration ? "700ms"
                             : key.type == KeyType::choice   ? std::string(key.words.substr(0, key.words.find('|')))
                                                             : "word";
    world.variables[environment_name(key)] = text;
    auto settings = world.gather({});
    ASSERT_TRUE(settings) << settings.error().text();
    EXPECT_EQ(settings->at(key.name).text, text) << key.name;
    EXPECT_EQ(settings->at(key.name).source, Source::environment) << key.name;
    std::vector<std::string> names{std::string(key.name)};
    if (!key.alias.empty()) names.emplace_back(key.alias);
    for (const std::string& name : names) {
      const std::string flag = "--" + name + "=" + text;
      settings = world.gather({flag.c_str()});
      ASSERT_TRUE(settings) << flag << ": " << settings.error().text();
      EXPECT_EQ(settings->at(key.name).text, text) << flag;
      EXPECT_EQ(settings->at(key.name).source, Source::flag) << flag;
    }
  }
}

TEST(Configuration, DefaultsGiveAWorkingPoolOnLoopback) {
  const World world;
  const auto config = world.config({});
  ASSERT_TRUE(config) << config.error().text();
  EXPECT_TRUE(config->has_reducer);
  EXPECT_TRUE(config->has_coordinator);
  EXPECT_EQ(config->coordinator.address, "127.0.0.1:7400");
  EXPECT_EQ(config->reducer.data_address, "127.0.0.1:7401");
  EXPECT_EQ(config->admin_address, "127.0.0.1:7402");
  EXPECT_EQ(config->coordinator.heartbeat_timeout, 3 * kSecond);
  EXPECT_EQ(config->coordinator.defaults.chunk_bytes, 0u);
  EXPECT_EQ(config->reducer.shards, config->cpus.allowed);
  EXPECT_THAT(config->reducer.coordinators, IsEmpty());
  EXPECT_GE(config->reducer.budget_bytes, 64u << 20);
  EXPECT_THAT(config->warnings, Contains(HasSubstr("production runs coordinators apart")));
}

TEST(Configuration, SharedNamesAreHonoured) {
  World world;
  world.variables["REDSUM_COORDINATOR"] = "c1:7400,c2:7400";
  world.variables["REDSUM_SECRET_FILE"] = world.folder.write("secret", "s3cret\n");
  auto config = world.config({"--role", "reducer"});
  ASSERT_TRUE(config) << config.error().text();
  EXPECT_EQ(config->reducer.coordinators, (std::vector<std::string>{"c1:7400", "c2:7400"}));
  EXPECT_EQ(config->reducer.pool_key, wire::key_from_secret("s3cret"));  // the newline is no part of it
  world.variables["REDSUM_CONTROL_COORDINATORS"] = "own:1";
  config = world.config({"--role", "reducer"});
  ASSERT_TRUE(config) << config.error().text();
  EXPECT_EQ(config->reducer.coordinators, std::vector<std::string>{"own:1"});
}

TEST(Configuration, AReducerNeedsACoordinator) {
  EXPECT_THAT(World().error({"--role", "reducer"}), HasSubstr("control.coordinators"));
  EXPECT_TRUE(World().config({"--role", "coordinator"}));
}

TEST(Configuration, AnExposedPortNeedsASecret) {
  for (const char* flag :
       {"--control=0.0.0.0:7400", "--control=[::]:7400", "--data=192.0.2.1:7401", "--control=example:7400"})
    EXPECT_THAT(World().error({flag, "--advertise=h"}), AllOf(HasSubstr("auth_failed"), HasSubstr("--insecure")))
        << flag;
  for (const char* flag : {"--control=127.8.8.8:1", "--control=[::1]:1", "--data=localhost:1"})
    EXPECT_EQ(World().error({flag}), "no error") << flag;
  // A port of the role that does not run is not opened.
  EXPECT_EQ(World().error({"--role=coordinator", "--data=192.0.2.1:7401"}), "no error");

  const World world;
  const auto open = world.config({"--control=0.0.0.0:7400", "--data=192.0.2.1:7401", "--insecure"});
  ASSERT_TRUE(open) << open.error().text();
  EXPECT_THAT(open->warnings, Contains(HasSubstr("no secret")));
  const std::string flag = "--secret-file=" + world.folder.write("secret", "abc");
  EXPECT_EQ(world.error({"--control=0.0.0.0:7400", flag.c_str()}), "no error");
}

TEST(Configuration, TheSecretFileIsLookedAt) {
  const World world;
  const auto with = [&](const std::string& path) { return world.error({("--secret-file=" + path).c_str()}); };
  EXPECT_THAT(with(world.folder.path("none")), AllOf(HasSubstr("none"), HasSubstr("No such file")));
  EXPECT_THAT(with(world.folder.write("empty", "\n")), HasSubstr("empty"));
  EXPECT_THAT(with(world.folder.path()), HasSubstr("not a regular file"));
  EXPECT_THAT(with(world.folder.write("long", std::string(4097, 'x'))), HasSubstr("longer than 4096"));
  const std::string file = world.folder.write("secret", "topsecretword\n"), flag = "--secret-file=" + file;
  ASSERT_EQ(::chmod(file.c_str(), 0644), 0);
  const auto open = world.config({flag.c_str()});
  ASSERT_TRUE(open);
  EXPECT_THAT(open->warnings, Contains(HasSubstr("chmod 600")));
  ASSERT_EQ(::chmod(file.c_str(), 0600), 0);
  const auto closed = world.config({flag.c_str()});
  ASSERT_TRUE(closed);
  EXPECT_THAT(closed->warnings, Not(Contains(HasSubstr("chmod"))));
  const auto settings = world.gather({flag.c_str()});
  ASSERT_TRUE(settings);
  EXPECT_THAT(print_config(*settings), Not(HasSubstr("topsecretword")));
}

TEST(Configuration, BothRolesInOneProcessAdvertiseWhatWorkersReach) {
  // The reducer registers over the coordinator's own address; loopback must not become what workers are told.
  EXPECT_THAT(World().error({"--insecure", "--control=0.0.0.0:7400", "--data=0.0.0.0:7401"}),
              HasSubstr("data.advertise"));
  auto config = World().config({"--insecure", "--control=0.0.0.0:7400", "--data=192.0.2.1:7401"});
  ASSERT_TRUE(config) << config.error().text();
  EXPECT_EQ(config->reducer.advertise, "192.0.2.1");
  // The reducer puts a port behind it, and brackets around it where they are needed.
  config = World().config({"--insecure", "--control=[::]:7400", "--data=[2001:db8::1]:7401"});
  ASSERT_TRUE(config) << config.error().text();
  EXPECT_EQ(config->reducer.advertise, "2001:db8::1");
  config = World().config({"--insecure", "--control=192.0.2.1:7400", "--data=0.0.0.0:7401"});
  ASSERT_TRUE(config) << config.error().text();
  EXPECT_EQ(config->reducer.advertise, "");
  config = World().config({"--role=reducer", "--coordinators=192.0.2.7:7400"});
  ASSERT_TRUE(config) << config.error().text();
  EXPECT_THAT(config->warnings, Contains(HasSubstr("workers on other machines cannot reach")));
  EXPECT_EQ(reachable_address("0.0.0.0:7400"), "127.0.0.1:7400");
  EXPECT_EQ(reachable_address("[::]:7400"), "[::1]:7400");
  EXPECT_EQ(reachable_address("192.0.2.1:7400"), "192.0.2.1:7400");
}

TEST(Configuration, NET_02_TheCardGivesTheDataAddress) {
  World world;
  const auto address = [&](const std::vector<const char*>& flags) {
    const auto config = world.config(flags);
    return config ? config->reducer.data_address : config.error().to_string();
  };
  EXPECT_EQ(address({"--interfaces=127.0.0.0/8"}), "127.0.0.1:7401");
  EXPECT_EQ(address({"--interfaces=::1/128"}), "[::1]:7401");  // in place of the default's host
  EXPECT_EQ(address({"--interfaces=nosuch0,::1", "--data=0.0.0.0:99"}), "[::1]:99");
  EXPECT_EQ(address({"--interfaces=127.0.0.0/8", "--data=localhost:99"}), "localhost:99");
  EXPECT_THAT(address({"--interfaces=::1", "--data=127.0.0.1:99"}),
              AllOf(HasSubstr("invalid_argument"), HasSubstr("data.interfaces = '::1'"),
                    HasSubstr("data.address = '127.0.0.1:99'"), HasSubstr("lo 127.0.0.1")));
  EXPECT_THAT(
      address({"--interfaces=nosuch0"}),
      AllOf(HasSubstr("invalid_argument: --interfaces: data.interfaces = 'nosuch0'"), HasSubstr("lo 127.0.0.1")));
  EXPECT_THAT(address({"--interfaces=10.0.0.0/33"}), HasSubstr("is no network"));
  // The role that does not run does not look.
  EXPECT_EQ(world.error({"--interfaces=nosuch0", "--role=coordinator"}), "no error");
  // The library's variable counts too, and the setting's own beats it.
  world.variables["REDSUM_INTERFACES"] = "nosuch1";
  EXPECT_THAT(address({}), HasSubstr("REDSUM_INTERFACES: data.interfaces = 'nosuch1'"));
  world.variables["REDSUM_DATA_INTERFACES"] = "::1";
  EXPECT_EQ(address({}), "[::1]:7401");
  EXPECT_EQ(address({"--interfaces", ""}), "127.0.0.1:7401");  // as redsumrun says it to its daemons
}

TEST(Configuration, NET_02_LoopbackIsForAPoolOfThisHostAlone) {
  for (const std::vector<const char*>& elsewhere :
       {std::vector<const char*>{"--role=reducer", "--coordinators=192.0.2.7:7400"},
        {"--control=0.0.0.0:7400", "--insecure"},
        {"--control=192.0.2.7:7400", "--insecure"}}) {
    std::vector<const char*> flags = elsewhere;
    flags.push_back("--interfaces=127.0.0.0/8");
    EXPECT_THAT(World().error(flags), AllOf(HasSubstr("invalid_argument"), HasSubstr("127.0.0.1, but the coordinator"),
                                            HasSubstr("'^lo'"), HasSubstr("present: ")));
    flags.push_back("--advertise=relay.example");  // a way from elsewhere to here is known
    EXPECT_EQ(World().error(flags), "no error");
  }
  EXPECT_EQ(World().error({"--role=reducer", "--coordinators=[::1]:7400", "--interfaces=127.0.0.0/8"}), "no error");
}

TEST(Configuration, NET_02_ACardBeyondLoopbackNeedsASecretAndIsAdvertised) {
  const auto card = tcp::local_interface("^lo,docker", "");
  if (!card) GTEST_SKIP() << "this host has no card: " << card.error().text();
  const World world;
  EXPECT_THAT(world.error({"--interfaces=^lo,docker"}),
              AllOf(HasSubstr("auth_failed"), HasSubstr("data.interfaces = '^lo,docker'"), HasSubstr("--insecure")));
  const auto config = world.config({"--interfaces=^lo,docker", "--insecure"});
  ASSERT_TRUE(config) << config.error().text();
  EXPECT_EQ(config->reducer.data_address, tcp::format_host_port(card->host(), 7401));
  EXPECT_EQ(config->reducer.advertise, card->host());
  const auto nat = world.config({"--interfaces=^lo,docker", "--insecure", "--advertise=nat.example:99"});
  ASSERT_TRUE(nat) << nat.error().text();
  EXPECT_EQ(nat->reducer.advertise, "nat.example:99");
}

TEST(Configuration, SettingsThatDependOnEachOther) {
  EXPECT_THAT(World().error({"--job.chunk_bytes=5000"}), HasSubstr("multiple of 64"));
  EXPECT_THAT(World().error({"--job.chunk_bytes=4KiB", "--job.small_bytes=8KiB"}),
              HasSubstr("above job.chunk_bytes = 4KiB"));
  const auto config =
      World().config({"--chunk-bytes=64KiB", "--window=3", "--admin=off", "--shards=1000", "--drain-timeout=0"});
  ASSERT_TRUE(config) << config.error().text();
  EXPECT_EQ(config->coordinator.defaults.chunk_bytes, 65536u);
  EXPECT_EQ(config->coordinator.defaults.window, 3);
  EXPECT_EQ(config->coordinator.defaults.small_window, 0);
  EXPECT_EQ(config->admin_address, "");
  EXPECT_EQ(config->drain_timeout, 0);
  EXPECT_EQ(config->reducer.shards, 1000u);
  EXPECT_THAT(config->warnings, Contains(HasSubstr("CPUs allowed")));
}

TEST(Configuration, LIF_10_ShardsAndBudgetFollowTheCgroup) {
  const World world;
  world.folder.write("root/proc/self/cgroup", "0::/pod\n");
  world.folder.write("root/sys/fs/cgroup/pod/cpu.max", "100000 100000\n");
  world.folder.write("root/sys/fs/cgroup/pod/memory.max", std::to_string(1ull << 30) + "\n");
  const auto config = world.config({});
  ASSERT_TRUE(config) << config.error().text();
  EXPECT_EQ(config->reducer.shards, 1u);
  EXPECT_EQ(config->reducer.budget_bytes, 256u << 20);
}

TEST(CommandLine, AnUnknownFlagNamesTheNearest) {
  const World world;
  EXPECT_THAT(world.error({"--rol", "both"}), AllOf(HasSubstr("--rol"), HasSubstr("did you mean --role?")));
  EXPECT_THAT(world.error({"--log-fromat=json"}), AllOf(HasSubstr("--log-fromat"), HasSubstr("--log-format")));
  EXPECT_THAT(world.error({"stray"}), HasSubstr("'stray'"));
  EXPECT_THAT(world.error({"--role"}), HasSubstr("--role"));
  EXPECT_THAT(world.error({"--role=worker"}),
              AllOf(HasSubstr("--role"), HasSubstr("worker"), HasSubstr("reducer, coordinator or both")));
  EXPECT_THAT(world.error({"--reducer.shards=5000"}), AllOf(HasSubstr("5000"), HasSubstr("from 0 to 1024")));
  EXPECT_THAT(world.error({"--config=/no/such.toml"}), HasSubstr("/no/such.toml"));
}

TEST(CommandLine, TheLastOfARepeatedFlagCountsAndListsAdd) {
  const auto settings = World().gather({"--shards=1", "--shards=2", "--coordinators=a:1", "--coordinators=b:2,c:3"});
  ASSERT_TRUE(settings) << settings.error().text();
  EXPECT_EQ(settings->at("reducer.shards").text, "2");
  EXPECT_EQ(settings->at("control.coordinators").text, "a:1,b:2,c:3");
}

TEST(Variables, EmptyCountsAsNotSetAndBadOnesAreNamed) {
  World world;
  world.variables["REDSUM_ROLE"] = "";
  EXPECT_EQ(world.error({}), "no error");
  world.variables["REDSUM_LOG_LEVEL"] = "inf";
  EXPECT_THAT(world.error({}),
              AllOf(HasSubstr("REDSUM_LOG_LEVEL"), HasSubstr("log.level"), HasSubstr("did you mean 'info'")));
}

TEST(Variables, AMisspeltOneIsNoticed) {
  const char* block[] = {"REDSUM_REDUCER_SHARD=2",
                         "REDSUM_REDUCER_SHARDS=2",
                         "REDSUM_JOB_ID=x",
                         "REDSUM_MODE=ring",
                         "PATH=/bin",
                         "REDSUM_ADMIN_PORT=tcp://10.0.0.1:7402",
                         "REDSUM_DATA_SERVICE_HOST=10.0.0.1",
                         nullptr};
  const auto warnings = suspicious_variables(block);
  ASSERT_EQ(warnings.size(), 1u) << testing::PrintToString(warnings);
  EXPECT_THAT(warnings[0], HasSubstr("did you mean REDSUM_REDUCER_SHARDS"));
}

}  // namespace
}  // namespace redsum::server
