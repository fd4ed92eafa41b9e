# SPDX-License-Identifier: Apache-2.0
redsum_library(redsum_shard SOURCES shard_agent.cc DEPS redsum_server_core redsum_agent redsum_kernels)
redsum_library(redsum_reducer SOURCES reducer.cc DEPS redsum_shard redsum_tcp redsum_control)
