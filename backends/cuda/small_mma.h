/*
 * The pointwise stage of the small kernel: a warp multiplies 16 * ROWS outputs x 8 * TILES pixels
 * with mma.sync, which gives the bits of wgmma. Weights lie in memory as the lanes hold operand A.
 */
#ifndef DSCONV_CUDA_SMALL_MMA_H
#define DSCONV_CUDA_SMALL_MMA_H

#include "small_tile.h"

/* d += a b: 16 x 8 sums, 8 deep, TF32. */
__device__ __forceinline__ void small_mma_tf32(float (&d)[4], const float (&a)[4], float b0,
                                               float b1) {
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(__float_as_uint(a[0])), "r"(__float_as_uint(a[1])), "r"(__float_as_uint(a[2])),
          "r"(__float_as_uint(a[3])), "r"(__float_as_uint(b0)), "r"(__float_as_uint(b1)));
}

/* A lane's weights of STEPS steps of 8 channels and 16 outputs: channels u and u + 4 of outputs 2g
 * and 2g + 1, where u = lane % 4 and g = lane / 4. */
template <class T, int STEPS> struct small_fragments {
    static constexpr int IN_WORD = 4 / (int)sizeof(typename T::raw); /* steps in 16 bytes */
    static constexpr int WORDS = STEPS / IN_WORD;
    union {
        uint4 word[WORDS];
        typename T::raw element[STEPS][4];
    };

    __device__ __forceinline__ void load(const uint4 *from, int lane) {
#pragma unroll
        for (int i = 0; i < WORDS; i++)
            word[i] = __ldg(from + i * 32 + lane);
    }
    __device__ __forceinline__ void get(float (&a)[4], int step) const {
#pragma unroll
        for (int e = 0; e < 4; e++)
            a[e] = T::load(element[step][e]);
    }
    /* Where an element lies, of those of 16 outputs. */
    static __device__ int64_t place(int64_t step, int lane, int e) {
        return ((step / IN_WORD * 32 + lane) * IN_WORD + step % IN_WORD) * 4 + e;
    }
};

/* A lane has of each tile pixels 2u and 2u + 1, of output 2g in d[.][.][0 and 1] and of 2g + 1 in
 * d[.][.][2 and 3]; the second row's outputs are 16 further on. */
