# SPDX-License-Identifier: BSD-3-Clause
# Manual pages, the site of all documents, and shell completion. docs/pages.py makes Markdown of the public headers, of
# docs/CONFIG.md and of what the built tools print for --help; pandoc makes the manual pages of it, when building, and
# MkDocs the site (target site). What is a tool: a program of tools/ that is called ucx_*.
#
# Left out in builds that a plain user never installs; pages of tools where these cannot run.

set(CW_MAN_PAGES OFF)
set(CW_SITE OFF)
if(CW_SANITIZE OR CW_COVERAGE)
    return()
endif()

set(cw_docs_targets)
if(CW_BUILD_TOOLS AND NOT CMAKE_CROSSCOMPILING)
    get_property(cw_docs_targets DIRECTORY ${PROJECT_SOURCE_DIR}/tools PROPERTY BUILDSYSTEM_TARGETS)
endif()
set(cw_docs_tools)
foreach(target IN LISTS cw_docs_targets)
    get_target_property(type ${target} TYPE)
    if(type STREQUAL EXECUTABLE AND target MATCHES "^ucx_[a-z]+$")
        list(APPEND cw_docs_tools ${target})
    endif()
endforeach()

# bash-completion and fish look for a file of the command's name; one file of zsh names all commands.
foreach(tool IN LISTS cw_docs_tools)
    set(CW_DOCS_TOOL ${tool})
    configure_file(${PROJECT_SOURCE_DIR}/packaging/completion.sh ${PROJECT_BINARY_DIR}/completions/${tool} @ONLY)
    install(FILES ${PROJECT_BINARY_DIR}/completions/${tool}
        DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
    configure_file(${PROJECT_SOURCE_DIR}/packaging/completion.fish ${PROJECT_BINARY_DIR}/completions/${tool}.fish @ONLY)
    install(FILES ${PROJECT_BINARY_DIR}/completions/${tool}.fish
        DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
endforeach()
string(REPLACE ";" " " CW_DOCS_TOOLS "${cw_docs_tools}")
if(cw_docs_tools)
    configure_file(${PROJECT_SOURCE_DIR}/packaging/completion.zsh ${PROJECT_BINARY_DIR}/completions/_causeway @ONLY)
    install(FILES ${PROJECT_BINARY_DIR}/completions/_causeway DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
endif()

find_package(Python3 QUIET COMPONENTS Interpreter)
find_program(CW_PANDOC pandoc)
find_program(CW_MKDOCS mkdocs)
mark_as_advanced(CW_PANDOC CW_MKDOCS)
if(NOT Python3_FOUND)
    return()
endif()
set(cw_docs_command ${Python3_EXECUTABLE} -B ${PROJECT_SOURCE_DIR}/docs/pages.py)
set(cw_docs_programs)
set(cw_docs_see)
foreach(tool IN LISTS cw_docs_tools)
    list(APPEND cw_docs_programs --tool $<TARGET_FILE:${tool}>)
    list(APPEND cw_docs_see --see ${tool})
endforeach()

if(CW_MKDOCS AND NOT DEFINED CW_MKDOCS_HAS_THEME) # the help lists the themes that are installed
    execute_process(COMMAND ${CW_MKDOCS} build --help OUTPUT_VARIABLE cw_mkdocs_help ERROR_QUIET)
    string(FIND "${cw_mkdocs_help}" "material" cw_mkdocs_theme)
    if(cw_mkdocs_theme GREATER -1)
        set(CW_MKDOCS_HAS_THEME ON CACHE INTERNAL "MkDocs has the theme material")
    endif()
endif()
if(CW_MKDOCS_HAS_THEME)
    set(CW_SITE ON)
    set(cw_site ${PROJECT_BINARY_DIR}/site)
    add_custom_target(site
        COMMAND ${cw_docs_command} site ${cw_site} ${cw_docs_programs}
        COMMAND ${CW_MKDOCS} build --strict --quiet -f ${cw_site}/mkdocs.yml -d ${cw_site}/html
        DEPENDS ${cw_docs_tools} COMMENT "Site of the documents: ${cw_site}/html" VERBATIM)
endif()
if(NOT CW_PANDOC)
    return()
endif()
set(CW_MAN_PAGES ON)

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

set(cw_man ${PROJECT_BINARY_DIR}/man)
set(cw_docs_options --pandoc ${CW_PANDOC} --date ${cw_docs_year}-${cw_docs_month}-${cw_docs_day}
    --version ${PROJECT_VERSION})
set(cw_docs_depends ${PROJECT_SOURCE_DIR}/docs/pages.py ${PROJECT_SOURCE_DIR}/docs/header.py
    ${PROJECT_SOURCE_DIR}/packaging/debian/changelog)
file(GLOB_RECURSE cw_docs_headers CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/include/*.h)
add_custom_command(OUTPUT ${cw_man}/man7/ucp.7
    COMMAND ${cw_docs_command} man ${cw_man} ${cw_docs_see} ${cw_docs_options}
    DEPENDS ${cw_docs_headers} ${PROJECT_SOURCE_DIR}/docs/CONFIG.md ${cw_docs_depends}
    COMMENT "Manual pages of functions and settings" VERBATIM)
set(cw_docs_pages ${cw_man}/man7/ucp.7)
install(DIRECTORY ${cw_man}/man3 ${cw_man}/man5 ${cw_man}/man7 DESTINATION ${CMAKE_INSTALL_MANDIR})
foreach(tool IN LISTS cw_docs_tools)
    set(page ${cw_man}/man1/${tool}.1)
    string(SUBSTRING ${tool} 4 -1 folder)
    add_custom_command(OUTPUT ${page}
        COMMAND ${cw_docs_command} man ${cw_man} --tool $<TARGET_FILE:${tool}> ${cw_docs_options}
        DEPENDS ${tool} ${PROJECT_SOURCE_DIR}/tools/${folder}/${tool}.1.md ${cw_docs_depends}
        COMMENT "Manual page of ${tool}" VERBATIM)
    list(APPEND cw_docs_pages ${page})
    install(FILES ${page} DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
endforeach()
add_custom_target(man ALL DEPENDS ${cw_docs_pages})
