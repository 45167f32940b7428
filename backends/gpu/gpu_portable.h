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

#include "gpu_depthwise.h"
#include "gpu_finish.h"

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
    gpu_windows<Size::PIXELS> windows;
    gpu_outputs<Size::PIXELS> outputs;
};

/* A block's pixels and outputs. */
template <class Size> struct gpu_block {
    int64_t pixel_tile, output_tile;

    __device__ explicit gpu_block(const gpu_conv &a) {
        const int64_t number = gpu_block_number<Size::THREADS>();
        const int64_t tiles = (a.k - 1) / Size::OUTPUTS + 1;
        pixel_tile = number / tiles;
        output_tile = number % tiles;
    }
    __device__ int64_t first_pixel() const {
        return pixel_tile * Size::PIXELS;
    }
    __device__ int64_t first_output() const {
        return output_tile * Size::OUTPUTS;
    }
    __device__ int pixels(const gpu_conv &a) const {
        const int64_t left = a.pixels - first_pixel();
        return left < Size::PIXELS ? (int)left : Size::PIXELS;
    }
    __device__ int outputs(const gpu_conv &a) const {
        const int64_t left = a.k - first_output();
        return left < Size::OUTPUTS ? (int)left : Size::OUTPUTS;
    }
};

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

template <class T, class Size>
__device__ void gpu_finish_sums(const gpu_conv &a, const gpu_tile<Size> &tile,
                                const gpu_sums<Size> &s, const gpu_block<Size> &block) {
    const int outputs = block.outputs(a), valid_pixels = block.pixels(a);
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
                    gpu_finish_quad<T>(gpu_reload(a), tile.outputs, quad, pixel,
                                       block.first_output() + output,
                                       a.channels_last ? outputs - output : valid_pixels - pixel,
                                       a.channels_last != 0);
            }
}

/* WINDOW: 3 for 3 x 3 taps, 0 for any. */
template <class T, int WINDOW, class Size>
__global__ void GPU_LAUNCH_BOUNDS(Size::THREADS, 512 / Size::THREADS)
    gpu_portable_kernel(gpu_conv a) {
    GPU_SHARED(tile, gpu_tile<Size>);
    const gpu_block<Size> block(gpu_reload(a));
    if (block.first_pixel() >= gpu_reload(a).pixels)
        return;
    const int thread = (int)threadIdx.x;
    gpu_locate_windows(gpu_reload(a), tile.windows, block.first_pixel(), thread, Size::THREADS);
    gpu_locate_outputs(gpu_reload(a), tile.outputs, block.first_pixel(), thread, Size::THREADS);
    gpu_sums<Size> sums;
    sums.start(gpu_reload(a), block.first_output(), block.outputs(gpu_reload(a)));
    for (int64_t first = 0;; first += Size::CHANNELS) {
        const gpu_conv &c = gpu_reload(a);
        const int64_t left = c.mid_channels - first;
        if (left <= 0)
            break;
        const int count = left < Size::CHANNELS ? (int)left : Size::CHANNELS;
        __syncthreads();
        gpu_load_weights(c, tile, first, count, block.first_output(), block.outputs(c));
        gpu_depthwise<T, WINDOW, Size::CHANNELS, Size::THREADS>(
            gpu_reload(a), tile.windows, thread, first, count, block.pixels(c),
            c.mid && block.output_tile == 0,
            [&](int channel, int pixel, float value) { tile.mid[channel][pixel] = value; });
        __syncthreads();
        sums.add(tile, count);
    }
    gpu_finish_sums<T>(gpu_reload(a), tile, sums, block);
}

#endif
