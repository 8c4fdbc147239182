# Third-party code. Debian ships no archive of fmt and spdlog, and a program that needs libfmt.so
# could not be copied to another machine: spdlog is used header-only, fmt is compiled by base/fmt.cpp.
# The rest are archives or headers.

find_package(Threads REQUIRED)
find_package(nlohmann_json 3.10 REQUIRED)

find_path(KILN_FMT_INCLUDE fmt/format.h REQUIRED)
find_path(KILN_SPDLOG_INCLUDE spdlog/spdlog.h REQUIRED)
find_path(KILN_DLPACK_INCLUDE dlpack/dlpack.h REQUIRED)
find_path(KILN_EXPECTED_INCLUDE tl/expected.hpp REQUIRED)
find_path(KILN_XXHASH_INCLUDE xxhash.h REQUIRED)
find_library(KILN_XXHASH_ARCHIVE libxxhash.a REQUIRED)
find_path(KILN_ZSTD_INCLUDE zstd.h REQUIRED)
find_library(KILN_ZSTD_ARCHIVE libzstd.a REQUIRED)
find_path(KILN_SODIUM_INCLUDE sodium.h REQUIRED)
find_library(KILN_SODIUM_ARCHIVE libsodium.a REQUIRED)

# cuda.h and nvrtc.h: declarations only, nothing of the toolkit is linked.
find_path(
  KILN_CUDA_INCLUDE cuda.h REQUIRED
  HINTS ${KILN_CUDA_ROOT} ENV CUDA_HOME ENV CUDA_PATH ${PROJECT_SOURCE_DIR}/build/cuda /usr/local/cuda
  PATH_SUFFIXES include targets/x86_64-linux/include)
find_path(KILN_NVRTC_INCLUDE nvrtc.h REQUIRED HINTS ${KILN_CUDA_INCLUDE} ${KILN_CUDA_ROOT}/include)
# Ranges that a profiler shows. Without these headers all else is the same.
find_path(KILN_NVTX_INCLUDE nvtx3/nvToolsExt.h HINTS ${KILN_CUDA_INCLUDE} ${KILN_CUDA_ROOT}/include)

add_library(kiln_thirdparty INTERFACE)
target_include_directories(
  kiln_thirdparty SYSTEM INTERFACE ${KILN_FMT_INCLUDE} ${KILN_SPDLOG_INCLUDE} ${KILN_DLPACK_INCLUDE}
                                   ${KILN_EXPECTED_INCLUDE} ${KILN_XXHASH_INCLUDE}
                                   ${KILN_ZSTD_INCLUDE} ${KILN_SODIUM_INCLUDE})
target_compile_definitions(kiln_thirdparty INTERFACE SPDLOG_FMT_EXTERNAL)
target_link_libraries(kiln_thirdparty INTERFACE Threads::Threads ${CMAKE_DL_LIBS})

add_library(kiln_cuda_headers INTERFACE)
target_include_directories(kiln_cuda_headers SYSTEM INTERFACE ${KILN_CUDA_INCLUDE} ${KILN_NVRTC_INCLUDE})
