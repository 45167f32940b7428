/*
 * Fused convolution on CDNA 2 and 3: the pointwise stage by MFMA.
 *
 * Each of a block's four waves multiplies all 128 outputs by 32 pixels of its own, 32 x 32 at a
 * time, in f32 for every type: products of bf16 with mid in three parts would cost 3/4 of that on
 * CDNA 2, which takes subnormal bf16 as zero besides, and 3/8 on CDNA 3.
 */
#ifndef DSCONV_CDNA_TILE_H
#define DSCONV_CDNA_TILE_H

#include "hip_matrix.h"
#include "hip_pointwise.h"

#ifdef HIP_CDNA

template <class T> struct cdna_matrix {
    static constexpr int CHANNELS = 8, SIDE = 32;
    static constexpr int ROWS = HIP_OUTPUTS / SIDE, COLUMNS = HIP_PIXELS / 4 / SIDE;
    typedef hip_shared<CHANNELS> shared;

    hip_f32x16 sum[ROWS][COLUMNS] = {};
    int half = (int)threadIdx.x % 64 / SIDE, lane = (int)threadIdx.x % SIDE;
    int pixel = (int)threadIdx.x / 64 * (COLUMNS * SIDE) + lane;

    __device__ void add(const shared &s, bool) {
#pragma unroll
        for (int k = 0; k < CHANNELS; k += 2) {
            float weight[ROWS], mid[COLUMNS];
#pragma unroll
            for (int i = 0; i < ROWS; i++)
                weight[i] = s.weights[k + half][i * SIDE + lane];
#pragma unroll
            for (int j = 0; j < COLUMNS; j++)
                mid[j] = s.mid[k + half][pixel + j * SIDE];
#pragma unroll
            for (int i = 0; i < ROWS; i++)
#pragma unroll
                for (int j = 0; j < COLUMNS; j++)
                    sum[i][j] = hip_multiply(weight[i], mid[j], sum[i][j]);
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
