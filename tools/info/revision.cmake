# SPDX-License-Identifier: BSD-3-Clause
# Writes OUTPUT, a header with branch and revision of the source tree SOURCE, when they have changed. Run in each build:
# a revision noted at configuration time would soon be a wrong one.

set(branch "<unknown>")
set(revision "0000000")
find_program(GIT git)
if(GIT)
    execute_process(COMMAND ${GIT} -C ${SOURCE} rev-parse --show-toplevel OUTPUT_VARIABLE top ERROR_QUIET
        OUTPUT_STRIP_TRAILING_WHITESPACE)
endif()
# Sources that were unpacked inside of somebody else's repository are not of that.
if(top AND EXISTS ${top}/src/api/libucp.map)
    execute_process(COMMAND ${GIT} -C ${SOURCE} rev-parse --short=7 HEAD OUTPUT_VARIABLE found ERROR_QUIET
        OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE result)
    if(result EQUAL 0)
        set(revision ${found})
        execute_process(COMMAND ${GIT} -C ${SOURCE} rev-parse --abbrev-ref HEAD OUTPUT_VARIABLE branch ERROR_QUIET
            OUTPUT_STRIP_TRAILING_WHITESPACE)
    endif()
endif()
set(text "#define CW_INFO_BRANCH \"${branch}\"\n#define CW_INFO_REVISION \"${revision}\"\n")
set(old "")
if(EXISTS ${OUTPUT})
    file(READ ${OUTPUT} old)
endif()
if(NOT old STREQUAL text)
    file(WRITE ${OUTPUT} "${text}")
endif()
