/*
 * The portable fused kernel: every valid problem, on any GPU, in plain fp32.
 *
 * A block takes PIXELS output pixels (of the row of all n * p * q, so that small images fill it)
 * and OUTPUTS output channels. It goes through mid's channels CHANNELS at a time: the depthwise
 * stage writes them into shared memory, the pointwise stage adds them to sums in registers. Every
 * output is one chain of fused multiply-adds in a fixed order, whatever the tile: results do not
 * depend on the batch or on the tile chosen. No warp-level operation is used.
 */
#ifndef DSCONV_GPU_PORTABLE_H
#define DSCONV_GPU_PORTABLE_H

#include "gpu_activation.h"
#include "gpu_conv.h"
#include "gpu_value.h"

template <int Pixels, int Outputs, int ThreadPixels, int ThreadOutputs> struct gpu_tile_size {
    static constexpr int PIXELS = Pixels, OUTPUTS = Outputs, CHANNELS = 32;
    static constexpr int THREAD_PIXELS = ThreadPixels, THREAD_OUTPUTS = ThreadOutputs;
    static constexpr int PIXEL_THREADS = Pixels / ThreadPixels;
    static constexpr int OUTPUT_THREADS = Outputs / ThreadOutputs;
    static constexpr int THREADS = PIXEL_THREADS * OUTPUT_THREADS;
};

/* Shared memory of a block. */
template <class Size> struct gpu_tile {
    float mid[Size::CHANNELS][Size::PIXELS + 4]; /* + 4: the NHWC order writes without conflicts */
    float weights[Size::CHANNELS][Size::OUTPUTS];
    /* Where each pixel lies; of x the window's first tap, which may be outside the image. */
    int64_t x[Size::PIXELS], y[Size::PIXELS], residual[Size::PIXELS], mid_out[Size::PIXELS];
    int r_begin[Size::PIXELS], r_end[Size::PIXELS]; /* taps inside the image */
    int s_begin[Size::PIXELS], s_end[Size::PIXELS];
};

/* Costly activations stay out of line: kernels would triple in size. */
__device__ __noinline__ float gpu_activate_call(dsconv_activation act, float v) {
    return gpu_activate(act, v);
}

__device__ inline float gpu_activate_small(dsconv_activation act, float v) {
    if (act.kind > DSCONV_ACT_RELU6)
        return gpu_activate_call(act, v);
    if (act.kind != DSCONV_ACT_NONE)
        v = v < 0.0F ? 0.0F : v;
    return act.kind == DSCONV_ACT_RELU6 && v > 6.0F ? 6.0F : v;
}

/* The smallest tap, at most `taps`, that lies at or beyond `bound`. */
__device__ inline int gpu_first_tap(int64_t origin, int64_t bound, int64_t dilation, int taps) {
    if (origin >= bound)
        return 0;
    int64_t tap = (bound - origin + dilation - 1) / dilation;
    return tap < taps ? (int)tap : taps;
}

template <class Size>
__device__ void gpu_locate_pixels(const gpu_conv &a, gpu_tile<Size> &tile, int64_t first) {
    for (int i = (int)threadIdx.x; i < Size::PIXELS; i += Size::THREADS) {
        int64_t pixel = first + i < a.pixels ? first + i : a.pixels - 1;
        int64_t row = pixel / a.q, q = pixel % a.q, n = row / a.p, p = row % a.p;
        int64_t top = p * a.stride_h - a.pad_top, left = q * a.stride_w - a.pad_left;
        tile.x[i] = n * a.xs.n + top * a.xs.h + left * a.xs.w;
        tile.y[i] = n * a.ys.n + p * a.ys.h + q * a.ys.w;
        tile.residual[i] = n * a.rs.n + p * a.rs.h + q * a.rs.w;
        tile.mid_out[i] = n * a.ms.n + p * a.ms.h + q * a.ms.w;
        tile.r_begin[i] = gpu_first_tap(top, 0, a.dil_h, a.r);
        tile.r_end[i] = gpu_first_tap(top, a.h, a.dil_h, a.r);
        tile.s_begin[i] = gpu_first_tap(left, 0, a.dil_w, a.s);
        tile.s_end[i] = gpu_first_tap(left, a.w, a.dil_w, a.s);
    }
}

