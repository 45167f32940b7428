#!/bin/sh
# Makes a ROCm folder for a clang that is not ROCm's out of Debian's packages:
#
#   rocm_root.sh CLANG FOLDER ARCHITECTURE ...
#
# Clang wants headers and device libraries under one root, and for each architecture a library that
# defines its number. Debian 12's device libraries are older than gfx942, gfx11 and gfx12, which
# differ in nothing but that number: it is made here.
set -eu
clang=$1 root=$2
shift 2

set -- "$(ls -d /usr/lib/*/amdgcn/bitcode /usr/lib/amdgcn/bitcode 2>/dev/null | head -n 1)" "$@"
[ -n "$1" ] || {
    echo 'no device libraries (rocm-device-libs)' >&2
    exit 1
}
bitcode=$root/amdgcn/bitcode
mkdir -p "$bitcode"
ln -sfn /usr/include "$root/include"
ln -sf "$1"/*.bc "$bitcode/"
shift

# gfx90a is version 9.0.10: the last two digits, the second hexadecimal, after the major version.
for arch in "$@"; do
    digits=${arch#gfx}
    file=$bitcode/oclc_isa_version_$digits.bc
    [ ! -e "$file" ] || continue
    major=${digits%??}
    rest=${digits#"$major"}
    number=$((major * 1000 + ${rest%?} * 100 + 0x${rest#?}))
    echo "const __attribute__((address_space(4))) int __oclc_ISA_version = $number;" |
        "$clang" -x c --target=amdgcn-amd-amdhsa -nogpulib -emit-llvm -c -o "$file" -
done
