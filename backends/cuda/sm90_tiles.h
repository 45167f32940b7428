/*
 * Fused convolution on Hopper for the problems of sm90_rows.h at any address, in its arithmetic.
 *
 * Blocks walk over tiles of 64 output pixels (of the row of all n * p * q) x 128 output channels.
 * Depthwise warps load their windows straight from memory and write mid 64 channels at a time; two
 * MMA warpgroups multiply and finish. Each side runs ahead of the other as far as the two tiles in
 * shared memory allow, also from one tile of outputs to the next.
 */
#ifndef DSCONV_CUDA_SM90_TILES_H
#define DSCONV_CUDA_SM90_TILES_H

#include "../gpu/gpu_depthwise.h"
#include "../gpu/gpu_finish.h"
#include "sm90_mma.h"

/* Sums in shared memory: [output][pixel], or [pixel][output] where channels are last. */
enum { SM90_PIXEL_PITCH = SM90_PIXELS + 4, SM90_OUTPUT_PITCH = SM90_OUTPUTS + 4 };
enum { SM90_STAGE = SM90_OUTPUTS * SM90_PIXEL_PITCH };

template <class Numerics> struct sm90_tiles_config : Numerics {
    using Numerics::TILE_BYTES;
    static constexpr int TILES = 2;
    static constexpr int DEPTHWISE_THREADS = 256, MMA_THREADS = 256;
    static constexpr int THREADS = DEPTHWISE_THREADS + MMA_THREADS;
    static constexpr int WARPS = DEPTHWISE_THREADS / 32;

    struct shared {
        alignas(128) char tile[TILES][TILE_BYTES];
        uint64_t tile_full[TILES], tile_empty[TILES];
        gpu_windows<SM90_PIXELS> windows;
        gpu_outputs<SM90_PIXELS> outputs;
        sm90_odd tile_odd[TILES];
        alignas(16) float sums[SM90_STAGE]; /* finished tile on its way out */
    };
};

/* The tiles of outputs that a block has in turn; neighbours in time share pixels. */
struct sm90_walk {
    int64_t output_tiles, tiles, at;

    __device__ explicit sm90_walk(const gpu_conv &a) {
        output_tiles = (a.k + SM90_OUTPUTS - 1) / SM90_OUTPUTS;
        tiles = (a.pixels + SM90_PIXELS - 1) / SM90_PIXELS * output_tiles;
        at = blockIdx.x;
    }
    __device__ bool more() const {
        return at < tiles;
    }
    __device__ void next() {
        at += gridDim.x;
    }
    __device__ int64_t pixel() const {
        return at / output_tiles * SM90_PIXELS;
    }
    __device__ int64_t output() const {
        return at % output_tiles * SM90_OUTPUTS;
    }
    __device__ int pixels(const gpu_conv &a) const {
        return a.pixels - pixel() < SM90_PIXELS ? (int)(a.pixels - pixel()) : (int)SM90_PIXELS;
    }
};

template <class Config>
__device__ void sm90_tiles_depthwise(const gpu_conv &a, typename Config::shared &s) {
    const int thread = (int)threadIdx.x, warp = thread / 32, lane = thread % 32;
    sm90_place<Config::TILES> tile;
    for (sm90_walk walk(a); walk.more(); walk.next()) {
        threads_sync<Config::DEPTHWISE_THREADS>(1); /* all are done with the windows before */
        gpu_locate_windows(a, s.windows, walk.pixel(), thread, Config::DEPTHWISE_THREADS);
        threads_sync<Config::DEPTHWISE_THREADS>(1);
        for (int64_t first = 0; first < a.mid_channels; first += SM90_CHANNELS) {
            int64_t left = a.mid_channels - first;
            int count = left < SM90_CHANNELS ? (int)left : (int)SM90_CHANNELS;
            barrier_wait(&s.tile_empty[tile.slot], tile.phase ^ 1);
            __syncwarp();
            char *to = s.tile[tile.slot];
            bool odd = false;
            gpu_depthwise<typename Config::T, 3, SM90_CHANNELS, Config::DEPTHWISE_THREADS>(
                a, s.windows, thread, first, count, walk.pixels(a), false,
                [&](int channel, int pixel, float value) {
                    Config::put(to, channel, pixel, value, odd);
                });
            odd = __any_sync(~0U, odd);
            fence_async();
            __syncwarp();
            if (lane == 0)
                s.tile_odd[tile.slot].warp[warp] = odd;
            barrier_arrive_warp(&s.tile_full[tile.slot], lane);
            tile.advance();
        }
    }
}

/* Puts a thread's sums of output rows `row` and `row` + 8 where sm90_tiles_finish takes them. */
template <class Mma, int PIXEL_STEP, int OUTPUT_STEP>
__device__ __forceinline__ void sm90_tiles_stage(float *sums, const Mma &mma, int row, int lane) {
    float *to = sums + row * OUTPUT_STEP;
#pragma unroll
    for (int i = 0; i < 32; i++)
        to[Mma::pixel(i, lane) * PIXEL_STEP + i % 4 / 2 * 8 * OUTPUT_STEP] = mma.sum(i);
}

