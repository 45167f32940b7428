#!/usr/bin/env python3
"""Checks what the compiler made of the HIP kernels: resources.py COMPILER ARCHITECTURES OBJECT ...

No kernel of any architecture may use scratch, spill a register, or take more than 64 KiB of LDS or
more registers than its block's waves leave. Each architecture must have its tuned kernels, each
with its instruction for the product and with 16-byte loads.
"""
import re
import subprocess
import sys
import tempfile

# Vector registers that a SIMD has for each lane, and the instruction that the tuned kernel of each
# type must have.
FMA, F32_MFMA = "v_(dual_)?fma", "v_mfma_f32_32x32x2"
BF16_MFMA, BF16_WMMA = "v_mfma_f32_32x32x8_?bf16", "v_wmma_f32_16x16x16_bf16"
TUNED = {"gfx90a": (512, "cdna", {"f32": F32_MFMA, "f16": F32_MFMA, "bf16": BF16_MFMA}),
         "gfx942": (512, "cdna", {"f32": F32_MFMA, "f16": BF16_MFMA, "bf16": BF16_MFMA}),
         "gfx1100": (1536, "rdna", {"f32": FMA, "f16": BF16_WMMA, "bf16": BF16_WMMA}),
         "gfx1201": (1536, "rdna", {"f32": FMA, "f16": BF16_WMMA, "bf16": BF16_WMMA})}
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


def machine_code(compiler, file):
    """Name and instructions of each function."""
    text = output(tool(compiler, "llvm-objdump"), "-d", "--no-show-raw-insn", file)
    return dict(re.findall(r"^[0-9a-f]+ <(\S+)>:\n(.*?)(?=^[0-9a-f]+ <|\Z)", text, re.M | re.S))


def faults(arch, k):
    """What is wrong with the figures of a kernel."""
    registers = TUNED[arch][0]
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


def missing(arch, code):
    """What the tuned kernels lack."""
    _, family, products = TUNED[arch]
    for dtype, product in products.items():
        kernel = f"{family}_tile_kernelI{len(dtype) + 4}gpu_{dtype}E"
        text = "".join(body for name, body in code.items() if kernel in name)
        if not text:
            yield f"no kernel {kernel}"
        elif not re.search(product, text) or not WIDE_LOAD.search(text):
            yield f"no {product} or no 16-byte load in {kernel}"


def main():
    compiler, arches, objects = sys.argv[1], sys.argv[2].split(","), sys.argv[3:]
    bad, code = [], {arch: {} for arch in arches}
    for obj in objects:
        with tempfile.TemporaryDirectory() as folder:
            for arch, file in code_objects(compiler, obj, folder):
                code[arch].update(machine_code(compiler, file))
                for name, k in kernels(compiler, file):
                    print(arch, name, *(f"{f} {k[f]}" for f in FIELDS))
                    bad += [f"{arch} {name}: {fault}" for fault in faults(arch, k)]
    for arch in arches:
        bad += [f"{arch}: {lack}" for lack in missing(arch, code[arch])]
    for line in bad:
        print("FAILED:", line)
    return int(bool(bad))


if __name__ == "__main__":
    sys.exit(main())
