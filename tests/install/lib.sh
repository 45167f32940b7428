# Sourced by the tests in this folder: a folder of their own, and how they end.
work=$(mktemp -d /tmp/dsconv_install_XXXXXX)
trap 'rm -rf "$work"' EXIT
unset DSCONV_BACKEND DSCONV_BACKEND_DIR DSCONV_LOG

fail() {
  echo "FAILED: $*"
  exit 1
}

need() {
  for tool; do
    command -v "$tool" >/dev/null || { echo "SKIPPED: no $tool here"; exit 77; }
  done
}

# Installs build folder $1 and moves the result; sets $prefix to its new place.
install_elsewhere() {
  need meson
  old=$(meson introspect "$1" --buildoptions |
    sed -n 's/.*"name": "prefix", "value": "\([^"]*\)".*/\1/p')
  [ -n "$old" ] || fail "the build folder names no prefix"
  DESTDIR=$work/stage meson install -C "$1" --no-rebuild --quiet || fail "meson install"
  mv "$work/stage$old" "$work/moved"
  rm -rf "$work/stage"
  prefix=$work/moved
  libdir=$(dirname "$(find "$prefix" -name 'libdsconv.*' | head -n 1)")
  [ -d "$libdir" ] || fail "no library was installed"
  algos=
  [ ! -e "$libdir/dsconv/dsconv_onednn.so" ] || algos=onednn
  export PKG_CONFIG_PATH="$libdir/pkgconfig"
}
