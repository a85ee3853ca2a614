# SPDX-License-Identifier: BSD-3-Clause
# Manual pages and shell completion, made when building: pages of functions from the comments of the public headers,
# pages of tools from what the built tools print for --help, that of the settings from docs/CONFIG.md. What is a tool: a
# program of tools/ that is called ucx_*.
#
# Left out where there is no Python, and in builds that a plain user never installs or whose tools cannot run here.

find_package(Python3 QUIET COMPONENTS Interpreter)
if(NOT Python3_FOUND)
    message(STATUS "manual pages need Python: left out")
    return()
elseif(CW_SANITIZE OR CW_COVERAGE)
    return()
endif()

# The date of the pages is that of the newest entry of the change log, so that a build can be repeated.
file(STRINGS ${PROJECT_SOURCE_DIR}/packaging/debian/changelog cw_docs_signatures REGEX "^ -- ")
list(GET cw_docs_signatures 0 cw_docs_signature)
string(REGEX MATCH "([0-9]+) ([A-Z][a-z][a-z]) ([0-9][0-9][0-9][0-9])" cw_docs_date "${cw_docs_signature}")
set(cw_docs_day ${CMAKE_MATCH_1})
set(cw_docs_year ${CMAKE_MATCH_3})
string(FIND "JanFebMarAprMayJunJulAugSepOctNovDec" "${CMAKE_MATCH_2}" cw_docs_month)
math(EXPR cw_docs_month "101 + ${cw_docs_month} / 3")
math(EXPR cw_docs_day "100 + ${cw_docs_day}")
string(SUBSTRING ${cw_docs_month} 1 2 cw_docs_month)
string(SUBSTRING ${cw_docs_day} 1 2 cw_docs_day)

set(cw_docs_source ${PROJECT_SOURCE_DIR}/docs/man)
set(cw_man ${PROJECT_BINARY_DIR}/man)
set(cw_docs_options --date ${cw_docs_year}-${cw_docs_month}-${cw_docs_day} --version ${PROJECT_VERSION})

file(GLOB_RECURSE cw_docs_headers CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/include/*.h)
add_custom_command(OUTPUT ${cw_man}/man7/ucp.7
    COMMAND ${Python3_EXECUTABLE} -B ${cw_docs_source}/pages.py ${PROJECT_SOURCE_DIR}/include ${cw_man}
        ${cw_docs_options}
    DEPENDS ${cw_docs_headers} ${cw_docs_source}/pages.py ${cw_docs_source}/header.py ${cw_docs_source}/roff.py
        ${PROJECT_SOURCE_DIR}/packaging/debian/changelog
    COMMENT "Manual pages of the functions" VERBATIM)
add_custom_command(OUTPUT ${cw_man}/man5/ucx.conf.5
    COMMAND ${Python3_EXECUTABLE} -B ${cw_docs_source}/settings.py ${PROJECT_SOURCE_DIR}/docs/CONFIG.md
        ${cw_man}/man5/ucx.conf.5 ${cw_docs_options}
    DEPENDS ${PROJECT_SOURCE_DIR}/docs/CONFIG.md ${cw_docs_source}/settings.py ${cw_docs_source}/roff.py
        ${PROJECT_SOURCE_DIR}/packaging/debian/changelog
    COMMENT "Manual page of the settings" VERBATIM)
set(cw_docs_pages ${cw_man}/man7/ucp.7 ${cw_man}/man5/ucx.conf.5)
install(DIRECTORY ${cw_man}/man3 ${cw_man}/man5 ${cw_man}/man7 DESTINATION ${CMAKE_INSTALL_MANDIR})

set(cw_docs_targets)
if(CW_BUILD_TOOLS AND NOT CMAKE_CROSSCOMPILING)
    get_property(cw_docs_targets DIRECTORY ${PROJECT_SOURCE_DIR}/tools PROPERTY BUILDSYSTEM_TARGETS)
endif()
set(CW_DOCS_TOOLS)
foreach(target IN LISTS cw_docs_targets)
    get_target_property(type ${target} TYPE)
    if(NOT type STREQUAL EXECUTABLE OR NOT target MATCHES "^ucx_[a-z]+$")
        continue()
    endif()
    list(APPEND CW_DOCS_TOOLS ${target})
    set(frame ${cw_docs_source}/${target}.1.in)
    set(page ${cw_man}/man1/${target}.1)
    # One that is written later is seen at the next configuration.
    set(depends)
    if(EXISTS ${frame})
        set(depends ${frame})
    endif()
    add_custom_command(OUTPUT ${page}
        COMMAND ${Python3_EXECUTABLE} -B ${cw_docs_source}/tool.py $<TARGET_FILE:${target}> ${page} --frame ${frame}
            ${cw_docs_options}
        DEPENDS ${target} ${depends} ${cw_docs_source}/tool.py ${cw_docs_source}/roff.py
            ${PROJECT_SOURCE_DIR}/packaging/debian/changelog
        COMMENT "Manual page of ${target}" VERBATIM)
    list(APPEND cw_docs_pages ${page})
    install(FILES ${page} DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
endforeach()
add_custom_target(man ALL DEPENDS ${cw_docs_pages})

# bash-completion looks for a file of the command's name.
foreach(tool IN LISTS CW_DOCS_TOOLS)
    set(CW_DOCS_TOOL ${tool})
    configure_file(${PROJECT_SOURCE_DIR}/packaging/completion.sh ${PROJECT_BINARY_DIR}/completions/${tool} @ONLY)
    install(FILES ${PROJECT_BINARY_DIR}/completions/${tool}
        DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
endforeach()
