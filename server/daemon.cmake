# SPDX-License-Identifier: Apache-2.0
# The daemon around the two roles: configuration, log, admin port, and the programs redsumd and redsumctl.
find_package(CLI11 REQUIRED)
find_package(tomlplusplus REQUIRED)
find_package(spdlog REQUIRED)
find_package(nlohmann_json REQUIRED)

redsum_library(redsum_log SOURCES log.cc log_format.cc DEPS redsum_base PRIVATE_DEPS spdlog::spdlog)
redsum_library(redsum_config SOURCES config.cc config_file.cc config_flags.cc config_keys.cc config_print.cc config_values.cc
  cpus.cc DEPS redsum_wire redsum_base redsum_log redsum_tcp_socket PRIVATE_DEPS tomlplusplus::tomlplusplus CLI11::CLI11)

# prometheus-cpp's package file asks for what its HTTP server and push client need; only the core is used here.
find_library(REDSUM_PROMETHEUS_CORE prometheus-cpp-core REQUIRED)
redsum_library(redsum_admin SOURCES admin.cc admin_page.cc admin_status.cc metrics.cc metrics_process.cc
  DEPS redsum_wire redsum_base redsum_config
  PRIVATE_DEPS redsum_asio nlohmann_json::nlohmann_json ${REDSUM_PROMETHEUS_CORE})

redsum_library(redsum_daemon SOURCES daemon.cc launch.cc status_sampler.cc DEPS redsum_config redsum_log redsum_admin
  PRIVATE_DEPS nlohmann_json::nlohmann_json)
if(TARGET redsum_reducer AND TARGET redsum_coordinator)
  redsum_program(redsumd SOURCES main.cc DEPS redsum_daemon redsum_reducer redsum_coordinator)
  install(TARGETS redsumd RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()

redsum_library(redsum_ctl SOURCES ctl_box.cc admin_client.cc ctl_status.cc DEPS redsum_base redsum_config
  PRIVATE_DEPS redsum_asio nlohmann_json::nlohmann_json)
redsum_program(redsumctl SOURCES ctl.cc DEPS redsum_ctl CLI11::CLI11)
install(TARGETS redsumctl RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
