# SPDX-License-Identifier: Apache-2.0
# What `cmake --install` lays down: the library with its two headers, a CMake package (redsum::client), a pkg-config file, the
# programs with their manual pages, and the commented configuration.
include(CMakePackageConfigHelpers)

set_target_properties(redsum_client PROPERTIES EXPORT_NAME client)
install(TARGETS redsum_client EXPORT redsum LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(FILES client/redsum.h client/redsum.hpp DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/redsum)

set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/redsum)
install(EXPORT redsum NAMESPACE redsum:: FILE redsum-targets.cmake DESTINATION ${package_folder})
file(WRITE ${CMAKE_BINARY_DIR}/redsum-config.cmake "include(\"\${CMAKE_CURRENT_LIST_DIR}/redsum-targets.cmake\")\n")
write_basic_package_version_file(${CMAKE_BINARY_DIR}/redsum-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/redsum-config.cmake ${CMAKE_BINARY_DIR}/redsum-config-version.cmake
        DESTINATION ${package_folder})

configure_file(cmake/redsum.pc.in ${CMAKE_BINARY_DIR}/redsum.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/redsum.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

foreach(program redsumd redsumctl redsumrun redsum-perf)
  if(TARGET ${program})
    install(TARGETS ${program} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
    set(chapter 1)
    if(program STREQUAL redsumd)
      set(chapter 8)
    endif()
    install(FILES docs/man/${program}.${chapter} DESTINATION ${CMAKE_INSTALL_MANDIR}/man${chapter})
  endif()
endforeach()
set_target_properties(redsum-perf PROPERTIES INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}")
install(FILES configs/redsumd.toml DESTINATION ${CMAKE_INSTALL_DATADIR}/redsum)
