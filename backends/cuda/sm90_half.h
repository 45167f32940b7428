/*
 * The pointwise stage for 16-bit storage and up to 64 channels: a tile of 64 channels x 64 pixels
 * in shared memory, as wgmma's operand B, times weights in registers, as operand A, both in 16
 * bits.
 *
 * Weights are exact as they are. Mid, an fp32 number of 24 bits, is the sum of three parts, each
 * what rounding to 16 bits leaves of it: exact in bf16, whose parts have 8 bits each, and in f16,
 * whose further parts are scaled by 2^12 each, so that they reach down to 2^-48, of which all mid
 * computed from f16 are multiples.
 *
 * Pixels are neighbours in the tile ("MN-major"): a lane writes 8 of its channel at a time. Core
 * matrices of 8 channels x 8 pixels lie side by side along the channels, so that the lanes of a
 * warp, 32 channels, write 512 bytes in a row.
 */
#ifndef DSCONV_CUDA_SM90_HALF_H
#define DSCONV_CUDA_SM90_HALF_H

#include "sm90_mma.h"

/* What both formats have. pack: two values rounded to nearest even, the first in the low half. */
#define SM90_HALF_INSTRUCTIONS(type)                                                               \
    struct sm90_##type {                                                                           \
        static __device__ __forceinline__ uint32_t pack(float a, float b) {                        \
            uint32_t r;                                                                            \
            asm("cvt.rn." #type "x2.f32 %0, %1, %2;" : "=r"(r) : "f"(b), "f"(a));                  \
            return r;                                                                              \
        }                                                                                          \
        static __device__ __forceinline__ uint32_t clamp(uint32_t v, uint32_t low,                 \
                                                         uint32_t high) {                          \
            asm("max.NaN." #type "x2 %0, %0, %1;" : "+r"(v) : "r"(low));                           \
            asm("min.NaN." #type "x2 %0, %0, %1;" : "+r"(v) : "r"(high));                          \
            return v;                                                                              \
        }                                                                                          \
        /* Of 4 pairs, the largest first and second magnitude; NaN are passed over. */             \
        static __device__ __forceinline__ uint32_t largest(const uint4 &v) {                       \
            uint32_t r;                                                                            \
            asm("{\n.reg .b32 a, b, c, d;\n"                                                       \
                "abs." #type "x2 a, %1;\nabs." #type "x2 b, %2;\n"                                 \
                "abs." #type "x2 c, %3;\nabs." #type "x2 d, %4;\n"                                 \
                "max." #type "x2 a, a, b;\nmax." #type "x2 c, c, d;\n"                             \
                "max." #type "x2 %0, a, c;\n}"                                                     \
                : "=r"(r)                                                                          \
                : "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w));                                         \
            return r;                                                                              \
        }                                                                                          \
        static __device__ __forceinline__ void multiply(float (&d)[32], const uint32_t (&a)[4],    \
                                                        uint64_t b, int add) {                     \
            wgmma_##type(d, a, b, add);                                                            \
        }                                                                                          \
    };
SM90_HALF_INSTRUCTIONS(f16)
SM90_HALF_INSTRUCTIONS(bf16)
#undef SM90_HALF_INSTRUCTIONS

template <class Type> struct sm90_half_format;

template <> struct sm90_half_format<gpu_f16> : sm90_f16 {
    static constexpr float SCALE = 0x1p12F; /* of each further part */

    /* Whether v is the sum of its parts; the first times SCALE must stay in range. */
    static __device__ __forceinline__ bool splits(float v) {
        return fabsf(v) < 32760.0F; /* what rounds to less than 32768 */
    }
    /* The same of 8 values; `first`: their first parts. */
    static __device__ __forceinline__ bool all_split(const float (&)[8], const uint4 &first) {
        return ((largest(first) + 0x08000800) & 0x80008000) == 0; /* no half reaches 32768 */
    }
};

template <> struct sm90_half_format<gpu_bf16> : sm90_bf16 {
    static constexpr float SCALE = 1.0F;

    static __device__ __forceinline__ bool splits(float v) {
        return sm90_splits(v);
    }
    static __device__ __forceinline__ bool all_split(const float (&v)[8], const uint4 &) {
        return sm90_all_split(v);
    }
};

template <class Type> struct sm90_half {
    typedef Type T;
    typedef sm90_half_format<Type> format;
    static constexpr bool SPLIT_MID = true;
    static constexpr int PARTS = 3;
    static constexpr int LEAD = 128; /* bytes between 8 channels and the next */
    static constexpr int STRIDE = SM90_CHANNELS / 8 * LEAD; /* between 8 pixels and the next */
    static constexpr int PLANE = SM90_PIXELS / 8 * STRIDE;
    static constexpr int TILE_BYTES = PARTS * PLANE;
    /* Offset in the tile of a channel's pixel. */
    static __device__ __forceinline__ int place(int channel, int pixel) {
        return pixel / 8 * STRIDE + channel / 8 * LEAD + channel % 8 * 16 + pixel % 8 * 2;
    }

    static __device__ __forceinline__ float value(const char *at) {
        return T::load(*(const uint16_t *)at);
    }

    /* Of a value that must not be split the first two parts are its halves; the third, a NaN, marks
     * it. */
    static __device__ __forceinline__ void put_whole(char *at, float v) {
        const uint32_t bits = __float_as_uint(v);
        *(uint16_t *)at = (uint16_t)(bits >> 16);
        *(uint16_t *)(at + PLANE) = (uint16_t)bits;
        *(uint16_t *)(at + 2 * PLANE) = 0x7fff;
    }

    /* Writes 8 pixels of a channel. A NaN may pass for what can be split: its parts are NaN. */
    static __device__ __forceinline__ void put(char *at, const float (&v)[8], bool &odd) {
        float rest[8];
        uint4 packed[PARTS];
#pragma unroll
        for (int i = 0; i < 8; i++)
            rest[i] = v[i];
#pragma unroll
        for (int part = 0; part < PARTS; part++) {
            uint32_t *const pairs = &packed[part].x;
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const uint32_t pair = format::pack(rest[2 * i], rest[2 * i + 1]);
                pairs[i] = pair;
                if (part + 1 < PARTS) {
                    rest[2 * i] -= T::load((uint16_t)(pair & 0xffff));
                    rest[2 * i + 1] -= T::load((uint16_t)(pair >> 16));
                    if (format::SCALE != 1.0F) {
                        rest[2 * i] *= format::SCALE;
                        rest[2 * i + 1] *= format::SCALE;
                    }
                }
            }
            *(uint4 *)(at + part * PLANE) = packed[part];
        }
        if (!format::all_split(v, packed[0])) {
            odd = true;
#pragma unroll
            for (int i = 0; i < 8; i++)
                if (!format::splits(v[i]))
                    put_whole(at + i * 2, v[i]);
        }
    }

    /* The same for one value. */
    static __device__ __forceinline__ void put(char *tile, int channel, int pixel, float v,
                                               bool &odd) {
        char *const at = tile + place(channel, pixel);
        float rest = v;
#pragma unroll
        for (int part = 0; part < PARTS; part++) {
            const uint16_t rounded = T::store(rest);
            *(uint16_t *)(at + part * PLANE) = rounded;
            rest = (rest - T::load(rounded)) * format::SCALE;
        }
        if (!format::splits(v)) {
            odd = true;
            put_whole(at, v);
        }
    }

    /* What put() was given. */
    static __device__ __forceinline__ float whole(const char *at, bool &odd) {
        const float low = value(at + 2 * PLANE);
        odd = low != low;
        if (odd)
            return __uint_as_float((uint32_t) * (const uint16_t *)at << 16 |
                                   *(const uint16_t *)(at + PLANE));
        return fmaf(fmaf(low, 1 / format::SCALE, value(at + PLANE)), 1 / format::SCALE, value(at));
    }

    /* An MMA warpgroup: 64 output channels. Of every 8 pixels a thread has two neighbours:
     * d[4 * u + {0, 1}] of row k, d[4 * u + {2, 3}] of k + 8. Where parts are scaled, an output's
     * weights are, too: by what brings the largest close to the end of the range, and for each
     * further part by 1 / SCALE, so that all products add up as they are. */
    struct mma {
        static constexpr bool SCALED = format::SCALE != 1.0F;
        static constexpr int SETS = SCALED ? PARTS : 1;

        uint32_t w[SETS][4][4]; /* by step of 16 channels */
        float d[32];            /* times scale[] of the output */
        float scale[2], unscale[2];

        /* The pixel of d[i]. */
        static __device__ __forceinline__ int pixel(int i, int lane) {
            return i / 4 * 8 + lane % 4 * 2 + i % 2;
        }

        __device__ __forceinline__ float sum(int i) const {
            return SCALED ? d[i] * unscale[i % 4 / 2] : d[i];
        }

        /* Zero beyond `channels` and `outputs`. */
        template <class Extent>
        static __device__ __forceinline__ float
        weight(const float *pw, Extent channels, Extent outputs, Extent channel, Extent output) {
            return output < outputs && channel < channels ? pw[(int64_t)channel * outputs + output]
                                                          : 0.0F;
        }

        template <class Extent>
        __device__ __forceinline__ void load(const float *pw, Extent channels, Extent outputs,
                                             Extent, Extent k, int lane) {
#pragma unroll
            for (int i = 0; i < 2; i++) {
                float most = 0.0F;
                if (SCALED)
                    for (Extent channel = lane % 4; channel < channels; channel += 4)
                        most =
                            fmaxf(most, fabsf(weight(pw, channels, outputs, channel, k + i * 8)));
                set_scale(i, most);
            }
#pragma unroll
            for (int step = 0; step < 4; step++)
#pragma unroll
                for (int e = 0; e < 4; e++) {
                    const Extent output = k + e % 2 * 8;
                    const Extent channel = step * 16 + e / 2 * 8 + lane % 4 * 2;
                    const float v[2] = {weight(pw, channels, outputs, channel, output),
                                        weight(pw, channels, outputs, channel + 1, output)};
                    float by = scale[e % 2];
#pragma unroll
                    for (int set = 0; set < SETS; set++, by /= format::SCALE)
                        w[set][step][e] = format::pack(v[0] * by, v[1] * by);
                }
        }

        /* The power of two that brings `most`, of the lanes that share the output, to 2^15 ... 2^16
         * (f16 ends at 65504); most at least 2^-24, the least f16. */
        __device__ __forceinline__ void set_scale(int i, float most) {
            scale[i] = unscale[i] = 1.0F;
            if (!SCALED)
                return;
            most = fmaxf(most, __shfl_xor_sync(~0U, most, 1));
            most = fmaxf(most, __shfl_xor_sync(~0U, most, 2));
            most = fminf(fmaxf(most, 0x1p-24F), 0x1p15F);
            const int exponent = (int)(__float_as_uint(most) >> 23) - 127;
            scale[i] = __uint_as_float((uint32_t)(127 + 15 - exponent) << 23);
            unscale[i] = __uint_as_float((uint32_t)(127 - 15 + exponent) << 23);
        }

        /* d of the tile, the small products first. */
        __device__ __forceinline__ void multiply(uint64_t b) {
            wgmma_fence();
#pragma unroll
            for (int part = PARTS - 1; part >= 0; part--)
#pragma unroll
                for (int step = 0; step < 4; step++)
                    format::multiply(d, w[SCALED ? part : 0][step],
                                     b + (uint64_t)((part * PLANE + step * 2 * LEAD) >> 4),
                                     part + 1 < PARTS || step > 0);
            wgmma_finish();
        }

        /* What d is to become for pixels that have values which must not be split; gives a bit for
         * each of these of the thread's 16. */
        template <class Extent>
        __device__ __forceinline__ uint32_t unsplit(volatile float (&result)[32], const float *pw,
                                                    int channels, Extent outputs, const char *tile,
                                                    Extent k, int lane) const {
            uint32_t odd = 0;
#pragma unroll
            for (int i = 0; i < 32; i++)
                result[i] = 0.0F;
#pragma unroll 1
            for (int channel = 0; channel < channels; channel++) {
                const float *weights = pw + (int64_t)channel * outputs;
                const float w0 = k < outputs ? weights[k] * scale[0] : 0.0F;
                const float w1 = k + 8 < outputs ? weights[k + 8] * scale[1] : 0.0F;
#pragma unroll 1
                for (int i = 0; i < 16; i++) {
                    const int at = i / 2 * 4 + i % 2;
                    bool is_odd;
                    const float v = whole(tile + place(channel, pixel(at, lane)), is_odd);
                    odd |= (uint32_t)is_odd << i;
                    result[at] = fmaf(v, w0, result[at]);
                    result[at + 2] = fmaf(v, w1, result[at + 2]);
                }
            }
            return odd;
        }

        /* d of a tile in which some values, or for `all` the weights, must not be split: pixels
         * that have such are computed in fp32, so that no pixel depends on others. */
        template <class Extent>
        __device__ __forceinline__ void
        multiply_odd(uint64_t b, bool, bool any, bool all, const float *pw, Extent channels,
                     Extent outputs, Extent, const char *tile, Extent k, int lane) {
            volatile float result[32];
            uint32_t odd = 0;
            if (any) {
                odd = unsplit(result, pw, (int)channels, outputs, tile, k, lane);
                odd = all ? ~0U : odd;
            }
            multiply(b);
            if (any)
                sm90_replace(d, result, odd);
        }

        /* Puts the outputs into the staging buffer [output][pixel], or [pixel][output] where
         * channels are last, 128 bytes a row and swizzled as the copy engine takes it; `row`: this
         * warp's first output. */
        template <bool ChannelsLast, bool BOUNDED>
        __device__ __forceinline__ void stage(void *to, int row, int lane, const float *bias,
                                              float low, float high) const {
            const uint32_t at =
                shared_address(to) +
                (uint32_t)(ChannelsLast ? lane / 16 * 8 + lane % 8 : row + lane % 16) * 128;
#pragma unroll
            for (int u = 0; u < 8; u += 2) {
                uint32_t r[4];
#pragma unroll
                for (int i = 0; i < 4; i++) {
                    const int from = (u + i / 2) * 4 + i % 2 * 2;
                    r[i] = format::pack(sum(from) + bias[i % 2], sum(from + 1) + bias[i % 2]);
                    if (BOUNDED)
                        r[i] =
                            format::clamp(r[i], format::pack(low, low), format::pack(high, high));
                }
                if (ChannelsLast)
                    matrix_store_turned(at + u * 8 * 128 +
                                            (uint32_t)((row / 8 + lane / 8 % 2) ^ (lane % 8)) * 16,
                                        r);
                else
                    matrix_store(at + (uint32_t)((u + lane / 16) ^ (lane % 8)) * 16, r);
            }
        }
    };
};

#endif
