// SPDX-License-Identifier: Apache-2.0
// What tells one life of a worker or reducer from any other.
#pragma once
#include "transport/base/types.h"

namespace redsum {

// Larger than that of any life before on this host's clock, and different from those of others that begin at the same
// time, in this process and elsewhere. Any thread.
Incarnation new_incarnation();

}  // namespace redsum
