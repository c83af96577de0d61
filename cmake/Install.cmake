# What `cmake --install` and the Debian package put where. Man pages and completions are made from the programs' own
# --help, by packaging/make_pages.py, when the programs are built for this machine and there is a Python.
include(GNUInstallDirs)

set(CLEF_PROGRAMS clef clef-server clef-tool clef-bench)
install(TARGETS ${CLEF_PROGRAMS} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})

find_package(Python3 COMPONENTS Interpreter)
if(Python3_FOUND AND NOT CMAKE_CROSSCOMPILING)
  set(CLEF_PAGES ${CMAKE_BINARY_DIR}/pages)
  add_custom_command(
    OUTPUT ${CLEF_PAGES}/made
    COMMAND ${CMAKE_COMMAND} -E rm -rf ${CLEF_PAGES}
    COMMAND ${Python3_EXECUTABLE} -B ${CMAKE_SOURCE_DIR}/packaging/make_pages.py
            ${CMAKE_BINARY_DIR}/bin ${CLEF_PAGES} ${PROJECT_VERSION}
    COMMAND ${CMAKE_COMMAND} -E touch ${CLEF_PAGES}/made
    DEPENDS ${CLEF_PROGRAMS} ${CMAKE_SOURCE_DIR}/packaging/make_pages.py
    COMMENT "Making man pages and completions"
    VERBATIM)
  add_custom_target(clef_pages ALL DEPENDS ${CLEF_PAGES}/made)
  install(DIRECTORY ${CLEF_PAGES}/man1 DESTINATION ${CMAKE_INSTALL_MANDIR})
  install(DIRECTORY ${CLEF_PAGES}/completions/bash/ DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
  install(DIRECTORY ${CLEF_PAGES}/completions/zsh/ DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
  install(DIRECTORY ${CLEF_PAGES}/completions/fish/ DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
else()
  message(STATUS "No Python 3: man pages and completions are not made")
endif()

install(FILES README.md LICENSE THIRD_PARTY_NOTICES DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY docs/ DESTINATION ${CMAKE_INSTALL_DOCDIR}/docs FILES_MATCHING PATTERN "*.md")
install(DIRECTORY examples DESTINATION ${CMAKE_INSTALL_DOCDIR})
if(EXISTS ${CMAKE_SOURCE_DIR}/models)
  install(DIRECTORY models DESTINATION ${CMAKE_INSTALL_DATADIR}/cleffa)
endif()

# The service, with the real places of the program and its configuration in it.
if(CMAKE_SYSTEM_NAME STREQUAL "Linux")
  set(unit_folder lib/systemd/system)
  if(CMAKE_INSTALL_PREFIX STREQUAL "/usr")
    set(conf_folder /etc/clef-server)
  else()
    set(conf_folder ${CMAKE_INSTALL_FULL_SYSCONFDIR}/clef-server)
  endif()
  file(GLOB services ${CMAKE_SOURCE_DIR}/packaging/clef-server.* ${CMAKE_SOURCE_DIR}/packaging/systemd/*)
  foreach(file IN LISTS services)
    cmake_path(GET file FILENAME name)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
    file(READ ${file} text)
    string(REGEX REPLACE "(^|\n)(#[^\n]*\n)+(\\[Unit\\])" "\\1\\3" text "${text}")  # how to install it by hand
    string(REPLACE "/usr/local/bin" ${CMAKE_INSTALL_FULL_BINDIR} text "${text}")
    string(REPLACE "/etc/clef-server" ${conf_folder} text "${text}")
    file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/service/${name} CONTENT "${text}" @ONLY)
  endforeach()
  install(DIRECTORY ${CMAKE_BINARY_DIR}/service/ DESTINATION ${unit_folder} FILES_MATCHING PATTERN "*.service")
  install(FILES ${CMAKE_BINARY_DIR}/service/clef-server.conf DESTINATION ${conf_folder})
endif()

# `cpack -G DEB` in the build folder: the programs, their pages, the service and its user.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME cleffa)
set(CPACK_PACKAGE_VENDOR cleffa)
set(CPACK_PACKAGE_CONTACT "cleffa <cleffa@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "Engine for Cloudflare's Clef decision models")
set(CPACK_PACKAGE_DESCRIPTION
  "Answers typed questions about a state with a probability for every option, from\n"
  "one pass of a Clef network. On the command line (clef), over HTTP (clef-server),\n"
  "with tools to fetch, check and convert the models (clef-tool).")
string(REPLACE ";" "" CPACK_PACKAGE_DESCRIPTION "${CPACK_PACKAGE_DESCRIPTION}")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_SET_DESTDIR ON)  # /etc and /lib are not below /usr
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_DEPENDS "adduser, ca-certificates")
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA
  ${CMAKE_SOURCE_DIR}/packaging/debian/conffiles ${CMAKE_SOURCE_DIR}/packaging/debian/postinst
  ${CMAKE_SOURCE_DIR}/packaging/debian/prerm ${CMAKE_SOURCE_DIR}/packaging/debian/postrm)
include(CPack)
