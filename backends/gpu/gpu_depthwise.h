/* The depthwise stage of a block: where its pixels lie, and their windows' sums. */
#ifndef DSCONV_GPU_DEPTHWISE_H
#define DSCONV_GPU_DEPTHWISE_H

#include "gpu_activation.h"
#include "gpu_pixel.h"
#include "gpu_value.h"

/* Where each pixel's window lies: its first tap, which may be outside the image, and which taps are
 * inside. In shared memory. */
template <int PIXELS> struct gpu_windows {
    int64_t x[PIXELS], mid[PIXELS];
    int64_t safe[PIXELS]; /* from the first tap to one inside; to x's first element for none */
    int r_begin[PIXELS], r_end[PIXELS], s_begin[PIXELS], s_end[PIXELS];
    int run[PIXELS / 4]; /* of four windows: whether each is one tap from the one before */
};

/* The smallest tap, at most `taps`, that lies at or beyond `bound`. */
__device__ inline int gpu_first_tap(int64_t origin, int64_t bound, int64_t dilation, int taps) {
    if (origin >= bound)
        return 0;
    int64_t distance = bound - origin;
    int64_t tap = dilation == 1 ? distance : (distance - 1) / dilation + 1;
    return tap < taps ? (int)tap : taps;
}

/* Of the pixels from `first` on. */
template <int PIXELS>
__device__ void gpu_locate_windows(const gpu_conv &a, gpu_windows<PIXELS> &windows, int64_t first,
                                   int thread, int threads) {
    for (int i = thread; i < PIXELS; i += threads) {
        const gpu_pixel at(a, first + i);
        const int64_t top = at.p * a.stride_h - a.pad_top, left = at.q * a.stride_w - a.pad_left;
        const int64_t x = at.n * a.xs.n + top * a.xs.h + left * a.xs.w;
        const int r_begin = gpu_first_tap(top, 0, a.dil_h, a.r);
        const int r_end = gpu_first_tap(top, a.h, a.dil_h, a.r);
        const int s_begin = gpu_first_tap(left, 0, a.dil_w, a.s);
        const int s_end = gpu_first_tap(left, a.w, a.dil_w, a.s);
        const bool any = r_begin < r_end && s_begin < s_end;
        windows.x[i] = x;
        windows.mid[i] = at.n * a.ms.n + at.p * a.ms.h + at.q * a.ms.w;
        windows.safe[i] = any ? r_begin * a.dil_h * a.xs.h + s_begin * a.dil_w * a.xs.w : -x;
        windows.r_begin[i] = r_begin;
        windows.r_end[i] = r_end;
        windows.s_begin[i] = s_begin;
        windows.s_end[i] = s_end;
        /* The first of four must reach into the image from the left, the last from the right. */
        if (i % 4 == 0)
            windows.run[i / 4] = a.stride_w == a.dil_w && at.q + 3 < a.q &&
                                 first + i + 3 < a.pixels && s_begin < a.s &&
                                 left + 3 * a.stride_w < a.w;
    }
}

/* Which taps of neighbouring windows are inside the image. */
struct gpu_inside {
    int r_begin, r_end, s_begin, s_end;

    __device__ bool operator()(int r, int s) const {
        return r >= r_begin && r < r_end && s >= s_begin && s < s_end;
    }
    /* Has answers found again: AMD keeps each in two scalar registers, which are few. */
    __device__ void forget() {
#if defined(__HIP_PLATFORM_AMD__) && defined(__HIP_DEVICE_COMPILE__)
        asm volatile("" : "+v"(r_begin), "+v"(r_end), "+v"(s_begin), "+v"(s_end));
#endif
    }
};

struct gpu_all_inside {
    __device__ constexpr bool operator()(int, int) const {
        return true;
    }
    __device__ void forget() {
    }
};

/* One channel's taps, for a window of WINDOW x WINDOW. */
template <class T, int WINDOW> struct gpu_taps {
    float w[WINDOW * WINDOW];

    __device__ void load(const float *weights) {
#pragma unroll
        for (int i = 0; i < WINDOW * WINDOW; i++)
            w[i] = weights[i];
    }

    /* Sums of COUNT windows side by side. */
    template <int COUNT, int PIXELS>
    __device__ __forceinline__ void sums(const gpu_conv &a, const gpu_windows<PIXELS> &windows,
                                         int pixel, int64_t plane, float start, float *sum) const {
        const int r_begin = windows.r_begin[pixel], r_end = windows.r_end[pixel];
        const int s_begin = windows.s_begin[pixel];
        const int s_end = windows.s_end[pixel + COUNT - 1] + COUNT - 1;
        const typename T::raw *origin = (const typename T::raw *)a.x + (windows.x[pixel] + plane);
        /* Single windows are one a thread, whose ways had better not part. */
        if (COUNT > 1 && r_begin == 0 && r_end == WINDOW && s_begin == 0 &&
            s_end == WINDOW + COUNT - 1)
            add<COUNT>(a, origin, start, sum, 0, gpu_all_inside());
        else
            add<COUNT>(a, origin, start, sum, windows.safe[pixel],
                       gpu_inside{r_begin, r_end, s_begin, s_end});
    }

    /* All that the windows cover is loaded before it is used; what is not inside, from `safe`. */
    template <int COUNT, class Inside>
    __device__ __forceinline__ void add(const gpu_conv &a, const typename T::raw *origin,
                                        float start, float *sum, int64_t safe,
                                        Inside inside) const {
        constexpr int COLUMNS = WINDOW + COUNT - 1;
        const int64_t row_step = a.dil_h * a.xs.h, tap_step = a.dil_w * a.xs.w;
        float value[WINDOW][COLUMNS];
#pragma unroll
        for (int r = 0; r < WINDOW; r++) {
            const typename T::raw *at = origin + r * row_step;
#pragma unroll
            for (int s = 0; s < COLUMNS; s++, at += tap_step)
                value[r][s] = T::load(*(inside(r, s) ? at : origin + safe));
        }
        inside.forget();
#pragma unroll
        for (int i = 0; i < COUNT; i++)
            sum[i] = start;
#pragma unroll
        for (int r = 0; r < WINDOW; r++)
#pragma unroll
            for (int s = 0; s < WINDOW; s++)
#pragma unroll
                for (int i = 0; i < COUNT; i++)
                    if (inside(r, s + i))
                        sum[i] = fmaf(value[r][s + i], w[r * WINDOW + s], sum[i]);
    }
};

