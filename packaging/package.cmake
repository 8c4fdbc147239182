# cpack -G DEB, cpack -G TGZ.
set(CPACK_PACKAGE_NAME kiln)
set(CPACK_PACKAGE_CONTACT "Kiln maintainers <maintainers@kiln.invalid>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "Run-time compiler of CUDA kernels: library, command, headers")
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
set(CPACK_VERBATIM_VARIABLES ON)
set(CPACK_STRIP_FILES ON)
set(CPACK_GENERATOR TGZ DEB)
# A Debian package lies below /usr; the tarball is unpacked wherever it is wanted.
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
# What only programs that link the archive need.
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "libxxhash-dev, libzstd-dev, libsodium-dev")
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
include(CPack)
