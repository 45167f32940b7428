/*
 * NHWC depthwise: four pixels by one vector of channels, of one row or of two that share their
 * input; with constant bounds for the tuned kernel sizes and strides.
 */
#include "nhwc.h"

#include "vec.h"

/* Four output pixels of a row and their taps in the image, [r0, r1) by [s0, s1). */
typedef struct group {
    const char *image;
    int64_t at; /* element of x under tap 0, 0 of the first pixel */
    int64_t r0, r1, s0[4], s1[4];
    int pixels;
    float *mid;
} group;

/* Mid channels from j on come from input channels from c on, of which n are left; `expand` tells
 * which, NULL that they are the same. */
typedef struct channels {
    int64_t j, c;
    ptrdiff_t n;
    const int32_t *expand;
} channels;

CPU_INLINE vf load(const char *image, dsconv_dtype dtype, int64_t element, channels ch) {
    vf x = vf_load_as(image + element * (int64_t)dtype_size(dtype), dtype, ch.n);
    return ch.expand ? vf_permute(x, vi_load(ch.expand)) : x;
}

CPU_INLINE void store(const nhwc_dw *d, float *mid, vf sum) {
    vf_store(mid, d->clamp ? vf_min(vf_set1(d->hi), vf_max(vf_set1(d->lo), sum)) : sum);
}

#define TAP(p)                                                                                     \
    if (!edge || (s >= g->s0[p] && s < g->s1[p]))                                                  \
        a##p = vf_fma(load(g->image, dtype, at + (p * stride + s * dil) * pixel, ch), w, a##p);

CPU_INLINE void one_row(const nhwc_dw *d, const group *g, int64_t size, int64_t stride, int64_t dil,
                        dsconv_dtype dtype, bool edge, channels ch) {
    const int64_t pixel = d->x_pixel;
    const float *weights = d->weights + ch.j * d->r * size;
    vf a0 = vf_load(d->bias + ch.j), a1 = a0, a2 = a0, a3 = a0;
    for (int64_t r = g->r0; r < g->r1; r++) {
        const int64_t at = g->at + r * d->dil_h * d->x_row + ch.c;
        CPU_UNROLL
        for (int64_t s = 0; s < size; s++) {
            const vf w = vf_load(weights + (r * size + s) * VL);
            TAP(0)
            TAP(1)
            TAP(2)
            TAP(3)
        }
    }
    float *mid = g->mid + ch.j;
    store(d, mid, a0);
    if (!edge || g->pixels > 1)
        store(d, mid + d->pitch, a1);
    if (!edge || g->pixels > 2)
        store(d, mid + 2 * d->pitch, a2);
    if (!edge || g->pixels > 3)
        store(d, mid + 3 * d->pitch, a3);
}

/* Two rows, stride and dilation 1, all taps in the image. */
CPU_INLINE void two_rows(const nhwc_dw *d, const group *g, int64_t next_row, int size,
                         dsconv_dtype dtype, channels ch) {
    const int64_t pixel = d->x_pixel;
    const float *weights = d->weights + ch.j * size * size;
    vf a0 = vf_load(d->bias + ch.j), a1 = a0, a2 = a0, a3 = a0;
    vf b0 = a0, b1 = a0, b2 = a0, b3 = a0;
    CPU_UNROLL
    for (int r = 0; r <= size; r++) {
        const int64_t at = g->at + r * d->x_row + ch.c;
        CPU_UNROLL
        for (int s = 0; s < size; s++) {
            const vf x0 = load(g->image, dtype, at + s * pixel, ch);
            const vf x1 = load(g->image, dtype, at + (s + 1) * pixel, ch);
            const vf x2 = load(g->image, dtype, at + (s + 2) * pixel, ch);
            const vf x3 = load(g->image, dtype, at + (s + 3) * pixel, ch);
            if (r < size) {
                const vf w = vf_load(weights + (r * size + s) * VL);
                a0 = vf_fma(x0, w, a0);
                a1 = vf_fma(x1, w, a1);
                a2 = vf_fma(x2, w, a2);
                a3 = vf_fma(x3, w, a3);
            }
            if (r > 0) {
                const vf w = vf_load(weights + ((r - 1) * size + s) * VL);
                b0 = vf_fma(x0, w, b0);
                b1 = vf_fma(x1, w, b1);
                b2 = vf_fma(x2, w, b2);
                b3 = vf_fma(x3, w, b3);
            }
        }
    }
    float *mid = g->mid + ch.j;
    store(d, mid, a0);
    store(d, mid + d->pitch, a1);
    store(d, mid + 2 * d->pitch, a2);
    store(d, mid + 3 * d->pitch, a3);
    mid += next_row;
    store(d, mid, b0);
    store(d, mid + d->pitch, b1);
    store(d, mid + 2 * d->pitch, b2);
    store(d, mid + 3 * d->pitch, b3);
}

/* The taps 0 ... taps-1, from position `first` on in steps of dil, that lie in [0, extent). */
static void inside(int64_t first, int64_t dil, int64_t taps, int64_t extent, int64_t *begin,
                   int64_t *end) {
    *begin = first < 0 ? (-first + dil - 1) / dil : 0;
    int64_t fit = first < extent ? (extent - 1 - first) / dil + 1 : 0;
    *end = fit < taps ? fit : taps;
}

static void set_row(const nhwc_dw *d, group *g, int64_t p, int64_t q) {
    int64_t top = p * d->stride_h - d->pad_top;
    g->at = top * d->x_row + (q * d->stride_w - d->pad_left) * d->x_pixel;
    inside(top, d->dil_h, d->r, d->h, &g->r0, &g->r1);
}

