# SPDX-License-Identifier: Apache-2.0
# How every target of the project is built: one place for the language level, the warnings, the sanitizers and the helper
# functions that the folders use. A folder's CMakeLists.txt only says what it is made of and whom it may use.
include(GNUInstallDirs)

option(REDSUM_TESTS "Build the tests" ON)
option(REDSUM_WERROR "Treat warnings as errors" OFF)
option(REDSUM_MUTANTS "Compile the deliberate faults that prove the simulator's checkers" OFF)
set(REDSUM_SANITIZE "" CACHE STRING "Sanitizers, comma separated: address,undefined or thread or fuzzer")

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_C_STANDARD 99)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib)
set(CMAKE_ARCHIVE_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib)

# -ffp-contract=off everywhere: both g++ and clang fuse a*b+c otherwise, and that changes bits.
add_library(redsum_flags INTERFACE)
target_compile_options(redsum_flags INTERFACE -ffp-contract=off -Wall -Wextra -Wpedantic -Wshadow -Wconversion
  -Wno-sign-conversion -Wnon-virtual-dtor -fno-omit-frame-pointer)
target_include_directories(redsum_flags INTERFACE ${CMAKE_SOURCE_DIR})
target_compile_definitions(redsum_flags INTERFACE REDSUM_VERSION="${PROJECT_VERSION}" $<$<BOOL:${REDSUM_MUTANTS}>:REDSUM_MUTANTS>)
if(REDSUM_WERROR)
  target_compile_options(redsum_flags INTERFACE -Werror)
endif()
if(REDSUM_SANITIZE)
  add_compile_options(-fsanitize=${REDSUM_SANITIZE} -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${REDSUM_SANITIZE})
  if(REDSUM_SANITIZE MATCHES thread AND CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    add_compile_options(-Wno-tsan)  # Asio's fences: g++ warns that TSan does not see them; the atomics around them it does
  endif()
endif()

find_package(Threads REQUIRED)
find_package(OpenSSL REQUIRED COMPONENTS Crypto)
set(Boost_NO_WARN_NEW_VERSIONS ON)
find_package(Boost 1.81 REQUIRED)  # headers only: Asio, Beast

add_library(redsum_asio INTERFACE)
target_link_libraries(redsum_asio INTERFACE Boost::headers Threads::Threads)
target_compile_definitions(redsum_asio INTERFACE BOOST_ASIO_NO_DEPRECATED BOOST_ASIO_DISABLE_BOOST_COROUTINE)

include(Targets)
