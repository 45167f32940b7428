/*
 * Matrix instructions of CDNA and RDNA under names of their own, and which a target has.
 *
 * A builtin that a target lacks stops the compiler, so each is there for its targets alone. Lanes
 * hold D = A B + C as AMD's matrix instruction calculator and the RDNA 3 and 4 ISA documents say:
 *
 *   CDNA 32x32x2 (64)     A: row = lane % 32, k = lane / 32, B alike with columns;
 *                         D: column = lane % 32, row = 8 * (i / 4) + 4 * (lane / 32) + i % 4
 *   CDNA 32x32x8 (64)     A: row = lane % 32, k = 4 * (lane / 32) + i, B alike; D: as above
 *   RDNA 3 16x16x16 (32)  A: row = lane % 16, k = i, twice; D: column = lane % 16,
 *                         row = 2 * i + lane / 16
 *   RDNA 4 16x16x16 (32)  A: row = lane % 16, k = 8 * (lane / 16) + i; D: column = lane % 16,
 *                         row = 8 * (lane / 16) + i
 */
#ifndef DSCONV_HIP_MATRIX_H
#define DSCONV_HIP_MATRIX_H

#include <float.h>

#include "../gpu/gpu_value.h"

#if defined(__gfx90a__) || defined(__gfx942__)
#define HIP_CDNA 1
#elif defined(__gfx1100__) || defined(__gfx1101__) || defined(__gfx1102__) ||                      \
    defined(__gfx1103__) || defined(__gfx1150__) || defined(__gfx1151__)
#define HIP_RDNA 3
#elif defined(__gfx1200__) || defined(__gfx1201__)
#define HIP_RDNA 4
#endif

#if defined(HIP_CDNA) || defined(HIP_RDNA)
typedef float hip_f32x8 __attribute__((vector_size(32)));
typedef float hip_f32x16 __attribute__((vector_size(64)));
typedef short hip_bf16x4 __attribute__((vector_size(8)));
typedef short hip_bf16x8 __attribute__((vector_size(16)));
typedef short hip_bf16x16 __attribute__((vector_size(32)));
#endif

/* How many bf16 a weight is the sum of; 0 where f32 instructions would take less time. */
template <class T> struct hip_weight_parts { static constexpr int value = 0; };
template <> struct hip_weight_parts<gpu_bf16> { static constexpr int value = 1; };
#ifndef __gfx90a__
template <> struct hip_weight_parts<gpu_f16> { static constexpr int value = 2; };
#endif

/* A float, neither Inf nor NaN nor very small, as the exact sum of three bf16: cut off rather than
 * rounded, so that none overflows. */
struct hip_split {
    short part[3];

    __device__ explicit hip_split(float value) {
#pragma unroll
        for (int i = 0; i < 3; i++) {
            const uint32_t top = __float_as_uint(value) & 0xffff0000U;
            part[i] = (short)(top >> 16);
            value -= __uint_as_float(top);
        }
    }
};

/* The first PARTS parts of a lane's values for a 16-bit instruction, which value(k) gives. */
template <class Operand, int PARTS> struct hip_parts {
    static constexpr int K = (int)sizeof(Operand) / 2;
    Operand part[PARTS];

    template <class Value> __device__ explicit hip_parts(const Value &value) {
        short split[PARTS][K];
#pragma unroll
        for (int k = 0; k < K; k++) {
            const hip_split whole(value(k));
#pragma unroll
            for (int i = 0; i < PARTS; i++)
                split[i][k] = whole.part[i];
        }
#pragma unroll
        for (int i = 0; i < PARTS; i++)
            __builtin_memcpy(&part[i], split[i], sizeof(Operand));
    }
};

/* Whether all of some numbers may be split: no Inf or NaN, and none so small that products of its
 * parts with weights that are not extreme might be subnormal. */
struct hip_range {
    uint32_t most = 0, least = ~(uint32_t)0; /* least: one less, so that zeros pass for large */

    __device__ void take(float value) {
        const uint32_t size = __float_as_uint(value) & 0x7fffffffU;
        most = size > most ? size : most;
        least = size - 1 < least ? size - 1 : least;
    }
    __device__ bool splits() const {
        return most < __float_as_uint(INFINITY) && least >= __float_as_uint(0x1p-60F) - 1;
    }
};

/* Nothing is moved across it. */
__device__ inline void hip_schedule_barrier() {
#ifdef __AMDGCN__
    __builtin_amdgcn_sched_barrier(0);
#endif
}

#ifdef HIP_CDNA

