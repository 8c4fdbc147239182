#!/usr/bin/env bash
# Installs what building and testing Kiln needs and this machine lacks, and nothing else.
#
#   scripts/setup.sh           what a build and the tests need
#   scripts/setup.sh --lint    also what the format and lint checks and the fuzzers need
#
# Distribution packages come from apt (Debian 12, Ubuntu 24.04). CUDA's headers and NVRTC come from
# the newest CUDA toolkit found here; without one of at least 12.3, from NVIDIA's Python wheels,
# which are put into the build tree. Either way build/cuda ends as that toolkit's root.
set -euo pipefail
cd "$(dirname "$0")/.."

packages=(g++ binutils cmake ninja-build python3 python3-venv libfmt-dev libspdlog-dev nlohmann-json3-dev
          libxxhash-dev libzstd-dev libsodium-dev libcli11-dev libdlpack-dev libexpected-dev catch2 strace pkg-config)
optional=(ccache)  # Makes a second build quick; the build does without.
[ "${1:-}" = --lint ] && packages+=(clang-format-14 clang-tidy-14 clang-14 libclang-rt-14-dev)

wheel_version=13.0
oldest_toolkit=12030  # CUDA_VERSION of 12.3

missing() {
  local package
  for package in "$@"; do
    [ "$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || echo "$package"
  done
}

as_root() {
  if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi
}

install_packages() {
  local needed wanted
  mapfile -t needed < <(missing "$@")
  [ ${#needed[@]} -gt 0 ] || return 0
  mapfile -t wanted < <(missing "${optional[@]}")
  echo "setup: installing ${needed[*]} ${wanted[*]}"
  as_root apt-get update -q
  as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends \
    "${needed[@]}" "${wanted[@]}"
}

# The toolkit version of a root that has the headers and NVRTC (CUDA_VERSION), else 0.
toolkit_version() {
  local root=$1 version
  version=$(sed -n 's/^#define CUDA_VERSION \([0-9]*\).*/\1/p' "$root/include/cuda.h" 2>/dev/null | head -n 1)
  if [ -n "$version" ] && [ -e "$root/include/nvrtc.h" ] && compgen -G "$root/lib64/libnvrtc.so*" >/dev/null; then
    echo "$version"
  else
    echo 0
  fi
}

find_toolkit() {
  local root version best=0 found=
  for root in "${CUDA_HOME:-}" "${CUDA_PATH:-}" /usr/local/cuda /usr/local/cuda-*; do
    [ -n "$root" ] && [ "$root" != "$PWD/build/cuda" ] || continue
    version=$(toolkit_version "$root")
    if [ "$version" -gt "$best" ]; then
      best=$version found=$(readlink -f "$root")
    fi
  done
  [ "$best" -ge "$oldest_toolkit" ] && echo "$found"
}

# cuda.h is in the runtime's wheel, nvrtc.h and the compiler in their own, as are NVTX's headers; all
# unpack to one folder.
fetch_wheels() {
  local root=build/wheels/nvidia/cu13
  if [ ! -e "$root/lib64" ]; then
    echo "setup: no CUDA toolkit of 12.3 or newer here; fetching CUDA $wheel_version headers and NVRTC as Python wheels into build/wheels"
    rm -rf build/wheels
    python3 -m venv build/wheels-venv
    build/wheels-venv/bin/pip install -q --disable-pip-version-check --no-deps --target build/wheels \
      "nvidia-cuda-nvrtc==$wheel_version.*" "nvidia-cuda-runtime==$wheel_version.*" "nvidia-nvtx==$wheel_version.*"
    ln -s lib "$root/lib64"
  fi
  ln -sfn "wheels/nvidia/cu13" build/cuda
}

if command -v dpkg-query >/dev/null && command -v apt-get >/dev/null; then
  install_packages "${packages[@]}"
else
  echo "setup: no apt here; this build needs what Debian calls: ${packages[*]}" >&2
fi
mkdir -p build
if toolkit=$(find_toolkit); then
  ln -sfn "$toolkit" build/cuda
else
  fetch_wheels
fi
echo "setup: CUDA headers and NVRTC from $(readlink -f build/cuda)"
