# SPDX-License-Identifier: BSD-3-Clause
# The dialect, warnings, sanitizers and link options that everything is built with.

set(CMAKE_C_STANDARD 17)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS ON)

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
    set(CMAKE_BUILD_TYPE RelWithDebInfo CACHE STRING "Build type" FORCE)
endif()
# CW_ASSERT alone decides on assertions: CMake would switch them off with every optimized build type.
if(CW_LINES_ONLY)
    set(cw_debug_info -g1)
else()
    set(cw_debug_info -g)
endif()
foreach(language C CXX)
    set(CMAKE_${language}_FLAGS_RELWITHDEBINFO "-O2 ${cw_debug_info}")
    set(CMAKE_${language}_FLAGS_DEBUG "-O1 ${cw_debug_info} -fno-omit-frame-pointer")
endforeach()
# gcc clears structures of about 100 bytes, such as ucp_request_param_t, by a string instruction whose start costs as
# much as a short message. Stores of vectors do not have that cost.
if(CMAKE_C_COMPILER_ID STREQUAL "GNU" AND CMAKE_SYSTEM_PROCESSOR STREQUAL "x86_64")
    string(APPEND CMAKE_C_FLAGS_RELWITHDEBINFO " -mmemset-strategy=vector_loop:256:noalign,libcall:-1:noalign")
endif()
if(NOT CW_ASSERT)
    add_compile_definitions(NDEBUG)
endif()

add_compile_options(-Wall -Wextra)
add_compile_options(
    "$<$<COMPILE_LANGUAGE:C>:-Wstrict-prototypes;-Wold-style-definition;-Wvla;-Wundef;-Wpointer-arith>")
if(CW_WERROR)
    add_compile_options(-Werror)
endif()

# What is installed does not depend on the directory in which it was built. Builds with tests keep their paths, for the
# debugger and for the tools that count lines.
if(NOT CW_BUILD_TESTS)
    add_compile_options(-ffile-prefix-map=${PROJECT_SOURCE_DIR}=. -ffile-prefix-map=${PROJECT_BINARY_DIR}=./build)
endif()

add_link_options(LINKER:-z,relro LINKER:-z,now LINKER:--build-id)

if(CW_SANITIZE)
    add_compile_options(-fsanitize=${CW_SANITIZE} -fno-omit-frame-pointer)
    add_link_options(-fsanitize=${CW_SANITIZE})
    if(CW_SANITIZE MATCHES thread AND CMAKE_C_COMPILER_ID STREQUAL GNU)
        # The sanitizer does not see fences; ours order memory that is shared with another process.
        add_compile_options(-Wno-tsan)
    endif()
    if(CW_SANITIZE MATCHES undefined)
        add_compile_options(-fno-sanitize-recover=all)
    endif()
    # What a program that is not built likewise (an interpreter) has to load first. Of clang it is not a library.
    set(CW_ASAN_RUNTIME none)
    if(CW_SANITIZE MATCHES address AND CMAKE_C_COMPILER_ID STREQUAL GNU)
        execute_process(COMMAND ${CMAKE_C_COMPILER} -print-file-name=libasan.so
            OUTPUT_VARIABLE CW_ASAN_RUNTIME OUTPUT_STRIP_TRAILING_WHITESPACE)
        get_filename_component(CW_ASAN_RUNTIME "${CW_ASAN_RUNTIME}" REALPATH)
    endif()
endif()
if(CW_COVERAGE)
    add_compile_options(--coverage -fprofile-update=atomic)
    add_link_options(--coverage)
endif()
