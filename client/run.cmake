# SPDX-License-Identifier: Apache-2.0
# redsumrun starts redsumd processes; it links neither the server nor the client library.
find_package(CLI11 REQUIRED)
find_package(nlohmann_json REQUIRED)
set(run_folder ${CMAKE_CURRENT_LIST_DIR})
redsum_library(redsum_run
  SOURCES ${run_folder}/run_events.cc ${run_folder}/run_options.cc ${run_folder}/run_output.cc ${run_folder}/run_pool.cc
          ${run_folder}/run_process.cc ${run_folder}/run_supervisor.cc
  DEPS redsum_base PRIVATE_DEPS CLI11::CLI11 nlohmann_json::nlohmann_json)
redsum_program(redsumrun SOURCES ${run_folder}/run.cc DEPS redsum_run)
