#!/bin/sh
# A program built by pkg-config against an installed tree that was moved: shared, then static.
# pkgconfig.sh BUILD COMPILER, which is that of the build: its OpenMP is in the static library.
. "$(dirname "$0")/lib.sh"
need pkg-config cc
install_elsewhere "$1"
source=$(dirname "$0")/consumer.c

pkg-config --exists dsconv || fail "pkg-config does not find dsconv"
case $(pkg-config --cflags --libs dsconv) in
  *"$prefix"*) ;;
  *) fail "pkg-config names another prefix: $(pkg-config --cflags --libs dsconv)" ;;
esac

if [ -e "$libdir/libdsconv.so" ]; then
  "$2" $(pkg-config --cflags dsconv) "$source" $(pkg-config --libs dsconv) \
    "-Wl,-rpath,$libdir" -o "$work/shared" || fail "the shared library does not link"
  "$work/shared" $algos || fail "the shared library does not run"
  "$2" $(pkg-config --cflags dsconv) "$source" $(pkg-config --libs dsconv) -o "$work/relative"
  (cd "$libdir/.." && LD_LIBRARY_PATH=${libdir##*/} "$work/relative" $algos) ||
    fail "found by a relative path, the shared library does not find its modules"
fi
if [ -e "$libdir/libdsconv.a" ]; then
  "$2" $(pkg-config --cflags dsconv) "$source" \
    $(pkg-config --static --libs dsconv | sed 's/-ldsconv/-l:libdsconv.a/') -o "$work/static" ||
    fail "the static library does not link"
  ! ldd "$work/static" | grep -q libdsconv || fail "linked with the shared library after all"
  "$work/static" || fail "the static library does not run"
fi
[ -e "$work/shared" ] || [ -e "$work/static" ] || fail "nothing was there to test"
