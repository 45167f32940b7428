#!/bin/sh
# A Meson project that has libdsconv as its subproject.
# subproject.sh SOURCE
. "$(dirname "$0")/lib.sh"
need meson ninja
here=$(dirname "$0")
mkdir -p "$work/project/subprojects"
cp "$here/subproject/meson.build" "$here/consumer.c" "$work/project"
ln -s "$1" "$work/project/subprojects/dsconv"
meson setup "$work/build" "$work/project" --optimization 0 >"$work/log" 2>&1 &&
  meson test -C "$work/build" >>"$work/log" 2>&1 || {
  tail -n 50 "$work/log"
  fail "the project with a subproject"
}
