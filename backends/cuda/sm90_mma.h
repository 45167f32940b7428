/*
 * The pointwise stage of the Hopper kernels: a tile of 64 pixels x 64 channels in shared memory,
 * as wgmma's operand B, times weights in registers, as operand A.
 *
 * The tile holds values rounded to TF32 and, for exact math, a second plane with what rounding took
 * away. Core matrices of 8 pixels x 4 channels lie 1,040 bytes apart along the channels, so that
 * neither stage meets bank conflicts. Pixels are dealt to columns so that a thread ends with four
 * neighbours. Sums of exact math start from zero every CHUNK steps and are added in fp32, since the
 * tensor cores truncate as they accumulate. All kernels add in the same order: they agree bit for
 * bit.
 */
#ifndef DSCONV_CUDA_SM90_MMA_H
#define DSCONV_CUDA_SM90_MMA_H

#include "../gpu/gpu_value.h"
#include "sm90_ptx.h"

enum { SM90_PIXELS = 64, SM90_CHANNELS = 64, SM90_OUTPUTS = 128 };

template <class Config> struct sm90_mma;

/* Chunk: steps of 8 channels summed by the tensor cores, of the 8 in a tile. */
template <class Type, bool SplitMid, bool SplitWeights, int Chunk> struct sm90_numerics {
    typedef Type T;
    static constexpr bool SPLIT_MID = SplitMid, SPLIT_WEIGHTS = SplitWeights;
    static constexpr int CHUNK = Chunk;
    static constexpr int LEAD = 1040, STRIDE = 128;
    static constexpr int PLANE = SM90_CHANNELS / 4 * LEAD;
    static constexpr int TILE_BYTES = PLANE * (SPLIT_MID ? 2 : 1);
    typedef sm90_mma<sm90_numerics> mma;

    static __device__ __forceinline__ void put(char *tile, int channel, int pixel, float v,
                                               bool &odd);
};

/* Strict math splits both operands in f32; 16-bit weights are exact in TF32 as they are, and their
 * outputs' rounding hides that of the sums. */
typedef sm90_numerics<gpu_f32, true, true, 2> sm90_f32_strict;
typedef sm90_numerics<gpu_f32, false, false, 8> sm90_f32_tf32;
typedef sm90_numerics<gpu_f16, true, false, 8> sm90_f16_strict;
typedef sm90_numerics<gpu_bf16, true, false, 8> sm90_bf16_strict;

/* Offsets, in floats, of a pixel and of a channel in a tile. */
__device__ __forceinline__ constexpr int sm90_column(int pixel) {
    return (pixel / 16 * 2 + pixel % 4 / 2) * 32 + (pixel / 4 % 4 * 2 + pixel % 2) * 4;
}

template <class Config> __device__ __forceinline__ constexpr int sm90_channel(int channel) {
    return channel / 4 * (Config::LEAD / 4) + channel % 4;
}

/* Whether v may be rounded to TF32 and split in two that TF32 holds: not so close to the largest
 * number that rounding could reach Inf, nor so small that what the second part gives, with weights
 * of at least 2^-40, could be subnormal, which wgmma drops. Rounding keeps the answer. */
__device__ __forceinline__ bool sm90_splits(float v) {
    const uint32_t bits = __float_as_uint(v) & 0x7fffffff;
    return bits == 0 || bits - 0x21800000 <= 0x7e800000 - 0x21800000; /* 2^-60 ... 2^126 */
}

/* Whether all of them may. */
template <int COUNT> __device__ __forceinline__ bool sm90_all_split(const float (&v)[COUNT]) {
    float most = 0.0F;
    uint32_t least = ~0U;
#pragma unroll
    for (int i = 0; i < COUNT; i++) {
        most = fmaxf(most, fabsf(v[i]));
        least = min(least, __float_as_uint(v[i]) * 2 - 1); /* grows with |v|, but for zeros */
    }
    return least >= 2 * 0x21800000U - 1 && most <= 0x1p126F;
}

