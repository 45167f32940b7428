/*
 * Fused 3 x 3 depthwise + pointwise convolution on Hopper.
 *
 * A block marches down a strip 64 output pixels wide, for up to 64 channels in and 128 out:
 *  - the producer warp copies input rows, all channels, into a ring in shared memory;
 *  - depthwise warps own 32 channels each, one a lane, or in NHWC 64, two a lane, so that the taps
 *    stay in registers; per output row they write a tile [pixel][channel], rounded to TF32, for
 *    exact math also what the rounding took away;
 *  - two MMA warpgroups hold 64 output channels each, the weights as wgmma's register operand, and
 *    send finished rows off from a staging buffer through the copy engine.
 *
 * Three properties carry the speed. Channel rows lie 76 or 44 words apart in the ring, a core
 * matrix of the tile 1,040 bytes, rows of the staging buffer are swizzled: accesses are free of
 * bank conflicts. In NCHW pixels are dealt to the tile's columns so that a thread ends with four
 * neighbours. Sums in strict math start from zero
 * every CHUNK steps and are added in fp32, since the tensor cores truncate as they accumulate.
 */
#ifndef DSCONV_CUDA_SM90_ROWS_H
#define DSCONV_CUDA_SM90_ROWS_H

#include "sm90_rolling.h"
#include "sm90_window.h"

template <class Config>
__device__ void sm90_produce(const sm90_rows_args &a, const sm90_strip &strip,
                             typename Config::shared &s) {
    sm90_place<Config::RING> at;
    const uint64_t keep = policy_keep(); /* the halo is a neighbour's too */
#pragma unroll 1
    for (int row = 0; row < strip.rows + 2; row++) {
        barrier_wait(&s.row_empty[at.slot], at.phase ^ 1);
        barrier_arrive_and_expect(&s.row_full[at.slot], Config::ROW_BYTES);
        const int x = strip.x0 - Config::MARGIN, y = strip.first - a.pad_top + row;
        const int nchw[4] = {x, y, 0, strip.n}, nhwc[4] = {0, x, y, strip.n};
        tensor_load(s.ring[at.slot], &a.x, &s.row_full[at.slot],
                    Config::CHANNELS_LAST ? nhwc : nchw, keep);
        at.advance();
    }
}

/* Puts a thread's sums into the staging buffer [output][pixel]; `to`: its first output. */
template <bool BOUNDED>
__device__ __forceinline__ void sm90_stage(const float (&d)[32], float *to, int lane,
                                           const float *bias, float low, float high) {
#pragma unroll
    for (int u = 0; u < 4; u++)
#pragma unroll
        for (int half = 0; half < 2; half++) {
            float quad[4];
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const float v = d[8 * u + 2 * half + i % 2 + i / 2 * 4] + bias[half];
                quad[i] = BOUNDED ? sm90_clamp(v, low, high) : v;
            }
            *(float4 *)(to + half * 8 * SM90_PIXELS + u * 16 + lane % 4 * 4) =
                make_float4(quad[0], quad[1], quad[2], quad[3]);
        }
}

/* The same in NHWC, [pixel][output]: a box for every 32 outputs, a row of 128 bytes a pixel, whose
 * 16 bytes lie where the copy engine's swizzle expects them. */
template <bool BOUNDED>
__device__ __forceinline__ void sm90_stage_last(const float (&d)[32], char *to, int warp, int lane,
                                                const float *bias, float low, float high) {
    to += warp / 2 * SM90_PIXELS * 128;
#pragma unroll
    for (int e = 0; e < 4; e++) {
        const int pixel = lane % 4 * 2 + e % 2, output = warp % 2 * 16 + e / 2 * 8 + lane / 4;
        char *const at = to + pixel * 128 + (output / 4 ^ pixel) * 16 + output % 4 * 4;
#pragma unroll
        for (int u = 0; u < 8; u++) {
            const float v = d[4 * u + e] + bias[e / 2];
            *(float *)(at + u * 8 * 128) = BOUNDED ? sm90_clamp(v, low, high) : v;
        }
    }
}

/* A warp's sums of a row into the staging buffer. */
template <class Config, bool BOUNDED>
__device__ __forceinline__ void sm90_stage_row(const sm90_rows_args &a,
                                               const typename Config::mma &mma, char *stage,
                                               int warp, int lane, const float *bias) {
    if constexpr (sizeof(typename Config::raw) == 2)
        mma.template stage<Config::CHANNELS_LAST, BOUNDED>(stage, warp * 16, lane, bias, a.out_low,
                                                           a.out_high);
    else if constexpr (Config::CHANNELS_LAST)
        sm90_stage_last<BOUNDED>(mma.d, stage, warp, lane, bias, a.out_low, a.out_high);
    else
        sm90_stage<BOUNDED>(mma.d, (float *)stage + (warp * 16 + lane / 4) * SM90_PIXELS, lane,
                            bias, a.out_low, a.out_high);
}

