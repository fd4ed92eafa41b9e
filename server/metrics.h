// SPDX-License-Identifier: Apache-2.0
// The Prometheus text of a daemon, built anew from the snapshots at each scrape: no series outlives its job, and
// nothing on the data path touches a metrics library. Labels are bounded: job_id by kMaxJobLabels, rank by the
// snapshot's top k.
#pragma once
#include <string>

#include "server/admin_status.h"

namespace redsum::server {

inline constexpr std::size_t kMaxJobLabels = 100;

std::string metrics_text(const DaemonStatus& status);

}  // namespace redsum::server