/* One output of the depthwise stage for a window of WINDOW x WINDOW taps. */
template <class T, int WINDOW> struct gpu_window {
    float w[WINDOW * WINDOW];

    __device__ void load(const float *weights) {
#pragma unroll
        for (int i = 0; i < WINDOW * WINDOW; i++)
            w[i] = weights[i];
    }

    template <class Size>
    __device__ float sum(const gpu_conv &a, const gpu_tile<Size> &tile, int pixel, int64_t plane,
                         float start) const {
        int64_t row_step = a.dil_h * a.xs.h, tap_step = a.dil_w * a.xs.w;
        int64_t origin = tile.x[pixel] + plane;
        float value[WINDOW * WINDOW];
        bool inside[WINDOW * WINDOW];
#pragma unroll
        for (int r = 0; r < WINDOW; r++)
#pragma unroll
            for (int s = 0; s < WINDOW; s++) {
                int i = r * WINDOW + s;
                inside[i] = r >= tile.r_begin[pixel] && r < tile.r_end[pixel] &&
                            s >= tile.s_begin[pixel] && s < tile.s_end[pixel];
                value[i] =
                    inside[i] ? gpu_load<T>(a.x, origin + r * row_step + s * tap_step) : 0.0F;
            }
#pragma unroll
        for (int i = 0; i < WINDOW * WINDOW; i++)
            start = inside[i] ? fmaf(value[i], w[i], start) : start;
        return start;
    }
};

/* The same for a window of any size. */
template <class T> struct gpu_window<T, 0> {
    const float *w;

    __device__ void load(const float *weights) {
        w = weights;
    }

    template <class Size>
    __device__ float sum(const gpu_conv &a, const gpu_tile<Size> &tile, int pixel, int64_t plane,
                         float start) const {
        int64_t row_step = a.dil_h * a.xs.h, tap_step = a.dil_w * a.xs.w;
        int begin = tile.s_begin[pixel], end = tile.s_end[pixel];
        for (int r = tile.r_begin[pixel]; r < tile.r_end[pixel]; r++) {
            int64_t row = tile.x[pixel] + plane + r * row_step;
            const float *row_weights = w + (int64_t)r * a.s;
#pragma unroll 4
            for (int s = begin; s < end; s++)
                start = fmaf(gpu_load<T>(a.x, row + s * tap_step), row_weights[s], start);
        }
        return start;
    }
};

/* Fills tile.mid with channels first .. first + count - 1. Of 32 neighbouring threads, those that
 * are neighbours in memory take neighbouring elements: pixels, or channels when they are last. */
template <class T, int WINDOW, class Size>
__device__ void gpu_depthwise(const gpu_conv &a, gpu_tile<Size> &tile, int64_t first, int count,
                              int valid_pixels, bool write_mid) {
    const int lane = (int)threadIdx.x % 32, group = (int)threadIdx.x / 32;
    const int channel_lanes = a.channels_last ? 8 : 1, pixel_lanes = 32 / channel_lanes;
    const int span = a.channels_last ? 32 : Size::PIXELS; /* pixels that share loaded weights */
    const int spans = Size::PIXELS / span, units = Size::CHANNELS / channel_lanes * spans;
    for (int unit = group; unit < units; unit += Size::THREADS / 32) {
        int channel = unit / spans * channel_lanes + lane % channel_lanes;
        if (channel >= count)
            continue;
        int64_t j = first + channel;
        int64_t plane = (a.multiplier == 1 ? j : j / a.multiplier) * a.xs.c;
        float bias = a.weights.bias_dw[j];
        gpu_window<T, WINDOW> window;
        window.load(a.weights.dw + j * ((int64_t)a.r * a.s));
        int begin = unit % spans * span;
#pragma unroll 2
        for (int pixel = begin + lane / channel_lanes; pixel < begin + span; pixel += pixel_lanes) {
            float value = window.sum(a, tile, pixel, plane, bias);
            value = gpu_activate_small(a.act_mid, value);
            tile.mid[channel][pixel] = value;
            if (write_mid && pixel < valid_pixels)
                gpu_store<T>(a.mid, tile.mid_out[pixel] + j * a.ms.c, value);
        }
    }
}

