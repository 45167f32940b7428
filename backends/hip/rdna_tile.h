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
    static constexpr int CHANNELS = 16, SIDE = 16;
    static constexpr int ROWS = HIP_OUTPUTS / SIDE, COLUMNS = HIP_PIXELS / 8 / SIDE;
    static constexpr int WEIGHT_PARTS = hip_weight_parts<T>::value;
    static constexpr int K = (int)(sizeof(hip_wmma_operand) / 2); /* of an operand, in a lane */
    typedef hip_shared<CHANNELS> shared;

    hip_f32x8 sum[ROWS][COLUMNS] = {};
    int wave_lane = (int)threadIdx.x % 32, lane = (int)threadIdx.x % SIDE;
    int pixel = (int)threadIdx.x / 32 * (COLUMNS * SIDE) + lane;

    /* Of pixels whose lane says so. */
    __device__ void add_f32(const shared &s, const bool (&wanted)[COLUMNS]) {
#pragma unroll 2
        for (int k = 0; k < CHANNELS; k++) {
            float mid[COLUMNS];
#pragma unroll
            for (int j = 0; j < COLUMNS; j++)
                mid[j] = wanted[j] ? s.mid[k][pixel + j * SIDE] : 0.0F;
#pragma unroll
            for (int i = 0; i < ROWS; i++)
#pragma unroll
                for (int e = 0; e < 8; e++) {
                    const float weight = s.weights[k][i * SIDE + hip_wmma_row(wave_lane, e)];
#pragma unroll
                    for (int j = 0; j < COLUMNS; j++)
                        sum[i][j][e] = fmaf(weight, mid[j], sum[i][j][e]);
                }
        }
    }

    /* Of the channels that a lane multiplies in 16 bits. */
    __device__ hip_range range(const shared &s, int j) const {
        hip_range range;
#pragma unroll
        for (int k = 0; k < K; k++)
            range.take(s.mid[hip_wmma_k(wave_lane, k)][pixel + j * SIDE]);
        return range;
    }

    __device__ void add_bf16(const shared &s, const bool (&odd)[COLUMNS]) {
        hip_wmma_operand mid[COLUMNS][3];
#pragma unroll
        for (int j = 0; j < COLUMNS; j++)
#pragma unroll
            for (int k = 0; k < K; k++) {
                const float value = s.mid[hip_wmma_k(wave_lane, k)][pixel + j * SIDE];
                const hip_split split(odd[j] ? 0.0F : value);
#pragma unroll
                for (int part = 0; part < 3; part++)
                    mid[j][part][k] = split.part[part];
            }
#pragma unroll
        for (int i = 0; i < ROWS; i++) {
            hip_wmma_operand weight[WEIGHT_PARTS];
            hip_schedule_barrier(); /* else all rows' weights would be loaded first, and spilled */
#pragma unroll
            for (int k = 0; k < K; k++) {
                const hip_split split(s.weights[hip_wmma_k(wave_lane, k)][i * SIDE + lane]);
#pragma unroll
                for (int part = 0; part < WEIGHT_PARTS; part++)
                    weight[part][k] = split.part[part];
            }
#pragma unroll
            for (int part = 2; part >= 0; part--)
#pragma unroll
                for (int w = WEIGHT_PARTS - 1; w >= 0; w--)
#pragma unroll
                    for (int j = 0; j < COLUMNS; j++)
                        sum[i][j] = hip_multiply(weight[w], mid[j][part], sum[i][j]);
        }
    }

    __device__ void put(float *sums, int row, bool channels_last) const {
        constexpr int TILES = HIP_STAGED_OUTPUTS / SIDE;
#pragma unroll
        for (int t = 0; t < TILES; t++)
#pragma unroll
            for (int j = 0; j < COLUMNS; j++)
#pragma unroll
                for (int e = 0; e < 8; e++) {
                    float value = sum[t][j][e];
#pragma unroll
                    for (int i = 1; i < ROWS / TILES; i++)
                        value = i == row ? sum[i * TILES + t][j][e] : value;
                    sums[hip_sum_index(channels_last, t * SIDE + hip_wmma_row(wave_lane, e),
                                       pixel + j * SIDE)] = value;
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
