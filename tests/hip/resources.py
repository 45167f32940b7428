#!/usr/bin/env python3
"""Checks what the compiler made of the HIP kernels: resources.py COMPILER OBJECT ...

No kernel of any architecture may use scratch, spill a register, or take more than 64 KiB of LDS or
more registers than its block's waves leave. Each architecture must have its tuned kernels, with its
matrix instruction and with 16-byte loads.
"""
import re
import subprocess
import sys
import tempfile

# Kernels that each architecture must have, by the beginning of their names, and the instruction that
# at least one of them must have. A SIMD has that many vector registers for each lane.
TUNED = {"gfx90a": ("cdna_", "v_mfma_f32", 512), "gfx942": ("cdna_", "v_mfma_f32", 512),
         "gfx1100": ("rdna_", "v_wmma_f32", 1536), "gfx1201": ("rdna_", "v_wmma_f32", 1536)}
SIMDS = 4  # that a block's waves are spread over
WIDE_LOAD = re.compile(r"(global|buffer|flat)_load_(dwordx4|b128)")
FIELDS = ("sgpr_spill_count", "vgpr_spill_count", "private_segment_fixed_size",
          "group_segment_fixed_size", "vgpr_count", "max_flat_workgroup_size", "wavefront_size")


def output(*command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def tool(compiler, name):
    return output(compiler, "-print-prog-name=" + name).strip()


def code_objects(compiler, obj, folder):
    """(architecture, file) of each code object in an object file."""
    bundle = folder + "/bundle"
    subprocess.run([tool(compiler, "llvm-objcopy"), "--dump-section", ".hip_fatbin=" + bundle, obj,
                    folder + "/rest"], check=True)
    bundler = tool(compiler, "clang-offload-bundler")
    for target in output(bundler, "--list", "--type=o", "--input=" + bundle).split():
        if target.startswith("hip"):
            arch = target.rsplit("-", 1)[1]
            file = f"{folder}/{arch}"
            subprocess.run([bundler, "--unbundle", "--type=o", "--targets=" + target,
                            "--input=" + bundle, "--output=" + file], check=True)
            yield arch, file


def kernels(compiler, file):
    """Name and figures of each kernel, from the metadata."""
    notes = output(tool(compiler, "llvm-readelf"), "--notes", file)
    for text in re.split(r"\n  - \.", notes)[1:]:
        symbol = re.search(r"\.symbol:\s+'?(\S+)\.kd", text).group(1)
        figures = {f: int(re.search(rf"\b{f}:\s+(\d+)", text).group(1)) for f in FIELDS}
        yield symbol, figures


def faults(arch, k):
    registers = TUNED[arch][2]
    waves = k["max_flat_workgroup_size"] / k["wavefront_size"] / SIMDS
    if k["private_segment_fixed_size"]:
        yield f"{k['private_segment_fixed_size']} bytes of scratch"
    if k["vgpr_spill_count"]:
        yield f"{k['vgpr_spill_count']} vector registers spilled"
    if k["sgpr_spill_count"]:
        yield f"{k['sgpr_spill_count']} scalar registers spilled"
    if k["group_segment_fixed_size"] > 64 << 10:
        yield f"{k['group_segment_fixed_size']} bytes of LDS"
    if k["vgpr_count"] * max(1, waves) > registers:
        yield f"{k['vgpr_count']} vector registers for {waves:g} waves a SIMD"


def main():
    compiler, objects = sys.argv[1], sys.argv[2:]
    bad, instructions = [], {}
    for obj in objects:
        with tempfile.TemporaryDirectory() as folder:
            for arch, file in code_objects(compiler, obj, folder):
                found = list(kernels(compiler, file))
                for name, k in found:
                    print(arch, name, *(f"{f} {k[f]}" for f in FIELDS))
                    bad += [f"{arch} {name}: {fault}" for fault in faults(arch, k)]
                if any(TUNED[arch][0] in name for name, _ in found):
                    instructions[arch] = output(tool(compiler, "llvm-objdump"), "-d", file)
    for arch, (prefix, matrix, _) in TUNED.items():
        text = instructions.get(arch)
        if text is None:
            bad.append(f"{arch}: no kernel {prefix}*")
        elif matrix not in text or not WIDE_LOAD.search(text):
            bad.append(f"{arch}: no {matrix}* or no 16-byte load in {prefix}*")
    for line in bad:
        print("FAILED:", line)
    return int(bool(bad))


if __name__ == "__main__":
    sys.exit(main())
