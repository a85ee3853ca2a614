# SPDX-License-Identifier: BSD-3-Clause
# What `cmake --install` puts where: libraries, headers, pkg-config files, and the CMake package "ucx". Everything finds
# its companions relative to itself, so --prefix, DESTDIR and moving an installed tree all work.

include(CMakePackageConfigHelpers)

set(cw_package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/ucx)
set(cw_pkgconfig_dir ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

install(TARGETS ucp uct ucs EXPORT ucx-targets
    LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
    INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(TARGETS ucm LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(TARGETS ucp_swap LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/swap)
install(TARGETS ucp_static uct_static ucs_static ucm_static ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
    FILES_MATCHING PATTERN "*.h")
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})

# pkg-config
file(RELATIVE_PATH cw_pkgconfig_to_prefix
    ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
string(REGEX REPLACE "/$" "" cw_pkgconfig_to_prefix ${cw_pkgconfig_to_prefix})
foreach(kind BIN LIB INCLUDE)
    set(cw_pc_${kind}DIR "\${prefix}/${CMAKE_INSTALL_${kind}DIR}")
    if(IS_ABSOLUTE "${CMAKE_INSTALL_${kind}DIR}")
        set(cw_pc_${kind}DIR ${CMAKE_INSTALL_${kind}DIR})
    endif()
endforeach()
string(REPLACE "\${prefix}" "\${exec_prefix}" cw_pc_LIBDIR ${cw_pc_LIBDIR})
set(cw_pc_system_libraries "-pthread")
foreach(library IN LISTS CMAKE_DL_LIBS)
    string(PREPEND cw_pc_system_libraries "-l${library} ")
endforeach()
foreach(name ucx ucx-uct ucx-ucs)
    configure_file(${PROJECT_SOURCE_DIR}/packaging/${name}.pc.in ${PROJECT_BINARY_DIR}/packaging/${name}.pc @ONLY)
    install(FILES ${PROJECT_BINARY_DIR}/packaging/${name}.pc DESTINATION ${cw_pkgconfig_dir})
endforeach()
foreach(cw_module cma fuse ib rdmacm)
    configure_file(${PROJECT_SOURCE_DIR}/packaging/ucx-module.pc.in
        ${PROJECT_BINARY_DIR}/packaging/ucx-${cw_module}.pc @ONLY)
    install(FILES ${PROJECT_BINARY_DIR}/packaging/ucx-${cw_module}.pc DESTINATION ${cw_pkgconfig_dir})
endforeach()

# find_package(ucx)
install(EXPORT ucx-targets NAMESPACE ucx:: DESTINATION ${cw_package_dir})
configure_package_config_file(${PROJECT_SOURCE_DIR}/packaging/ucx-config.cmake.in
    ${PROJECT_BINARY_DIR}/packaging/ucx-config.cmake
    INSTALL_DESTINATION ${cw_package_dir}
    PATH_VARS CMAKE_INSTALL_LIBDIR CMAKE_INSTALL_INCLUDEDIR)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/packaging/ucx-config-version.cmake
    COMPATIBILITY SameMajorVersion)
install(FILES
    ${PROJECT_BINARY_DIR}/packaging/ucx-config.cmake
    ${PROJECT_BINARY_DIR}/packaging/ucx-config-version.cmake
    DESTINATION ${cw_package_dir})
