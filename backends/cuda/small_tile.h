/* What the stages of the small kernel share: its arguments, where pixels are, and mid in shared
 * memory. */
#ifndef DSCONV_CUDA_SMALL_TILE_H
#define DSCONV_CUDA_SMALL_TILE_H

#include "../gpu/gpu_conv.h"
#include "sm90_mma.h"

enum { SMALL_THREADS = 256, SMALL_EIGHT = 8, SMALL_RUN = 4 };

/* Division by an invariant of numbers below 2^31, by multiplication (Granlund and Montgomery). */
struct small_divisor {
    int divisor;
    uint32_t factor, shift;

    static small_divisor of(int divisor) {
        small_divisor d = {divisor, 0, 0};
        while (1U << d.shift < (uint32_t)divisor)
            d.shift++;
        const uint64_t above = ((uint64_t)1 << d.shift) - (uint32_t)divisor;
        d.factor = (uint32_t)((above << 32) / (uint32_t)divisor + 1);
        return d;
    }
    __device__ __forceinline__ int quotient(int i) const {
        return (int)((__umulhi((uint32_t)i, factor) + (uint32_t)i) >> shift);
    }
};

struct small_args {
    gpu_conv conv;
    const float *taps; /* [1 + r * s][channel / 8][channel % 4][channel / 4 % 2]: biases, then the
                          windows; zeros beyond the last channel */
    const uint4 *weights; /* [output / 16][channel / 8][lane]: operand A as the lanes hold it */
    int channels;         /* of mid, a multiple of 64 */
    int chunk;            /* channels of mid that shared memory holds, a multiple of 64 */
    int outputs;          /* of a block, a multiple of 16 up to 128 */
    int output_blocks;    /* that share their pixels, a multiple of cluster */
    int cluster;          /* blocks that share mid */
    int words;            /* whether eight channels of x are 16-byte words */
    int groups;           /* whether four columns of x are a word, the first 0 or pad_left away */
    int pairs;            /* whether two outputs of y are a word */
    int runs;             /* in all */
    float mid_low, mid_high, out_low, out_high; /* activations that are bounds, else infinite */
    int mid_bound, out_bound;                   /* whether they are */
    small_divisor row_runs, rows;               /* runs in a row of output; rows in an image */
    small_divisor gap;                          /* columns from a run's pixel to the next */
};

/* SMALL_RUN pixels of a row of output, some perhaps beyond its end, by the run's number; runs
 * beyond the last one repeat it. With dilation they lie `gap` apart, so that their windows share
 * columns; runs then interleave. */
struct small_run {
    int n, p, q;
    bool exists;

    __device__ __forceinline__ small_run(const small_args &s, int number)
        : exists(number < s.runs) {
        number = min(number, s.runs - 1);
        const int row = s.row_runs.quotient(number);
        const int of_row = number - row * s.row_runs.divisor;
        q = of_row + s.gap.quotient(of_row) * (SMALL_RUN - 1) * s.gap.divisor;
        n = s.rows.quotient(row);
        p = row - n * s.rows.divisor;
    }
};

/* Words of a step of the tile below. What lies between steps keeps both stages from bank
 * conflicts. */
constexpr int small_pitch(int pixels, bool split_mid) {
    return pixels * 4 * (split_mid ? 4 : 2) + 4;
}

/* Mid in shared memory: steps of 8 channels, in a step a row for each pixel, in it the words that a
 * lane has of operand B: channels u and u + 4, and what rounding took from them. */
template <class Numerics, int Pixels> struct small_tile {
    static constexpr int WORD = Numerics::SPLIT_MID ? 4 : 2;
    static constexpr int PITCH = small_pitch(Pixels, Numerics::SPLIT_MID);
    float *at;

    /* The row of a run's pixel. */
    static __device__ __forceinline__ int row_of(int run, int pixel) {
        return run / 2 * 8 + pixel * 2 + run % 2;
    }
    __device__ __forceinline__ float *word(int row, int step, int u) const {
        return at + step * PITCH + (row * 4 + u) * WORD;
    }
    __device__ __forceinline__ float *value(int row, int channel) const {
        return word(row, channel / 8, channel % 4) + channel / 4 % 2;
    }
    /* Between a step and the next; of a share, whether it has a value that must not be split. */
    __device__ __forceinline__ volatile int *odd(int step) const {
        return (volatile int *)(at + step * PITCH + Pixels * 4 * WORD);
    }

    /* Writes COUNT / 2 pairs of channels of a step, u and u + 4, the first u as given; whether one
     * must not be split. */
    template <int COUNT>
    __device__ __forceinline__ bool put(int row, int step, int u, const float (&v)[COUNT]) const {
        float high[COUNT], low[COUNT];
#pragma unroll
        for (int i = 0; i < COUNT; i++) {
            high[i] = round_tf32(v[i]);
            low[i] = round_tf32(v[i] - high[i]);
        }
        /* A NaN may pass: its parts are NaN. */
        const bool odd = !sm90_all_split(v);
        if (odd)
#pragma unroll
            for (int i = 0; i < COUNT; i++)
                high[i] = sm90_splits(v[i]) ? high[i] : v[i];
#pragma unroll
        for (int i = 0; i < COUNT; i += 2) {
            float *const to = word(row, step, u + i / 2);
            if constexpr (Numerics::SPLIT_MID)
                *(float4 *)to = make_float4(high[i], high[i + 1], low[i], low[i + 1]);
            else
                *(float2 *)to = make_float2(high[i], high[i + 1]);
        }
        return odd;
    }
};

#endif
