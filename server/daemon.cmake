# SPDX-License-Identifier: Apache-2.0
# The daemon around the two roles: configuration, log, admin port, and the programs redsumd and redsumctl.
find_package(CLI11 REQUIRED)
find_package(tomlplusplus REQUIRED)
find_package(spdlog REQUIRED)
find_package(nlohmann_json REQUIRED)

redsum_library(redsum_log SOURCES log.cc log_format.cc DEPS redsum_base PRIVATE_DEPS spdlog::spdlog)
redsum_library(redsum_config SOURCES config.cc config_file.cc config_flags.cc config_keys.cc config_print.cc config_values.cc
  cpus.cc DEPS redsum_wire redsum_base redsum_log PRIVATE_DEPS tomlplusplus::tomlplusplus CLI11::CLI11)
