#!/bin/sh
# Measures the figures that the README may give, on a quiet machine: bench/figures.sh [BUILD [OUT]]
# Writes the tables to OUT (default BUILD/figures), a file each. Takes the better part of an hour.
set -eu
cd "$(dirname "$0")/.."
build=${1:-build} out=${2:-${1:-build}/figures}
bench=$build/bench/dsconv-bench
mkdir -p "$out"

run() {
    file=$out/$1.txt
    shift
    printf '== %s\n' "$*"
    "$@" >"$file" 2>&1 || printf 'exit status %s: see %s\n' "$?" "$file"
}

{ date -u; uname -m; lscpu; "$bench" --version; } >"$out/machine.txt"
for layout in nchw nhwc; do
    run "headline_$layout" "$bench" --backend cpu --baseline --layout "$layout"
    for dtype in bf16 f16; do
        run "headline_${layout}_$dtype" "$bench" --backend cpu --layout "$layout" --dtype "$dtype"
    done
    for set in mobilenet_v1 mobilenet_v2 xception mnasnet efficientnet_lite user_report; do
        for batch in 1 32; do
            run "${set}_${layout}_$batch" "$bench" --backend cpu --baseline --set "$set" \
                --layout "$layout" --batch "$batch"
        done
    done
done
grep -h 'geometric mean' "$out"/*.txt || true
if python3 -c 'import torch' 2>/dev/null; then
    for set in mobilenet_v1 mobilenet_v2 xception mnasnet efficientnet_lite user_report; do
        run "torch_$set" bench/compare_torch.py --library "$build/src/libdsconv.so" \
            --bench "$bench" --set "$set" --batch 1
    done
fi
