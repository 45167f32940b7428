/*
 * The emulated matrix instructions against plain matrix products, apart from the kernels that use
 * them. Where an element lies is written out here lane by lane and register by register, as AMD's
 * documents list it: the emulation looks places up by element instead.
 */
#include "shim_matrix.h"

#include <stdio.h>
#include <stdlib.h>

enum { LANES = GPU_SHIM_WAVE, SIDE_MAX = 32, K_MAX = 16 };

struct matrices {
    float a[SIDE_MAX][K_MAX], b[K_MAX][SIDE_MAX], c[SIDE_MAX][SIDE_MAX], d[SIDE_MAX][SIDE_MAX];
};

struct element {
    int row, k;
};

static short to_bf16(float value) {
    return (short)(__float_as_uint(value) >> 16);
}

inline void set(float &operand, int, float value) {
    operand = value;
}
template <class Operand> void set(Operand &operand, int i, float value) {
    operand[i] = to_bf16(value);
}

/* One wave's instruction on the matrices. OPERANDS elements a lane; `of_a` says which element of A
 * a lane has in a register, and B has them alike; `of_d` which row of D. */
template <class Operand, class Sum, int OPERANDS, class Multiply, class OfA, class OfD>
void multiply(matrices &m, int side, Multiply instruction, OfA of_a, OfD of_d) {
    const int lane = (int)threadIdx.x;
    Operand a = {}, b = {};
    Sum sum;
    for (int i = 0; i < OPERANDS; i++) {
        const element e = of_a(lane, i);
        set(a, i, m.a[e.row][e.k]);
        set(b, i, m.b[e.k][e.row]);
    }
    for (int i = 0; i < (int)(sizeof sum / sizeof(float)); i++)
        sum[i] = m.c[of_d(lane, i)][lane % side];
    sum = instruction(a, b, sum);
    for (int i = 0; i < (int)(sizeof sum / sizeof(float)); i++)
        m.d[of_d(lane, i)][lane % side] = sum[i];
}

struct arguments {
    matrices *m;
};

struct instruction {
    const char *name;
    void (*kernel)(arguments);
    int side, depth;
};

#if GPU_SHIM_WAVE == 64

/* D of 32 x 32: rows come in fours, the two halves of the wave in turn. */
static int row_of_32(int lane, int i) {
    static const int first[] = {0, 8, 16, 24};
    return first[i / 4] + (lane < 32 ? 0 : 4) + i % 4;
}

void mfma_f32_32x32x2(arguments args) {
    multiply<float, shim_f32x16, 1>(
        *args.m, 32,
        [](float a, float b, shim_f32x16 c) {
            return __builtin_amdgcn_mfma_f32_32x32x2f32(a, b, c, 0, 0, 0);
        },
        [](int lane, int) {
            return lane < 32 ? element{lane, 0} : element{lane - 32, 1};
        },
        row_of_32);
}

void mfma_f32_32x32x8_bf16(arguments args) {
    multiply<shim_bf16x4, shim_f32x16, 4>(
        *args.m, 32,
        [](shim_bf16x4 a, shim_bf16x4 b, shim_f32x16 c) {
            return __builtin_amdgcn_mfma_f32_32x32x8bf16_1k(a, b, c, 0, 0, 0);
        },
        [](int lane, int i) {
            return lane < 32 ? element{lane, i} : element{lane - 32, 4 + i};
        },
        row_of_32);
}

static const instruction instructions[] = {
    {"v_mfma_f32_32x32x2_f32", mfma_f32_32x32x2, 32, 2},
    {"v_mfma_f32_32x32x8_bf16", mfma_f32_32x32x8_bf16, 32, 8},
};

#else

/* RDNA 3: every lane holds a whole row of A, lanes 16 to 31 the same again. */
void wmma_rdna3(arguments args) {
    multiply<shim_bf16x16, shim_f32x8, 16>(
        *args.m, 16,
        [](shim_bf16x16 a, shim_bf16x16 b, shim_f32x8 c) {
            return __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32(a, b, c);
        },
        [](int lane, int i) {
            return element{lane < 16 ? lane : lane - 16, i};
        },
        [](int lane, int i) { return lane < 16 ? 2 * i : 2 * i + 1; });
}

/* RDNA 4: the halves of the wave share rows of A, and have D's upper and lower eight rows. */
void wmma_rdna4(arguments args) {
    multiply<shim_bf16x8, shim_f32x8, 8>(
        *args.m, 16,
        [](shim_bf16x8 a, shim_bf16x8 b, shim_f32x8 c) {
            return __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32_gfx12(a, b, c);
        },
        [](int lane, int i) {
            return lane < 16 ? element{lane, i} : element{lane - 16, 8 + i};
        },
        [](int lane, int i) { return lane < 16 ? i : 8 + i; });
}

static const instruction instructions[] = {
    {"v_wmma_f32_16x16x16_bf16 of RDNA 3", wmma_rdna3, 16, 16},
    {"v_wmma_f32_16x16x16_bf16 of RDNA 4", wmma_rdna4, 16, 16},
};

#endif

/* Small integers, which every format here holds and whose sums are exact. */
static void fill(matrices *m, unsigned seed) {
    const auto next = [&seed] {
        seed = seed * 1664525 + 1013904223;
        return (float)((int)(seed >> 16) % 101 - 50);
    };
    for (auto &row : m->a)
        for (float &value : row)
            value = next();
    for (auto &row : m->b)
        for (float &value : row)
            value = next();
    for (auto &row : m->c)
        for (float &value : row)
            value = 1000.0F * next();
}

static bool is_right(const instruction &tested, unsigned seed) {
    static matrices m;
    fill(&m, seed);
    if (gpu_start(tested.kernel, dim3{1, 1, 1}, LANES, 0, arguments{&m}) != gpuSuccess) {
        printf("%s: %s\n", tested.name, gpuGetErrorString(gpuErrorLaunchFailure));
        return false;
    }
    int wrong = 0;
    for (int row = 0; row < tested.side; row++)
        for (int column = 0; column < tested.side; column++) {
            float expected = m.c[row][column];
            for (int k = 0; k < tested.depth; k++)
                expected += m.a[row][k] * m.b[k][column];
            if (m.d[row][column] != expected && wrong++ == 0)
                printf("%s: row %d, column %d: %g, not %g\n", tested.name, row, column,
                       (double)m.d[row][column], (double)expected);
        }
    return wrong == 0;
}

int main() {
    int failed = 0;
    for (const instruction &tested : instructions)
        for (unsigned seed = 1; seed <= 20; seed++)
            failed += !is_right(tested, seed);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