/* v in two parts; one that must not be split stays whole in the first and sets `odd`. */
__device__ __forceinline__ void sm90_split(float v, float &high, float &low, bool &odd) {
    const bool splits = sm90_splits(v);
    high = splits ? round_tf32(v) : v;
    low = round_tf32(v - high);
    odd |= !splits;
}

/* Writes a value's parts, or the first alone. */
template <class Config> __device__ __forceinline__ void sm90_put(float *at, float v, bool &odd) {
    float high, low;
    sm90_split(v, high, low, odd);
    at[0] = high;
    if (Config::SPLIT_MID)
        at[Config::PLANE / 4] = low;
}

/* The same for two neighbouring channels. */
template <class Config>
__device__ __forceinline__ void sm90_put(float *at, const float (&v)[2], bool &odd) {
    float2 high, low;
    sm90_split(v[0], high.x, low.x, odd);
    sm90_split(v[1], high.y, low.y, odd);
    *(float2 *)at = high;
    if (Config::SPLIT_MID)
        *(float2 *)(at + Config::PLANE / 4) = low;
}

template <class Type, bool SplitMid, bool SplitWeights, int Chunk>
__device__ __forceinline__ void
sm90_numerics<Type, SplitMid, SplitWeights, Chunk>::put(char *tile, int channel, int pixel, float v,
                                                        bool &odd) {
    sm90_put<sm90_numerics>(
        (float *)tile + sm90_channel<sm90_numerics>(channel) + sm90_column(pixel), v, odd);
}

/* Of a tile, by depthwise warp: whether a value must not be split. The lane that reports the tile
 * to a barrier is also the one that writes or reads its flags. */
struct sm90_odd {
    union {
        uint8_t warp[8];
        uint64_t all;
    };

    __device__ __forceinline__ bool any(int lane) const {
        return __any_sync(~0U, lane == 0 && all != 0);
    }
};

/* Place in a ring of SIZE with the phase of its barriers. */
template <int SIZE> struct sm90_place {
    int slot = 0, phase = 0;
    __device__ __forceinline__ void advance() {
        if (++slot == SIZE) {
            slot = 0;
            phase ^= 1;
        }
    }
};

/* Takes over the pixels of a thread's 16 that are in `odd`, so that no pixel depends on others in
 * its tile. */
__device__ __forceinline__ void sm90_replace(float (&d)[32], const volatile float (&result)[32],
                                             uint32_t odd) {
#pragma unroll
    for (int i = 0; i < 32; i++)
        if (odd >> (i / 4 * 2 + i % 2) & 1)
            d[i] = result[i];
}

/* An MMA warpgroup: 64 output channels. A thread has rows k and k + 8 of the sums and of every 16
 * pixels four neighbours: d[8 * u + {0, 1, 4, 5}] of row k, d[8 * u + {2, 3, 6, 7}] of k + 8. */