/* Neighbouring threads take neighbours in memory, four elements each. */
template <class T>
__device__ void sm90_tiles_finish(const gpu_conv &a, const gpu_outputs<SM90_PIXELS> &at,
                                  const float *sums, int64_t first, int pixels, int thread,
                                  int threads) {
    const int outputs = a.k - first < SM90_OUTPUTS ? (int)(a.k - first) : (int)SM90_OUTPUTS;
    const bool last = a.channels_last != 0;
    const int row = last ? SM90_OUTPUTS / 4 : SM90_PIXELS / 4; /* quads in one */
#pragma unroll 1
    for (int i = thread; i < SM90_OUTPUTS * SM90_PIXELS / 4; i += threads) {
        const int pixel = last ? i / row : i % row * 4, output = last ? i % row * 4 : i / row;
        if (pixel >= pixels || output >= outputs)
            continue;
        const float *from = last ? sums + pixel * SM90_OUTPUT_PITCH + output
                                 : sums + output * SM90_PIXEL_PITCH + pixel;
        float quad[4];
#pragma unroll
        for (int e = 0; e < 4; e++) {
            int channel = last && output + e < outputs ? output + e : output;
            quad[e] = from[e] + a.weights.bias_pw[first + channel];
        }
        gpu_finish_quad<T>(a, at, quad, pixel, first + output,
                           last ? outputs - output : pixels - pixel, last);
    }
}

template <class Config>
__device__ void sm90_tiles_multiply(const gpu_conv &a, typename Config::shared &s, int group) {
    const int thread = (int)threadIdx.x - Config::DEPTHWISE_THREADS, lane = thread % 32;
    const int row = group * 64 + thread % 128 / 32 * 16 + lane / 4;
    const bool weights_split = !a.weights.extreme[1];
    const uint64_t tiles = matrix_descriptor(shared_address(s.tile), Config::LEAD, Config::STRIDE);
    typedef typename Config::mma sums;
    sums mma;
    sm90_place<Config::TILES> tile;
    for (sm90_walk walk(a); walk.more(); walk.next()) {
        const int64_t k = walk.output() + row;
        gpu_locate_outputs(a, s.outputs, walk.pixel(), thread, Config::MMA_THREADS);
        for (int64_t first = 0; first < a.mid_channels; first += SM90_CHANNELS) {
            mma.load(a.weights.pw, a.mid_channels, a.k, first, k, lane);
            barrier_wait(&s.tile_full[tile.slot], tile.phase);
            __syncwarp();
            const uint64_t b = tiles + (uint64_t)(tile.slot * Config::TILE_BYTES >> 4);
            const bool odd = s.tile_odd[tile.slot].any(lane);
            mma.multiply_odd(b, first == 0, odd || !weights_split, !weights_split, a.weights.pw,
                             a.mid_channels, a.k, first, s.tile[tile.slot], k, lane);
            __syncwarp();
            barrier_arrive_warp(&s.tile_empty[tile.slot], lane);
            tile.advance();
        }
        if (a.channels_last)
            sm90_tiles_stage<sums, SM90_OUTPUT_PITCH, 1>(s.sums, mma, row, lane);
        else
            sm90_tiles_stage<sums, 1, SM90_PIXEL_PITCH>(s.sums, mma, row, lane);
        threads_sync<Config::MMA_THREADS>(2);
        sm90_tiles_finish<typename Config::T>(a, s.outputs, s.sums, walk.output(), walk.pixels(a),
                                              thread, Config::MMA_THREADS);
        threads_sync<Config::MMA_THREADS>(2); /* the buffers are free again */
    }
}

template <class Config>
__global__ void __launch_bounds__(Config::THREADS, 1) sm90_tiles_kernel(gpu_conv a) {
    extern __shared__ __align__(1024) char memory[];
    typename Config::shared &s = *(typename Config::shared *)memory;
    if (threadIdx.x == 0) {
        for (int i = 0; i < Config::TILES; i++) {
            barrier_init(&s.tile_full[i], Config::WARPS * WARP_ARRIVALS);
            barrier_init(&s.tile_empty[i], Config::MMA_THREADS / 32 * WARP_ARRIVALS);
            s.tile_odd[i].all = 0;
        }
        barrier_init_done();
    }
    __syncthreads();

    /* Uniform in a warp, as the compiler must see. */
    const int group = __shfl_sync(~0U, (int)threadIdx.x / 128, 0);
    if (group < Config::DEPTHWISE_THREADS / 128) {
        registers_keep<104>();
        sm90_tiles_depthwise<Config>(a, s);
    } else {
        registers_take<152>();
        sm90_tiles_multiply<Config>(a, s, group - Config::DEPTHWISE_THREADS / 128);
    }
}

#endif
