#!/bin/sh
# Each installed header compiles alone, strictly, as C11 and as C++17.
# headers.sh INCLUDE C-COMPILER [C++-COMPILER]
. "$(dirname "$0")/lib.sh"
include=$1 cc=$2 cxx=$3
strict='-pedantic-errors -Wall -Wextra -Werror -Wshadow -Wundef'
initials='PROBLEM PROBLEM_INFO DEVICE_INFO BACKEND_INFO CONTEXT_PARAMS PLAN_PARAMS WEIGHTS PLAN_INFO
RUN_PARAMS BATCH_NORM'
count=0
for header in "$include"/dsconv/*.h; do
  name=$(basename "$header")
  {
    echo "#include <dsconv/$name>"
    echo "#include <dsconv/$name>"
    [ "$name" != dsconv.h ] || for initial in $initials; do
      type=dsconv_$(echo "$initial" | tr '[:upper:]' '[:lower:]')
      echo "extern const $type use_$type; const $type use_$type = DSCONV_${initial}_INIT;"
    done
    echo "extern int not_empty; int not_empty;"
  } >"$work/$name.c"
  $cc -std=c11 $strict -Wstrict-prototypes "-I$include" -c "$work/$name.c" -o "$work/o" ||
    fail "$name as C11"
  [ -z "$cxx" ] || $cxx -std=c++17 $strict "-I$include" -x c++ -c "$work/$name.c" -o "$work/o" ||
    fail "$name as C++17"
  count=$((count + 1))
done
[ "$count" -ge 3 ] || fail "found $count headers in $include"
[ -n "$cxx" ] || { echo "SKIPPED: no C++ compiler here; C11 is fine"; exit 77; }
