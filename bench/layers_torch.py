#!/usr/bin/env python3
"""Times every fusable layer of the layer sets on a CUDA device beside PyTorch, as a CSV table.

Each line is one layer, batch and type: the faster of two CUDA-graphed PyTorch calls (contiguous and
channels_last) and libdsconv in both layouts, all interleaved in one run, in microseconds, and the
ratios. Lines are written as they come; `--part 2/3` takes the second third of the layers.
`--summary FILE.csv ...` reads such tables and prints geometric means and the lines that fell short.
"""
import argparse
import csv
import itertools
import math
import pathlib
import statistics
import sys

LAYOUTS = ["nchw", "nhwc"]
KINDS = [("f32", "strict"), ("f32", "tf32"), ("f16", "strict"), ("bf16", "strict")]
COLUMNS = ["network", "layer", "problem", "type", "math", "pytorch_us", "nchw_us", "nhwc_us",
           "nchw_ratio", "nhwc_ratio"]


def layers(args):
    """(network, layer, canonical string) of each different problem, at its batch and at one."""
    import compare_torch
    seen = {}
    for batch in (None, "1"):
        args.batch = batch
        for network, layer, text in compare_torch.problems(args):
            seen.setdefault(text, (network, layer, text))
    first, count = map(int, args.part.split("/"))
    return list(seen.values())[first - 1::count]


def times(library, text, reps):
    """Seconds of libdsconv in both layouts and of the faster graphed PyTorch call."""
    import compare_torch as ct
    import dsconv_ctypes as ds
    import torch
    problem = ds.parse_problem(text)
    tensors = ct.Tensors(problem, "cuda", 1)
    torch.backends.cudnn.benchmark = True
    torch.backends.cudnn.allow_tf32 = ds.MATHS[problem.math] == "tf32"
    calls, plans = {}, []
    for layout in LAYOUTS:
        calls["graph " + layout] = ct.graphed(ct.eager(problem, tensors, layout))
        plan, calls[layout] = ct.library_call(library, problem, tensors, layout)
        plans.append(plan)
    seconds = ct.measure(ct.CudaTimer(), calls, reps)
    for plan in plans:
        plan.close()
    return seconds["nchw"], seconds["nhwc"], min(seconds["graph nchw"], seconds["graph nhwc"])


def table(args):
    import dsconv_ctypes as ds
    import torch
    library = ds.Library(args.library, "cuda")
    out = csv.writer(sys.stdout, lineterminator="\n")
    out.writerow(COLUMNS)
    for (network, layer, text), (dtype, kind) in itertools.product(layers(args), KINDS):
        text = text.replace("dtype=f32", "dtype=" + dtype).replace("math=strict", "math=" + kind)
        with torch.inference_mode():
            nchw, nhwc, peer = times(library, text, args.reps)
        out.writerow([network, layer, text, dtype, kind]
                     + [f"{1e6 * s:.1f}" for s in (peer, nchw, nhwc)]
                     + [f"{peer / nchw:.3f}", f"{peer / nhwc:.3f}"])
        sys.stdout.flush()
    library.close()


def summary(files):
    rows = [row for name in files for row in csv.DictReader(open(name, encoding="utf-8"))]
    for (dtype, kind), layout in itertools.product(KINDS, LAYOUTS):
        ratios = [(float(row[layout + "_ratio"]), row) for row in rows
                  if (row["type"], row["math"]) == (dtype, kind)]
        if not ratios:
            continue
        mean = math.exp(statistics.fmean(math.log(ratio) for ratio, _ in ratios))
        slower = sum(ratio < 1 for ratio, _ in ratios)
        least, row = min(ratios, key=lambda pair: pair[0])
        print(f"{dtype} {kind} {layout}: geometric mean {mean:.3f} x over {len(ratios)}, {slower} "
              f"slower, least {least:.3f} ({row['network']} {row['layer']})")


def main():
    build = pathlib.Path(__file__).resolve().parent.parent / "build"
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--set", default="all", help="as in dsconv-bench")
    parser.add_argument("--part", default="1/1", help="I/N: every N-th layer from the I-th on")
    parser.add_argument("--reps", type=int, default=10)
    parser.add_argument("--summary", nargs="+", metavar="FILE", help="read tables, time nothing")
    parser.add_argument("--library", default=str(build / "src" / "libdsconv.so"))
    parser.add_argument("--bench", default=str(build / "bench" / "dsconv-bench"))
    args = parser.parse_args()
    args.problem, args.file, args.dtype, args.math = [], None, None, None
    if args.summary:
        summary(args.summary)
    else:
        table(args)


if __name__ == "__main__":
    main()