__device__ inline hip_f32x16 hip_multiply(float a, float b, hip_f32x16 c) {
    return __builtin_amdgcn_mfma_f32_32x32x2f32(a, b, c, 0, 0, 0);
}
__device__ inline hip_f32x16 hip_multiply(hip_bf16x4 a, hip_bf16x4 b, hip_f32x16 c) {
    return __builtin_amdgcn_mfma_f32_32x32x8bf16_1k(a, b, c, 0, 0, 0);
}

#endif

#if HIP_RDNA == 3

typedef hip_bf16x16 hip_wmma_operand;
__device__ inline hip_f32x8 hip_multiply(hip_bf16x16 a, hip_bf16x16 b, hip_f32x8 c) {
    return __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32(a, b, c);
}
__device__ inline int hip_wmma_k(int lane, int i) {
    (void)lane;
    return i;
}
__device__ inline int hip_wmma_row(int lane, int i) {
    return 2 * i + lane / 16;
}

#elif HIP_RDNA == 4

typedef hip_bf16x8 hip_wmma_operand;
__device__ inline hip_f32x8 hip_multiply(hip_bf16x8 a, hip_bf16x8 b, hip_f32x8 c) {
    return __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32_gfx12(a, b, c);
}
__device__ inline int hip_wmma_k(int lane, int i) {
    return 8 * (lane / 16) + i;
}
__device__ inline int hip_wmma_row(int lane, int i) {
    return 8 * (lane / 16) + i;
}

#endif

#if defined(HIP_CDNA) || defined(HIP_RDNA)

/* Puts subnormal sums back to which nothing was added, and which were taken for zeros. Where
 * something was, it is so much larger that they do not matter. */
template <class Sums> __device__ void hip_restore(Sums &sum, const Sums &before) {
#pragma unroll
    for (int i = 0; i < (int)(sizeof(Sums) / sizeof(float)); i++)
        if (sum[i] == 0.0F && fabsf(before[i]) < FLT_MIN)
            sum[i] = before[i];
}

/* Whether a lane's values of mid may all be split. */
template <class Matrix>
__device__ bool hip_splits(const Matrix &matrix, const typename Matrix::shared &s) {
    hip_range range;
#pragma unroll
    for (int k = 0; k < Matrix::K; k++)
        range.take(s.mid[matrix.k(k)][matrix.pixel]);
    return range.splits();
}

/* Adds the product by 16-bit instructions; that of an `odd` pixel is zero. */
template <class Matrix>
__device__ void hip_add_bf16(Matrix &matrix, const typename Matrix::shared &s, bool odd) {
    typedef typename Matrix::operand operand;
    const hip_parts<operand, 3> mid(
        [&](int k) { return odd ? 0.0F : s.mid[matrix.k(k)][matrix.pixel]; });
    matrix.small = matrix.small || odd;
#pragma unroll
    for (int i = 0; i < Matrix::ROWS; i++) {
        if (Matrix::ROW_BY_ROW)
            hip_schedule_barrier();
        const auto before = matrix.sum[i];
        const hip_parts<operand, Matrix::WEIGHT_PARTS> weight(
            [&](int k) { return s.weights[matrix.k(k)][i * Matrix::SIDE + matrix.lane]; });
#pragma unroll
        for (int part = 2; part >= 0; part--)
#pragma unroll
            for (int w = Matrix::WEIGHT_PARTS - 1; w >= 0; w--)
                matrix.sum[i] = hip_multiply(weight.part[w], mid.part[part], matrix.sum[i]);
        if (Matrix::FLUSHES && matrix.small)
            hip_restore(matrix.sum[i], before);
    }
}

/* Adds the product of what is in shared memory: by 16-bit instructions where T has them. An Inf
 * times a part that is zero would be a NaN, so pixels that must not be split, or all of them if a
 * weight must not be, are zeros there and added in f32. A zero adds nothing to a finite product, so
 * that what is added for one pixel does not depend on the others.
 *
 * A pixel is that of two lanes, SIDE apart, each with some of its channels. */
template <class Matrix>
__device__ void hip_add(Matrix &matrix, const typename Matrix::shared &s, bool extreme) {
    bool wanted = true, any = true;
    if constexpr (Matrix::WEIGHT_PARTS > 0)
        if (!extreme) {
            const uint64_t odd = __ballot(!hip_splits(matrix, s));
            wanted = ((odd | odd >> Matrix::SIDE) >> matrix.lane & 1) != 0;
            any = odd != 0;
            hip_add_bf16(matrix, s, wanted);
        }
    if (any)
        matrix.add_f32(s, wanted);
}

#endif

#endif
