#!/usr/bin/env python3
"""Times PyTorch's two modules beside libdsconv, in one process, for the same problems.

All candidates of a problem are interleaved; each sample lasts at least 30 ms; samples in which
other jobs kept this process's threads off the processors are dropped (as dsconv-bench does it).
Each problem is timed in both layouts: NCHW against PyTorch's contiguous tensors, NHWC against
channels_last; on CUDA against the other layout and CUDA graphs, too. Needs PyTorch 1.13 or newer (python3-torch of Debian, or pip).
"""
import argparse
import math
import os
import pathlib
import statistics
import subprocess
import sys
import time

# PyTorch allocates its outputs at every call. With these, glibc keeps and reuses that memory;
# otherwise page faults dominate, and the comparison would flatter libdsconv.
WARM_HEAP = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": "17179869184",
             "MALLOC_TOP_PAD_": "1073741824"}
if __name__ == "__main__" and any(os.environ.get(k) != v for k, v in WARM_HEAP.items()):
    os.environ.update(WARM_HEAP)
    os.execv(sys.executable, [sys.executable] + sys.argv)

import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402

import dsconv_ctypes as ds  # noqa: E402

TYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}
ACTIVATIONS = {
    "none": lambda v, a: v, "relu": lambda v, a: F.relu_(v), "relu6": lambda v, a: F.relu6(v, True),
    "leaky_relu": lambda v, a: F.leaky_relu_(v, a), "silu": lambda v, a: F.silu(v, True),
    "hardswish": lambda v, a: F.hardswish(v, True),
    "hardsigmoid": lambda v, a: F.hardsigmoid(v, True), "sigmoid": lambda v, a: v.sigmoid_(),
    "gelu": lambda v, a: F.gelu(v), "gelu_tanh": lambda v, a: F.gelu(v, approximate="tanh"),
}


class HostTimer:
    """Wall time; a sample counts when its run-queue delay is below 3 % of it."""
    least = 0.03

    def delay(self):
        total = 0
        for task in pathlib.Path("/proc/self/task").iterdir():
            try:
                total += int((task / "schedstat").read_text().split()[1])
            except OSError:
                pass  # the thread has ended
        return total * 1e-9

    def sample(self, call, repeats):
        before, start = self.delay(), time.perf_counter()
        for _ in range(repeats):
            call()
        seconds = time.perf_counter() - start
        return seconds / repeats, self.delay() - before < 0.03 * seconds


class CudaTimer:
    """KernelBench's protocol: events around one call, the cache flushed before it."""
    least = 0.0

    def __init__(self):
        self.flush = torch.empty(64 << 20, dtype=torch.int32, device="cuda")

    def sample(self, call, repeats):
        start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        self.flush.zero_()
        start.record()
        for _ in range(repeats):
            call()
        stop.record()
        stop.synchronize()
        return 1e-3 * start.elapsed_time(stop) / repeats, True


def measure(timer, candidates, reps):
    """Medians of the clean samples of each candidate, by name."""
    repeats, clean, taken = {}, {}, {}
    for name, call in candidates.items():
        timer.sample(call, 1)
        seconds, _ = timer.sample(call, 1)
        repeats[name] = max(1, math.ceil(timer.least / max(seconds, 1e-7)))
        clean[name], taken[name] = [], []
    names = list(candidates)
    for turn in range(3 * reps):
        if min(len(c) for c in clean.values()) >= reps:
            break
        for name in names[turn % len(names):] + names[:turn % len(names)]:
            seconds, is_clean = timer.sample(candidates[name], repeats[name])
            taken[name].append(seconds)
            if is_clean:
                clean[name].append(seconds)
    return {n: statistics.median(clean[n] if 2 * len(clean[n]) >= reps else taken[n])
            for n in names}


