# SPDX-License-Identifier: BSD-3-Clause
# Builds against musl instead of glibc, with Debian's wrapper around gcc. Preset `musl` and docs/operate/platforms.md.

set(CMAKE_C_COMPILER musl-gcc)
set(CMAKE_CXX_COMPILER "") # the one of this machine means glibc
set(CMAKE_LIBRARY_ARCHITECTURE x86_64-linux-musl)

# The kernel's headers, which the wrapper hides with all of /usr/include.
set(cw_kernel_headers ${CMAKE_CURRENT_LIST_DIR}/../build/musl/kernel)
file(MAKE_DIRECTORY ${cw_kernel_headers})
foreach(directory linux asm-generic)
    file(CREATE_LINK /usr/include/${directory} ${cw_kernel_headers}/${directory} SYMBOLIC)
endforeach()
file(CREATE_LINK /usr/include/x86_64-linux-gnu/asm ${cw_kernel_headers}/asm SYMBOLIC)
set(CMAKE_C_FLAGS_INIT "-idirafter ${cw_kernel_headers}")
