# SPDX-License-Identifier: Apache-2.0
# The helper functions that the folders use; also for the cross build of the kernels alone (scripts/aarch64).

# redsum_library(NAME SOURCES a.cc ... DEPS x y): a static library of one folder, linked to exactly what it may include.
function(redsum_library name)
  cmake_parse_arguments(arg "" "" "SOURCES;DEPS;PRIVATE_DEPS" ${ARGN})
  add_library(${name} STATIC ${arg_SOURCES})
  target_link_libraries(${name} PUBLIC redsum_flags ${arg_DEPS} PRIVATE ${arg_PRIVATE_DEPS})
endfunction()

# redsum_program(NAME SOURCES ... DEPS ...): an executable in build/<preset>/bin.
function(redsum_program name)
  cmake_parse_arguments(arg "" "" "SOURCES;DEPS" ${ARGN})
  add_executable(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE redsum_flags ${arg_DEPS})
endfunction()

# redsum_test(NAME LABELS unit SOURCES ... DEPS ... [TIMEOUT s]): a GoogleTest program, one ctest entry per program.
function(redsum_test name)
  cmake_parse_arguments(arg "" "TIMEOUT" "LABELS;SOURCES;DEPS;ENVIRONMENT;ARGS" ${ARGN})
  add_executable(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE redsum_flags ${arg_DEPS} GTest::gtest GTest::gtest_main GTest::gmock)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  add_test(NAME ${name} COMMAND ${name} ${arg_ARGS})
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 300)
  endif()
  set_tests_properties(${name} PROPERTIES LABELS "${arg_LABELS}" TIMEOUT ${arg_TIMEOUT} ENVIRONMENT "${arg_ENVIRONMENT}")
endfunction()
