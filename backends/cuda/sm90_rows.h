/*
 * Fused 3 x 3 depthwise + pointwise convolution for NCHW on Hopper.
 *
 * A block marches down a strip 64 output pixels wide, for up to 64 channels in and 128 out:
 *  - the producer warp copies input rows, all channels, into a ring in shared memory;
 *  - depthwise warps own 32 channels each, one a lane, so that the taps stay in registers; per
 *    output row they write a tile [pixel][channel], rounded to TF32, for exact math also what the
 *    rounding took away;
 *  - two MMA warpgroups hold 64 output channels each, the weights as wgmma's register operand, and
 *    send finished rows off from a staging buffer through the copy engine.
 *
 * Three properties carry the speed. Channel rows lie 76 or 44 words apart in the ring, a core
 * matrix of the tile 1,040 bytes: accesses are free of bank conflicts. Pixels are dealt to the
 * tile's columns so that a thread ends with four neighbours. Sums in strict math start from zero
 * every CHUNK steps and are added in fp32, since the tensor cores truncate as they accumulate.
 */
#ifndef DSCONV_CUDA_SM90_ROWS_H
#define DSCONV_CUDA_SM90_ROWS_H

#include "../gpu/gpu_conv.h"
#include "sm90_mma.h"

struct sm90_rows_args {
    CUtensorMap x, y;
    gpu_weights weights;
    int channels, outputs; /* of the problem */
    int height, width;     /* of x */
    int out_height, pad_top;
    int strips, bands, band_rows, output_tiles; /* blocks = n * strips * bands * output_tiles */
    float mid_low, mid_high, out_low, out_high; /* activations as bounds */
};

/* Bounds on both sides; a NaN stays a NaN. */
__device__ __forceinline__ float sm90_clamp(float v, float low, float high) {
    asm("max.NaN.f32 %0, %0, %1;" : "+f"(v) : "f"(low));
    asm("min.NaN.f32 %0, %0, %1;" : "+f"(v) : "f"(high));
    return v;
}

template <class Numerics, int Groups, int Ring, int Tiles, int Stages>
struct sm90_rows_config : Numerics {
    typedef typename Numerics::T T;
    typedef typename T::raw raw;
    using Numerics::TILE_BYTES;
    static constexpr int GROUPS = Groups; /* depthwise warpgroups */
    static constexpr int RING = Ring, TILES = Tiles, STAGES = Stages;
    static constexpr int VECTOR = 16 / sizeof(raw); /* elements per access */
    static constexpr int MARGIN = VECTOR;           /* columns in the ring left of the strip */
    static constexpr int ROW = sizeof(raw) == 4 ? 76 : 88; /* columns in the ring */
    static constexpr int ROW_BYTES = SM90_CHANNELS * ROW * (int)sizeof(raw);
    static constexpr int STAGE_BYTES = 64 * SM90_PIXELS * (int)sizeof(raw);
    static constexpr int THREADS = 128 * (3 + GROUPS);
    static constexpr int SEGMENT = SM90_PIXELS / (2 * GROUPS); /* pixels of a depthwise warp */

    struct shared {
        alignas(128) char ring[RING][ROW_BYTES];
        alignas(128) char tile[TILES][TILE_BYTES];
        alignas(128) char stage[2][STAGES][STAGE_BYTES];
        uint64_t row_full[RING], row_empty[RING], tile_full[TILES], tile_empty[TILES];
        sm90_odd tile_odd[TILES];
    };
};

/* What one block does: image n, output rows first .. first + rows - 1, columns from x0. */
struct sm90_strip {
    int n, x0, first, rows, output;

    __device__ explicit sm90_strip(const sm90_rows_args &a) {
        int b = (int)blockIdx.x;
        output = b % a.output_tiles * SM90_OUTPUTS;
        b /= a.output_tiles;
        x0 = b % a.strips * SM90_PIXELS;
        b /= a.strips;
        first = b % a.bands * a.band_rows;
        n = b / a.bands;
        rows = min(a.band_rows, a.out_height - first);
    }
};

template <class Config>
__device__ void sm90_produce(const sm90_rows_args &a, const sm90_strip &strip,
                             typename Config::shared &s) {
    sm90_place<Config::RING> at;
#pragma unroll 1
    for (int row = 0; row < strip.rows + 2; row++) {
        barrier_wait(&s.row_empty[at.slot], at.phase ^ 1);
        barrier_arrive_and_expect(&s.row_full[at.slot], Config::ROW_BYTES);
        tensor_load(s.ring[at.slot], &a.x, &s.row_full[at.slot], strip.x0 - Config::MARGIN,
                    strip.first - a.pad_top + row, 0, strip.n);
        at.advance();
    }
}

