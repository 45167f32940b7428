/* Activations beyond bounds for the small kernel: four values at once, so that their chains of
 * instructions overlap; out of line, since kernels would triple in size. */
#ifndef DSCONV_CUDA_SMALL_ACTIVATION_H
#define DSCONV_CUDA_SMALL_ACTIVATION_H

#include "../gpu/gpu_activation.h"

template <dsconv_activation_kind Kind>
__device__ __forceinline__ float4 small_activate_as(float alpha, float4 v) {
    const dsconv_activation act = {Kind, alpha};
    return make_float4(gpu_activate(act, v.x), gpu_activate(act, v.y), gpu_activate(act, v.z),
                       gpu_activate(act, v.w));
}

static __device__ __noinline__ float4 small_activate_call(dsconv_activation act, float4 v) {
    switch (act.kind) {
    case DSCONV_ACT_LEAKY_RELU:
        return small_activate_as<DSCONV_ACT_LEAKY_RELU>(act.alpha, v);
    case DSCONV_ACT_SILU:
        return small_activate_as<DSCONV_ACT_SILU>(act.alpha, v);
    case DSCONV_ACT_HARDSWISH:
        return small_activate_as<DSCONV_ACT_HARDSWISH>(act.alpha, v);
    case DSCONV_ACT_HARDSIGMOID:
        return small_activate_as<DSCONV_ACT_HARDSIGMOID>(act.alpha, v);
    case DSCONV_ACT_SIGMOID:
        return small_activate_as<DSCONV_ACT_SIGMOID>(act.alpha, v);
    case DSCONV_ACT_GELU:
        return small_activate_as<DSCONV_ACT_GELU>(act.alpha, v);
    case DSCONV_ACT_GELU_TANH:
        return small_activate_as<DSCONV_ACT_GELU_TANH>(act.alpha, v);
    default:
        return v;
    }
}

__device__ __forceinline__ void small_activate_four(dsconv_activation act, float &a, float &b,
                                                    float &c, float &d) {
    const float4 v = small_activate_call(act, make_float4(a, b, c, d));
    a = v.x, b = v.y, c = v.z, d = v.w;
}

#endif