template <class Numerics, class Tile, int ROWS, int TILES> struct small_sums {
    /* Steps that are loaded at once: as many as registers hold twice. */
    static constexpr int STEPS = ROWS == 1 ? 8 : sizeof(typename Numerics::T::raw) == 2 ? 4 : 2;
    typedef small_fragments<typename Numerics::T, STEPS> fragments;
    float d[ROWS][TILES][4];

    /* COUNT steps from `first` on of those that begin at step `base` of the tile. */
    template <int COUNT, int SOME>
    static __device__ __forceinline__ void steps(float (&sum)[SOME][TILES][4], Tile tile,
                                                 const fragments *weights, int base, int first,
                                                 int lane) {
#pragma unroll
        for (int i = first; i < first + COUNT; i++) {
            float b[TILES][4];
#pragma unroll
            for (int t = 0; t < TILES; t++) {
                const float *from = tile.word(t * 8 + lane / 4, base + i, lane % 4);
                if constexpr (Numerics::SPLIT_MID)
                    *(float4 *)b[t] = *(const float4 *)from;
                else
                    *(float2 *)b[t] = *(const float2 *)from;
            }
#pragma unroll
            for (int m = 0; m < SOME; m++)
                multiply_step(sum[m], weights[m], i, b);
        }
    }

    /* The small products first. */
    static __device__ __forceinline__ void multiply_step(float (&sum)[TILES][4],
                                                         const fragments &weights, int i,
                                                         const float (&b)[TILES][4]) {
        float a[4], high[4], low[4];
        weights.get(a, i);
#pragma unroll
        for (int e = 0; e < 4; e++) {
            high[e] = Numerics::SPLIT_WEIGHTS ? round_tf32(a[e]) : a[e];
            low[e] = round_tf32(a[e] - high[e]);
        }
        if (Numerics::SPLIT_WEIGHTS)
#pragma unroll
            for (int t = 0; t < TILES; t++)
                small_mma_tf32(sum[t], low, b[t][0], b[t][1]);
        if (Numerics::SPLIT_MID)
#pragma unroll
            for (int t = 0; t < TILES; t++)
                small_mma_tf32(sum[t], high, b[t][2], b[t][3]);
#pragma unroll
        for (int t = 0; t < TILES; t++)
            small_mma_tf32(sum[t], high, b[t][0], b[t][1]);
    }

    /* d = or, for restart, += the product of STEPS steps; in the order of sm90_mma.h. */
    __device__ __forceinline__ void multiply(Tile tile, const fragments (&weights)[ROWS], int base,
                                             bool restart, int lane) {
        if constexpr (Numerics::CHUNK == 8) {
            steps<STEPS>(d, tile, weights, base, 0, lane);
        } else {
#pragma unroll
            for (int i = 0; i < ROWS * (STEPS / Numerics::CHUNK); i++) {
                const int m = i / (STEPS / Numerics::CHUNK), chunk = i % (STEPS / Numerics::CHUNK);
                float sum[1][TILES][4] = {};
                steps<Numerics::CHUNK>(sum, tile, weights + m, base, chunk * Numerics::CHUNK, lane);
#pragma unroll
                for (int t = 0; t < TILES; t++)
#pragma unroll
                    for (int j = 0; j < 4; j++)
                        d[m][t][j] =
                            chunk == 0 && restart ? sum[0][t][j] : d[m][t][j] + sum[0][t][j];
            }
        }
    }

    /* What d is to become with 64 more channels in fp32, unsplit. Gives a bit for each of the
     * lane's pixels: whether it has a value that must not be split. */
    __device__ __noinline__ static uint32_t unsplit(float (&result)[TILES][4], const gpu_conv &a,
                                                    Tile tile, int first, int base, int output,
                                                    int lane) {
        const int count = min((int)a.mid_channels - first, SM90_CHANNELS);
        uint32_t odd = 0;
#pragma unroll 1
        for (int channel = 0; channel < count; channel++) {
            const float *weights = a.weights.pw + (int64_t)(first + channel) * a.k;
            const float w0 = output < a.k ? weights[output] : 0.0F;
            const float w1 = output + 1 < a.k ? weights[output + 1] : 0.0F;
#pragma unroll 1
            for (int i = 0; i < TILES * 2; i++) {
                const int row = i / 2 * 8 + lane % 4 * 2 + i % 2;
                const float *at = tile.value(row, base * SMALL_EIGHT + channel);
                const bool whole = !sm90_splits(at[0]);
                const float v = at[0] + (Numerics::SPLIT_MID && !whole ? at[2] : 0.0F);
                odd |= (uint32_t)whole << i;
                float *to = result[i / 2] + i % 2;
                to[0] = fmaf(v, w0, to[0]);
                to[2] = fmaf(v, w1, to[2]);
            }
        }
        return odd;
    }

    /* Takes over pixels, so that none depends on others. */
    __device__ __forceinline__ void replace(const float (&result)[ROWS][TILES][4], uint32_t odd) {
#pragma unroll
        for (int m = 0; m < ROWS; m++)
#pragma unroll
            for (int i = 0; i < TILES * 4; i++)
                if (odd >> (i / 4 * 2 + i % 2) & 1)
                    d[m][i / 4][i % 4] = result[m][i / 4][i % 4];
    }
};

/* Packs the weights; a thread an element. */
template <class Numerics> __global__ void small_pack_weights(small_args s) {
    typedef typename Numerics::T T;
    const gpu_conv &a = s.conv;
    const int64_t i = (int64_t)blockIdx.x * SMALL_THREADS + threadIdx.x;
    const int64_t channel = i % s.channels, output = i / s.channels;
    if (output >= (a.k + 15) / 16 * 16)
        return;
    float v = 0.0F;
    if (channel < a.mid_channels && output < a.k)
        v = a.weights.pw[channel * a.k + output];
    const int lane = (int)(output % 16 / 2 * 4 + channel % 4);
    const int e = (int)(output % 2 + channel / 4 % 2 * 2);
    const int64_t place = output / 16 * 16 * s.channels +
                          small_fragments<T, 8>::place(channel / SMALL_EIGHT, lane, e);
    gpu_store<T>((void *)s.weights, place, Numerics::SPLIT_WEIGHTS ? v : round_tf32(v));
}

#endif