/* A depthwise warp: 32 channels, one a lane, and SEGMENT pixels of every row. */
template <class Config> struct sm90_depthwise {
    typedef typename Config::T T;
    typedef typename Config::raw raw;
    static constexpr int V = Config::VECTOR;

    float w[9], bias, low, high;
    const raw *row[3]; /* this lane's channel, at the segment's first pixel */
    float *tile;
    bool odd;

    __device__ __forceinline__ void put(int x, float v) {
        sm90_put<Config>(tile + sm90_column(x), sm90_clamp(v, low, high), odd);
    }

    struct alignas(16) vector {
        raw v[V];
    };

    /* Slides along the row, V pixels at a time. */
    __device__ __forceinline__ void segment() {
        float left[3];
        vector at[3];
#pragma unroll
        for (int r = 0; r < 3; r++) {
            left[r] = T::load(row[r][-1]);
            at[r] = *(const vector *)row[r];
        }
#pragma unroll
        for (int x = 0; x < Config::SEGMENT; x += V) {
            float sum[V];
#pragma unroll
            for (int m = 0; m < V; m++)
                sum[m] = bias;
#pragma unroll
            for (int r = 0; r < 3; r++) {
                vector next;
                if (x + V < Config::SEGMENT)
                    next = *(const vector *)(row[r] + x + V);
                else
                    next.v[0] = row[r][x + V];
                float v[V + 2];
                v[0] = left[r];
#pragma unroll
                for (int m = 0; m < V; m++)
                    v[m + 1] = T::load(at[r].v[m]);
                v[V + 1] = T::load(next.v[0]);
#pragma unroll
                for (int m = 0; m < V; m++)
#pragma unroll
                    for (int t = 0; t < 3; t++)
                        sum[m] = fmaf(v[m + t], w[3 * r + t], sum[m]);
                left[r] = v[V];
                at[r] = next;
            }
#pragma unroll
            for (int m = 0; m < V; m++)
                put(x + m, sum[m]);
        }
    }

    /* The same with every tap tested: weights that are not finite must not meet the zeros outside
     * the image. (x0, y): the segment's first pixel, the window's first row. */
    __device__ __forceinline__ void segment_tested(const sm90_rows_args &a, int x0, int y) {
#pragma unroll 1
        for (int x = 0; x < Config::SEGMENT; x++) {
            float sum = bias;
#pragma unroll
            for (int i = 0; i < 9; i++) {
                int column = x0 + x + i % 3 - 1, line = y + i / 3;
                if (column >= 0 && column < a.width && line >= 0 && line < a.height)
                    sum = fmaf(T::load(row[i / 3][x + i % 3 - 1]), w[i], sum);
            }
            put(x, sum);
        }
    }
};

template <class Config>
__device__ void sm90_depthwise_warp(const sm90_rows_args &a, const sm90_strip &strip,
                                    typename Config::shared &s, bool finite) {
    typedef typename Config::raw raw;
    const int warp = (int)threadIdx.x / 32 - 4, lane = (int)threadIdx.x % 32;
    const int channel = warp % 2 * 32 + lane, x = warp / 2 * Config::SEGMENT;
    const bool used = channel < a.channels;
    sm90_depthwise<Config> dw;
#pragma unroll
    for (int i = 0; i < 9; i++)
        dw.w[i] = used ? a.weights.dw[channel * 9 + i] : 0.0F;
    dw.bias = used ? a.weights.bias_dw[channel] : 0.0F;
    dw.low = a.mid_low;
    dw.high = a.mid_high;
    const int in_ring = channel * Config::ROW + Config::MARGIN + x;
    const int in_tile = sm90_channel<Config>(channel) + x * 4;

    sm90_place<Config::RING> at[3];
    at[1].advance();
    at[2].advance();
    at[2].advance();
    sm90_place<Config::TILES> tile;
    barrier_wait(&s.row_full[at[0].slot], at[0].phase);
    barrier_wait(&s.row_full[at[1].slot], at[1].phase);
#pragma unroll 1
    for (int row = 0; row < strip.rows; row++) {
        barrier_wait(&s.row_full[at[2].slot], at[2].phase);
        barrier_wait(&s.tile_empty[tile.slot], tile.phase ^ 1);
        __syncwarp();
#pragma unroll
        for (int r = 0; r < 3; r++)
            dw.row[r] = (const raw *)s.ring[at[r].slot] + in_ring;
        dw.tile = (float *)s.tile[tile.slot] + in_tile;
        dw.odd = false;
        if (finite)
            dw.segment();
        else
            dw.segment_tested(a, strip.x0 + x, strip.first + row - a.pad_top);
        const bool odd = __any_sync(~0U, dw.odd);
        fence_async();
        __syncwarp();
        if (lane == 0) {
            s.tile_odd[tile.slot].warp[warp] = odd;
            barrier_arrive(&s.tile_full[tile.slot]);
            barrier_arrive(&s.row_empty[at[0].slot]);
        }
        at[0] = at[1];
        at[1] = at[2];
        at[2].advance();
        tile.advance();
    }
}

