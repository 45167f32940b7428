#include "nchw_rows.h"

CPU_INLINE void store_row(const nchw_rows *a, int n, int64_t q, vf v) {
    if (a->clamp)
        v = vf_min(vf_set1(a->high), vf_max(vf_set1(a->low), v));
    float *to = a->d + n * a->pitch + q;
    if (q + VL <= a->cols)
        vf_store(to, v);
    else
        vf_store_n(to, v, a->cols - q);
}

/* Accumulators have names of their own because GCC keeps an array of them in memory. */
#define TAP(n)                                                                                     \
    if (count > n && i >= n * stride && i < n * stride + size)                                     \
    a##n = vf_fma(v, vf_set1(w[(i - n * stride) * size + s]), a##n)

/* `count` output rows of an undilated size x size kernel; each load serves all of them. */
CPU_INLINE void undilated(const nchw_rows *a, const int size, const int stride, const int count) {
    for (int64_t q = 0; q < a->cols; q += VL) {
        vf a0 = vf_set1(a->bias), a1 = a0, a2 = a0, a3 = a0;
        const float *w = a->w;
#pragma GCC unroll 16
        for (int i = 0; i < (count - 1) * stride + size; i++) {
            const float *row = a->slot[i] + q;
#pragma GCC unroll 8
            for (int s = 0; s < size; s++) {
                vf v = vf_load(stride == 1 ? row + s : row + s % 2 * a->phase_pitch + s / 2);
                TAP(0);
                TAP(1);
                TAP(2);
                TAP(3);
            }
        }
        store_row(a, 0, q, a0);
        if (count > 1)
            store_row(a, 1, q, a1);
        if (count > 2) {
            store_row(a, 2, q, a2);
            store_row(a, 3, q, a3);
        }
    }
}

/* As above for any kernel; the four rows share nothing but the weights. */
CPU_INLINE void any(const nchw_rows *a, int64_t r_end, int64_t s_end, const int count) {
    for (int64_t q = 0; q < a->cols; q += VL) {
        vf a0 = vf_set1(a->bias), a1 = a0, a2 = a0, a3 = a0;
        const float *w = a->w;
        for (int64_t r = 0; r < r_end; r++) {
            const float *const *slot = a->slot + r * a->step_r;
            for (int64_t s = 0; s < s_end; s++) {
                vf weight = vf_set1(*w++);
                int64_t at = a->tap[s] + q;
                a0 = vf_fma(vf_load(slot[0] + at), weight, a0);
                if (count > 1)
                    a1 = vf_fma(vf_load(slot[a->step_p] + at), weight, a1);
                if (count > 2) {
                    a2 = vf_fma(vf_load(slot[2 * a->step_p] + at), weight, a2);
                    a3 = vf_fma(vf_load(slot[3 * a->step_p] + at), weight, a3);
                }
            }
        }
        store_row(a, 0, q, a0);
        if (count > 1)
            store_row(a, 1, q, a1);
        if (count > 2) {
            store_row(a, 2, q, a2);
            store_row(a, 3, q, a3);
        }
    }
}

typedef void rows_fn(const nchw_rows *a, const dsconv_problem *problem);

#define UNDILATED(size, stride, count)                                                             \
    static void undilated_##size##_##stride##_##count(const nchw_rows *a,                          \
                                                      const dsconv_problem *p) {                   \
        (void)p;                                                                                   \
        undilated(a, size, stride, count);                                                         \
    }
#define UNDILATED_COUNTS(size, stride)                                                             \
    UNDILATED(size, stride, 1) UNDILATED(size, stride, 2) UNDILATED(size, stride, 4)
UNDILATED_COUNTS(3, 1)
UNDILATED_COUNTS(3, 2)
UNDILATED_COUNTS(5, 1)
UNDILATED_COUNTS(5, 2)
UNDILATED_COUNTS(7, 1)
UNDILATED_COUNTS(7, 2)

static void any_1(const nchw_rows *a, const dsconv_problem *p) {
    any(a, p->r, p->s, 1);
}

static void any_2(const nchw_rows *a, const dsconv_problem *p) {
    any(a, p->r, p->s, 2);
}

static void any_4(const nchw_rows *a, const dsconv_problem *p) {
    any(a, p->r, p->s, 4);
}

typedef struct rows_kernel {
    int size, stride;
    rows_fn *rows[3]; /* 1, 2, 4 rows */
} rows_kernel;

#define ENTRY(size, stride)                                                                        \
    {                                                                                              \
        size, stride, {                                                                            \
            undilated_##size##_##stride##_1, undilated_##size##_##stride##_2,                      \
                undilated_##size##_##stride##_4                                                    \
        }                                                                                          \
    }
static const rows_kernel kernels[] = {
    ENTRY(3, 1),
    ENTRY(3, 2),
    ENTRY(5, 1),
    ENTRY(5, 2),
    ENTRY(7, 1),
    ENTRY(7, 2),
    {0, 0, {any_1, any_2, any_4}},
};

static const rows_kernel *find(const dsconv_problem *p) {
    const rows_kernel *kernel = kernels;
    for (; kernel->size; kernel++)
        if (p->r == kernel->size && p->s == kernel->size && p->stride_h == kernel->stride &&
            p->stride_w == kernel->stride && p->dil_h == 1 && p->dil_w == 1)
            break;
    return kernel;
}

void CPU_NAME(nchw_rows)(nchw_rows a, const dsconv_problem *problem, int64_t count) {
    const rows_kernel *kernel = find(problem);
    while (count > 0) {
        int step = count >= 4 ? 4 : count >= 2 ? 2 : 1;
        kernel->rows[step / 2](&a, problem);
        a.slot += step * a.step_p;
        a.d += step * a.pitch;
        count -= step;
    }
}