/* The same for a window of any size. */
template <class T> struct gpu_taps<T, 0> {
    const float *w;

    __device__ void load(const float *weights) {
        w = weights;
    }

    template <int COUNT, int PIXELS>
    __device__ void sums(const gpu_conv &a, const gpu_windows<PIXELS> &windows, int pixel,
                         int64_t plane, float start, float *sum) const {
        const int64_t row_step = a.dil_h * a.xs.h, tap_step = a.dil_w * a.xs.w;
#pragma unroll
        for (int i = 0; i < COUNT; i++) {
            const int begin = windows.s_begin[pixel + i], end = windows.s_end[pixel + i];
            float total = start;
            for (int r = windows.r_begin[pixel + i]; r < windows.r_end[pixel + i]; r++) {
                const int64_t row = windows.x[pixel + i] + plane + r * row_step;
                const float *row_weights = w + (int64_t)r * a.s;
#pragma unroll 8
                for (int s = begin; s < end; s++)
                    total = fmaf(gpu_load<T>(a.x, row + s * tap_step), row_weights[s], total);
            }
            sum[i] = total;
        }
    }
};

/* Gives put(channel, pixel, mid) for CHANNELS channels from `first` on, zeros past the first
 * `count`, shared among THREADS threads. Of 32 threads, neighbours take what is neighbouring in
 * memory: pixels, or channels when they are last. `a` is the kernel's own argument. */
template <class T, int WINDOW, int CHANNELS, int THREADS, int PIXELS, class Put>
__device__ void gpu_depthwise(const gpu_conv &a, const gpu_windows<PIXELS> &windows, int thread,
                              int64_t first, int count, int valid_pixels, bool write_mid, Put put) {
    const int lane = thread % 32, group = thread / 32;
    const int channel_lanes = a.channels_last ? 32 : 1, pixel_lanes = 32 / channel_lanes;
    const int span = a.channels_last ? 8 : PIXELS; /* pixels that share loaded weights */
    const int spans = PIXELS / span, units = CHANNELS / channel_lanes * spans;
    for (int unit = group; unit < units; unit += THREADS / 32) {
        const int channel = unit / spans * channel_lanes + lane % channel_lanes;
        const bool used = channel < count;
        const int64_t j = used ? first + channel : first;
        const int64_t plane = (a.multiplier == 1 ? j : j / a.multiplier) * a.xs.c;
        const float bias = a.weights.bias_dw[j];
        gpu_taps<T, WINDOW> taps;
        taps.load(a.weights.dw + j * ((int64_t)a.r * a.s));
        const auto finish = [&](int pixel, float value) {
            const gpu_conv &c = gpu_reload(a);
            value = gpu_activate_small(c.act_mid, value);
            put(channel, pixel, used ? value : 0.0F);
            if (write_mid && used && pixel < valid_pixels)
                gpu_store<T>(c.mid, windows.mid[pixel] + j * c.ms.c, value);
        };
        const int begin = unit % spans * span;
        if (a.channels_last) {
            for (int pixel = begin; pixel < begin + span; pixel += 4) {
                float sum[4];
                if (WINDOW > 0 && windows.run[pixel / 4]) {
                    taps.template sums<4>(gpu_reload(a), windows, pixel, plane, bias, sum);
                } else {
#pragma unroll
                    for (int i = 0; i < 4; i++)
                        taps.template sums<1>(gpu_reload(a), windows, pixel + i, plane, bias,
                                              sum + i);
                }
#pragma unroll
                for (int i = 0; i < 4; i++)
                    finish(pixel + i, sum[i]);
            }
        } else {
#pragma unroll 2
            for (int pixel = begin + lane; pixel < begin + span; pixel += pixel_lanes) {
                float sum;
                taps.template sums<1>(gpu_reload(a), windows, pixel, plane, bias, &sum);
                finish(pixel, sum);
            }
        }
    }
}

#endif