template <class Size>
__device__ void gpu_load_weights(const gpu_conv &a, gpu_tile<Size> &tile, int64_t first, int count,
                                 int64_t first_output, int outputs) {
    for (int i = (int)threadIdx.x; i < count * Size::OUTPUTS; i += Size::THREADS) {
        int channel = i / Size::OUTPUTS, output = i % Size::OUTPUTS;
        tile.weights[channel][output] =
            output < outputs ? a.weights.pw[(first + channel) * a.k + first_output + output] : 0.0F;
    }
}

/* A thread's part of the pointwise stage. Its pixels and its outputs come in groups of four
 * neighbours; groups of one thread are as far apart as the groups of all threads reach. */
template <class Size> struct gpu_sums {
    float sum[Size::THREAD_OUTPUTS][Size::THREAD_PIXELS];
    int pixel_thread, output_thread;

    __device__ int pixel(int i) const {
        return i / 4 * (4 * Size::PIXEL_THREADS) + 4 * pixel_thread + i % 4;
    }
    __device__ int output(int i) const {
        return i / 4 * (4 * Size::OUTPUT_THREADS) + 4 * output_thread + i % 4;
    }

    __device__ void start(const gpu_conv &a, int64_t first_output, int outputs) {
        int t = (int)threadIdx.x;
        pixel_thread = a.channels_last ? t / Size::OUTPUT_THREADS : t % Size::PIXEL_THREADS;
        output_thread = a.channels_last ? t % Size::OUTPUT_THREADS : t / Size::PIXEL_THREADS;
#pragma unroll
        for (int o = 0; o < Size::THREAD_OUTPUTS; o++) {
            float bias = output(o) < outputs ? a.weights.bias_pw[first_output + output(o)] : 0.0F;
#pragma unroll
            for (int p = 0; p < Size::THREAD_PIXELS; p++)
                sum[o][p] = bias;
        }
    }

    __device__ void add(const gpu_tile<Size> &tile, int count) {
#pragma unroll 4
        for (int channel = 0; channel < count; channel++) {
            float mid[Size::THREAD_PIXELS], weight[Size::THREAD_OUTPUTS];
#pragma unroll
            for (int p = 0; p < Size::THREAD_PIXELS; p += 4)
                *(gpu_quad<gpu_f32> *)&mid[p] =
                    *(const gpu_quad<gpu_f32> *)&tile.mid[channel][pixel(p)];
#pragma unroll
            for (int o = 0; o < Size::THREAD_OUTPUTS; o += 4)
                *(gpu_quad<gpu_f32> *)&weight[o] =
                    *(const gpu_quad<gpu_f32> *)&tile.weights[channel][output(o)];
#pragma unroll
            for (int o = 0; o < Size::THREAD_OUTPUTS; o++)
#pragma unroll
                for (int p = 0; p < Size::THREAD_PIXELS; p++)
                    sum[o][p] = fmaf(mid[p], weight[o], sum[o][p]);
        }
    }
};

template <class T>
__device__ float gpu_finish(const gpu_conv &a, float sum, int64_t residual_index) {
    float residual = 0.0F;
    if (a.residual_kind != DSCONV_RESIDUAL_NONE)
        residual = gpu_load<T>(a.residual, residual_index);
    if (a.residual_kind == DSCONV_RESIDUAL_BEFORE_ACT)
        sum += residual;
    sum = gpu_activate_small(a.act_out, sum);
    return a.residual_kind == DSCONV_RESIDUAL_AFTER_ACT ? sum + residual : sum;
}

/* Finishes four neighbours (pixels, or channels when they are last) and stores them, in one access
 * where they are neighbours in memory too. Residuals are read first: they may be y's own. */
