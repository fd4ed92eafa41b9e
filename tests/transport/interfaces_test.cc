// SPDX-License-Identifier: Apache-2.0
// NET-02: which network card a setting means, on hosts as they are in the field.
#include "transport/tcp/interfaces.h"

#include <gmock/gmock.h>

namespace redsum::tcp {
namespace {

using testing::AllOf;
using testing::HasSubstr;

Interface at(const std::string& name, const std::string& host, bool up = true) {
  Interface one{name, {}, up};
  if (!host.empty()) one.address = numeric_endpoint({host, 0}).value();
  return one;
}

// As the system lists them: loopback, containers, two cards, one of them without a cable, an InfiniBand pair.
const std::vector<Interface> kHost = {
    at("lo", "127.0.0.1"),      at("docker0", "172.17.0.1"),   at("eth1", "192.168.1.5"), at("eth10", "192.168.10.5"),
    at("eth0", "10.0.0.5"),     at("eth2", "10.0.2.5", false), at("ib0", "10.9.0.5"),     at("ib1", "10.9.1.5"),
    at("brdocker", "10.5.0.1"), at("wlan0", "", false),        at("lo", "::1"),           at("eth0", "fe80::5"),
    at("eth0", "fd00::5"),      at("v6only", "fd01::5"),       at("bare", "fe80::6")};

// "name host[ host of the other family]", or the error.
std::string chosen(std::string_view setting, const char* wanted = nullptr,
                   const std::vector<Interface>& present = kHost) {
  const auto endpoint = wanted ? numeric_endpoint({wanted, 0}) : std::nullopt;
  const auto found = choose_interface(setting, present, endpoint ? &*endpoint : nullptr);
  if (!found) {
    EXPECT_EQ(found.error().code(), Code::invalid_argument) << setting;
    return found.error().text();
  }
  std::string text = found->name;
  for (const Endpoint& address : found->addresses) text += " " + LocalInterface{"", {address}}.host();
  return text;
}

TEST(Interfaces, NET_02_NamesPrefixesNetworksAndExclusions) {
  EXPECT_EQ(chosen("eth0"), "eth0 10.0.0.5 fd00::5");
  EXPECT_EQ(chosen("ib*"), "ib0 10.9.0.5");
  EXPECT_EQ(chosen("10.9.1.0/24"), "ib1 10.9.1.5");
  EXPECT_EQ(chosen("10.9.1.77/24"), "ib1 10.9.1.5");  // bits behind the length do not count
  EXPECT_EQ(chosen("10.9.0.0/15"), "ib0 10.9.0.5");
  EXPECT_EQ(chosen("fd00::/16"), "eth0 fd00::5 10.0.0.5");
  EXPECT_EQ(chosen("192.168.10.5"), "eth10 192.168.10.5");
  EXPECT_EQ(chosen("0.0.0.0/0"), "docker0 172.17.0.1");
  EXPECT_EQ(chosen("*"), "docker0 172.17.0.1");
  EXPECT_EQ(chosen("lo"), "lo 127.0.0.1 ::1");
  EXPECT_EQ(chosen("^lo,docker"), "eth1 192.168.1.5");
  EXPECT_EQ(chosen(" ^ lo , docker , eth* "), "ib0 10.9.0.5");
  EXPECT_EQ(chosen("^10.0.0.0/8,192.168.0.0/16,172.16.0.0/12,fd00::/16"), "v6only fd01::5");
  EXPECT_EQ(chosen("^fd00::/8,docker,eth1,eth10"), "eth0 10.0.0.5");  // not from its IPv6 address either
}

TEST(Interfaces, NET_02_TheFirstItemThatMatchesDecides) {
  EXPECT_EQ(chosen("ib1,eth0"), "ib1 10.9.1.5");
  EXPECT_EQ(chosen("nosuch0,,eth2,eth0,ib0,"), "eth0 10.0.0.5 fd00::5");  // eth2 has no cable
  EXPECT_EQ(chosen("v6only,eth0"), "v6only fd01::5");                     // IPv4 comes first within an item only
  EXPECT_EQ(chosen("v6*,eth*"), "v6only fd01::5");
  EXPECT_EQ(chosen("lo,eth0"), "lo 127.0.0.1 ::1");
}

TEST(Interfaces, NET_02_ANameStandsForItsNumbersButNotForLongerNames) {
  EXPECT_EQ(chosen("docker"), "docker0 172.17.0.1");
  EXPECT_EQ(chosen("ib"), "ib0 10.9.0.5");
  EXPECT_EQ(chosen("eth10"), "eth10 192.168.10.5");
  EXPECT_THAT(chosen("eth1", "192.168.10.5"), HasSubstr("192.168.10.5"));  // eth1 is not eth10
  EXPECT_THAT(chosen("eth1", "192.168.10.5"), HasSubstr("no interface that it allows"));
  EXPECT_EQ(chosen("eth1*", "192.168.10.5"), "eth10 192.168.10.5");
  EXPECT_EQ(chosen("^docker", "10.5.0.1"), "brdocker 10.5.0.1");
  EXPECT_THAT(chosen("et"), HasSubstr("no interface"));
  EXPECT_THAT(chosen("eth0x"), HasSubstr("no interface"));
}

TEST(Interfaces, NET_02_LoopbackAndLinkLocalComeLastAndNever) {
  const std::vector<Interface> alone = {at("lo", "127.0.0.1"), at("docker0", "172.17.0.1"), at("eth0", "fe80::5")};
  EXPECT_EQ(chosen("^docker", nullptr, alone), "lo 127.0.0.1");
  EXPECT_THAT(chosen("^lo,docker", nullptr, alone), HasSubstr("no interface"));
  for (const char* setting : {"bare", "fe80::/10", "fe80::6"}) EXPECT_THAT(chosen(setting), HasSubstr("no interface"));
  // A routed address on loopback can be reached from elsewhere.
  const std::vector<Interface> routed = {at("lo", "127.0.0.1"), at("lo", "10.255.0.1")};
  EXPECT_EQ(chosen("lo", nullptr, routed), "lo 10.255.0.1");
  EXPECT_FALSE(choose_interface("lo", routed)->loopback());
  EXPECT_TRUE(choose_interface("lo", kHost)->loopback());
}

TEST(Interfaces, NET_02_AnAddressThatWasGivenMustLieOnThem) {
  EXPECT_EQ(chosen("eth*", "10.0.0.5"), "eth0 10.0.0.5 fd00::5");
  EXPECT_EQ(chosen("^lo", "fd00::5"), "eth0 fd00::5 10.0.0.5");
  EXPECT_THAT(chosen("ib*", "10.0.0.5"), AllOf(HasSubstr("10.0.0.5"), HasSubstr("ib0 10.9.0.5")));
  EXPECT_THAT(chosen("^eth", "10.0.0.5"), HasSubstr("no interface that it allows"));
}

TEST(Interfaces, NET_02_ErrorsTellWhatIsWrongAndWhatIsPresent) {
  const struct {
    const char *setting, *why;
  } kCases[] = {{"nosuch0", "no interface that is up"},
                {"eth2", "no interface that is up"},
                {"wlan0", "no interface that is up"},
                {"10.0.0.0/33", "'10.0.0.0/33' is no network: a number from 0 to 32"},
                {"eth0,fd00::/129", "'fd00::/129' is no network: a number from 0 to 128"},
                {"10.0.0/8", "'10.0.0/8' is no network: a numeric address"},
                {"10.0.0.0/", "a number from 0 to 32"},
                {"10.0.0.0/8x", "a number from 0 to 32"},
                {"10.0.0.0/-1", "a number from 0 to 32"},
                {"10.0.0.0/99999999999", "a number from 0 to 32"},
                {"eth0/24", "a numeric address is needed before the slash"},
                {"lo,^docker", "'^docker' has a ^"},
                {"^^lo", "'^lo' has a ^"},
                {"e*h0", "'e*h0' has a *"},
                {"**", "'**' has a *"},
                {"^", "names no interface"},
                {" , ", "names no interface"}};
  for (const auto& [setting, why] : kCases)
    EXPECT_THAT(chosen(setting),
                AllOf(HasSubstr(why), HasSubstr("lo 127.0.0.1 ::1, docker0 172.17.0.1, "),
                      HasSubstr("eth2 10.0.2.5 (down)"), HasSubstr("wlan0 (down)"), HasSubstr("expected names")))
        << setting;
  std::vector<Interface> many;
  for (int i = 0; i < 500; ++i) many.push_back(at("veth" + std::to_string(i), ""));
  EXPECT_LT(interfaces_text(many).size(), 400u);
  EXPECT_EQ(interfaces_text({}), "none");
}

TEST(Interfaces, NET_02_ThisHostIsLookedAt) {
  const auto found = local_interface("127.0.0.0/8", "");
  ASSERT_TRUE(found) << found.error().text();
  EXPECT_EQ(found->name, "lo");
  EXPECT_EQ(found->host(), "127.0.0.1");
  EXPECT_EQ(local_interface("127.0.0.0/8", "localhost")->host(), "127.0.0.1");
  EXPECT_EQ(local_interface("127.0.0.1", "0.0.0.0")->host(), "127.0.0.1");
  const auto none = local_interface("lo", "no such host");
  ASSERT_FALSE(none);
  EXPECT_THAT(none.error().text(), AllOf(HasSubstr("'no such host'"), HasSubstr("lo 127.0.0.1")));
}

}  // namespace
}  // namespace redsum::tcp
