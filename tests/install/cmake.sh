#!/bin/sh
# A program built by CMake's find_package against an installed tree that was moved.
# cmake.sh BUILD VERSION
. "$(dirname "$0")/lib.sh"
need cmake cc
install_elsewhere "$1"
cmake -S "$(dirname "$0")/cmake" -B "$work/build" "-DCMAKE_PREFIX_PATH=$prefix" "-DWANTED=$2" \
  >"$work/log" 2>&1 && cmake --build "$work/build" >>"$work/log" 2>&1 || {
  cat "$work/log"
  fail "cmake"
}
"$work/build/consumer" $algos || fail "the program does not run"
[ ! -e "$libdir/libdsconv.a" ] || "$work/build/consumer_static" || fail "the static one does not run"
