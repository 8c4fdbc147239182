# How everything in this project is compiled. Targets get it by linking kiln_options.

option(KILN_BUILD_TOOLS "Build the kiln command" ${PROJECT_IS_TOP_LEVEL})
option(KILN_BUILD_TESTS "Build the tests" ${PROJECT_IS_TOP_LEVEL})
option(KILN_BUILD_BENCH "Build the benchmarks" ${PROJECT_IS_TOP_LEVEL})
# A program with a sanitizer would have to name it itself, as no user of Kiln does.
if(PROJECT_IS_TOP_LEVEL AND NOT KILN_SANITIZE)
  set(kiln_build_examples ON)
else()
  set(kiln_build_examples OFF)
endif()
option(KILN_BUILD_EXAMPLES "Build the examples" ${kiln_build_examples})
option(KILN_BUILD_PYTHON_BENCH "Build the module that python/bench compares with; needs nanobind" OFF)
option(KILN_BUILD_PYTHON "Build what the Python wheel holds; python/pyproject.toml turns it on" OFF)
option(KILN_FUZZERS "Build the fuzzers; needs clang" OFF)
set(KILN_SANITIZE "" CACHE STRING "Sanitizers for every target, for example address,undefined")

if(PROJECT_IS_TOP_LEVEL AND NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE RelWithDebInfo CACHE STRING "Build type" FORCE)
endif()
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)

add_library(kiln_options INTERFACE)
target_compile_features(kiln_options INTERFACE cxx_std_20)
target_include_directories(kiln_options INTERFACE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/include
                                                 ${PROJECT_SOURCE_DIR}/api)
target_compile_options(
  kiln_options INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion
                         -Wnon-virtual-dtor -Woverloaded-virtual -Wold-style-cast -Werror
                         -ffile-prefix-map=${PROJECT_SOURCE_DIR}/=)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # False positives of GCC 12 on inlined std::string and std::optional.
  target_compile_options(kiln_options INTERFACE -Wno-restrict -Wno-maybe-uninitialized)
endif()
if(KILN_SANITIZE)
  target_compile_options(kiln_options INTERFACE -fsanitize=${KILN_SANITIZE}
                                                -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(kiln_options INTERFACE -fsanitize=${KILN_SANITIZE})
else()
  # What is built runs, copied as it is, on a machine with only glibc, the driver and NVRTC.
  add_library(kiln_static_runtime INTERFACE)
  target_link_options(kiln_static_runtime INTERFACE -static-libstdc++ -static-libgcc
                                                    LINKER:--exclude-libs,ALL)
  target_link_libraries(kiln_options INTERFACE kiln_static_runtime)
endif()

find_program(KILN_CCACHE ccache)
if(KILN_CCACHE AND PROJECT_IS_TOP_LEVEL)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${KILN_CCACHE})
endif()
