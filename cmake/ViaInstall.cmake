# SPDX-License-Identifier: BSD-3-Clause
# What `cmake --install` puts where. docs/man installs the manual pages itself.
include(CMakePackageConfigHelpers)

set(via_package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/viaduct)

install(TARGETS vipl EXPORT viaductTargets
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
        INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(FILES ${PROJECT_SOURCE_DIR}/include/vipl.h ${PROJECT_SOURCE_DIR}/include/vipx.h
        DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/via
        DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.hpp")

install(EXPORT viaductTargets NAMESPACE viaduct:: DESTINATION ${via_package_dir})
configure_package_config_file(cmake/viaductConfig.cmake.in viaductConfig.cmake
    INSTALL_DESTINATION ${via_package_dir} NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file(viaductConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/viaductConfig.cmake
              ${PROJECT_BINARY_DIR}/viaductConfigVersion.cmake
        DESTINATION ${via_package_dir})

# The pkg-config file finds the prefix from its own place, so that an installed tree can be moved.
set(via_pc_dir ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig)
file(RELATIVE_PATH VIA_PC_PREFIX ${via_pc_dir} ${CMAKE_INSTALL_PREFIX})
file(RELATIVE_PATH VIA_PC_INCLUDEDIR ${CMAKE_INSTALL_PREFIX} ${CMAKE_INSTALL_FULL_INCLUDEDIR})
file(RELATIVE_PATH VIA_PC_LIBDIR ${CMAKE_INSTALL_PREFIX} ${CMAKE_INSTALL_FULL_LIBDIR})
configure_file(cmake/viaduct.pc.in viaduct.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/viaduct.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

if(VIA_TOOLS)
    install(TARGETS via viad RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
    configure_file(contrib/viad.service.in viad.service @ONLY)
    install(FILES ${PROJECT_BINARY_DIR}/viad.service DESTINATION lib/systemd/system)
    # The tool writes the shells' completion itself, so that it knows all options.
    if(NOT VIA_SANITIZE)
        set(completions ${PROJECT_BINARY_DIR}/completions)
        file(MAKE_DIRECTORY ${completions})
        add_custom_command(OUTPUT ${completions}/via ${completions}/_via
            COMMAND via completion bash > ${completions}/via
            COMMAND via completion zsh > ${completions}/_via
            DEPENDS via VERBATIM)
        add_custom_target(via_completions ALL DEPENDS ${completions}/via ${completions}/_via)
        install(FILES ${completions}/via
                DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
        install(FILES ${completions}/_via DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
    endif()
endif()

install(FILES LICENSE README.md CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
