/* The activations of dsconv.h on one value. Comparisons are written so that a NaN stays a NaN. */
#ifndef DSCONV_GPU_ACTIVATION_H
#define DSCONV_GPU_ACTIVATION_H

#include <dsconv/dsconv.h>

#include "gpu_rt.h"

__device__ inline float gpu_clamp6(float v) {
    return v < 0.0F ? 0.0F : v > 6.0F ? 6.0F : v;
}

/* 1 / (1 + exp(-v)) with relative accuracy on both sides. */
__device__ inline float gpu_logistic(float v) {
    float e = expf(-fabsf(v));
    return (v > 0.0F ? 1.0F : e) / (1.0F + e);
}

__device__ inline float gpu_activate(dsconv_activation act, float v) {
    switch (act.kind) {
    case DSCONV_ACT_RELU:
        return v < 0.0F ? 0.0F : v;
    case DSCONV_ACT_RELU6:
        return gpu_clamp6(v);
    case DSCONV_ACT_LEAKY_RELU:
        return v > 0.0F ? v : act.alpha * v;
    case DSCONV_ACT_SILU:
        return v * gpu_logistic(v);
    case DSCONV_ACT_HARDSWISH:
        return v * (gpu_clamp6(v + 3.0F) / 6.0F);
    case DSCONV_ACT_HARDSIGMOID:
        return gpu_clamp6(v + 3.0F) / 6.0F;
    case DSCONV_ACT_SIGMOID:
        return gpu_logistic(v);
    case DSCONV_ACT_GELU:
        return 0.5F * v * erfcf(-0.707106781F * v);
    case DSCONV_ACT_GELU_TANH: /* (1 + tanh(u)) / 2 is the logistic function of 2u */
        return v * gpu_logistic(1.59576912F * (v + 0.044715F * v * v * v));
    default:
        return v;
    }
}

/* Costly activations stay out of line: kernels would triple in size. */
static __device__ __noinline__ float gpu_activate_call(dsconv_activation act, float v) {
    return gpu_activate(act, v);
}

__device__ inline float gpu_activate_small(dsconv_activation act, float v) {
    if (act.kind > DSCONV_ACT_RELU6)
        return gpu_activate_call(act, v);
    if (act.kind != DSCONV_ACT_NONE)
        v = v < 0.0F ? 0.0F : v;
    return act.kind == DSCONV_ACT_RELU6 && v > 6.0F ? 6.0F : v;
}

#endif