class Tensors:
    """Inputs of one problem on one device, contiguous as NCHW."""

    def __init__(self, problem, device, seed):
        torch.manual_seed(seed)
        p, dtype = problem, TYPES[ds.DTYPES[problem.dtype]]
        mid = p.c * p.multiplier

        def uniform(*shape, low=-1.0, high=1.0):
            return torch.empty(shape).uniform_(low, high).to(device=device, dtype=dtype)
        dw, pw = 1 / math.sqrt(p.r * p.s), 1 / math.sqrt(mid)
        self.x = uniform(p.n, p.c, p.h, p.w, low=0.0)
        self.w_dw = uniform(mid, 1, p.r, p.s, low=-dw, high=dw)
        self.w_pw = uniform(p.k, mid, 1, 1, low=-pw, high=pw)
        self.bias_dw = uniform(mid, low=-dw, high=dw) if p.bias & 1 else None
        self.bias_pw = uniform(p.k, low=-pw, high=pw) if p.bias & 2 else None
        out_h = (p.h + p.pad_top + p.pad_bottom - p.dil_h * (p.r - 1) - 1) // p.stride_h + 1
        out_w = (p.w + p.pad_left + p.pad_right - p.dil_w * (p.s - 1) - 1) // p.stride_w + 1
        self.y_shape = (p.n, p.k, out_h, out_w)
        self.residual = uniform(*self.y_shape) if p.residual else None


def memory_format(layout):
    return torch.channels_last if layout == "nhwc" else torch.contiguous_format


def eager(problem, t, layout):
    """PyTorch's two convolutions and what goes with them, as a function without arguments."""
    p, fmt = problem, memory_format(layout)
    x = t.x.contiguous(memory_format=fmt)
    residual = None if t.residual is None else t.residual.contiguous(memory_format=fmt)
    w_dw, w_pw = (w.contiguous(memory_format=fmt) for w in (t.w_dw, t.w_pw))
    act_mid = ACTIVATIONS[ds.ACTIVATIONS[p.act_mid.kind]]
    act_out = ACTIVATIONS[ds.ACTIVATIONS[p.act_out.kind]]
    pads = (p.pad_left, p.pad_right, p.pad_top, p.pad_bottom)
    symmetric = pads[0] == pads[1] and pads[2] == pads[3]
    kept, stride, dilation = ((p.pad_top, p.pad_left) if symmetric else 0,
                              (p.stride_h, p.stride_w), (p.dil_h, p.dil_w))
    groups, alpha_mid, alpha_out, when = p.c, p.act_mid.alpha, p.act_out.alpha, p.residual

    def call():
        padded = x if symmetric else F.pad(x, pads)
        mid = F.conv2d(padded, w_dw, t.bias_dw, stride, kept, dilation, groups)
        y = F.conv2d(act_mid(mid, alpha_mid), w_pw, t.bias_pw)
        if when == 1:
            y.add_(residual)
        y = act_out(y, alpha_out)
        return y.add_(residual) if when == 2 else y
    return call


def library_call(library, problem, t, layout):
    """libdsconv's plan and a function without arguments that runs it into y."""
    problem.layout = ds.LAYOUTS.index(layout)
    fmt = memory_format(layout)

    def address(tensor):
        return 0 if tensor is None else tensor.data_ptr()
    x = t.x.contiguous(memory_format=fmt)
    y = torch.zeros(t.y_shape, dtype=x.dtype, device=x.device).contiguous(memory_format=fmt)
    residual = None if t.residual is None else t.residual.contiguous(memory_format=fmt)
    plan = ds.Plan(library, problem, address(t.w_dw), address(t.w_pw), address(t.bias_dw),
                   address(t.bias_pw), on_device=x.is_cuda)
    run = plan.runner(address(x), address(y), address(residual))

    def call(keep=(x, residual)):
        run()
        return y
    return plan, call


def host_peers(problem, tensors, layout):
    return {"eager": eager(problem, tensors, layout)}


