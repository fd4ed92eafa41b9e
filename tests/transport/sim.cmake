# SPDX-License-Identifier: Apache-2.0
redsum_test(conformance_sim LABELS conformance
  SOURCES sim_backend.cc $<TARGET_OBJECTS:redsum_conformance>
  DEPS redsum_sim)
redsum_test(sim_network_test LABELS unit sim SOURCES sim_test.cc sim_faults_test.cc DEPS redsum_sim)
