/* What a kernel is told of a convolution: one structure passed by value. */
#ifndef DSCONV_GPU_CONV_H
#define DSCONV_GPU_CONV_H

#include <stdint.h>

#include <dsconv/dsconv.h>

/* Packed weights, always fp32; biases are zero where the problem has none. */
struct gpu_weights {
    float *dw;      /* [mid][r * s] */
    float *pw;      /* [mid][k]: transposed */
    float *bias_dw; /* [mid] */
    float *bias_pw; /* [k] */
    int *extreme;   /* [2]: whether dw holds an Inf or NaN; whether pw holds one or a number, other
                       than 0, outside 2^-40 ... 2^126 */
};

struct gpu_strides {
    int64_t n, c, h, w;
};

struct gpu_conv {
    const void *x, *residual;
    void *y, *mid;
    gpu_weights weights;
    int64_t pixels; /* n * p * q */
    int64_t h, w, p, q, k, mid_channels, multiplier;
    int64_t stride_h, stride_w, pad_top, pad_left, dil_h, dil_w;
    gpu_strides xs, ys, rs, ms;
    dsconv_activation act_mid, act_out;
    dsconv_residual residual_kind;
    int r, s;
    int channels_last; /* neighbouring channels, not pixels, are neighbours in memory */
};

#endif
