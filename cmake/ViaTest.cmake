# SPDX-License-Identifier: BSD-3-Clause
# via_test(NAME name SOURCES ... LIBS ... [LABELS ...] [TIMEOUT seconds] [ENVIRONMENT ...]
#          [ARGUMENTS ...] [SERIAL])
# A GoogleTest program that ctest runs as one test, always with a deadline.
#
# Labels with a meaning for ./run test: "no-asan", "no-tsan" (not run under that sanitizer) and
# "release-only" (run by the release suite alone).
if(VIA_TESTS)
    find_package(GTest REQUIRED)
endif()

# clang reads the headers that every test has from where it has put them once. g++ gains little so, and
# the release build is to find a test that has not included what it uses.
if(VIA_TESTS AND VIA_SANITIZE AND CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    set(via_test_headers ${CMAKE_BINARY_DIR}/via_test_headers.cpp)
    file(CONFIGURE OUTPUT ${via_test_headers} CONTENT "int main() {}\n")
    add_executable(via_test_headers EXCLUDE_FROM_ALL ${via_test_headers})
    target_link_libraries(via_test_headers PRIVATE via_compile GTest::gtest)
    # One out of ccache's store is older than what it was made of.
    target_compile_options(via_test_headers PRIVATE "SHELL:-Xclang -fno-pch-timestamp")
    target_precompile_headers(via_test_headers PRIVATE <gtest/gtest.h> <algorithm> <array> <atomic>
        <chrono> <functional> <map> <memory> <optional> <random> <span> <string> <thread> <vector>)
endif()

# For what makes and compares bytes for the tests: worth it under the sanitizers, too.
set(VIA_TEST_OPTIMIZATION $<$<CONFIG:Release>:-O1>)
if(VIA_SANITIZE)
    set(VIA_TEST_OPTIMIZATION -O1)
endif()

function(via_test)
    cmake_parse_arguments(PARSE_ARGV 0 ARG "SERIAL" "NAME;TIMEOUT"
                          "SOURCES;LIBS;LABELS;ENVIRONMENT;ARGUMENTS")
    if(ARG_UNPARSED_ARGUMENTS)
        message(FATAL_ERROR "via_test(${ARG_NAME}): what is '${ARG_UNPARSED_ARGUMENTS}'?")
    endif()
    if(NOT ARG_TIMEOUT)
        set(ARG_TIMEOUT 120)
    endif()
    add_executable(${ARG_NAME} ${ARG_SOURCES})
    target_link_libraries(${ARG_NAME} PRIVATE
        ${ARG_LIBS} via_compile GTest::gtest GTest::gtest_main)
    target_include_directories(${ARG_NAME} PRIVATE ${PROJECT_SOURCE_DIR}/tests)
    # What is tested is optimized; the tests themselves need not be, and compile faster so.
    via_compile_quickly(${ARG_NAME})
    if(TARGET via_test_headers)
        target_precompile_headers(${ARG_NAME} REUSE_FROM via_test_headers)
    endif()
    add_test(NAME ${ARG_NAME} COMMAND ${ARG_NAME} ${ARG_ARGUMENTS})
    set_tests_properties(${ARG_NAME} PROPERTIES TIMEOUT ${ARG_TIMEOUT} LABELS "${ARG_LABELS}")
    via_test_environment(${ARG_NAME} ${ARG_ENVIRONMENT})
    if(ARG_SERIAL)
        set_tests_properties(${ARG_NAME} PROPERTIES RUN_SERIAL TRUE)
    endif()
endfunction()

# via_test_environment(test [NAME=value ...]): what every test of this tree sees.
function(via_test_environment name)
    set_property(TEST ${name} PROPERTY ENVIRONMENT
        "VIA_AGENT_PROGRAM=${CMAKE_BINARY_DIR}/bin/viad"
        # The settings of the machine's user must not change what is tested.
        "VIA_CONFIG=/dev/null"
        "ASAN_OPTIONS=detect_stack_use_after_return=1:strict_string_checks=1:abort_on_error=0"
        "UBSAN_OPTIONS=print_stacktrace=1"
        # Each process waits for a second before it ends otherwise, and tests have many.
        "TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1:atexit_sleep_ms=20"
        ${ARGN})
endfunction()