/* Sends a group's outputs of a row off. */
template <class Config>
__device__ __forceinline__ void sm90_send(const sm90_rows_args &a, const sm90_strip &strip,
                                          const char *stage, int y, int output) {
#pragma unroll
    for (int box = 0; box < Config::BOXES; box++) {
        const int k = output + box * Config::BOX;
        const int nchw[4] = {strip.x0, y, k, strip.n}, nhwc[4] = {k, strip.x0, y, strip.n};
        tensor_store(&a.y, stage + box * (Config::STAGE_BYTES / Config::BOXES),
                     Config::CHANNELS_LAST ? nhwc : nchw);
    }
}

template <class Config>
__device__ void sm90_mma_group(const sm90_rows_args &a, const sm90_strip &strip,
                               typename Config::shared &s, int group, bool weights_split) {
    const int warp = (int)threadIdx.x / 32 % 4, lane = (int)threadIdx.x % 32;
    const int k = strip.output + group * 64 + warp * 16 + lane / 4;
    const bool leader = warp == 0 && lane == 0, bounded = a.out_low > -INFINITY;
    typename Config::mma mma;
    mma.load(a.weights.pw, a.channels, a.outputs, 0, k, lane);
    const float bias[2] = {k < a.outputs ? a.weights.bias_pw[k] : 0.0F,
                           k + 8 < a.outputs ? a.weights.bias_pw[k + 8] : 0.0F};
    const uint64_t tiles = matrix_descriptor(shared_address(s.tile), Config::LEAD, Config::STRIDE);
    sm90_place<Config::TILES> tile;
#pragma unroll 1
    for (int row = 0; row < strip.rows; row++) {
        barrier_wait(&s.tile_full[tile.slot], tile.phase);
        __syncwarp();
        const uint64_t b = tiles + (uint64_t)(tile.slot * Config::TILE_BYTES >> 4);
        const bool odd = s.tile_odd[tile.slot].any(lane);
        mma.multiply_odd(b, true, odd || !weights_split, !weights_split, a.weights.pw, a.channels,
                         a.outputs, 0, s.tile[tile.slot], k, lane);
        __syncwarp();
        barrier_arrive_warp(&s.tile_empty[tile.slot], lane);
        tile.advance();

        if (leader)
            tensor_store_wait<(Config::STAGES - 1) * Config::BOXES>();
        threads_sync<128>(1 + group);
        char *stage = s.stage[group][row % Config::STAGES];
        if (bounded)
            sm90_stage_row<Config, true>(a, mma, stage, warp, lane, bias);
        else
            sm90_stage_row<Config, false>(a, mma, stage, warp, lane, bias);
        fence_async();
        threads_sync<128>(1 + group);
        if (leader)
            sm90_send<Config>(a, strip, stage, strip.first + row, strip.output + group * 64);
    }
    if (leader)
        tensor_store_wait<0>(); /* shared memory must outlive them */
}

template <class Config>
__global__ void __launch_bounds__(Config::THREADS, 1)
    sm90_rows_kernel(const __grid_constant__ sm90_rows_args a) {
    extern __shared__ __align__(1024) char memory[];
    typename Config::shared &s = *(typename Config::shared *)memory;
    const sm90_strip strip(a);
    if (threadIdx.x == 0) {
        for (int i = 0; i < Config::RING; i++) {
            barrier_init(&s.row_full[i], 1);
            barrier_init(&s.row_empty[i], 4 * Config::GROUPS * WARP_ARRIVALS);
        }
        for (int i = 0; i < Config::TILES; i++) {
            barrier_init(&s.tile_full[i], 4 * Config::GROUPS * WARP_ARRIVALS);
            barrier_init(&s.tile_empty[i], 8 * WARP_ARRIVALS);
            s.tile_odd[i].all = 0;
        }
        barrier_init_done();
    }
    const bool taps_finite = !a.weights.extreme[0], weights_split = !a.weights.extreme[1];
    __syncthreads();

    /* Uniform in a warp, as the compiler must see. */
    const int group = __shfl_sync(~0U, (int)threadIdx.x / 128, 0);
    if (group == 0) {
        registers_keep<24>();
        if (threadIdx.x == 0)
            sm90_produce<Config>(a, strip, s);
    } else if (group <= Config::GROUPS) {
        registers_change<Config::DEPTHWISE_REGISTERS, Config::ENTRY_REGISTERS>();
        if constexpr (sizeof(typename Config::raw) == 2)
            sm90_rolling_warp<Config>(a, strip, s, taps_finite);
        else
            sm90_window_warp<Config>(a, strip, s, taps_finite);
    } else {
        registers_change<Config::MMA_REGISTERS, Config::ENTRY_REGISTERS>();
        sm90_mma_group<Config>(a, strip, s, group - 1 - Config::GROUPS, weights_split);
    }
}

#endif