template <class Config> struct sm90_mma {
    float w[8][4]; /* weights, by step of 8 channels; already rounded unless they are split */
    float d[32];

    /* The pixel of d[i]. */
    static __device__ __forceinline__ int pixel(int i, int lane) {
        return i / 8 * 16 + i / 4 % 2 * 2 + i % 2 + lane % 4 * 4;
    }

    __device__ __forceinline__ float sum(int i) const {
        return d[i];
    }

    /* Weights of channels first .. first + 63, zero beyond `channels` and `outputs`. */
    template <class Extent>
    __device__ __forceinline__ void load(const float *pw, Extent channels, Extent outputs,
                                         Extent first, Extent k, int lane) {
#pragma unroll
        for (int step = 0; step < 8; step++)
#pragma unroll
            for (int e = 0; e < 4; e++) {
                Extent output = k + e % 2 * 8, channel = first + step * 8 + lane % 4 + e / 2 * 4;
                float v = output < outputs && channel < channels
                              ? pw[(int64_t)channel * outputs + output]
                              : 0.0F;
                w[step][e] = Config::SPLIT_WEIGHTS ? v : round_tf32(v);
            }
    }

    static constexpr int STEP = 2 * Config::LEAD >> 4, LOW = Config::PLANE >> 4;

    /* Sums of steps first .. first + COUNT - 1, the small products first. */
    template <int COUNT>
    __device__ __forceinline__ void steps(float (&e)[32], uint64_t b, int first, bool restart) {
        uint32_t high[COUNT][4], low[COUNT][4];
#pragma unroll
        for (int i = 0; i < COUNT; i++)
#pragma unroll
            for (int j = 0; j < 4; j++) {
                float v = w[first + i][j], rounded = Config::SPLIT_WEIGHTS ? round_tf32(v) : v;
                high[i][j] = __float_as_uint(rounded);
                low[i][j] = __float_as_uint(round_tf32(v - rounded));
            }
        wgmma_fence();
#pragma unroll
        for (int i = 0; i < COUNT; i++) {
            uint64_t at = b + (uint64_t)((first + i) * STEP);
            int add = i > 0 || !restart;
            if (Config::SPLIT_WEIGHTS) {
                wgmma_tf32(e, low[i], at, add);
                add = 1;
            }
            if (Config::SPLIT_MID) {
                wgmma_tf32(e, high[i], at + LOW, add);
                add = 1;
            }
            wgmma_tf32(e, high[i], at, add);
        }
        wgmma_finish();
    }

    /* d = or, unless restart, += the tile's product. */
    __device__ __forceinline__ void multiply(uint64_t b, bool restart) {
        if constexpr (Config::CHUNK == 8) {
            steps<8>(d, b, 0, restart);
        } else {
            float e[32];
#pragma unroll
            for (int first = 0; first < 8; first += Config::CHUNK) {
                steps<Config::CHUNK>(e, b, first, true);
#pragma unroll
                for (int i = 0; i < 32; i++)
                    d[i] = first == 0 && restart ? e[i] : d[i] + e[i];
            }
        }
    }

    /* What d is to become in fp32, unsplit, goes to `result`. Gives a bit for each of the thread's
     * 16 pixels: whether it has a value that must not be split. */
    template <class Extent>
    __device__ __forceinline__ uint32_t unsplit(volatile float (&result)[32], const float *pw,
                                                Extent channels, Extent outputs, Extent first,
                                                const char *tile, Extent k, int lane,
                                                bool restart) const {
        const int count =
            channels - first < SM90_CHANNELS ? (int)(channels - first) : (int)SM90_CHANNELS;
        uint32_t odd = 0;
#pragma unroll
        for (int i = 0; i < 32; i++)
            result[i] = restart ? 0.0F : d[i];
#pragma unroll 1
        for (int channel = 0; channel < count; channel++) {
            const float *weights = pw + (int64_t)(first + channel) * outputs;
            const float *mid = (const float *)tile + sm90_channel<Config>(channel) + lane % 4 * 8;
            const float w0 = k < outputs ? weights[k] : 0.0F;
            const float w1 = k + 8 < outputs ? weights[k + 8] : 0.0F;
#pragma unroll 1
            for (int i = 0; i < 32; i++) {
                const float *at = mid + i / 4 * 32 + i % 2 * 4;
                const bool whole = !sm90_splits(at[0]);
                const float rest = Config::SPLIT_MID && !whole ? at[Config::PLANE / 4] : 0.0F;
                odd |= (uint32_t)whole << (i / 4 * 2 + i % 2);
                result[i] = fmaf(at[0] + rest, i % 4 < 2 ? w0 : w1, result[i]);
            }
        }
        return odd;
    }

    /* multiply() of a tile in which some values, or for `all` the weights, must not be split. */
    template <class Extent>
    __device__ __forceinline__ void
    multiply_odd(uint64_t b, bool restart, bool any, bool all, const float *pw, Extent channels,
                 Extent outputs, Extent first, const char *tile, Extent k, int lane) {
        volatile float result[32];
        uint32_t odd = 0;
        if (any) {
            odd = unsplit(result, pw, channels, outputs, first, tile, k, lane, restart);
            odd = all ? ~0U : odd;
        }
        multiply(b, restart);
        if (any)
            sm90_replace(d, result, odd);
    }
};

#endif
