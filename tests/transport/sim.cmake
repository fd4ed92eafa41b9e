# SPDX-License-Identifier: Apache-2.0
redsum_test(conformance_sim LABELS conformance
  SOURCES sim_backend.cc $<TARGET_OBJECTS:redsum_conformance>
  DEPS redsum_sim)
redsum_test(sim_network_test LABELS unit sim SOURCES sim_test.cc sim_faults_test.cc DEPS redsum_sim)
redsum_test(conformance_fault LABELS conformance
  SOURCES fault_backend.cc tcp_pair.cc $<TARGET_OBJECTS:redsum_conformance>
  DEPS redsum_fault redsum_sim redsum_tcp)
redsum_test(fault_test LABELS unit SOURCES fault_test.cc DEPS redsum_fault redsum_sim)
