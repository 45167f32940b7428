/*
 * The pointwise stage of the small kernel: a warp multiplies 16 outputs x the block's pixels with
 * mma.sync, which gives the bits of wgmma. Weights lie in memory as the lanes hold operand A.
 */
#ifndef DSCONV_CUDA_SMALL_MMA_H
#define DSCONV_CUDA_SMALL_MMA_H

#include "small_depthwise.h"

/* d += a b: 16 x 8 sums, 8 deep, TF32. */
__device__ __forceinline__ void small_mma_tf32(float (&d)[4], const float (&a)[4], float b0,
                                               float b1) {
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(__float_as_uint(a[0])), "r"(__float_as_uint(a[1])), "r"(__float_as_uint(a[2])),
          "r"(__float_as_uint(a[3])), "r"(__float_as_uint(b0)), "r"(__float_as_uint(b1)));
}

/* A lane's weights of 64 channels and 16 outputs: of steps of 8 channels, channels u and u + 4 of
 * outputs 2g and 2g + 1, where u = lane % 4 and g = lane / 4. */
template <class T> struct small_fragments {
    static constexpr int WORDS = 2 * sizeof(typename T::raw); /* 16 bytes each */
    union {
        uint4 word[WORDS];
        typename T::raw element[8][4];
    };

    /* Chunks of 64 channels are WORDS * 32 words. */
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
        constexpr int STEPS = 16 / sizeof(typename T::raw) / 4; /* in a word */
        return ((step / STEPS * 32 + lane) * STEPS + step % STEPS) * 4 + e;
    }
};

/* Sums of 16 outputs x 8 * TILES pixels. A lane has of each tile pixels 2u and 2u + 1, of output 2g
 * in d[.][0 and 1] and of 2g + 1 in d[.][2 and 3]. */
template <class Numerics, int TILES> struct small_sums {
    typedef small_fragments<typename Numerics::T> fragments;
    float d[TILES][4];

    /* Steps first .. first + COUNT - 1 of a chunk that begins at step `base` of the tile. */
    template <int COUNT>
    __device__ __forceinline__ void steps(float (&sum)[TILES][4], const small_tile<Numerics> &tile,
                                          const fragments &weights, int base, int first,
                                          int lane) const {
#pragma unroll
        for (int i = first; i < first + COUNT; i++) {
            float a[4], high[4], low[4], b[TILES][4];
            weights.get(a, i);
#pragma unroll
            for (int e = 0; e < 4; e++) {
                high[e] = Numerics::SPLIT_WEIGHTS ? round_tf32(a[e]) : a[e];
                low[e] = round_tf32(a[e] - high[e]);
            }
#pragma unroll
            for (int t = 0; t < TILES; t++) {
                const float *from = tile.word(t * 8 + lane / 4, base + i, lane % 4);
                if constexpr (Numerics::SPLIT_MID)
                    *(float4 *)b[t] = *(const float4 *)from;
                else
                    *(float2 *)b[t] = *(const float2 *)from;
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
    }

    /* d = or, unless restart, += the product of 64 channels; in the order of sm90_mma.h. */
    __device__ __forceinline__ void multiply(const small_tile<Numerics> &tile,
                                             const fragments &weights, int base, bool restart,
                                             int lane) {
        if constexpr (Numerics::CHUNK == 8) {
            steps<8>(d, tile, weights, base, 0, lane);
        } else {
#pragma unroll
            for (int first = 0; first < 8; first += Numerics::CHUNK) {
                float sum[TILES][4] = {};
                steps<Numerics::CHUNK>(sum, tile, weights, base, first, lane);
#pragma unroll
                for (int t = 0; t < TILES; t++)
#pragma unroll
                    for (int i = 0; i < 4; i++)
                        d[t][i] = first == 0 && restart ? sum[t][i] : d[t][i] + sum[t][i];
            }
        }
    }

    /* What d is to become in fp32, unsplit, goes to `result`. Gives a bit for each of the lane's
     * pixels: whether it has a value that must not be split. */
    __device__ __noinline__ static uint32_t unsplit(float (&result)[TILES][4], const gpu_conv &a,
                                                    const small_tile<Numerics> &tile, int first,
                                                    int base, int output, int lane) {
        const int left = (int)a.mid_channels - first, count = left < 64 ? left : 64;
        uint32_t odd = 0;
#pragma unroll 1
        for (int channel = 0; channel < count; channel++) {
            const float *weights = a.weights.pw + (int64_t)(first + channel) * a.k;
            const float w0 = output < a.k ? weights[output] : 0.0F;
            const float w1 = output + 1 < a.k ? weights[output + 1] : 0.0F;
#pragma unroll 1
            for (int i = 0; i < TILES * 2; i++) {
                const int pixel = i / 2 * 8 + lane % 4 * 2 + i % 2;
                const float *at = tile.value(pixel, base * 8 + channel);
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

    /* multiply() where some values, or for `all` the weights, must not be split: takes over those
     * pixels, so that no pixel depends on others. */
    __device__ __forceinline__ void multiply_odd(const gpu_conv &a,
                                                 const small_tile<Numerics> &tile,
                                                 const fragments &weights, int first, int base,
                                                 int output, bool all, int lane) {
        float result[TILES][4];
#pragma unroll
        for (int t = 0; t < TILES; t++)
#pragma unroll
            for (int i = 0; i < 4; i++)
                result[t][i] = d[t][i];
        const uint32_t odd = unsplit(result, a, tile, first, base, output, lane);
        multiply(tile, weights, base, first == 0, lane);
#pragma unroll
        for (int t = 0; t < TILES; t++)
#pragma unroll
            for (int i = 0; i < 4; i++)
                d[t][i] = all || odd >> (t * 2 + i % 2) & 1 ? result[t][i] : d[t][i];
    }
};

#endif
