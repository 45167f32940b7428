/*
 * The matrix instructions of CDNA and RDNA that backends/hip uses, with their operands in the lanes
 * and registers that hardware has them in. Which those are: AMD's matrix instruction calculator
 * (CDNA, RDNA 3), "Matrix Cores of RDNA 4" (GPUOpen) and the ISA documents.
 *
 *   D[row][column] = C[row][column] + sum over k of A[row][k] B[k][column]
 *
 * Hardware's order of adding is not documented: here it is one chain of fused multiply-adds.
 */
#ifndef SHIM_MATRIX_H
#define SHIM_MATRIX_H

#include "gpu_shim.h"

typedef float shim_f32x8 __attribute__((vector_size(32)));
typedef float shim_f32x16 __attribute__((vector_size(64)));
typedef short shim_bf16x4 __attribute__((vector_size(8)));
typedef short shim_bf16x8 __attribute__((vector_size(16)));
typedef short shim_bf16x16 __attribute__((vector_size(32)));

inline float shim_element(const float &operand, int) {
    return operand;
}
inline float shim_element(const shim_f32x16 &values, int i) {
    return values[i];
}
template <class Operand> float shim_element(const Operand &operand, int i) {
    return __uint_as_float((uint32_t)(uint16_t)operand[i] << 16);
}

/* An operand in some lane and register. */
struct shim_place {
    int lane, i;
};

/* `a`: where A[row][k] is, and B[k][row] alike. `row`: the row that register i of D has. */
template <int K, class Operand, class Sum, class A, class Row>
Sum shim_multiply(Operand a, Operand b, Sum sum, int side, const A &at, const Row &row,
                  gpu_shim_site site) {
    constexpr int LANES = GPU_SHIM_WAVE;
    Operand all_a[LANES], all_b[LANES];
    memcpy(all_a, gpu_shim_exchange(&a, sizeof a, {"matrix instruction", site}), sizeof all_a);
    memcpy(all_b, gpu_shim_exchange(&b, sizeof b, {"matrix instruction", site}), sizeof all_b);
    const int lane = gpu_shim_lane(), column = lane % side;
    for (int i = 0; i < (int)(sizeof sum / sizeof(float)); i++)
        for (int k = 0; k < K; k++) {
            const shim_place from = at(row(lane, i), k), with = at(column, k);
            sum[i] = fmaf(shim_element(all_a[from.lane], from.i),
                          shim_element(all_b[with.lane], with.i), sum[i]);
        }
    return sum;
}

/* Subnormal numbers to zeros, of fp32 or bf16. */
template <class Values> void shim_flush(Values &values) {
    for (int i = 0; i < (int)(sizeof values / sizeof values[0]); i++)
        if (fabsf(shim_element(values, i)) < 0x1p-126F)
            values[i] = 0;
}

#if GPU_SHIM_WAVE == 64

inline int shim_mfma_row(int lane, int i) {
    return 8 * (i / 4) + 4 * (lane / 32) + i % 4;
}

inline shim_f32x16
__builtin_amdgcn_mfma_f32_32x32x2f32(float a, float b, shim_f32x16 c, int, int, int,
                                     gpu_shim_site site = gpu_shim_site::here()) {
    const auto at = [](int row, int k) { return shim_place{32 * k + row, 0}; };
    return shim_multiply<2>(a, b, c, 32, at, shim_mfma_row, site);
}

/* CDNA 2 takes subnormal numbers for zeros and makes none; CDNA 3 keeps them. */
inline shim_f32x16
__builtin_amdgcn_mfma_f32_32x32x8bf16_1k(shim_bf16x4 a, shim_bf16x4 b, shim_f32x16 c, int, int, int,
                                         gpu_shim_site site = gpu_shim_site::here()) {
    const auto at = [](int row, int k) { return shim_place{32 * (k / 4) + row, k % 4}; };
#ifdef __gfx90a__
    shim_flush(a);
    shim_flush(b);
    shim_flush(c);
#endif
    c = shim_multiply<8>(a, b, c, 32, at, shim_mfma_row, site);
#ifdef __gfx90a__
    shim_flush(c);
#endif
    return c;
}

#else

/* RDNA 3. Both halves of the wave must hold the operands; each half reads its own. */
inline shim_f32x8
__builtin_amdgcn_wmma_f32_16x16x16_bf16_w32(shim_bf16x16 a, shim_bf16x16 b, shim_f32x8 c,
                                            gpu_shim_site site = gpu_shim_site::here()) {
    const int half = gpu_shim_lane() / 16 * 16;
    const auto at = [half](int row, int k) { return shim_place{half + row, k}; };
    const auto row = [](int lane, int i) { return 2 * i + lane / 16; };
    return shim_multiply<16>(a, b, c, 16, at, row, site);
}

/* RDNA 4. */
inline shim_f32x8
__builtin_amdgcn_wmma_f32_16x16x16_bf16_w32_gfx12(shim_bf16x8 a, shim_bf16x8 b, shim_f32x8 c,
                                                  gpu_shim_site site = gpu_shim_site::here()) {
    const auto at = [](int row, int k) { return shim_place{16 * (k / 8) + row, k % 8}; };
    const auto row = [](int lane, int i) { return 8 * (lane / 16) + i; };
    return shim_multiply<16>(a, b, c, 16, at, row, site);
}

#endif

#endif
