/*
 * Fused convolution on RDNA 3 and 4: the pointwise stage by WMMA for 16-bit types.
 *
 * Each of a block's eight waves multiplies all 128 outputs by 32 pixels of its own, 16 x 16 at a
 * time. mid is split into three bf16 and an f16 weight into two, exactly; a bf16 weight is one.
 * f32, for which there is no instruction, and weights that cannot be split use fused multiply-adds,
 * on sums that lie in registers as the instruction's do.
 */
#ifndef DSCONV_RDNA_TILE_H
#define DSCONV_RDNA_TILE_H

#include "hip_matrix.h"
#include "hip_pointwise.h"

#ifdef HIP_RDNA

template <class T> struct rdna_matrix {
    static constexpr int CHANNELS = 16, SIDE = 16, ROWS = HIP_OUTPUTS / SIDE;
    static_assert(HIP_PIXELS == HIP_THREADS / 32 * SIDE, "a pixel for every two lanes");
    static constexpr int WEIGHT_PARTS = hip_weight_parts<T>::value;
    typedef hip_wmma_operand operand;
    static constexpr int K = (int)sizeof(operand) / 2; /* of an operand, in a lane */
    static constexpr bool ROW_BY_ROW =
        true; /* else all weights would be loaded first, and spilled */
    static constexpr bool FLUSHES = false;
    typedef hip_shared<CHANNELS> shared;

    hip_f32x8 sum[ROWS] = {};
    int wave_lane = (int)threadIdx.x % 32, lane = (int)threadIdx.x % SIDE;
    int pixel = (int)threadIdx.x / 32 * SIDE + lane;
    bool small = false; /* whether the pixel's sums may be subnormal */

    /* The channel that is the i-th of a lane's operand. */
    __device__ int k(int i) const {
        return hip_wmma_k(wave_lane, i);
    }

    /* Of pixels whose lane says so. */
    __device__ void add_f32(const shared &s, bool wanted) {
#pragma unroll 2
        for (int k = 0; k < CHANNELS; k++) {
            const float mid = wanted ? s.mid[k][pixel] : 0.0F;
#pragma unroll
            for (int i = 0; i < ROWS; i++)
#pragma unroll
                for (int e = 0; e < 8; e++)
                    sum[i][e] =
                        fmaf(s.weights[k][i * SIDE + hip_wmma_row(wave_lane, e)], mid, sum[i][e]);
        }
    }

    __device__ void put(float *sums, int row, bool channels_last) const {
        constexpr int TILES = HIP_STAGED_OUTPUTS / SIDE;
#pragma unroll
        for (int t = 0; t < TILES; t++)
#pragma unroll
            for (int e = 0; e < 8; e++) {
                float value = sum[t][e];
#pragma unroll
                for (int i = 1; i < ROWS / TILES; i++)
                    value = i == row ? sum[i * TILES + t][e] : value;
                sums[hip_sum_index(channels_last, t * SIDE + hip_wmma_row(wave_lane, e), pixel)] =
                    value;
            }
    }
};

#endif

template <class T>
__global__ void __launch_bounds__(HIP_THREADS) rdna_tile_kernel(hip_tile_args a) {
#ifdef HIP_RDNA
    GPU_SHARED(shared, hip_shared<rdna_matrix<T>::CHANNELS>);
    hip_tile_run<T, rdna_matrix<T>>(a, shared);
#else
    (void)a;
#endif
}

#endif
