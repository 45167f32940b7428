/* The depthwise stage of a block: where its pixels lie, and their windows' sums. */
#ifndef DSCONV_GPU_DEPTHWISE_H
#define DSCONV_GPU_DEPTHWISE_H

#include "gpu_activation.h"
#include "gpu_conv.h"
#include "gpu_value.h"

/* Where each pixel's window lies: its first tap, which may be outside the image, and the taps that
 * are inside. In shared memory. */
template <int PIXELS> struct gpu_windows {
    int64_t x[PIXELS], mid[PIXELS];
    int r_begin[PIXELS], r_end[PIXELS], s_begin[PIXELS], s_end[PIXELS];
};

/* The smallest tap, at most `taps`, that lies at or beyond `bound`. */
__device__ inline int gpu_first_tap(int64_t origin, int64_t bound, int64_t dilation, int taps) {
    if (origin >= bound)
        return 0;
    int64_t tap = (bound - origin + dilation - 1) / dilation;
    return tap < taps ? (int)tap : taps;
}

/* Of the pixels from `first` on; those beyond the last one repeat it. */
template <int PIXELS>
__device__ void gpu_locate_windows(const gpu_conv &a, gpu_windows<PIXELS> &windows, int64_t first,
                                   int thread, int threads) {
    for (int i = thread; i < PIXELS; i += threads) {
        int64_t pixel = first + i < a.pixels ? first + i : a.pixels - 1;
        int64_t row = pixel / a.q, q = pixel % a.q, n = row / a.p, p = row % a.p;
        int64_t top = p * a.stride_h - a.pad_top, left = q * a.stride_w - a.pad_left;
        windows.x[i] = n * a.xs.n + top * a.xs.h + left * a.xs.w;
        windows.mid[i] = n * a.ms.n + p * a.ms.h + q * a.ms.w;
        windows.r_begin[i] = gpu_first_tap(top, 0, a.dil_h, a.r);
        windows.r_end[i] = gpu_first_tap(top, a.h, a.dil_h, a.r);
        windows.s_begin[i] = gpu_first_tap(left, 0, a.dil_w, a.s);
        windows.s_end[i] = gpu_first_tap(left, a.w, a.dil_w, a.s);
    }
}

/* One channel's taps, for a window of WINDOW x WINDOW. */
template <class T, int WINDOW> struct gpu_taps {
    float w[WINDOW * WINDOW];

    __device__ void load(const float *weights) {
#pragma unroll
        for (int i = 0; i < WINDOW * WINDOW; i++)
            w[i] = weights[i];
    }

    /* Every tap is loaded before the first is used, those outside from x's first element. */
    template <int PIXELS>
    __device__ float sum(const gpu_conv &a, const gpu_windows<PIXELS> &windows, int pixel,
                         int64_t plane, float start) const {
        const int64_t row_step = a.dil_h * a.xs.h, tap_step = a.dil_w * a.xs.w;
        const int64_t origin = windows.x[pixel] + plane;
        const int r_begin = windows.r_begin[pixel], r_end = windows.r_end[pixel];
        const int s_begin = windows.s_begin[pixel], s_end = windows.s_end[pixel];
        float value[WINDOW * WINDOW];
#pragma unroll
        for (int r = 0; r < WINDOW; r++)
#pragma unroll
            for (int s = 0; s < WINDOW; s++) {
                bool inside = r >= r_begin && r < r_end && s >= s_begin && s < s_end;
                int64_t at = inside ? origin + r * row_step + s * tap_step : 0;
                value[r * WINDOW + s] = gpu_load<T>(a.x, at);
            }
#pragma unroll
        for (int i = 0; i < WINDOW * WINDOW; i++) {
            int r = i / WINDOW, s = i % WINDOW;
            if (r >= r_begin && r < r_end && s >= s_begin && s < s_end)
                start = fmaf(value[i], w[i], start);
        }
        return start;
    }
};

/* The same for a window of any size. */
template <class T> struct gpu_taps<T, 0> {
    const float *w;

    __device__ void load(const float *weights) {
        w = weights;
    }

    template <int PIXELS>
    __device__ float sum(const gpu_conv &a, const gpu_windows<PIXELS> &windows, int pixel,
                         int64_t plane, float start) const {
        const int64_t row_step = a.dil_h * a.xs.h, tap_step = a.dil_w * a.xs.w;
        const int begin = windows.s_begin[pixel], end = windows.s_end[pixel];
        for (int r = windows.r_begin[pixel]; r < windows.r_end[pixel]; r++) {
            int64_t row = windows.x[pixel] + plane + r * row_step;
            const float *row_weights = w + (int64_t)r * a.s;
#pragma unroll 8
            for (int s = begin; s < end; s++)
                start = fmaf(gpu_load<T>(a.x, row + s * tap_step), row_weights[s], start);
        }
        return start;
    }
};

/* Gives put(channel, pixel, mid) for CHANNELS channels from `first` on, zeros past the first
 * `count`, shared among THREADS threads. Of 32 threads, those that are neighbours take elements
 * that are neighbours in memory: pixels, or channels when they are last. */
template <class T, int WINDOW, int CHANNELS, int THREADS, int PIXELS, class Put>
__device__ void gpu_depthwise(const gpu_conv &a, const gpu_windows<PIXELS> &windows, int thread,
                              int64_t first, int count, int valid_pixels, bool write_mid, Put put) {
    const int lane = thread % 32, group = thread / 32;
    const int channel_lanes = a.channels_last ? 8 : 1, pixel_lanes = 32 / channel_lanes;
    const int span = a.channels_last ? 32 : PIXELS; /* pixels that share loaded weights */
    const int spans = PIXELS / span, units = CHANNELS / channel_lanes * spans;
    for (int unit = group; unit < units; unit += THREADS / 32) {
        const int channel = unit / spans * channel_lanes + lane % channel_lanes;
        const bool used = channel < count;
        const int64_t j = used ? first + channel : first;
        const int64_t plane = (a.multiplier == 1 ? j : j / a.multiplier) * a.xs.c;
        const float bias = a.weights.bias_dw[j];
        gpu_taps<T, WINDOW> taps;
        taps.load(a.weights.dw + j * ((int64_t)a.r * a.s));
        const int begin = unit % spans * span;
#pragma unroll 2
        for (int pixel = begin + lane / channel_lanes; pixel < begin + span; pixel += pixel_lanes) {
            float value = taps.sum(a, windows, pixel, plane, bias);
            value = gpu_activate_small(a.act_mid, value);
            put(channel, pixel, used ? value : 0.0F);
            if (write_mid && used && pixel < valid_pixels)
                gpu_store<T>(a.mid, windows.mid[pixel] + j * a.ms.c, value);
        }
    }
}

#endif
