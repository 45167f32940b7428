"""KernelBench level 1, problem 86: ModelNew on libdsconv.

Give this file to KernelBench's evaluator as the candidate. Nothing is compiled: the library is
opened through ctypes and works on PyTorch's own tensors and stream. It is found by DSCONV_LIBRARY
(path of libdsconv.so), or else where the dynamic loader looks. DSCONV_MATH=strict asks for fp32
accuracy in the pointwise stage; the default, tf32, does what PyTorch does by default.
"""
import ctypes
import os

import torch
import torch.nn as nn

_DTYPES = {torch.float32: 0, torch.float16: 1, torch.bfloat16: 2}
_TF32, _DEVICE_MEMORY = 1, 1


class _Activation(ctypes.Structure):
    _fields_ = [("kind", ctypes.c_int32), ("alpha", ctypes.c_float)]


class _Problem(ctypes.Structure):
    _fields_ = (
        [("struct_size", ctypes.c_size_t)]
        + [(name, ctypes.c_int64) for name in (
            "n", "c", "h", "w", "k", "r", "s", "stride_h", "stride_w", "pad_top", "pad_bottom",
            "pad_left", "pad_right", "dil_h", "dil_w", "multiplier")]
        + [("dtype", ctypes.c_int32), ("layout", ctypes.c_int32), ("math", ctypes.c_int32),
           ("bias", ctypes.c_uint32), ("residual", ctypes.c_int32), ("act_mid", _Activation),
           ("act_out", _Activation), ("output_mid", ctypes.c_int32)]
        + [(name, ctypes.c_int64 * 4) for name in ("x_strides", "y_strides", "residual_strides")])


class _ContextParams(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("backend", ctypes.c_char_p),
                ("device", ctypes.c_int32), ("threads", ctypes.c_int32), ("log", ctypes.c_void_p),
                ("log_user", ctypes.c_void_p)]


class _Weights(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t)] + [
        (name, ctypes.c_void_p) for name in ("w_dw", "w_pw", "bias_dw", "bias_pw")] + [
        ("memory", ctypes.c_int32)]


class _RunParams(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t)] + [
        (name, ctypes.c_void_p) for name in ("x", "y", "residual", "mid", "workspace")] + [
        ("workspace_size", ctypes.c_size_t), ("stream", ctypes.c_void_p)]


def _made(structure, **fields):
    return structure(struct_size=ctypes.sizeof(structure), **fields)


class _Library:
    """libdsconv and a context on one device."""

    def __init__(self, device):
        self.lib = ctypes.CDLL(os.environ.get("DSCONV_LIBRARY", "libdsconv.so.0"))
        self.lib.dsconv_last_message.restype = ctypes.c_char_p
        self.context = ctypes.c_void_p()
        params = _made(_ContextParams, backend=b"cuda", device=device)
        self.check(self.lib.dsconv_context_create(ctypes.byref(params),
                                                  ctypes.byref(self.context)))

    def check(self, status):
        if status != 0:
            raise RuntimeError(self.lib.dsconv_last_message().decode())


def _address(tensor):
    return None if tensor is None else tensor.data_ptr()


class ModelNew(nn.Module):
    """Depthwise separable convolution: a depthwise k x k, then a pointwise 1 x 1 convolution."""

    def __init__(self, in_channels, out_channels, kernel_size, stride=1, padding=0, dilation=1,
                 bias=False):
        super().__init__()
        self.depthwise = nn.Conv2d(in_channels, in_channels, kernel_size, stride, padding,
                                   dilation, groups=in_channels, bias=bias)
        self.pointwise = nn.Conv2d(in_channels, out_channels, 1, bias=bias)
        self.plans = {}

    def _plan(self, x):
        library = _Library(x.device.index or 0)
        dw, pw = self.depthwise, self.pointwise
        n, c, h, w = x.shape
        tf32 = os.environ.get("DSCONV_MATH", "tf32") == "tf32"
        problem = _made(
            _Problem, n=n, c=c, h=h, w=w, k=pw.out_channels, r=dw.kernel_size[0],
            s=dw.kernel_size[1], stride_h=dw.stride[0], stride_w=dw.stride[1],
            pad_top=dw.padding[0], pad_bottom=dw.padding[0], pad_left=dw.padding[1],
            pad_right=dw.padding[1], dil_h=dw.dilation[0], dil_w=dw.dilation[1], multiplier=1,
            dtype=_DTYPES[x.dtype], math=_TF32 if tf32 else 0, bias=0 if dw.bias is None else 3)
        plan = ctypes.c_void_p()
        library.check(library.lib.dsconv_plan_create(library.context, ctypes.byref(problem), None,
                                                     ctypes.byref(plan)))
        tensors = [t if t is None else t.detach().to(x.dtype).contiguous()
                   for t in (dw.weight, pw.weight, dw.bias, pw.bias)]
        weights = _made(_Weights, w_dw=_address(tensors[0]), w_pw=_address(tensors[1]),
                        bias_dw=_address(tensors[2]), bias_pw=_address(tensors[3]),
                        memory=_DEVICE_MEMORY)
        library.check(library.lib.dsconv_plan_set_weights(plan, ctypes.byref(weights)))
        height, width = ((x.shape[i + 2] + 2 * dw.padding[i]
                          - dw.dilation[i] * (dw.kernel_size[i] - 1) - 1) // dw.stride[i] + 1
                         for i in (0, 1))
        return library, plan, (n, pw.out_channels, height, width)

    def forward(self, x):
        x = x.contiguous()
        key = (x.shape, x.dtype, x.device)
        if key not in self.plans:
            self.plans[key] = self._plan(x)
        library, plan, shape = self.plans[key]
        y = torch.empty(shape, dtype=x.dtype, device=x.device)
        params = _made(_RunParams, x=x.data_ptr(), y=y.data_ptr(),
                       stream=torch.cuda.current_stream(x.device).cuda_stream or None)
        library.check(library.lib.dsconv_run(plan, ctypes.byref(params)))
        return y
