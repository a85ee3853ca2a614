# SPDX-License-Identifier: BSD-3-Clause
# The last lines of a configuration: what is built, and what is left out for lack of which header.

if(NOT PROJECT_IS_TOP_LEVEL)
    return()
endif()

# cw_summary(<name> <whether> <what is missing>)
function(cw_summary name built missing)
    if(built)
        message(STATUS "${name}: yes")
    else()
        message(STATUS "${name} left out: ${missing}")
    endif()
endfunction()

message(STATUS "transports self, shm, tcp: yes")
if(CW_FOREIGN)
    cw_summary("transport verbs" OFF "not for this processor or C library")
else()
    cw_summary("transport verbs" "${CW_VERBS_INCLUDE}" "no infiniband/verbs.h (libibverbs-dev)")
endif()
cw_summary("transport ofi" "${CW_LIBFABRIC_HEADERS}" "no rdma/fabric.h (libfabric-dev)")
cw_summary("manual pages" "${CW_MAN_PAGES}" "no pandoc, no Python, or not a build that is installed")
cw_summary("site of the documents" "${CW_SITE}"
    "no mkdocs with its theme material, no Python, or not a build that is installed")
cw_summary("tests" "${CW_BUILD_TESTS}" "${CW_TESTS_LACK}")
