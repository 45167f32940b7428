/* The end of the pointwise stage: residual, activation, store. */
#ifndef DSCONV_GPU_FINISH_H
#define DSCONV_GPU_FINISH_H

#include "gpu_activation.h"
#include "gpu_pixel.h"
#include "gpu_value.h"

/* Where each pixel's outputs lie. In shared memory. */
template <int PIXELS> struct gpu_outputs {
    int64_t y[PIXELS], residual[PIXELS];
    int run[PIXELS / 4]; /* of four pixels: whether their outputs are neighbours in memory */
};

/* Of the pixels from `first` on. */
template <int PIXELS>
__device__ void gpu_locate_outputs(const gpu_conv &a, gpu_outputs<PIXELS> &outputs, int64_t first,
                                   int thread, int threads) {
    for (int i = thread; i < PIXELS; i += threads) {
        const gpu_pixel at(a, first + i);
        outputs.y[i] = at.n * a.ys.n + at.p * a.ys.h + at.q * a.ys.w;
        outputs.residual[i] = at.n * a.rs.n + at.p * a.rs.h + at.q * a.rs.w;
        if (i % 4 == 0)
            outputs.run[i / 4] = a.ys.w == 1 && at.q + 3 < a.q;
    }
}

template <class T>
__device__ inline float gpu_finish(const gpu_conv &a, float sum, int64_t residual_index) {
    float residual = 0.0F;
    if (a.residual_kind != DSCONV_RESIDUAL_NONE)
        residual = gpu_load<T>(a.residual, residual_index);
    if (a.residual_kind == DSCONV_RESIDUAL_BEFORE_ACT)
        sum += residual;
    sum = gpu_activate_small(a.act_out, sum);
    return a.residual_kind == DSCONV_RESIDUAL_AFTER_ACT ? sum + residual : sum;
}

/* Finishes four neighbours, channels or else pixels, of which `valid` exist, and stores them, in
 * one access where they are neighbours in memory too. Residuals are read first: they may be y's
 * own. */
template <class T, int PIXELS>
__device__ inline void gpu_finish_quad(const gpu_conv &a, const gpu_outputs<PIXELS> &outputs,
                                       const float *sum, int pixel, int64_t output, int valid,
                                       bool channels) {
    const bool neighbours = channels ? a.ys.c == 1 : outputs.run[pixel / 4] != 0;
    const int64_t first = outputs.y[pixel] + output * a.ys.c;
    float value[4];
#pragma unroll
    for (int i = 0; i < 4; i++)
        if (i < valid)
            value[i] = gpu_finish<T>(a, sum[i],
                                     outputs.residual[channels ? pixel : pixel + i] +
                                         (channels ? output + i : output) * a.rs.c);
    if (neighbours && valid >= 4 && gpu_quad_aligned<T>(a.y, first)) {
        gpu_quad<T> quad;
#pragma unroll
        for (int i = 0; i < 4; i++)
            quad.v[i] = T::store(value[i]);
        *(gpu_quad<T> *)((typename T::raw *)a.y + first) = quad;
        return;
    }
#pragma unroll
    for (int i = 0; i < 4; i++)
        if (i < valid)
            gpu_store<T>(a.y,
                         channels ? first + i * a.ys.c : outputs.y[pixel + i] + output * a.ys.c,
                         value[i]);
}

#endif
