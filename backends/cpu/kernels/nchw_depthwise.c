#include "nchw_depthwise.h"

typedef struct rows {
    const float *const *slot;
    int64_t step_p, step_r;
    const int64_t *tap;
    int64_t phase_pitch;
    const float *w;
    float bias, low, high;
    bool clamp;
    float *d;
    int64_t pitch, cols;
} rows;

CPU_INLINE void store_row(const rows *a, int n, int64_t q, vf v) {
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
CPU_INLINE void undilated(const rows *a, const int size, const int stride, const int count) {
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
CPU_INLINE void any(const rows *a, int64_t r_end, int64_t s_end, const int count) {
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

typedef void rows_fn(const rows *a, const dsconv_problem *problem);

#define UNDILATED(size, stride, count)                                                             \
    static void undilated_##size##_##stride##_##count(const rows *a, const dsconv_problem *p) {    \
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

static void any_1(const rows *a, const dsconv_problem *p) {
    any(a, p->r, p->s, 1);
}

static void any_2(const rows *a, const dsconv_problem *p) {
    any(a, p->r, p->s, 2);
}

static void any_4(const rows *a, const dsconv_problem *p) {
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

/* All rows of a tile, four at a time. */
static void all_rows(rows a, const dsconv_problem *problem, int64_t count) {
    const rows_kernel *kernel = find(problem);
    while (count > 0) {
        int step = count >= 4 ? 4 : count >= 2 ? 2 : 1;
        kernel->rows[step / 2](&a, problem);
        a.slot += step * a.step_p;
        a.d += step * a.pitch;
        count -= step;
    }
}

/* Columns x .. x+count of an image row as floats, zeros outside [0, w). Writes up to a vector
 * more than count. */
static void copy_row(float *to, const char *row, int64_t x, int64_t count,
                     const dsconv_problem *p) {
    const int64_t size = (int64_t)dtype_size(p->dtype), stride = p->x_strides[3];
    int64_t begin = x < 0 ? (-x < count ? -x : count) : 0;
    int64_t end = p->w - x < count ? p->w - x : count;
    if (!row || end < begin)
        end = begin;
    for (int64_t i = 0; i < begin; i += VL)
        vf_store(to + i, vf_zero());
    if (end > begin)
        row += (x + begin) * stride * size;
    if (stride != 1)
        for (int64_t i = begin; i < end; i++)
            vf_store_n(to + i, vf_load_as(row + (i - begin) * stride * size, p->dtype, 1), 1);
    else
        for (int64_t i = begin; i < end; i += VL)
            vf_store(to + i, vf_load_as(row + (i - begin) * size, p->dtype, end - i));
    for (int64_t i = end; i < count; i += VL)
        vf_store(to + i, vf_zero());
}

/* Splits a row by column mod stride. */
static void split_row(float *to, int64_t phase_pitch, const float *from, int64_t count,
                      int64_t stride) {
    if (stride == 2)
        for (int64_t i = 0; i < count; i += VL) {
            vf even, odd;
            vf_split(vf_load(from + 2 * i), vf_load(from + 2 * i + VL), &even, &odd);
            vf_store(to + i, even);
            vf_store(to + phase_pitch + i, odd);
        }
    else
        for (int64_t phase = 0; phase < stride; phase++)
            for (int64_t i = 0; i < count; i++)
                to[phase * phase_pitch + i] = from[i * stride + phase];
}

/* The row of the image that a slot stands for, NULL when outside. */
static const char *slot_row(const nchw_plan *plan, const nchw_tile *tile, const char *plane,
                            int64_t slot) {
    const dsconv_problem *p = &plan->shape.problem;
    int64_t y = tile->p * p->stride_h - p->pad_top;
    if (plan->step_r == p->dil_h)
        y += slot;
    else
        y += slot / plan->step_r * p->dil_h + slot % plan->step_r * p->stride_h;
    if (y < 0 || y >= p->h)
        return NULL;
    return plane + y * p->x_strides[2] * (int64_t)dtype_size(p->dtype);
}

static int64_t slots_used(const nchw_plan *plan, const nchw_tile *tile) {
    return (tile->rows - 1) * plan->step_p + (plan->shape.problem.r - 1) * plan->step_r + 1;
}

/* Columns [begin, end) of the tile from copies of the input rows. */
static void from_copies(const nchw_plan *plan, const nchw_tile *tile, const char *plane,
                        const nchw_scratch *scratch, rows a, int64_t begin, int64_t end) {
    const dsconv_problem *p = &plan->shape.problem;
    const int64_t span = (p->s - 1) * p->dil_w + 1, stride = p->stride_w;
    const int64_t x = (tile->q + begin) * stride - p->pad_left;
    const int64_t count = (end - begin - 1) * stride + span;
    const int64_t used = slots_used(plan, tile);
    float *linear = scratch->memory + plan->slots * plan->slot_pitch;
    for (int64_t i = 0; i < used; i++) {
        float *to = scratch->memory + i * plan->slot_pitch;
        const char *row = slot_row(plan, tile, plane, i);
        copy_row(stride == 1 ? to : linear, row, x, count, p);
        if (stride != 1)
            split_row(to, plan->phase_pitch, linear, (count + stride - 1) / stride, stride);
        scratch->slot[i] = to;
    }
    a.d += begin;
    a.cols = end - begin;
    all_rows(a, p, tile->rows);
}

/* Columns [begin, end) of the tile straight from x, all inside the image. */
static void from_x(const nchw_plan *plan, const nchw_tile *tile, const char *plane,
                   const nchw_scratch *scratch, rows a, int64_t begin, int64_t end) {
    const dsconv_problem *p = &plan->shape.problem;
    const int64_t x = tile->q + begin - p->pad_left;
    const int64_t used = slots_used(plan, tile);
    for (int64_t i = 0; i < used; i++) {
        const char *row = slot_row(plan, tile, plane, i);
        scratch->slot[i] = row ? (const float *)(const void *)row + x : plan->zeros;
    }
    a.d += begin;
    a.cols = end - begin;
    all_rows(a, p, tile->rows);
}

/* Tap by tap with bounds checks: a zero outside the image must not meet an Inf or NaN weight. */
static void checked(const nchw_plan *plan, const nchw_tile *tile, const char *plane, rows a) {
    const dsconv_problem *p = &plan->shape.problem;
    const int64_t size = (int64_t)dtype_size(p->dtype);
    for (int64_t row = 0; row < tile->rows; row++, a.d += a.pitch)
        for (int64_t q = 0; q < tile->cols; q++) {
            vf sum = vf_set1(a.bias);
            for (int64_t r = 0; r < p->r; r++)
                for (int64_t s = 0; s < p->s; s++) {
                    int64_t y = (tile->p + row) * p->stride_h + r * p->dil_h - p->pad_top;
                    int64_t x = (tile->q + q) * p->stride_w + s * p->dil_w - p->pad_left;
                    if (y < 0 || y >= p->h || x < 0 || x >= p->w)
                        continue;
                    const char *at = plane + (y * p->x_strides[2] + x * p->x_strides[3]) * size;
                    sum = vf_fma(vf_load_as(at, p->dtype, 1), vf_set1(a.w[r * p->s + s]), sum);
                }
            if (a.clamp)
                sum = vf_min(vf_set1(a.high), vf_max(vf_set1(a.low), sum));
            vf_store_n(a.d + q, sum, 1);
        }
}

void CPU_NAME(nchw_depthwise)(const nchw_plan *plan, const nchw_tile *tile, const void *x,
                              int64_t j, const nchw_scratch *scratch, float *d) {
    const dsconv_problem *p = &plan->shape.problem;
    const int64_t offset = tile->n * p->x_strides[0] + j / p->multiplier * p->x_strides[1];
    const char *plane = (const char *)x + offset * (int64_t)dtype_size(p->dtype);
    rows a = {
        .slot = scratch->slot,
        .step_p = plan->step_p,
        .step_r = plan->step_r,
        .tap = plan->tap,
        .phase_pitch = plan->phase_pitch,
        .w = plan->w_dw + j * p->r * p->s,
        .bias = plan->bias_dw[j],
        .d = d,
        .pitch = tile->pitch,
        .cols = tile->cols,
    };
    a.clamp = epilogue_clamp(&plan->mid, &a.low, &a.high) && plan->mid.act.kind != DSCONV_ACT_NONE;
    if (plan->non_finite[j]) {
        checked(plan, tile, plane, a);
        return;
    }
    /* The columns whose taps are all inside the image, in whole vectors. */
    int64_t begin = 0, end = 0;
    if (p->dtype == DSCONV_F32 && p->x_strides[3] == 1 && p->stride_w == 1) {
        int64_t x0 = tile->q - p->pad_left;
        begin = x0 < 0 ? (-x0 + VL - 1) / VL * VL : 0;
        int64_t inside = p->w - (p->s - 1) * p->dil_w - x0;
        end = begin + (inside - begin) / VL * VL;
        if (end > tile->cols)
            end = begin + (tile->cols - begin) / VL * VL;
    }
    if (end - begin < 4 * VL) {
        from_copies(plan, tile, plane, scratch, a, 0, tile->cols);
        return;
    }
    if (begin > 0)
        from_copies(plan, tile, plane, scratch, a, 0, begin);
    from_x(plan, tile, plane, scratch, a, begin, end);
    if (end < tile->cols)
        from_copies(plan, tile, plane, scratch, a, end, tile->cols);
}
