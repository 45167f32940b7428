#!/bin/sh
# Builds libdsconv and runs the headline problem on the CPU, verified and beside two oneDNN
# primitives. Installs what is missing on Debian; works as root and with sudo.
set -eu
cd "$(dirname "$0")/.."
. bench/packages.sh

need build-essential meson ninja-build pkg-config libcjson-dev libdnnl-dev
say "building in $PWD/build-bench"
build_in build-bench -Dcuda=disabled -Dhip=disabled
say "KernelBench level 1 problem 86 on backend cpu, verified, beside oneDNN (about two minutes)"
exec build-bench/bench/dsconv-bench --backend cpu --baseline --reps 3 "$@"
