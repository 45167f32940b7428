#!/usr/bin/env python3
"""Compares the rounding errors of libdsconv and PyTorch's strict fp32 on a CUDA device.

Both are measured as relative L2 against PyTorch in double, on the headline problem and on random
ones. Prints the ratio's distribution and the problems where libdsconv's error is largest against
PyTorch's. Exit status: 0 every ratio is at most --limit, 1 one is not.
"""
import argparse
import pathlib
import random
import sys

import compare_torch
import dsconv_ctypes as ds
import torch

HEADLINE = "n=16,c=64,h=512,w=512,k=128,r=3,s=3,stride=1,pad=1"


def random_problem(pick):
    r = pick.choice((1, 3, 3, 3, 5, 7))
    return (f"n={pick.randint(1, 4)},c={pick.randint(1, 300)},h={pick.randint(r, 40)},"
            f"w={pick.randint(r, 40)},k={pick.randint(1, 300)},r={r},s={r},"
            f"stride={pick.choice((1, 1, 2))},pad={r // 2}")


def complete(text):
    return ds.parse_problem(
        text + ",dil=1,mult=1,dtype=f32,layout=nchw,math=strict,bias=0,mid=none,out=none,res=none")


def in_double(problem, tensors):
    mid = torch.nn.functional.conv2d(
        tensors.x.double(), tensors.w_dw.double(), None, (problem.stride_h, problem.stride_w),
        (problem.pad_top, problem.pad_left), 1, problem.c)
    return torch.nn.functional.conv2d(mid, tensors.w_pw.double())


def errors(library, text, layout, seed):
    """Relative L2 of libdsconv and of PyTorch."""
    problem = complete(text)
    tensors = compare_torch.Tensors(problem, "cuda", seed)
    expected = in_double(problem, tensors)
    plan, ours = compare_torch.library_call(library, problem, tensors, layout)
    eager = compare_torch.eager(problem, tensors, layout)
    result = [compare_torch.relative_l2(call(), expected) for call in (ours, eager)]
    plan.close()
    return result


def main():
    build = pathlib.Path(__file__).resolve().parent.parent / "build"
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=500, help="random problems")
    parser.add_argument("--limit", type=float, default=2.0, help="largest ratio allowed")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--library", default=str(build / "src" / "libdsconv.so"))
    args = parser.parse_args()
    torch.backends.cudnn.allow_tf32 = False
    library = ds.Library(args.library, "cuda")
    pick = random.Random(args.seed)
    rows = []
    for i in range(args.count + 1):
        text = random_problem(pick) if i else HEADLINE
        for layout in ds.LAYOUTS:
            with torch.inference_mode():
                ours, eager = errors(library, text, layout, args.seed + i)
            # Where PyTorch is exact, as with one term, so must we be.
            rows.append((ours / eager if eager else float(ours > 0) * 1e9, ours, eager, layout,
                         text))
            if i == 0:
                print(f"headline {layout}: {ours:.3e}, PyTorch strict {eager:.3e}", flush=True)
    rows.sort(reverse=True)
    for ratio, ours, eager, layout, text in rows[:5]:
        print(f"{ratio:.3f} x: {ours:.3e} against {eager:.3e}, {layout}, {text}")
    print(f"{len(rows)} runs: median ratio {rows[len(rows) // 2][0]:.3f}, largest {rows[0][0]:.3f}")
    library.close()
    return int(rows[0][0] > args.limit)


if __name__ == "__main__":
    sys.exit(main())
