#!/usr/bin/env bash
# Fails when a program or shared library needs more at run time than glibc and the loader, since it
# could not then be copied to a machine that has only the driver and NVRTC.
#
#   scripts/check_needed.sh FILE...
set -euo pipefail
allowed='^(libc\.so\.6|libm\.so\.6|libdl\.so\.2|libpthread\.so\.0|ld-linux-x86-64\.so\.2)$'

[ $# -gt 0 ] || { echo "usage: scripts/check_needed.sh FILE..." >&2; exit 2; }
bad=0
for file in "$@"; do
  dynamic=$(readelf -d "$file")
  while read -r library; do
    if ! [[ $library =~ $allowed ]]; then
      echo "$file needs $library, which a machine with only glibc does not have" >&2
      bad=1
    fi
  done < <(sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' <<<"$dynamic")
done
exit "$bad"
