/*
 * Fused convolution on CDNA 2 and 3: the pointwise stage by MFMA.
 *
 * Each of a block's four waves multiplies all 128 outputs by 32 pixels of its own, 32 x 32 at a
 * time. For 16-bit types mid is the exact sum of three bf16, an f16 weight of two, and a bf16
 * weight is one. On CDNA 3 that takes 6/8 and 3/8 of the time of f32 instructions. On CDNA 2 bf16
 * takes 3/4 and f16 would take 6/4: it is multiplied in f32 there, as f32 is on both.
 */
#ifndef DSCONV_CDNA_TILE_H
#define DSCONV_CDNA_TILE_H

#include "hip_matrix.h"
#include "hip_pointwise.h"

#ifdef HIP_CDNA

template <class T> struct cdna_matrix {
    static constexpr int CHANNELS = 8, SIDE = 32;
    static constexpr int ROWS = HIP_OUTPUTS / SIDE, COLUMNS = HIP_PIXELS / 4 / SIDE;
    static constexpr int WEIGHT_PARTS = hip_weight_parts<T>::value;
#ifdef __gfx90a__
    static constexpr bool FLUSHES = true; /* 16-bit instructions take subnormal sums for zeros */
#else
    static constexpr bool FLUSHES = false;
#endif
    typedef hip_shared<CHANNELS> shared;

    hip_f32x16 sum[ROWS][COLUMNS] = {};
    int half = (int)threadIdx.x % 64 / SIDE, lane = (int)threadIdx.x % SIDE;
    int pixel = (int)threadIdx.x / 64 * (COLUMNS * SIDE) + lane;
    bool small[COLUMNS] = {}; /* whether a pixel's sums may be subnormal */

    /* Of pixels whose lane says so. */
    __device__ void add_f32(const shared &s, const bool (&wanted)[COLUMNS]) {
#pragma unroll
        for (int k = 0; k < CHANNELS; k += 2) {
            float weight[ROWS], mid[COLUMNS];
#pragma unroll
            for (int i = 0; i < ROWS; i++)
                weight[i] = s.weights[k + half][i * SIDE + lane];
#pragma unroll
            for (int j = 0; j < COLUMNS; j++)
                mid[j] = wanted[j] ? s.mid[k + half][pixel + j * SIDE] : 0.0F;
#pragma unroll
            for (int i = 0; i < ROWS; i++)
#pragma unroll
                for (int j = 0; j < COLUMNS; j++)
                    sum[i][j] = hip_multiply(weight[i], mid[j], sum[i][j]);
        }
    }

    /* Of the channels that a lane multiplies in 16 bits. */
    __device__ hip_range range(const shared &s, int j) const {
        hip_range range;
#pragma unroll
        for (int k = 0; k < 4; k++)
            range.take(s.mid[4 * half + k][pixel + j * SIDE]);
        return range;
    }

    __device__ void add_bf16(const shared &s, const bool (&odd)[COLUMNS]) {
        hip_bf16x4 mid[COLUMNS][3];
#pragma unroll
        for (int j = 0; j < COLUMNS; j++)
#pragma unroll
            for (int k = 0; k < 4; k++) {
                const float value = s.mid[4 * half + k][pixel + j * SIDE];
                const hip_split split(odd[j] ? 0.0F : value);
#pragma unroll
                for (int part = 0; part < 3; part++)
                    mid[j][part][k] = split.part[part];
                small[j] = small[j] || odd[j];
            }
#pragma unroll
        for (int i = 0; i < ROWS; i++) {
            hip_f32x16 before[COLUMNS];
#pragma unroll
            for (int j = 0; j < COLUMNS; j++)
                before[j] = sum[i][j];
            float value[4];
#pragma unroll
            for (int k = 0; k < 4; k++)
                value[k] = s.weights[4 * half + k][i * SIDE + lane];
            const hip_split4 weight(value);
#pragma unroll
            for (int part = 2; part >= 0; part--)
#pragma unroll
                for (int w = WEIGHT_PARTS - 1; w >= 0; w--)
#pragma unroll
                    for (int j = 0; j < COLUMNS; j++)
                        sum[i][j] = hip_multiply(weight.part[w], mid[j][part], sum[i][j]);
#pragma unroll
            for (int j = 0; j < COLUMNS; j++)
                if (FLUSHES && small[j])
                    hip_restore(sum[i][j], before[j]);
        }
    }

    __device__ void put(float *sums, int row, bool channels_last) const {
#pragma unroll
        for (int j = 0; j < COLUMNS; j++)
#pragma unroll
            for (int e = 0; e < 16; e++) {
                float value = sum[0][j][e];
#pragma unroll
                for (int i = 1; i < ROWS; i++)
                    value = i == row ? sum[i][j][e] : value;
                sums[hip_sum_index(channels_last, 8 * (e / 4) + 4 * half + e % 4,
                                   pixel + j * SIDE)] = value;
            }
    }
};

#endif

template <class T>
__global__ void __launch_bounds__(HIP_THREADS, 2) cdna_tile_kernel(hip_tile_args a) {
#ifdef HIP_CDNA
    GPU_SHARED(shared, hip_shared<cdna_matrix<T>::CHANNELS>);
    hip_tile_run<T, cdna_matrix<T>>(a, shared);
#else
    (void)a;
#endif
}

#endif
