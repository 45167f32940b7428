#!/bin/sh
# Everything: the headline problem, then all tests in every configuration. Installs what is missing
# on Debian; works as root and with sudo. The last line is `N passed, N failed, N skipped`.
#
#   tests/run.sh [--with-cuda] [--with-hip]
#
# With an option, a backend that cannot be built is an error; without, it is left out.
set -u
hip_packages=
cd "$(dirname "$0")/.." || exit 1
. bench/packages.sh

features=
for option in "$@"; do
    case $option in
    --with-cuda) features="$features -Dcuda=enabled" ;;
    --with-hip)
        features="$features -Dhip=enabled"
        hip_packages='clang-19 lld-19 llvm-19 clang-tools-19 libamdhip64-dev rocm-device-libs'
        ;;
    *)
        echo "tests/run.sh: $option: expected --with-cuda or --with-hip" >&2
        exit 2
        ;;
    esac
done

passed=0 failed=0 skipped=0

# Runs a command as one test.
step() {
    name=$1
    shift
    say "$name"
    if "$@"; then
        passed=$((passed + 1))
    else
        say "FAILED: $name"
        failed=$((failed + 1))
    fi
}

# Builds a configuration and adds the results of its tests: suite NAME FOLDER [MESON OPTION ...]
suite() {
    name=$1 folder=$2
    shift 2
    say "$name: building in $folder"
    if ! build_in "$folder" -Dwerror=true -Dtests=enabled -Dbench=enabled "$@"; then
        say "FAILED: $name does not build"
        failed=$((failed + 1))
        return
    fi
    say "$name: testing"
    rm -f "$folder/meson-logs/testlog.json"
    meson test -C "$folder" --no-rebuild --print-errorlogs --timeout-multiplier 3 ||
        say "FAILED: $name"
    # A suite that ran no test has failed.
    counts=$(python3 tests/count_results.py "$folder/meson-logs/testlog.json") || counts='0 1 0'
    # shellcheck disable=SC2086
    set -- $counts
    passed=$((passed + $1)) failed=$((failed + $2)) skipped=$((skipped + $3))
}

sources() {
    find backends bench include src tests -name "$1" | sort
}

formatted() {
    { sources '*.[ch]' && sources '*.cu' && sources '*.cuh' && sources '*.cpp'; } |
        xargs clang-format --dry-run --Werror
}

# Every file that this machine compiles for the library and the bench, but the vector kernels: the
# analyzer does not see through their intrinsics. One at a time, as it mixes up files otherwise.
tidy() {
    files=$(sources '*.c' | grep -v -e '^tests/' -e '/kernels/' | while read -r file; do
        grep -q "\"file\": \"../$file\"" build-clang/compile_commands.json && echo "$file"
    done)
    [ -n "$files" ] && echo "$files" | xargs -P 2 -n 1 clang-tidy --quiet -p build-clang
}

# The race detector must find the race that is there.
detects_races() {
    clang -g -O1 -fopenmp -fsanitize=thread tests/race.c -o build-tsan/race || return 1
    build-tsan/race
    [ $? -eq 66 ]
}

no_leak() {
    valgrind --quiet --leak-check=full --show-leak-kinds=definite,indirect \
        --errors-for-leak-kinds=definite,indirect --error-exitcode=1 \
        build-release/bench/dsconv-bench --backend cpu --threads 1 --algo "$1" --mode verify "$2"
}

small=n=2,c=5,h=9,w=7,k=6,bias=both,mid=relu6,res=after

step 'headline, with bench/run.sh' bench/run.sh
# shellcheck disable=SC2086
need libcmocka-dev libboost-context-dev clang clang-format clang-tidy libomp-dev valgrind \
    gnuplot-nox cmake g++ python3 $hip_packages

# shellcheck disable=SC2086
suite release build-release $features

# The leak detector's record of modules' thread-local memory crashes it in oneDNN (GCC 12).
export ASAN_OPTIONS=detect_stack_use_after_return=1 LSAN_OPTIONS=intercept_tls_get_addr=0
export UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1
suite 'address and undefined-behaviour sanitizers' build-asan -Dbuildtype=debugoptimized \
    -Db_sanitize=address,undefined -Db_lundef=false -Dcuda=disabled -Dhip=disabled

# LLVM's OpenMP tells the detector, through archer, what its barriers order; GNU's does not. What
# is not compiled for the detector cannot be watched: the runtime itself, and oneDNN.
export TSAN_OPTIONS=halt_on_error=1:ignore_noninstrumented_modules=1
OMP_TOOL_LIBRARIES=$(find /usr/lib/llvm-* -name libarcher.so 2>/dev/null | tail -n 1)
export OMP_TOOL_LIBRARIES
CC=clang suite 'thread sanitizer' build-tsan -Dbuildtype=debugoptimized -Db_sanitize=thread \
    -Db_lundef=false -Donednn=disabled -Dcuda=disabled -Dhip=disabled
step 'the thread sanitizer detects a race' detects_races
unset OMP_TOOL_LIBRARIES

CC=clang suite clang build-clang -Dcuda=disabled -Dhip=disabled
step 'formatting' formatted
step 'clang-tidy' tidy
step 'no leak: fused' no_leak fused "$small"
step 'no leak: fused, NHWC' no_leak fused "$small,layout=nhwc"
step 'no leak: generic' no_leak generic "$small,stride=2x1,dil=2"

echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
