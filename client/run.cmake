# SPDX-License-Identifier: Apache-2.0
# redsumrun starts redsumd processes; it links neither the server nor the client library.
find_package(CLI11 REQUIRED)
find_package(nlohmann_json REQUIRED)
set(redsumrun_folder ${CMAKE_CURRENT_LIST_DIR})
redsum_program(redsumrun
  SOURCES ${redsumrun_folder}/run.cc ${redsumrun_folder}/run_events.cc ${redsumrun_folder}/run_options.cc
          ${redsumrun_folder}/run_output.cc ${redsumrun_folder}/run_pool.cc ${redsumrun_folder}/run_process.cc
          ${redsumrun_folder}/run_supervisor.cc
  DEPS redsum_base CLI11::CLI11 nlohmann_json::nlohmann_json)
