#!/bin/sh
# What the shared library exports and needs, that a module exports one symbol, and that a program
# which links the static library finds no name in it but dsconv_*.
# symbols.sh HEADER LIBRARY STATIC_LIBRARY [MODULE ...]
. "$(dirname "$0")/lib.sh"
export LC_ALL=C
need nm readelf
header=$1 library=$2 static=$3
shift 3

nm -D --defined-only "$library" | sed 's/.* //' | sort >"$work/exported"
foreign=$(grep -v '^dsconv_' "$work/exported")
[ -z "$foreign" ] || fail "exported, but not named dsconv_*: $foreign"
tr '\n' ' ' <"$header" | grep -o 'DSCONV_API [^(]*(' | grep -o 'dsconv_[a-z_]*($' | tr -d '(' |
  sort >"$work/declared"
[ "$(wc -l <"$work/declared")" -ge 20 ] || fail "the header's functions were not found"
diff "$work/declared" "$work/exported" || fail "declared (<) and exported (>) functions differ"

foreign=$(nm -g --defined-only "$static" | sed -n 's/.* [A-Z] //p' | grep -v '^dsconv_')
[ -z "$foreign" ] || fail "global in the static library, but not named dsconv_*: $foreign"

needed=$(readelf -d "$library" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p')
for name in $needed; do
  case $name in
    libc.so.* | libm.so.* | libgomp.so.* | libomp.so.*) ;;
    *) fail "it needs $name" ;;
  esac
done

for module; do
  [ "$(nm -D --defined-only "$module" | grep -c ' [A-Z] ')" = 1 ] ||
    fail "$module exports more than its entry: $(nm -D --defined-only "$module")"
done
