# SPDX-License-Identifier: Apache-2.0
redsum_library(redsum_coordinator SOURCES coordinator.cc DEPS redsum_server_core redsum_control redsum_loop redsum_wire redsum_base)
