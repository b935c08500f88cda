# SPDX-License-Identifier: Apache-2.0
#
# make install: header, both libraries, the program, and what find_package(upconv) and pkg-config read.
# A wheel (pip sets SKBUILD) holds the shared library alone, without links: they would be copies there.

if(SKBUILD)
  set_target_properties(upconv PROPERTIES VERSION "" SOVERSION "" NO_SONAME ON)
  install(TARGETS upconv LIBRARY DESTINATION upconv)
  if(TARGET upconv_short)
    install(TARGETS upconv_short LIBRARY DESTINATION upconv)
  endif()
  return()
endif()

include(CMakePackageConfigHelpers)
set(package_folder "${CMAKE_INSTALL_LIBDIR}/cmake/upconv")

install(TARGETS upconv upconv_static EXPORT upconvTargets
  LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}" ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}")
install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/upconv" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}"
  FILES_MATCHING PATTERN "*.h")
if(TARGET upconv_program)
  install(TARGETS upconv_program RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")
endif()
install(EXPORT upconvTargets NAMESPACE upconv:: DESTINATION "${package_folder}")

configure_package_config_file("${PROJECT_SOURCE_DIR}/cmake/upconvConfig.cmake.in"
  "${PROJECT_BINARY_DIR}/upconvConfig.cmake" INSTALL_DESTINATION "${package_folder}")
write_basic_package_version_file("${PROJECT_BINARY_DIR}/upconvConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/upconvConfig.cmake" "${PROJECT_BINARY_DIR}/upconvConfigVersion.cmake"
  DESTINATION "${package_folder}")

# The prefix in upconv.pc is relative to the file, so an installation can be moved.
file(RELATIVE_PATH UPCONV_PC_PREFIX "${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig" "${CMAKE_INSTALL_PREFIX}")
configure_file("${PROJECT_SOURCE_DIR}/cmake/upconv.pc.in" "${PROJECT_BINARY_DIR}/upconv.pc" @ONLY)
install(FILES "${PROJECT_BINARY_DIR}/upconv.pc" DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
