#include "problem.h"

#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "message.h"
#include "structs.h"

/* With these no sum or product of coordinates overflows, here or in a backend. No address space
 * holds a tensor of the second size. */
static const int64_t extent_limit = INT64_C(1) << 40;
static const int64_t element_limit = INT64_C(1) << 48;

/* One extent or stride: its name, its least value and where it stands. */
typedef struct number {
    const char *name;
    int64_t least;
    size_t offset;
} number;

#define NUMBER(field, least)                                                                       \
    { #field, least, offsetof(dsconv_problem, field) }
static const number numbers[] = {
    NUMBER(n, 0),         NUMBER(c, 1),       NUMBER(h, 1),          NUMBER(w, 1),
    NUMBER(k, 1),         NUMBER(r, 1),       NUMBER(s, 1),          NUMBER(stride_h, 1),
    NUMBER(stride_w, 1),  NUMBER(pad_top, 0), NUMBER(pad_bottom, 0), NUMBER(pad_left, 0),
    NUMBER(pad_right, 0), NUMBER(dil_h, 1),   NUMBER(dil_w, 1),      NUMBER(multiplier, 1),
};

/* An enumeration: its name, its last value and where it stands. */
#define CHOICE(field, last)                                                                        \
    { #field, last, offsetof(dsconv_problem, field) }
static const number choices[] = {
    CHOICE(dtype, DSCONV_I8),
    CHOICE(layout, DSCONV_NHWC),
    CHOICE(math, DSCONV_TF32),
    CHOICE(bias, DSCONV_BIAS_BOTH),
    CHOICE(residual, DSCONV_RESIDUAL_AFTER_ACT),
    CHOICE(act_mid.kind, DSCONV_ACT_GELU_TANH),
    CHOICE(act_out.kind, DSCONV_ACT_GELU_TANH),
};
_Static_assert(sizeof(dsconv_dtype) == sizeof(uint32_t), "enumerations are read as 32 bits");

size_t dsconv_element_size(dsconv_dtype dtype) {
    static const size_t sizes[] = {
        [DSCONV_F32] = 4, [DSCONV_F16] = 2, [DSCONV_BF16] = 2, [DSCONV_I8] = 1};
    return sizes[dtype];
}

static dsconv_status check_numbers(const dsconv_problem *problem) {
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        int64_t value;
        memcpy(&value, (const char *)problem + numbers[i].offset, sizeof value);
        if (value < numbers[i].least)
            return dsconv_fail(DSCONV_ERROR_INVALID_ARGUMENT,
                               "%s = %" PRId64 ": must be at least %" PRId64, numbers[i].name,
                               value, numbers[i].least);
        if (value >= extent_limit)
            return dsconv_fail(DSCONV_ERROR_INVALID_ARGUMENT,
                               "%s = %" PRId64 ": must be below 2^40", numbers[i].name, value);
    }
    return DSCONV_OK;
}

static dsconv_status check_alpha(const char *name, const dsconv_activation *act) {
    if (act->kind == DSCONV_ACT_LEAKY_RELU && !isfinite(act->alpha))
        return dsconv_fail(DSCONV_ERROR_INVALID_ARGUMENT, "%s.alpha = %g: must be finite", name,
                           (double)act->alpha);
    return DSCONV_OK;
}

static dsconv_status check_choices(const dsconv_problem *problem) {
    for (size_t i = 0; i < sizeof choices / sizeof *choices; i++) {
        uint32_t value;
        memcpy(&value, (const char *)problem + choices[i].offset, sizeof value);
        if (value > (uint64_t)choices[i].least)
            return dsconv_fail(DSCONV_ERROR_INVALID_ARGUMENT, "%s = %" PRId32 ": no such value",
                               choices[i].name, (int32_t)value);
    }
    dsconv_status status = check_alpha("act_mid", &problem->act_mid);
    return status ? status : check_alpha("act_out", &problem->act_out);
}

/* One axis of the output: how many windows the padded image holds. */
typedef struct axis {
    const char *image, *kernel, *dilation;
    int64_t extent, before, after, taps, step, spread;
} axis;

static dsconv_status count_windows(const axis *a, int64_t *count) {
    int64_t window, padded = a->extent + a->before + a->after;
    if (__builtin_mul_overflow(a->spread, a->taps - 1, &window) || window >= padded)
        return dsconv_fail(
            DSCONV_ERROR_INVALID_ARGUMENT,
            "%s = %" PRId64 " with %s = %" PRId64
            ": the window does not fit the padded %s = %" PRId64 " (%s = %" PRId64 ")",
            a->kernel, a->taps, a->dilation, a->spread, a->image, padded, a->image, a->extent);
    *count = (padded - window - 1) / a->step + 1;
    return DSCONV_OK;
}

static dsconv_status compute_output(dsconv_shape *shape) {
    const dsconv_problem *p = &shape->problem;
    const axis rows = {"h",           "r",  "dil_h",     p->h,    p->pad_top,
                       p->pad_bottom, p->r, p->stride_h, p->dil_h};
    const axis columns = {"w",          "s",  "dil_w",     p->w,    p->pad_left,
                          p->pad_right, p->s, p->stride_w, p->dil_w};
    dsconv_status status = count_windows(&rows, &shape->p);
    if (!status)
        status = count_windows(&columns, &shape->q);
    if (status)
        return status;
    if (__builtin_mul_overflow(p->c, p->multiplier, &shape->mid_channels) ||
        shape->mid_channels >= extent_limit)
        return dsconv_fail(DSCONV_ERROR_INVALID_ARGUMENT,
                           "c = %" PRId64 ", multiplier = %" PRId64
                           ": their product must be below 2^40",
                           p->c, p->multiplier);
    return DSCONV_OK;
}

/* A tensor of a problem. Extents and strides in the order n, c, h, w. */
typedef struct tensor {
    const char *name;
    const char *extent_names[4];
    int64_t extents[4];
} tensor;

/* Fails unless the product of `count` extents is below the limit. */
static dsconv_status count_elements(const tensor *t, int64_t *elements) {
    int64_t product = 1;
    bool empty = false, large = false;
    for (int i = 0; i < 4; i++)
        if (t->extents[i] == 0)
            empty = true;
        else
            large |= __builtin_mul_overflow(product, t->extents[i], &product) ||
                     product >= element_limit;
    if (large)
        return dsconv_fail(DSCONV_ERROR_INVALID_ARGUMENT,
                           "%s = %" PRId64 ", %s = %" PRId64 ", %s = %" PRId64 ", %s = %" PRId64
                           ": %s would have 2^48 elements or more",
                           t->extent_names[0], t->extents[0], t->extent_names[1], t->extents[1],
                           t->extent_names[2], t->extents[2], t->extent_names[3], t->extents[3],
                           t->name);
    *elements = empty ? 0 : product;
    return DSCONV_OK;
}

static void fill_dense(const int64_t extents[4], dsconv_layout layout, int64_t strides[4]) {
    static const int inner_first[2][4] = {
        [DSCONV_NCHW] = {3, 2, 1, 0}, [DSCONV_NHWC] = {1, 3, 2, 0}};
    int64_t stride = 1;
    for (int i = 0; i < 4; i++) {
        strides[inner_first[layout][i]] = stride;
        stride *= extents[inner_first[layout][i]];
    }
}

/* Smallest strides first, each must pass over all that lies below it. */
static dsconv_status check_overlap(const tensor *t, const int64_t strides[4]) {
    int order[4] = {0, 1, 2, 3};
    for (int i = 1; i < 4; i++)
        for (int j = i; j > 0 && strides[order[j]] < strides[order[j - 1]]; j--) {
            int swap = order[j];
            order[j] = order[j - 1];
            order[j - 1] = swap;
        }
    int64_t below = 0;
    for (int i = 0; i < 4; i++) {
        int a = order[i];
        if (t->extents[a] <= 1)
            continue;
        if (strides[a] <= below)
            return dsconv_fail(DSCONV_ERROR_INVALID_ARGUMENT,
                               "%s_strides[%d] = %" PRId64 ": %s would overlap itself", t->name, a,
                               strides[a], t->name);
        below += (t->extents[a] - 1) * strides[a];
    }
    return DSCONV_OK;
}

/* Fills dense strides in or checks given ones; *span counts from the first element to the last. */
static dsconv_status check_strides(const tensor *t, dsconv_layout layout, int64_t strides[4],
                                   int64_t *span) {
    if (!(strides[0] | strides[1] | strides[2] | strides[3]))
        fill_dense(t->extents, layout, strides);
    *span = 1;
    for (int i = 0; i < 4; i++) {
        int64_t reach;
        if (strides[i] < 1)
            return dsconv_fail(DSCONV_ERROR_INVALID_ARGUMENT,
                               "%s_strides[%d] = %" PRId64
                               ": must be positive, or all four zero for a dense tensor",
                               t->name, i, strides[i]);
        if (strides[i] >= element_limit ||
            __builtin_mul_overflow(t->extents[i] - 1, strides[i], &reach) ||
            __builtin_add_overflow(*span, reach, span) || *span >= element_limit)
            return dsconv_fail(DSCONV_ERROR_INVALID_ARGUMENT,
                               "%s_strides[%d] = %" PRId64 ": %s would span 2^48 elements or more",
                               t->name, i, strides[i], t->name);
    }
    if (t->extents[0] == 0)
        *span = 0;
    return DSCONV_OK;
}

static void fill_costs(const dsconv_shape *shape, int64_t x, int64_t y, dsconv_problem_info *info) {
    const dsconv_problem *p = &shape->problem;
    double pixels = (double)p->n * (double)shape->p * (double)shape->q;
    double elements = (double)x + (double)y + (double)info->w_dw_span + (double)info->w_pw_span;
    if (p->bias & DSCONV_BIAS_DW)
        elements += (double)shape->mid_channels;
    if (p->bias & DSCONV_BIAS_PW)
        elements += (double)p->k;
    if (p->residual)
        elements += (double)y;
    if (p->output_mid)
        elements += (double)info->mid_span;
    info->flops =
        2.0 * pixels * (double)shape->mid_channels * ((double)p->r * (double)p->s + (double)p->k);
    info->compulsory_bytes = elements * (double)dsconv_element_size(p->dtype);
}

static dsconv_status check_tensors(dsconv_shape *shape, dsconv_problem_info *info) {
    dsconv_problem *p = &shape->problem;
    const tensor x = {"x", {"n", "c", "h", "w"}, {p->n, p->c, p->h, p->w}};
    const tensor y = {"y", {"n", "k", "p", "q"}, {p->n, p->k, shape->p, shape->q}};
    const tensor residual = {"residual", {"n", "k", "p", "q"}, {p->n, p->k, shape->p, shape->q}};
    const tensor mid = {
        "mid", {"n", "c*multiplier", "p", "q"}, {p->n, shape->mid_channels, shape->p, shape->q}};
    const tensor w_dw = {"w_dw", {"c", "multiplier", "r", "s"}, {p->c, p->multiplier, p->r, p->s}};
    const tensor w_pw = {"w_pw", {"k", "c", "multiplier", "1"}, {p->k, p->c, p->multiplier, 1}};
    int64_t x_count = 0, y_count = 0;
    dsconv_status status = count_elements(&x, &x_count);
    if (!status)
        status = count_elements(&y, &y_count);
    if (!status)
        status = count_elements(&mid, &info->mid_span);
    if (!status)
        status = count_elements(&w_dw, &info->w_dw_span);
    if (!status)
        status = count_elements(&w_pw, &info->w_pw_span);
    if (!status)
        status = check_strides(&x, p->layout, p->x_strides, &info->x_span);
    if (!status)
        status = check_strides(&y, p->layout, p->y_strides, &info->y_span);
    if (!status)
        status = check_overlap(&y, p->y_strides);
    if (!status && p->residual)
        status = check_strides(&residual, p->layout, p->residual_strides, &info->residual_span);
    if (status)
        return status;
    fill_dense(mid.extents, p->layout, shape->mid_strides);
    fill_costs(shape, x_count, y_count, info);
    return DSCONV_OK;
}

dsconv_status dsconv_problem_check(const dsconv_problem *problem, dsconv_shape *shape,
                                   dsconv_problem_info *info) {
    memset(shape, 0, sizeof *shape);
    *info = (dsconv_problem_info)DSCONV_PROBLEM_INFO_INIT;
    dsconv_status status =
        dsconv_struct_read(&shape->problem, sizeof shape->problem, problem, "problem");
    if (!status)
        status = check_numbers(&shape->problem);
    if (!status)
        status = check_choices(&shape->problem);
    if (!status)
        status = compute_output(shape);
    if (!status)
        status = check_tensors(shape, info);
    if (!status && shape->problem.dtype == DSCONV_I8)
        status = dsconv_fail(DSCONV_ERROR_UNSUPPORTED, "dtype = %d (i8): not implemented",
                             (int)DSCONV_I8);
    info->p = shape->p;
    info->q = shape->q;
    info->mid_channels = shape->mid_channels;
    return status;
}

dsconv_status dsconv_problem_query(const dsconv_problem *problem, dsconv_problem_info *info) {
    dsconv_shape shape;
    dsconv_problem_info own;
    dsconv_status status = dsconv_struct_check(info, "info");
    if (!status)
        status = dsconv_problem_check(problem, &shape, &own);
    if (!status)
        dsconv_struct_write(info, &own, sizeof own);
    return status;
}
