#include "nchw_rows.h"

CPU_INLINE void store_row(const nchw_rows *a, float *d, int n, int64_t q, vf v) {
    if (a->clamp)
        v = vf_min(vf_set1(a->high), vf_max(vf_set1(a->low), v));
    float *to = d + n * a->pitch + q;
    if (q + VL <= a->cols || a->overrun)
        vf_store(to, v);
    else
        vf_store_n(to, v, a->cols - q);
}

/* Accumulators have names of their own because GCC keeps an array of them in memory. */
#define TAP(n)                                                                                     \
    if (count > n && i >= n * stride && i < n * stride + size)                                     \
    a##n = vf_fma(v, vf_set1(w[(i - n * stride) * size + s]), a##n)

CPU_INLINE vf load_column(const float *row, int64_t x, int64_t width, const bool edge) {
    return edge ? vf_load_range(row, vrange_of(-x, width - x)) : vf_load(row);
}

/* A row's inputs of a vector of columns at stride 1 or 2, the first of them in image column x; at
 * an edge some are outside the image. */
#ifdef CPU_WINDOWS
typedef struct taps {
    vf low, odd, high; /* of stride 2: even and odd columns, and the columns after them */
} taps;

/* Columns that taps_at reads. */
CPU_INLINE int64_t reach(const int stride) {
    return (stride + 1) * VL;
}

CPU_INLINE taps taps_at(const float *row, int64_t x, int64_t width, const int stride,
                        const bool edge) {
    const vf v0 = load_column(row, x, width, edge);
    const vf v1 = load_column(row + VL, x + VL, width, edge);
    if (stride == 1)
        return (taps){v0, v0, v1};
    taps t = {.high = load_column(row + 2 * VL, x + 2 * VL, width, edge)};
    vf_split(v0, v1, &t.low, &t.odd);
    return t;
}

CPU_INLINE vf tap(taps t, const int s, const int stride) {
    if (stride == 1)
        return vf_window(t.low, t.high, s);
    return vf_window_skip(s % 2 ? t.odd : t.low, t.high, s / 2, s % 2);
}
#else
typedef struct taps {
    const float *row;
    int64_t x, width;
    bool edge;
} taps;

CPU_INLINE int64_t reach(const int stride) {
    return stride * VL + 6;
}

CPU_INLINE taps taps_at(const float *row, int64_t x, int64_t width, const int stride,
                        const bool edge) {
    (void)stride;
    return (taps){row, x, width, edge};
}

CPU_INLINE vf tap(taps t, const int s, const int stride) {
    if (stride == 1)
        return load_column(t.row + s, t.x + s, t.width, t.edge);
    const int pair = s / 2 * 2; /* one split serves two taps */
    vf even, odd;
    vf_split(load_column(t.row + pair, t.x + pair, t.width, t.edge),
             load_column(t.row + pair + VL, t.x + pair + VL, t.width, t.edge), &even, &odd);
    return s % 2 ? odd : even;
}
#endif

/* Rows of the vector of columns at q, for an undilated size x size kernel; each load serves all
 * rows. */
CPU_INLINE void undilated_at(const nchw_rows *a, const float *const *slot, float *d, int64_t q,
                             const int size, const int stride, const int count, const bool edge) {
    vf a0 = vf_set1(a->bias), a1 = a0, a2 = a0, a3 = a0;
    const float *w = a->w;
#pragma GCC unroll 16
    for (int i = 0; i < (count - 1) * stride + size; i++) {
        const taps t = taps_at(slot[i] + q * stride, a->x + q * stride, a->width, stride, edge);
#pragma GCC unroll 8
        for (int s = 0; s < size; s++) {
            const vf v = tap(t, s, stride);
            TAP(0);
            TAP(1);
            TAP(2);
            TAP(3);
        }
    }
    store_row(a, d, 0, q, a0);
    if (count > 1)
        store_row(a, d, 1, q, a1);
    if (count > 2) {
        store_row(a, d, 2, q, a2);
        store_row(a, d, 3, q, a3);
    }
}

CPU_INLINE void undilated(const nchw_rows *a, const float *const *slot, float *d, const int size,
                          const int stride, const int count) {
    for (int64_t q = 0; q < a->cols; q += VL)
        if (a->x + q * stride >= 0 && a->x + q * stride + reach(stride) <= a->width)
            undilated_at(a, slot, d, q, size, stride, count, false);
        else
            undilated_at(a, slot, d, q, size, stride, count, true);
}