template <class T, class Size>
__device__ void gpu_finish_quad(const gpu_conv &a, const gpu_tile<Size> &tile, const float *sum,
                                int pixel, int64_t output, int valid) {
    int64_t y[4];
    float value[4];
#pragma unroll
    for (int i = 0; i < 4; i++) {
        int at = a.channels_last ? pixel : pixel + i;
        int64_t channel = a.channels_last ? output + i : output;
        y[i] = tile.y[at] + channel * a.ys.c;
        if (i < valid)
            value[i] = gpu_finish<T>(a, sum[i], tile.residual[at] + channel * a.rs.c);
    }
    if (valid >= 4 && y[1] == y[0] + 1 && y[2] == y[0] + 2 && y[3] == y[0] + 3 &&
        gpu_quad_aligned<T>(a.y, y[0])) {
        gpu_quad<T> quad;
#pragma unroll
        for (int i = 0; i < 4; i++)
            quad.v[i] = T::store(value[i]);
        *(gpu_quad<T> *)((typename T::raw *)a.y + y[0]) = quad;
        return;
    }
#pragma unroll
    for (int i = 0; i < 4; i++)
        if (i < valid)
            gpu_store<T>(a.y, y[i], value[i]);
}

template <class T, class Size>
__device__ void gpu_finish_sums(const gpu_conv &a, const gpu_tile<Size> &tile,
                                const gpu_sums<Size> &s, int64_t first_output, int outputs,
                                int valid_pixels) {
#pragma unroll
    for (int o = 0; o < Size::THREAD_OUTPUTS; o += 4)
#pragma unroll
        for (int p = 0; p < Size::THREAD_PIXELS; p += 4)
#pragma unroll
            for (int i = 0; i < 4; i++) {
                float quad[4];
#pragma unroll
                for (int e = 0; e < 4; e++)
                    quad[e] = a.channels_last ? s.sum[o + e][p + i] : s.sum[o + i][p + e];
                int pixel = s.pixel(p) + (a.channels_last ? i : 0);
                int output = s.output(o) + (a.channels_last ? 0 : i);
                if (pixel < valid_pixels && output < outputs)
                    gpu_finish_quad<T>(a, tile, quad, pixel, first_output + output,
                                       a.channels_last ? outputs - output : valid_pixels - pixel);
            }
}

/* WINDOW: 3 for 3 x 3 taps, 0 for any. */
template <class T, int WINDOW, class Size>
__global__ void __launch_bounds__(Size::THREADS, 512 / Size::THREADS)
    gpu_portable_kernel(gpu_conv a) {
    __shared__ gpu_tile<Size> tile;
    const int64_t output_tiles = (a.k + Size::OUTPUTS - 1) / Size::OUTPUTS;
    const int64_t first_output = blockIdx.x % output_tiles * Size::OUTPUTS;
    const int64_t first_pixel = blockIdx.x / output_tiles * Size::PIXELS;
    const int outputs =
        a.k - first_output < Size::OUTPUTS ? (int)(a.k - first_output) : Size::OUTPUTS;
    const int pixels =
        a.pixels - first_pixel < Size::PIXELS ? (int)(a.pixels - first_pixel) : Size::PIXELS;
    const bool write_mid = a.mid && first_output == 0;

    gpu_locate_pixels(a, tile, first_pixel);
    gpu_sums<Size> sums;
    sums.start(a, first_output, outputs);
    for (int64_t first = 0; first < a.mid_channels; first += Size::CHANNELS) {
        int64_t left = a.mid_channels - first;
        int count = left < Size::CHANNELS ? (int)left : Size::CHANNELS;
        __syncthreads();
        gpu_load_weights(a, tile, first, count, first_output, outputs);
        gpu_depthwise<T, WINDOW>(a, tile, first, count, pixels, write_mid);
        __syncthreads();
        sums.add(tile, count);
    }
    gpu_finish_sums<T>(a, tile, sums, first_output, outputs, pixels);
}

#endif
