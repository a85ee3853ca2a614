# SPDX-License-Identifier: BSD-3-Clause
# Cmocka for tests, and test/runner.h: CW_CMOCKA_LIBRARY, to be linked, headers and all; empty where there is none. That
# of the system, or, for a processor or a C library that the system has none for, built here from CW_CMOCKA_SOURCE.

set(CW_CMOCKA_SOURCE "" CACHE PATH "Sources of cmocka (Debian: apt-get source cmocka), to be built with the tests")
if(TARGET cw_runner)
    set(CW_CMOCKA_LIBRARY cw_runner)
    return()
endif()
if(NOT CW_CMOCKA_SOURCE)
    find_library(CW_CMOCKA_LIBRARY cmocka)
    find_path(CW_CMOCKA_INCLUDE cmocka.h)
    if(NOT CW_CMOCKA_LIBRARY OR NOT CW_CMOCKA_INCLUDE)
        set(CW_CMOCKA_LIBRARY)
        return()
    endif()
elseif(EXISTS ${CW_CMOCKA_SOURCE}/src/cmocka.c)
    # What its own build would find out of any system that is served here.
    file(WRITE ${PROJECT_BINARY_DIR}/cmocka/config.h [[
#define HAVE_INTTYPES_H 1
#define HAVE_MALLOC_H 1
#define HAVE_SIGNAL_H 1
#define HAVE_STRINGS_H 1
#define HAVE_UNISTD_H 1
#define HAVE_STRUCT_TIMESPEC 1
#define HAVE_CLOCK_GETTIME 1
#define HAVE_CLOCK_GETTIME_REALTIME 1
#define HAVE_GCC_THREAD_LOCAL_STORAGE 1
#define HAVE_STRSIGNAL 1
]])
    # Shared, as the one of the system: tests that wrap functions of libc do not mean its calls.
    add_library(cw_cmocka SHARED EXCLUDE_FROM_ALL ${CW_CMOCKA_SOURCE}/src/cmocka.c)
    target_include_directories(cw_cmocka PRIVATE ${PROJECT_BINARY_DIR}/cmocka)
    target_include_directories(cw_cmocka SYSTEM PUBLIC ${CW_CMOCKA_SOURCE}/include)
    target_compile_definitions(cw_cmocka PRIVATE HAVE_CONFIG_H _GNU_SOURCE)
    target_compile_options(cw_cmocka PRIVATE -w)
    set(CW_CMOCKA_LIBRARY cw_cmocka)
else()
    message(FATAL_ERROR "CW_CMOCKA_SOURCE: there is no ${CW_CMOCKA_SOURCE}/src/cmocka.c")
endif()

# Tests register themselves with it.
add_library(cw_runner STATIC EXCLUDE_FROM_ALL
    ${CMAKE_CURRENT_LIST_DIR}/../test/runner.c ${CMAKE_CURRENT_LIST_DIR}/../test/runner_main.c)
target_include_directories(cw_runner PUBLIC ${CMAKE_CURRENT_LIST_DIR}/../test)
target_link_libraries(cw_runner PUBLIC ${CW_CMOCKA_LIBRARY})
set(CW_CMOCKA_LIBRARY cw_runner)