/* As above for any kernel; the rows share nothing but the weights. */
CPU_INLINE void any_at(const nchw_rows *a, const float *const *first, float *d, int64_t q,
                       const dsconv_problem *p, const int count, const bool edge) {
    vf a0 = vf_set1(a->bias), a1 = a0, a2 = a0, a3 = a0;
    const float *w = a->w;
    for (int64_t r = 0; r < p->r; r++) {
        const float *const *slot = first + r * a->step_r;
        for (int64_t s = 0; s < p->s; s++) {
            vf weight = vf_set1(*w++);
            int64_t at = a->tap[s] + q;
            vrange range = vrange_of(edge ? -(a->x + at) : 0, edge ? a->width - (a->x + at) : VL);
#define LOAD(row) (edge ? vf_load_range((row) + at, range) : vf_load((row) + at))
            a0 = vf_fma(LOAD(slot[0]), weight, a0);
            if (count > 1) {
                a1 = vf_fma(LOAD(slot[a->step_p]), weight, a1);
                a2 = vf_fma(LOAD(slot[2 * a->step_p]), weight, a2);
                a3 = vf_fma(LOAD(slot[3 * a->step_p]), weight, a3);
            }
        }
    }
    store_row(a, d, 0, q, a0);
    if (count > 1) {
        store_row(a, d, 1, q, a1);
        store_row(a, d, 2, q, a2);
        store_row(a, d, 3, q, a3);
    }
}

CPU_INLINE void any(const nchw_rows *a, const float *const *slot, float *d, const dsconv_problem *p,
                    const int count) {
    const int64_t span = p->stride_w == 1 ? (p->s - 1) * p->dil_w : 0;
    for (int64_t q = 0; q < a->cols; q += VL)
        if (a->x + q >= 0 && a->x + q + VL + span <= a->width)
            any_at(a, slot, d, q, p, count, false);
        else
            any_at(a, slot, d, q, p, count, true);
}

CPU_INLINE void undilated_rows(const nchw_rows *a, const int size, const int stride,
                               int64_t count) {
    const float *const *slot = a->slot;
    float *d = a->d;
    for (; count >= 4; count -= 4, slot += 4 * stride, d += 4 * a->pitch)
        undilated(a, slot, d, size, stride, 4);
    if (count >= 2) {
        undilated(a, slot, d, size, stride, 2);
        slot += 2 * stride;
        d += 2 * a->pitch;
    }
    if (count % 2)
        undilated(a, slot, d, size, stride, 1);
}

static void any_rows(const nchw_rows *a, const dsconv_problem *p, int64_t count) {
    const float *const *slot = a->slot;
    float *d = a->d;
    for (; count >= 4; count -= 4, slot += 4 * a->step_p, d += 4 * a->pitch)
        any(a, slot, d, p, 4);
    for (; count > 0; count--, slot += a->step_p, d += a->pitch)
        any(a, slot, d, p, 1);
}

#define UNDILATED(size, stride)                                                                    \
    static void undilated_##size##_##stride(const nchw_rows *a, const dsconv_problem *p,           \
                                            int64_t count) {                                       \
        (void)p;                                                                                   \
        undilated_rows(a, size, stride, count);                                                    \
    }
UNDILATED(3, 1)
UNDILATED(3, 2)
UNDILATED(5, 1)
UNDILATED(5, 2)
UNDILATED(7, 1)
UNDILATED(7, 2)

static const struct {
    int size, stride;
    nchw_rows_fn *rows;
} kernels[] = {
    {3, 1, undilated_3_1}, {3, 2, undilated_3_2}, {5, 1, undilated_5_1},
    {5, 2, undilated_5_2}, {7, 1, undilated_7_1}, {7, 2, undilated_7_2},
};

nchw_rows_fn *CPU_NAME(nchw_rows_for)(const dsconv_problem *p, bool *phases) {
    *phases = false;
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++)
        if (p->r == kernels[i].size && p->s == kernels[i].size &&
            p->stride_h == kernels[i].stride && p->stride_w == kernels[i].stride && p->dil_h == 1 &&
            p->dil_w == 1)
            return kernels[i].rows;
    *phases = p->stride_w > 1;
    return any_rows;
}
