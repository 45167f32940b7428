/*
 * NHWC pointwise micro-kernels: PIXELS pixels by VECTORS vectors of output channels.
 *
 * GCC keeps an array of accumulators in memory even where its loops are unrolled, so each is a
 * variable of its own, and the macros below write them out.
 */
#include "nhwc.h"

#include "vec.h"

/* X(pixel, base, offset): pixels go in threes, so that an offset of 0, 1 or 2 pitches from a base
 * pointer is one addressing mode. */
#define FOR_PIXELS(X)                                                                              \
    X(0, 0, 0)                                                                                     \
    X(1, 0, 1)                                                                                     \
    X(2, 0, 2)                                                                                     \
    X(3, 1, 0)                                                                                     \
    X(4, 1, 1)                                                                                     \
    X(5, 1, 2)                                                                                     \
    X(6, 2, 0)                                                                                     \
    X(7, 2, 1)                                                                                     \
    X(8, 2, 2)                                                                                     \
    X(9, 3, 0)                                                                                     \
    X(10, 3, 1)                                                                                    \
    X(11, 3, 2)                                                                                    \
    X(12, 4, 0)                                                                                    \
    X(13, 4, 1)

#define DECLARE(m, base, offset) vf a##m##_0 = b0, a##m##_1 = b1, a##m##_2 = b2, a##m##_3 = b3;

#define PREFETCH(m, base, offset)                                                                  \
    if (m < pixels) {                                                                              \
        for (int byte = 0; byte < vectors * VL * size; byte += 64)                                 \
            prefetch_write(to + m * step + byte);                                                  \
    }

#define ACCUMULATE(m, base, offset)                                                                \
    if (m < pixels) {                                                                              \
        vf x = vf_set1(mid##base[offset * pitch]);                                                 \
        a##m##_0 = vf_fma(x, w0, a##m##_0);                                                        \
        if (vectors > 1)                                                                           \
            a##m##_1 = vf_fma(x, w1, a##m##_1);                                                    \
        if (vectors > 2)                                                                           \
            a##m##_2 = vf_fma(x, w2, a##m##_2);                                                    \
        if (vectors > 3)                                                                           \
            a##m##_3 = vf_fma(x, w3, a##m##_3);                                                    \
    }

#define CLAMP(m, base, offset)                                                                     \
    a##m##_0 = vf_min(hi, vf_max(lo, a##m##_0));                                                   \
    a##m##_1 = vf_min(hi, vf_max(lo, a##m##_1));                                                   \
    a##m##_2 = vf_min(hi, vf_max(lo, a##m##_2));                                                   \
    a##m##_3 = vf_min(hi, vf_max(lo, a##m##_3));

#define STORE(m, base, offset)                                                                     \
    if (m < pixels) {                                                                              \
        char *at = to + m * step;                                                                  \
        vf_store_as(at, a##m##_0, dtype, vectors > 1 ? VL : last);                                 \
        if (vectors > 1)                                                                           \
            vf_store_as(at + VL * size, a##m##_1, dtype, vectors > 2 ? VL : last);                 \
        if (vectors > 2)                                                                           \
            vf_store_as(at + 2 * VL * size, a##m##_2, dtype, vectors > 3 ? VL : last);             \
        if (vectors > 3)                                                                           \
            vf_store_as(at + 3 * VL * size, a##m##_3, dtype, last);                                \
    }

static inline __attribute__((always_inline)) void micro_kernel(const int pixels, const int vectors,
                                                               const nhwc_pw *args,
                                                               const float *mid, void *y,
                                                               int64_t y_pitch) {
    const int64_t pitch = args->pitch;
    const float *w = args->weights;
    const dsconv_dtype dtype = args->dtype;
    const int size = (int)dtype_size(dtype), last = args->last;
    const int64_t step = y_pitch * size;
    char *to = y;
    const float *mid0 = mid, *mid1 = mid + 3 * pitch, *mid2 = mid + 6 * pitch,
                *mid3 = mid + 9 * pitch, *mid4 = mid + 12 * pitch;
    vf b0 = vf_load(args->bias), b1 = b0, b2 = b0, b3 = b0;
    if (vectors > 1)
        b1 = vf_load(args->bias + VL);
    if (vectors > 2)
        b2 = vf_load(args->bias + 2 * VL);
    if (vectors > 3)
        b3 = vf_load(args->bias + 3 * VL);
    FOR_PIXELS(DECLARE)
    FOR_PIXELS(PREFETCH)
    for (int64_t j = args->mid_channels; j > 0; j--) {
        vf w0 = vf_load(w), w1 = w0, w2 = w0, w3 = w0;
        if (vectors > 1)
            w1 = vf_load(w + VL);
        if (vectors > 2)
            w2 = vf_load(w + 2 * VL);
        if (vectors > 3)
            w3 = vf_load(w + 3 * VL);
        FOR_PIXELS(ACCUMULATE)
        w += vectors * VL;
        mid0++;
        mid1++;
        mid2++;
        mid3++;
        mid4++;
    }
    if (args->clamp) {
        const vf lo = vf_set1(args->lo), hi = vf_set1(args->hi);
        FOR_PIXELS(CLAMP)
    }
    FOR_PIXELS(STORE)
}

#define KERNEL(pixels, vectors)                                                                    \
    static void pw_##pixels##x##vectors(const nhwc_pw *a, const float *mid, void *y,               \
                                        int64_t y_pitch) {                                         \
        micro_kernel(pixels, vectors, a, mid, y, y_pitch);                                         \
    }
/* An entry of the table; with 16 registers only the smaller kernels are built. */
#define ENTRY(pixels, vectors)                                                                     \
    (VL == 16 || (pixels * vectors <= 12 && vectors <= 2) ? pw_##pixels##x##vectors : NULL),

#define UP_TO_6(X, vectors)                                                                        \
    X(1, vectors) X(2, vectors) X(3, vectors) X(4, vectors) X(5, vectors) X(6, vectors)
#define UP_TO_8(X, vectors) UP_TO_6(X, vectors) X(7, vectors) X(8, vectors)
#define UP_TO_14(X, vectors)                                                                       \
    UP_TO_8(X, vectors)                                                                            \
    X(9, vectors) X(10, vectors) X(11, vectors) X(12, vectors) X(13, vectors) X(14, vectors)

UP_TO_14(KERNEL, 1)
UP_TO_14(KERNEL, 2)
UP_TO_8(KERNEL, 3)
UP_TO_6(KERNEL, 4)

const nhwc_kernels CPU_NAME(nhwc_kernels) = {
    .vector_length = VL,
    .max_vectors = VL == 16 ? 4 : 2,
    .pixels = {VL == 16 ? 14 : 12, VL == 16 ? 14 : 6, 8, 6},
    .pw = {{UP_TO_14(ENTRY, 1)}, {UP_TO_14(ENTRY, 2)}, {UP_TO_8(ENTRY, 3)}, {UP_TO_6(ENTRY, 4)}},
    .select_dw = CPU_NAME(nhwc_select_dw),
    .epilogue_row = CPU_NAME(epilogue_row),
};
