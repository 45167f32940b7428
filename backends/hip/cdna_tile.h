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
    static constexpr int CHANNELS = 8, SIDE = 32, ROWS = HIP_OUTPUTS / SIDE;
    static_assert(HIP_PIXELS == HIP_THREADS / 64 * SIDE, "a pixel for every two lanes");
    static constexpr int WEIGHT_PARTS = hip_weight_parts<T>::value;
    typedef hip_bf16x4 operand;
    static constexpr int K = 4; /* of an operand, in a lane */
    static constexpr bool ROW_BY_ROW = false;
#ifdef __gfx90a__
    static constexpr bool FLUSHES = true; /* 16-bit instructions take subnormal sums for zeros */
#else
    static constexpr bool FLUSHES = false;
#endif
    typedef hip_shared<CHANNELS> shared;

    hip_f32x16 sum[ROWS] = {};
    int half = (int)threadIdx.x % 64 / SIDE, lane = (int)threadIdx.x % SIDE;
    int pixel = (int)threadIdx.x / 64 * SIDE + lane;
    bool small = false; /* whether the pixel's sums may be subnormal */

    /* The channel that is the i-th of a lane's operand. */
    __device__ int k(int i) const {
        return 4 * half + i;
    }

    /* Of pixels whose lane says so. */
    __device__ void add_f32(const shared &s, bool wanted) {
#pragma unroll
        for (int k = 0; k < CHANNELS; k += 2) {
            float weight[ROWS];
#pragma unroll
            for (int i = 0; i < ROWS; i++)
                weight[i] = s.weights[k + half][i * SIDE + lane];
            const float mid = wanted ? s.mid[k + half][pixel] : 0.0F;
#pragma unroll
            for (int i = 0; i < ROWS; i++)
                sum[i] = hip_multiply(weight[i], mid, sum[i]);
        }
    }

    __device__ void put(float *sums, int row, bool channels_last) const {
#pragma unroll
        for (int e = 0; e < 16; e++) {
            float value = sum[0][e];
#pragma unroll
            for (int i = 1; i < ROWS; i++)
                value = i == row ? sum[i][e] : value;
            sums[hip_sum_index(channels_last, 8 * (e / 4) + 4 * half + e % 4, pixel)] = value;
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
