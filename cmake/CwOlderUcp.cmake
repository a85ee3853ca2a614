# SPDX-License-Identifier: BSD-3-Clause
# Looks for an installed reference library with its headers (Debian: libucx-dev), for tests with programs of an older
# level. Sets CW_OLDER_INCLUDE, CW_OLDER_UCP and CW_OLDER_UCS, and CW_OLDER_LEVEL: the minor number of its API, or
# empty.

find_path(CW_OLDER_INCLUDE ucp/api/ucp_version.h PATHS /usr/include NO_DEFAULT_PATH)
find_library(CW_OLDER_UCP NAMES libucp.so PATHS /usr/lib /usr/lib64
    PATH_SUFFIXES ${CMAKE_LIBRARY_ARCHITECTURE} NO_DEFAULT_PATH)
find_library(CW_OLDER_UCS NAMES libucs.so PATHS /usr/lib /usr/lib64
    PATH_SUFFIXES ${CMAKE_LIBRARY_ARCHITECTURE} NO_DEFAULT_PATH)
set(CW_OLDER_LEVEL)
if(CW_OLDER_INCLUDE AND CW_OLDER_UCP AND CW_OLDER_UCS)
    file(STRINGS ${CW_OLDER_INCLUDE}/ucp/api/ucp_version.h CW_OLDER_LEVEL REGEX "^#define +UCP_API_MINOR +[0-9]+")
    string(REGEX REPLACE ".*UCP_API_MINOR +([0-9]+).*" "\\1" CW_OLDER_LEVEL "${CW_OLDER_LEVEL}")
endif()