static void set_columns(const nhwc_dw *d, group *g, int64_t q) {
    for (int i = 0; i < 4; i++) {
        int64_t left = (q + i) * d->stride_w - d->pad_left;
        inside(left, d->dil_w, i < g->pixels ? d->s : 0, d->w, &g->s0[i], &g->s1[i]);
    }
}

/* Calls `body` with `ch` for every vector of channels; the last one may be a part. */
#define FOR_CHANNELS(d, body)                                                                      \
    do {                                                                                           \
        channels ch = {0, 0, VL, NULL};                                                            \
        for (; ch.j + VL <= (d)->mid_channels; ch.j += VL, ch.c += VL)                             \
            body;                                                                                  \
        ch.n = (d)->mid_channels - ch.j;                                                           \
        if (ch.n > 0)                                                                              \
            body;                                                                                  \
    } while (0)

/* The same with multiplier > 1: every load may be a part, and is spread over mid channels. */
#define FOR_EXPANDED_CHANNELS(d, body)                                                             \
    for (channels ch = {0, 0, 0, (d)->expand}; ch.j < (d)->mid_channels;                           \
         ch.j += VL, ch.expand += VL) {                                                            \
        ch.c = ch.j / (d)->multiplier;                                                             \
        ch.n = (d)->c - ch.c;                                                                      \
        body;                                                                                      \
    }

/* size 0: bounds known at run time only. */
CPU_INLINE void rows_of(const nhwc_dw *d, const void *image, int64_t p, int rows, int64_t q0,
                        int64_t q1, float *mid, int64_t next_row, int size, int64_t stride,
                        dsconv_dtype dtype, bool expand) {
    const int64_t s = size ? size : d->s, dil = size ? 1 : d->dil_w;
    for (int64_t q = q0; q < q1; q += 4) {
        group g = {.image = image, .pixels = q1 - q < 4 ? (int)(q1 - q) : 4};
        bool inner = g.pixels == 4 && q >= d->inner_begin && q + 4 <= d->inner_end;
        if (!inner || expand)
            set_columns(d, &g, q);
        for (int i = 0; i < rows; i++) {
            set_row(d, &g, p + i, q);
            g.mid = mid + (q - q0) * d->pitch + i * next_row;
            if (size && stride == 1 && VL == 16 && rows == 2 && inner && g.r0 == 0 &&
                p + 1 - d->pad_top + size <= d->h) {
                FOR_CHANNELS(d, two_rows(d, &g, next_row, size, dtype, ch));
                break;
            }
            if (expand)
                FOR_EXPANDED_CHANNELS(d, one_row(d, &g, s, stride, dil, dtype, true, ch))
            else if (inner)
                FOR_CHANNELS(d, one_row(d, &g, s, stride, dil, dtype, false, ch));
            else
                FOR_CHANNELS(d, one_row(d, &g, s, stride, dil, dtype, true, ch));
        }
    }
}

#define KERNEL(name, size, stride, dtype, expand)                                                  \
    static void dw_##name(const nhwc_dw *d, const void *image, int64_t p, int rows, int64_t q0,    \
                          int64_t q1, float *mid, int64_t next_row) {                              \
        rows_of(d, image, p, rows, q0, q1, mid, next_row, size, stride, dtype, expand);            \
    }
#define KERNELS(name, dtype)                                                                       \
    KERNEL(name##_3_1, 3, 1, dtype, false)                                                         \
    KERNEL(name##_3_2, 3, 2, dtype, false)                                                         \
    KERNEL(name##_5_1, 5, 1, dtype, false)                                                         \
    KERNEL(name##_5_2, 5, 2, dtype, false)                                                         \
    KERNEL(name##_7_1, 7, 1, dtype, false)                                                         \
    KERNEL(name##_7_2, 7, 2, dtype, false)                                                         \
    KERNEL(name##_any, 0, d->stride_w, dtype, false)                                               \
    KERNEL(name##_expand, 0, d->stride_w, dtype, true)

KERNELS(f32, DSCONV_F32)
KERNELS(f16, DSCONV_F16)
KERNELS(bf16, DSCONV_BF16)

nhwc_dw_fn *CPU_NAME(nhwc_select_dw)(const nhwc_dw *d, bool *pairs) {
#define TUNED(name)                                                                                \
    {                                                                                              \
        dw_##name##_3_1, dw_##name##_3_2, dw_##name##_5_1, dw_##name##_5_2, dw_##name##_7_1,       \
            dw_##name##_7_2                                                                        \
    }
    static nhwc_dw_fn *const tuned[][6] = {TUNED(f32), TUNED(f16), TUNED(bf16)};
    static nhwc_dw_fn *const any[] = {dw_f32_any, dw_f16_any, dw_bf16_any};
    static nhwc_dw_fn *const expand[] = {dw_f32_expand, dw_f16_expand, dw_bf16_expand};
    bool constant = (d->s == 3 || d->s == 5 || d->s == 7) && d->r == d->s && d->dil_h == 1 &&
                    d->dil_w == 1 && d->stride_h == d->stride_w && d->stride_w <= 2 &&
                    d->multiplier == 1;
    *pairs = constant && d->stride_w == 1 && VL == 16;
    if (constant)
        return tuned[d->dtype][d->s - 3 + d->stride_w - 1];
    return d->multiplier > 1 ? expand[d->dtype] : any[d->dtype];
}
