"""libdsconv through ctypes, as far as the comparisons need it."""
import ctypes
from ctypes import POINTER, byref, c_char_p, c_double, c_float, c_int32, c_int64, c_size_t
from ctypes import c_uint32, c_void_p

DTYPES = ["f32", "f16", "bf16", "i8"]
LAYOUTS = ["nchw", "nhwc"]
MATHS = ["strict", "tf32"]
RESIDUALS = ["none", "before", "after"]
BIASES = ["0", "dw", "pw", "both"]
ACTIVATIONS = ["none", "relu", "relu6", "leaky_relu", "silu", "hardswish", "hardsigmoid",
               "sigmoid", "gelu", "gelu_tanh"]


class Activation(ctypes.Structure):
    _fields_ = [("kind", c_int32), ("alpha", c_float)]


class Problem(ctypes.Structure):
    _fields_ = (
        [("struct_size", c_size_t)]
        + [(name, c_int64) for name in (
            "n", "c", "h", "w", "k", "r", "s", "stride_h", "stride_w", "pad_top", "pad_bottom",
            "pad_left", "pad_right", "dil_h", "dil_w", "multiplier")]
        + [("dtype", c_int32), ("layout", c_int32), ("math", c_int32), ("bias", c_uint32),
           ("residual", c_int32), ("act_mid", Activation), ("act_out", Activation),
           ("output_mid", c_int32), ("x_strides", c_int64 * 4), ("y_strides", c_int64 * 4),
           ("residual_strides", c_int64 * 4)])


class ContextParams(ctypes.Structure):
    _fields_ = [("struct_size", c_size_t), ("backend", c_char_p), ("device", c_int32),
                ("threads", c_int32), ("log", c_void_p), ("log_user", c_void_p)]


class Weights(ctypes.Structure):
    _fields_ = [("struct_size", c_size_t), ("w_dw", c_void_p), ("w_pw", c_void_p),
                ("bias_dw", c_void_p), ("bias_pw", c_void_p), ("memory", c_int32)]


class PlanInfo(ctypes.Structure):
    _fields_ = [("struct_size", c_size_t), ("backend", c_char_p), ("algo", c_char_p),
                ("kernel", c_char_p), ("uses_tf32", c_int32), ("reserved", c_int32),
                ("p", c_int64), ("q", c_int64), ("flops", c_double),
                ("compulsory_bytes", c_double), ("workspace_size", c_size_t)]


class RunParams(ctypes.Structure):
    _fields_ = [("struct_size", c_size_t), ("x", c_void_p), ("y", c_void_p),
                ("residual", c_void_p), ("mid", c_void_p), ("workspace", c_void_p),
                ("workspace_size", c_size_t), ("stream", c_void_p)]


class Error(Exception):
    """A call of the library failed; the text is the library's own."""


def made(structure, **fields):
    return structure(struct_size=ctypes.sizeof(structure), **fields)


def pair(text):
    first, _, second = text.partition("x")
    return int(first), int(second or first)


def activation(text):
    kind, _, alpha = text.partition(":")
    return Activation(ACTIVATIONS.index(kind), float(alpha or 0))


def parse_problem(text):
    """Reads the canonical string that `dsconv-bench --print` writes (dense tensors, no midout)."""
    v = dict(item.split("=") for item in text.split(","))
    pads = [int(p) for p in v["pad"].split(":")]
    if len(pads) == 1:
        pads *= 4
    problem = made(Problem, n=int(v["n"]), c=int(v["c"]), h=int(v["h"]), w=int(v["w"]),
                   k=int(v["k"]), r=int(v["r"]), s=int(v["s"]), multiplier=int(v["mult"]),
                   dtype=DTYPES.index(v["dtype"]), layout=LAYOUTS.index(v["layout"]),
                   math=MATHS.index(v["math"]), bias=BIASES.index(v["bias"]),
                   residual=RESIDUALS.index(v["res"]), act_mid=activation(v["mid"]),
                   act_out=activation(v["out"]))
    problem.stride_h, problem.stride_w = pair(v["stride"])
    problem.dil_h, problem.dil_w = pair(v["dil"])
    problem.pad_top, problem.pad_bottom, problem.pad_left, problem.pad_right = pads
    return problem


class Library:
    def __init__(self, path, backend, device=0, threads=0):
        self.lib = ctypes.CDLL(path)
        self.lib.dsconv_last_message.restype = c_char_p
        self.lib.dsconv_run.argtypes = [c_void_p, POINTER(RunParams)]
        self.context = c_void_p()
        params = made(ContextParams, backend=backend.encode(), device=device, threads=threads)
        self.check(self.lib.dsconv_context_create(byref(params), byref(self.context)))

    def check(self, status):
        if status != 0:
            raise Error(self.lib.dsconv_last_message().decode())

    def close(self):
        self.lib.dsconv_context_destroy(self.context)


class Plan:
    """A plan with its weights set. Pointers are integers, 0 for none."""

    def __init__(self, library, problem, w_dw, w_pw, bias_dw, bias_pw, on_device=False):
        self.library = library
        self.plan = c_void_p()
        self.info = made(PlanInfo)
        lib = library.lib
        library.check(lib.dsconv_plan_create(library.context, byref(problem), None,
                                             byref(self.plan)))
        weights = made(Weights, w_dw=w_dw, w_pw=w_pw, bias_dw=bias_dw or None,
                       bias_pw=bias_pw or None, memory=int(on_device))
        library.check(lib.dsconv_plan_set_weights(self.plan, byref(weights)))
        library.check(lib.dsconv_plan_query(self.plan, byref(self.info)))
        self.workspace = c_void_p()
        library.check(lib.dsconv_alloc(library.context, c_size_t(self.info.workspace_size),
                                       byref(self.workspace)))

    def runner(self, x, y, residual=0, stream=0):
        """A function without arguments that runs on these tensors, with the least overhead."""
        params = made(RunParams, x=x, y=y, residual=residual or None, workspace=self.workspace,
                      workspace_size=self.info.workspace_size, stream=stream or None)
        run, plan, check = self.library.lib.dsconv_run, self.plan, self.library.check
        return lambda: check(run(plan, byref(params)))

    def close(self):
        self.library.lib.dsconv_free(self.library.context, self.workspace)
        self.library.lib.dsconv_plan_destroy(self.plan)
