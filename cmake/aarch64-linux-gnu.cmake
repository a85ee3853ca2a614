# SPDX-License-Identifier: BSD-3-Clause
# Builds for AArch64 on another machine, with Debian's cross compiler; what was built runs here under qemu-user. Presets
# `aarch64` and docs/operate/platforms.md.

set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER "") # else one for this machine is found
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)

set(CMAKE_FIND_ROOT_PATH /usr/aarch64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)

# -L: where the loader and the libraries of that processor lie.
find_program(CW_QEMU NAMES qemu-aarch64 qemu-aarch64-static)
if(CW_QEMU)
    set(CMAKE_CROSSCOMPILING_EMULATOR ${CW_QEMU} -L /usr/aarch64-linux-gnu)
endif()
