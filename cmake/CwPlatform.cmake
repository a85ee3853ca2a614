# SPDX-License-Identifier: BSD-3-Clause
# What this can be built for, said at once and in a sentence (docs/operate/platforms.md). Reads what project() found
# out.

if(NOT CMAKE_SYSTEM_NAME STREQUAL "Linux")
    message(FATAL_ERROR "Causeway is for Linux; on '${CMAKE_SYSTEM_NAME}' src/os would need counterparts of Linux's "
        "system calls (docs/operate/platforms.md).")
elseif(NOT CMAKE_SIZEOF_VOID_P EQUAL 8)
    message(FATAL_ERROR "Causeway is for processors with addresses of 64 bits; build without -m32 and the like. The "
        "structures of its interface, and memory of peers that is named by address, are laid out for them.")
elseif(NOT CMAKE_C_BYTE_ORDER STREQUAL "LITTLE_ENDIAN")
    message(FATAL_ERROR "Causeway is for little-endian processors; this one's byte order is "
        "'${CMAKE_C_BYTE_ORDER}', and nothing has ever been tested with it.")
elseif(NOT CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|amd64|aarch64|arm64)$")
    message(WARNING "Causeway is tested on x86-64 and AArch64; on '${CMAKE_SYSTEM_PROCESSOR}' it takes the ways that "
        "need nothing of the processor, and nobody has tried.")
endif()
