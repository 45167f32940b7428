#!/bin/sh
# A new backend takes one folder, one line in the list and one line in the build, and nothing else:
# done here to a copy of the tree, which leaves the other backends out for speed.
# backend.sh SOURCE
. "$(dirname "$0")/lib.sh"
need meson ninja cc
tree=$work/tree
mkdir "$tree" "$tree/backends"
cp -r "$1/include" "$1/src" "$1/cmake" "$1/meson.build" "$1/meson_options.txt" "$tree"
cp "$1/backends/backends.def" "$1/backends/meson.build" "$tree/backends"

mkdir "$tree/backends/mock"
cp "$1/tests/unit/mock_backend.c" "$1/tests/unit/mock_backend.h" "$tree/backends/mock"
cat >"$tree/backends/mock/meson.build" <<'EOF'
backends += {'mock': {'linked': false, 'sources': files('mock_backend.c'),
  'c_args': ['-DMOCK_NAME="mock"', '-DMOCK_FAULT=FAULT_NONE', '-DMOCK_ENTRY=dsconv_backend_entry']}}
EOF
echo 'DSCONV_BACKEND(mock, true)' >>"$tree/backends/backends.def"
sed -i "s/^backend_folders = \[/&\n  'mock',/" "$tree/backends/meson.build"

cat >"$work/list.c" <<'EOF'
#include <dsconv/dsconv.h>
#include <stdio.h>
int main(void) {
    for (size_t i = 0; i < dsconv_backend_count(); i++) {
        dsconv_backend_info info = DSCONV_BACKEND_INFO_INIT;
        if (dsconv_backend_query(i, &info))
            return 1;
        printf("%s %d %d %d %s\n", info.name, info.built, info.found, info.usable, info.reason);
    }
    dsconv_context *context;
    if (dsconv_context_create(NULL, &context))
        return 1;
    printf("auto: %s\n", dsconv_context_backend(context));
    dsconv_context_destroy(context);
    return 0;
}
EOF
meson setup "$work/build" "$tree" --prefix "$work/prefix" >"$work/log" 2>&1 &&
  meson install -C "$work/build" >>"$work/log" 2>&1 || {
  tail -n 50 "$work/log"
  fail "the tree with one more backend does not build"
}
libdir=$(dirname "$(find "$work/prefix" -name libdsconv.so)")
cc "-I$work/prefix/include" "$work/list.c" "-L$libdir" -ldsconv "-Wl,-rpath,$libdir" \
  -o "$work/list" || fail "the program does not link"
"$work/list" >"$work/listed" || fail "the program does not run"
cat "$work/listed"
grep -q '^mock 1 1 1 $' "$work/listed" || fail "mock is not usable"
grep -q '^cpu 0 0 0 not built into this libdsconv$' "$work/listed" || fail "cpu should be absent"
grep -q '^auto: mock$' "$work/listed" || fail "auto does not take mock"
