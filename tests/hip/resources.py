#!/usr/bin/env python3
"""Checks what the compiler made of the HIP kernels: resources.py COMPILER ARCHITECTURES OBJECT ...

No kernel may use scratch, spill a register, or take so many registers or so much LDS that fewer
blocks are resident than docs/hip_model.md says. Each architecture must have its tuned kernels, each
with its instruction for the product, and with 16-byte loads of x and of the pointwise weights.
Objects without kernels are passed over.
"""
import collections
import re
import subprocess
import sys
import tempfile

FMA, F32_MFMA = "v_(dual_)?fma", "v_mfma_f32_32x32x2"
BF16_MFMA, BF16_WMMA = "v_mfma_f32_32x32x8_?bf16", "v_wmma_f32_16x16x16_bf16"
CDNA2 = {"f32": F32_MFMA, "f16": F32_MFMA, "bf16": BF16_MFMA}
CDNA3 = {"f32": F32_MFMA, "f16": BF16_MFMA, "bf16": BF16_MFMA}
RDNA = {"f32": FMA, "f16": BF16_WMMA, "bf16": BF16_WMMA}

# Of a compute unit of CDNA, a workgroup processor of RDNA, either of four SIMDs: registers of a
# SIMD for each lane, the unit in which they are given out, bytes of LDS, blocks that are to be
# resident; then the tuned kernels, with the instruction for the product of each type.
Device = collections.namedtuple("Device", "registers unit lds blocks family products")
LARGE_RDNA = Device(1536, 24, 128 << 10, 3, "rdna", RDNA)
SMALL_RDNA = Device(1024, 16, 128 << 10, 2, "rdna", RDNA)
DEVICES = {"gfx90a": Device(512, 8, 64 << 10, 2, "cdna", CDNA2),
           "gfx942": Device(512, 8, 64 << 10, 2, "cdna", CDNA3),
           "gfx1100": LARGE_RDNA, "gfx1101": LARGE_RDNA, "gfx1102": SMALL_RDNA,
           "gfx1103": SMALL_RDNA, "gfx1150": SMALL_RDNA, "gfx1151": LARGE_RDNA,
           "gfx1200": LARGE_RDNA, "gfx1201": LARGE_RDNA}
SIMDS = 4

LOAD = re.compile(r"(?:global|buffer|flat)_load_(\w+) \S+, (\S+ \S+)")
WIDE = ("dwordx4", "b128")
BRANCH = re.compile(r"\bs_(?:c?branch|setpc|endpgm)")
# Of 16 bytes: of x by rows and by channels; of weights, 1 or 2.
SEPARATE_LOADS = {"cdna": 2 + 1, "rdna": 2 + 2}
FIELDS = ("sgpr_spill_count", "vgpr_spill_count", "private_segment_fixed_size",
          "group_segment_fixed_size", "vgpr_count", "max_flat_workgroup_size", "wavefront_size")


def output(*command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def tool(compiler, name):
    return output(compiler, "-print-prog-name=" + name).strip()


def code_objects(compiler, obj, folder):
    """(architecture, file) of each code object in an object file."""
    bundle = folder + "/bundle"
    if ".hip_fatbin" not in output(tool(compiler, "llvm-readelf"), "-SW", obj):
        return
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


def resident_blocks(device, k):
    registers = max(1, -(-k["vgpr_count"] // device.unit)) * device.unit
    waves = device.registers // registers * SIMDS
    by_registers = waves * k["wavefront_size"] // k["max_flat_workgroup_size"]
    return min(by_registers, device.lds // max(1, k["group_segment_fixed_size"]))


def faults(arch, k):
    """What is wrong with the figures of a kernel."""
    if k["private_segment_fixed_size"]:
        yield f"{k['private_segment_fixed_size']} bytes of scratch"
    if k["vgpr_spill_count"]:
        yield f"{k['vgpr_spill_count']} vector registers spilled"
    if k["sgpr_spill_count"]:
        yield f"{k['sgpr_spill_count']} scalar registers spilled"
    if arch in DEVICES and resident_blocks(DEVICES[arch], k) < DEVICES[arch].blocks:
        yield f"{resident_blocks(DEVICES[arch], k)} resident blocks"


def separate_loads(text):
    """16-byte loads with no other from the same address near by: taps come several at a time."""
    count = 0
    for part in BRANCH.split(text):
        widths = collections.defaultdict(list)
        for width, address in LOAD.findall(part):
            widths[address].append(width)
        count += sum(len(w) == 1 and w[0] in WIDE for w in widths.values())
    return count


def missing(arch, code):
    """What the tuned kernels lack."""
    device = DEVICES[arch]
    for dtype, product in device.products.items():
        kernel = f"{device.family}_tile_kernelI{len(dtype) + 4}gpu_{dtype}E"
        text = "".join(body for name, body in code.items() if kernel in name)
        if not text:
            yield f"no kernel {kernel}"
            continue
        if not re.search(product, text):
            yield f"no {product} in {kernel}"
        if separate_loads(text) < SEPARATE_LOADS[device.family]:
            yield f"{separate_loads(text)} separate 16-byte loads in {kernel}"


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
        if arch not in DEVICES:
            print(f"{arch}: unknown; neither occupancy nor tuned kernels are checked")
            continue
        bad += [f"{arch}: {lack}" for lack in missing(arch, code[arch])]
    for line in bad:
        print("FAILED:", line)
    return int(bool(bad))


if __name__ == "__main__":
    sys.exit(main())
