// SPDX-License-Identifier: Apache-2.0
// Which network card: the setting REDSUM_INTERFACES and data.interfaces. A list, separated by commas, of
//   eth0         that interface; a name that does not end in a digit also stands for itself with a number: docker is
//                docker0, eth is eth0 and eth1, but eth1 is never eth10
//   ib*          every interface whose name begins so
//   10.0.0.0/8   every interface with an address in there; fd00::/8 too; without a length that one address
// and with a ^ in front of the list every interface that none of them matches. The first item that matches decides;
// where it leaves a choice, and after a ^, an address beyond loopback comes before loopback, then IPv4 before IPv6,
// then the order of the system. Interfaces that are down and link-local IPv6 addresses are never chosen.
#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "transport/base/status.h"
#include "transport/tcp/address.h"

namespace redsum::tcp {

// One address of an interface; an interface without any stands there once, with an empty one.
struct Interface {
  std::string name;
  Endpoint address;  // port 0
  bool up = false;   // switched on, with a carrier
};

// What was chosen; empty: nothing was asked for.
struct LocalInterface {
  std::string name;
  std::vector<Endpoint> addresses;  // port 0, at most one of each family; the first is the one to listen on
  std::string host() const;         // of the first, without a port; "" where there is none
  bool loopback() const { return !addresses.empty() && addresses.front().is_loopback(); }
};

std::vector<Interface> present_interfaces();  // of this host, now
// "lo 127.0.0.1 ::1, eth0 10.0.0.7 (down)", for messages; a long list is cut.
std::string interfaces_text(std::span<const Interface> present);

// Pure. invalid_argument with what is wrong and what is present (the caller names the setting), when it cannot be read
// or nothing matches. `wanted`: this very address, which must lie on an interface that the setting allows.
Result<LocalInterface> choose_interface(std::string_view setting, std::span<const Interface> present,
                                        const Endpoint* wanted = nullptr);

// The same for this host. `host`: the address that was asked for as well, numeric or a name, which the system's
// resolver is asked for at once; "", "0.0.0.0" and "::" leave the choice to the setting.
Result<LocalInterface> local_interface(const std::string& setting, const std::string& host);

}  // namespace redsum::tcp