/* Puts a thread's sums into the staging buffer [output][pixel]; `to`: its first output. */
template <class Config>
__device__ __forceinline__ void sm90_stage(const float (&d)[32], typename Config::raw *to, int lane,
                                           const float *bias, float low, float high) {
    typedef typename Config::T T;
#pragma unroll
    for (int u = 0; u < 4; u++)
#pragma unroll
        for (int half = 0; half < 2; half++) {
            gpu_quad<T> quad;
#pragma unroll
            for (int i = 0; i < 4; i++) {
                float v = d[8 * u + 2 * half + i % 2 + i / 2 * 4] + bias[half];
                quad.v[i] = T::store(sm90_clamp(v, low, high));
            }
            *(gpu_quad<T> *)(to + half * 8 * SM90_PIXELS + u * 16 + lane % 4 * 4) = quad;
        }
}

template <class Config>
__device__ void sm90_mma_group(const sm90_rows_args &a, const sm90_strip &strip,
                               typename Config::shared &s, int group, bool weights_split) {
    typedef typename Config::raw raw;
    const int warp = (int)threadIdx.x / 32 % 4, lane = (int)threadIdx.x % 32;
    const int row_in_group = warp * 16 + lane / 4;
    const int k = strip.output + group * 64 + row_in_group;
    const bool leader = warp == 0 && lane == 0;
    sm90_mma<Config> mma;
    mma.load(a.weights.pw, a.channels, a.outputs, 0, k, lane);
    const float bias[2] = {k < a.outputs ? a.weights.bias_pw[k] : 0.0F,
                           k + 8 < a.outputs ? a.weights.bias_pw[k + 8] : 0.0F};
    const uint64_t tiles = matrix_descriptor(shared_address(s.tile), Config::LEAD, 128);
    sm90_place<Config::TILES> tile;
#pragma unroll 1
    for (int row = 0; row < strip.rows; row++) {
        barrier_wait(&s.tile_full[tile.slot], tile.phase);
        __syncwarp();
        const uint64_t b = tiles + (uint64_t)(tile.slot * Config::TILE_BYTES >> 4);
        const bool odd = s.tile_odd[tile.slot].any(lane);
        mma.multiply_odd(b, true, odd || !weights_split, !weights_split, a.weights.pw, a.channels,
                         a.outputs, 0, (const float *)s.tile[tile.slot], k, lane);
        __syncwarp();
        if (lane == 0)
            barrier_arrive(&s.tile_empty[tile.slot]);
        tile.advance();

        if (leader)
            tensor_store_wait<Config::STAGES - 1>();
        threads_sync<128>(1 + group);
        char *stage = s.stage[group][row % Config::STAGES];
        sm90_stage<Config>(mma.d, (raw *)stage + row_in_group * SM90_PIXELS, lane, bias, a.out_low,
                           a.out_high);
        fence_async();
        threads_sync<128>(1 + group);
        if (leader)
            tensor_store(&a.y, stage, strip.x0, strip.first + row, strip.output + group * 64,
                         strip.n);
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
            barrier_init(&s.row_empty[i], 4 * Config::GROUPS);
        }
        for (int i = 0; i < Config::TILES; i++) {
            barrier_init(&s.tile_full[i], 4 * Config::GROUPS);
            barrier_init(&s.tile_empty[i], 8);
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
        registers_keep<Config::GROUPS == 2 ? 72 : 104>();
        sm90_depthwise_warp<Config>(a, strip, s, taps_finite);
    } else {
        registers_take<Config::GROUPS == 2 ? 152 : 192>();
        sm90_mma_group<Config>(a, strip, s, group - 1 - Config::GROUPS, weights_split);
    }
}

#endif