def graphed(call):
    """The same in a CUDA graph, without the host's part of each launch."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            call()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = call()

    def replay():
        graph.replay()
        return y
    return replay


def with_tf32(call, allowed):
    def run():
        torch.backends.cudnn.allow_tf32 = allowed
        return call()
    return run


def cuda_peers(problem, tensors, layout):
    """In both layouts with the problem's math; with TF32 too, which is what PyTorch does unasked."""
    torch.backends.cudnn.benchmark = True
    tf32 = ds.MATHS[problem.math] == "tf32"
    own = eager(problem, tensors, layout)
    other = eager(problem, tensors, "nchw" if layout == "nhwc" else "nhwc")
    peers = {"eager": with_tf32(own, tf32), "other layout": with_tf32(other, tf32)}
    for name in list(peers):
        peers[name + " graph"] = graphed(peers[name])
    if problem.dtype == 0 and not tf32:
        peers["eager tf32"] = with_tf32(own, True)
    return peers


# What is compared on each backend: device of PyTorch, timer, peers in the same layout.
DEVICES = {"cpu": ("cpu", HostTimer, host_peers), "cuda": ("cuda", CudaTimer, cuda_peers)}


def relative_l2(got, expected):
    got, expected = got.double(), expected.double()
    return float((got - expected).norm() / expected.norm())


def compare(library, args, problem, layout):
    """One layout of one problem: milliseconds by name, and the difference of the results."""
    device, timer, peers_of = DEVICES[args.backend]
    tensors = Tensors(problem, device, args.seed)
    plan, ours = library_call(library, problem, tensors, layout)
    peers = peers_of(problem, tensors, layout)
    if args.compile:
        compiled = torch.compile(eager(problem, tensors, layout))
        peers["compile"] = with_tf32(compiled, ds.MATHS[problem.math] == "tf32")
    difference = max(relative_l2(ours(), peer()) for peer in peers.values())
    times = measure(timer(), {"dsconv": ours, **peers}, args.reps)
    plan.close()
    return {name: 1e3 * seconds for name, seconds in times.items()}, difference


def problems(args):
    command = [args.bench, "--print"] + args.problem
    for option in ("set", "file", "batch", "dtype", "math"):
        if getattr(args, option):
            command += ["--" + option, getattr(args, option)]
    text = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    return [line.split("\t") for line in text.splitlines()]


def arguments():
    build = pathlib.Path(__file__).resolve().parent.parent / "build"
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("problem", nargs="*", help="problem strings (default: kernelbench86)")
    for option in ("set", "file", "batch", "dtype", "math"):
        parser.add_argument("--" + option, help="as in dsconv-bench")
    parser.add_argument("--layout", choices=ds.LAYOUTS, help="one layout (default: both)")
    parser.add_argument("--backend", default="cpu", choices=DEVICES)
    parser.add_argument("--compile", action="store_true", help="torch.compile, too (slow to start)")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--reps", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--library", default=str(build / "src" / "libdsconv.so"))
    parser.add_argument("--bench", default=str(build / "bench" / "dsconv-bench"))
    return parser.parse_args()


def main():
    args = arguments()
    torch.set_num_threads(args.threads)
    library = ds.Library(args.library, args.backend, threads=args.threads)
    layouts = [args.layout] if args.layout else ds.LAYOUTS
    ratios = {layout: [] for layout in layouts}
    print(f"PyTorch {torch.__version__}, {args.threads} threads, warm heap; "
          "x is PyTorch's time over libdsconv's")
    for network, layer, text in problems(args):
        problem = ds.parse_problem(text)
        for layout in layouts:
            with torch.inference_mode():
                times, difference = compare(library, args, problem, layout)
            name = f"{network} {layer}".strip() or text
            ours = times.pop("dsconv")
            same_math = [ms for peer, ms in times.items() if peer != "eager tf32"]
            ratios[layout].append(min(same_math) / ours)
            row = "  ".join(f"{n} {ms:.4f} ms {ms / ours:.3f} x" for n, ms in times.items())
            print(f"{name:<44.44} {layout}  dsconv {ours:.4f} ms  {row}  difference "
                  f"{difference:.1e}", flush=True)
    for layout, values in ratios.items():
        mean = math.exp(statistics.fmean(map(math.log, values)))
        print(f"{layout}: geometric mean {mean:.3f} x over {len(values)}, least {min(values):.3f}")
    library.close()


if __name__ == "__main__":
    main()
