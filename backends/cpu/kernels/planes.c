#include "planes.h"

#include "vec.h"

/* A square's rows have names of their own because GCC keeps an array of them in memory. */
/* clang-format off */
#if defined(__AVX512F__)
#define EACH(X)                                                                                    \
    X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14) X(15)
#define STAGES                                                                                     \
    PAIR(0, 1) PAIR(2, 3) PAIR(4, 5) PAIR(6, 7) PAIR(8, 9) PAIR(10, 11) PAIR(12, 13) PAIR(14, 15)  \
    PAIR(0, 2) PAIR(1, 3) PAIR(4, 6) PAIR(5, 7) PAIR(8, 10) PAIR(9, 11) PAIR(12, 14) PAIR(13, 15)  \
    PAIR(0, 4) PAIR(1, 5) PAIR(2, 6) PAIR(3, 7) PAIR(8, 12) PAIR(9, 13) PAIR(10, 14) PAIR(11, 15)  \
    PAIR(0, 8) PAIR(1, 9) PAIR(2, 10) PAIR(3, 11) PAIR(4, 12) PAIR(5, 13) PAIR(6, 14) PAIR(7, 15)
#elif defined(__AVX2__)
#define EACH(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7)
#define STAGES                                                                                     \
    PAIR(0, 1) PAIR(2, 3) PAIR(4, 5) PAIR(6, 7)                                                    \
    PAIR(0, 2) PAIR(1, 3) PAIR(4, 6) PAIR(5, 7)                                                    \
    PAIR(0, 4) PAIR(1, 5) PAIR(2, 6) PAIR(3, 7)
#else
#define EACH(X) X(0) X(1) X(2) X(3)
#define STAGES                                                                                     \
    PAIR(0, 1) PAIR(2, 3)                                                                          \
    PAIR(0, 2) PAIR(1, 3)
#endif
/* clang-format on */

/* Each stage moves one bit of the column's number into the row's. */
#define PAIR(a, b)                                                                                 \
    {                                                                                              \
        vf even, odd;                                                                              \
        vf_split(r##a, r##b, &even, &odd);                                                         \
        r##a = even;                                                                               \
        r##b = odd;                                                                                \
    }

#define LOAD(i) vf r##i = (i) < rows ? vf_load_as(from + (i)*step, dtype, n) : vf_zero();
#define STORE_PIXEL(i)                                                                             \
    if ((i) < n)                                                                                   \
        vf_store(to + (i)*pitch, r##i);

CPU_INLINE void square_in(const char *from, int64_t step, dsconv_dtype dtype, int64_t rows,
                          int64_t n, float *to, int64_t pitch) {
    EACH(LOAD)
    STAGES
    EACH(STORE_PIXEL)
}

void CPU_NAME(planes_in)(const void *planes, dsconv_dtype dtype, int64_t plane, int64_t c0,
                         int64_t c1, int64_t pixels, float *to, int64_t pitch) {
    const int64_t size = (int64_t)dtype_size(dtype);
    for (int64_t c = c0; c < c1; c += VL) {
        const char *from = (const char *)planes + c * plane * size;
        for (int64_t i = 0; i < pixels; i += VL)
            square_in(from + i * size, plane * size, dtype, c1 - c, pixels - i, to + i * pitch + c,
                      pitch);
    }
}

#define LOAD_PIXEL(i) vf r##i = (i) < n ? vf_load(from + (i)*pitch) : vf_zero();
#define ADD(i)                                                                                     \
    if ((i) < rows)                                                                                \
        r##i = vf_add(r##i, vf_load_as(residual + (i)*residual_step, dtype, n));
#define STORE(i)                                                                                   \
    if ((i) < rows)                                                                                \
        vf_store_as(to + (i)*step, r##i, dtype, n);

CPU_INLINE void square_out(const float *from, int64_t pitch, dsconv_dtype dtype, int64_t rows,
                           int64_t n, const char *residual, int64_t residual_step, char *to,
                           int64_t step) {
    EACH(LOAD_PIXEL)
    STAGES
    if (residual) {
        EACH(ADD)
    }
    EACH(STORE)
}

void CPU_NAME(planes_out)(const epilogue *e, const float *from, int64_t pitch, int64_t k0,
                          int64_t k1, int64_t pixels, const void *residual, int64_t residual_plane,
                          void *planes, int64_t plane) {
    const int64_t size = (int64_t)dtype_size(e->dtype);
    for (int64_t k = k0; k < k1; k += VL) {
        char *to = (char *)planes + k * plane * size;
        const char *add = e->residual ? (const char *)residual + k * residual_plane * size : NULL;
        for (int64_t i = 0; i < pixels; i += VL)
            square_out(from + i * pitch + k, pitch, e->dtype, k1 - k, pixels - i,
                       add ? add + i * size : NULL, residual_plane * size, to + i * size,
                       plane * size);
    }
}
