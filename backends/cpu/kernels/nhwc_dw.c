/*
 * NHWC depthwise: four pixels by one vector of channels. Where no tap of the four lies beside the
 * image there are kernels with constant bounds, of one row or of two that share their input;
 * any_row does the rest.
 */
#include "nhwc.h"

#include "vec.h"

/* Columns that tuned kernels look at: three strides of 2 and 7 taps. */
enum { MOST_COLUMNS = 13 };

/* Four output pixels of a row and their taps in the image, [r0, r1) by [s0, s1). */
typedef struct group {
    const char *image;
    int64_t at; /* element of x under tap 0, 0 of the first pixel */
    int64_t r0, r1, s0[4], s1[4];
    int64_t all0, all1;        /* taps that all four have */
    bool inside[MOST_COLUMNS]; /* which columns of the window lie in the image */
    int pixels;
    float *mid;
} group;

/* A vector of mid channels, from j on. */
typedef struct channels {
    int64_t j;
    const float *weights, *bias;
} channels;

/* Mid channels go in blocks of VL; the last one reaches back so that it is full if possible. */
CPU_INLINE channels channels_of(const nhwc_dw *d, int64_t block) {
    const int64_t last = d->mid_channels > VL ? d->mid_channels - VL : 0;
    return (channels){.j = block * VL < last ? block * VL : last,
                      .weights = d->weights + block * d->r * d->s * VL,
                      .bias = d->bias + block * VL};
}

CPU_INLINE void store(const nhwc_dw *d, float *mid, vf sum) {
    vf_store(mid, d->clamp ? vf_min(vf_set1(d->hi), vf_max(vf_set1(d->lo), sum)) : sum);
}

CPU_INLINE void store_4(const nhwc_dw *d, float *mid, int pixels, vf a0, vf a1, vf a2, vf a3) {
    store(d, mid, a0);
    if (pixels > 1)
        store(d, mid + d->pitch, a1);
    if (pixels > 2)
        store(d, mid + 2 * d->pitch, a2);
    if (pixels > 3)
        store(d, mid + 3 * d->pitch, a3);
}

CPU_INLINE vf load(const char *x, dsconv_dtype dtype, ptrdiff_t n, const int32_t *expand) {
    const vf v = vf_load_as(x, dtype, n);
    return expand ? vf_permute(v, vi_load(expand)) : v;
}

#define TAP(p)                                                                                     \
    if (all || (s >= g->s0[p] && s < g->s1[p]))                                                    \
        a##p = vf_fma(load(x + s * column + p * stride, dtype, n, expand), w, a##p);

#define TAPS(begin, end)                                                                           \
    for (int64_t s = begin; s < (end); s++) {                                                      \
        const vf w = vf_load(weights + s * VL);                                                    \
        TAP(0)                                                                                     \
        TAP(1)                                                                                     \
        TAP(2)                                                                                     \
        TAP(3)                                                                                     \
    }

/* Any kernel; n input channels from the block's first on are left. */
CPU_INLINE void any_block(const nhwc_dw *d, const group *g, const channels *ch, int64_t c,
                          ptrdiff_t n, const int32_t *expand, dsconv_dtype dtype) {
    const int64_t size = (int64_t)dtype_size(dtype), taps = d->s;
    const int64_t stride = size * d->x_pixel * d->stride_w;
    const int64_t column = size * d->x_pixel * d->dil_w, row = size * d->x_row * d->dil_h;
    vf a0 = vf_load(ch->bias), a1 = a0, a2 = a0, a3 = a0;
    for (int64_t r = g->r0; r < g->r1; r++) {
        const char *x = g->image + (g->at + c) * size + r * row;
        const float *weights = ch->weights + r * taps * VL;
        bool all = false;
        TAPS(0, g->all0)
        all = true;
        TAPS(g->all0, g->all1)
        all = false;
        TAPS(g->all1, taps)
    }
    store_4(d, g->mid + ch->j, g->pixels, a0, a1, a2, a3);
}

/* Any kernel, multiplier and number of channels. */
CPU_INLINE void any_row(const nhwc_dw *d, const group *g, dsconv_dtype dtype) {
    for (int64_t block = 0; block < d->blocks; block++) {
        const channels ch = channels_of(d, block);
        const int64_t c = ch.j / d->multiplier;
        if (d->multiplier > 1)
            any_block(d, g, &ch, c, d->c - c, d->expand + block * VL, dtype);
        else if (d->c >= VL)
            any_block(d, g, &ch, c, VL, NULL, dtype);
        else
            any_block(d, g, &ch, c, d->c, NULL, dtype);
    }
}

/* One row, no dilation to the side. At stride 1 the inputs of a tap are those of the tap before,
 * moved on. With `edge`, columns beside the image count as zero, which the weights must bear. */
CPU_INLINE void one_row(const nhwc_dw *d, const group *g, int64_t taps, int stride, bool edge,
                        dsconv_dtype dtype) {
#define COLUMN(k) vf_load_as(x + (k)*pixel, dtype, edge && !g->inside[k] ? 0 : VL)
    const int64_t size = (int64_t)dtype_size(dtype), pixel = size * d->x_pixel;
    const int64_t row = size * d->x_row * d->dil_h;
    for (int64_t block = 0; block < d->blocks; block++) {
        const channels ch = channels_of(d, block);
        vf a0 = vf_load(ch.bias), a1 = a0, a2 = a0, a3 = a0;
        for (int64_t r = g->r0; r < g->r1; r++) {
            const char *x = g->image + (g->at + ch.j) * size + r * row;
            const float *weights = ch.weights + r * taps * VL;
            vf x0, x1 = vf_zero(), x2 = x1, x3 = x1;
            if (stride == 1) {
                x1 = COLUMN(0);
                x2 = COLUMN(1);
                x3 = COLUMN(2);
            }
            CPU_UNROLL
            for (int64_t s = 0; s < taps; s++) {
                const vf w = vf_load(weights + s * VL);
                x0 = stride == 1 ? x1 : COLUMN(s);
                x1 = stride == 1 ? x2 : COLUMN(s + stride);
                x2 = stride == 1 ? x3 : COLUMN(s + 2 * stride);
                x3 = COLUMN(s + 3 * stride);
                a0 = vf_fma(x0, w, a0);
                a1 = vf_fma(x1, w, a1);
                a2 = vf_fma(x2, w, a2);
                a3 = vf_fma(x3, w, a3);
            }
        }
        store_4(d, g->mid + ch.j, edge ? g->pixels : 4, a0, a1, a2, a3);
    }
#undef COLUMN
}

/* Two rows, stride 1, no dilation, all taps in the image. */
CPU_INLINE void two_rows(const nhwc_dw *d, const group *g, int64_t next_row, int taps,
                         dsconv_dtype dtype) {
    const int64_t size = (int64_t)dtype_size(dtype), pixel = size * d->x_pixel;
    for (int64_t block = 0; block < d->blocks; block++) {
        const channels ch = channels_of(d, block);
        const char *x = g->image + (g->at + ch.j) * size;
        vf a0 = vf_load(ch.bias), a1 = a0, a2 = a0, a3 = a0;
        vf b0 = a0, b1 = a0, b2 = a0, b3 = a0;
        CPU_UNROLL
        for (int r = 0; r <= taps; r++, x += size * d->x_row) {
            vf x0, x1 = vf_load_as(x, dtype, VL), x2 = vf_load_as(x + pixel, dtype, VL),
                   x3 = vf_load_as(x + 2 * pixel, dtype, VL);
            CPU_UNROLL
            for (int s = 0; s < taps; s++) {
                x0 = x1;
                x1 = x2;
                x2 = x3;
                x3 = vf_load_as(x + (s + 3) * pixel, dtype, VL);
                if (r < taps) {
                    const vf w = vf_load(ch.weights + (r * taps + s) * VL);
                    a0 = vf_fma(x0, w, a0);
                    a1 = vf_fma(x1, w, a1);
                    a2 = vf_fma(x2, w, a2);
                    a3 = vf_fma(x3, w, a3);
                }
                if (r > 0) {
                    const vf w = vf_load(ch.weights + ((r - 1) * taps + s) * VL);
                    b0 = vf_fma(x0, w, b0);
                    b1 = vf_fma(x1, w, b1);
                    b2 = vf_fma(x2, w, b2);
                    b3 = vf_fma(x3, w, b3);
                }
            }
        }
        store_4(d, g->mid + ch.j, 4, a0, a1, a2, a3);
        store_4(d, g->mid + ch.j + next_row, 4, b0, b1, b2, b3);
    }
}

/* The taps 0 ... taps-1, from position `first` on in steps of dil, that lie in [0, extent). */
static void inside(int64_t first, int64_t dil, int64_t taps, int64_t extent, int64_t *begin,
                   int64_t *end) {
    /* Most have no dilation, and divisions are slow. */
    *begin = first >= 0 ? 0 : dil == 1 ? -first : (dil - 1 - first) / dil;
    int64_t fit =
        first >= extent ? 0 : (dil == 1 ? extent - 1 - first : (extent - 1 - first) / dil) + 1;
    *end = fit < taps ? fit : taps;
}

static void set_row(const nhwc_dw *d, group *g, int64_t p) {
    const int64_t top = p * d->stride_h - d->pad_top;
    g->at = top * d->x_row;
    inside(top, d->dil_h, d->r, d->h, &g->r0, &g->r1);
}

static void set_columns(const nhwc_dw *d, group *g, int64_t q) {
    const int64_t left = q * d->stride_w - d->pad_left;
    g->all0 = 0;
    g->all1 = d->s;
    for (int i = 0; i < 4; i++) {
        inside(left + i * d->stride_w, d->dil_w, d->s, d->w, &g->s0[i], &g->s1[i]);
        g->all0 = g->s0[i] > g->all0 ? g->s0[i] : g->all0;
        g->all1 = g->s1[i] < g->all1 ? g->s1[i] : g->all1;
    }
    g->all0 = g->all0 < d->s ? g->all0 : d->s;
    g->all1 = g->all1 > g->all0 ? g->all1 : g->all0;
}

/* Two rows at a time are worth it only where registers abound. */
enum { PAIRS = VL == 16 };

static void any_f32(const nhwc_dw *d, const group *g) {
    any_row(d, g, DSCONV_F32);
}
static void any_f16(const nhwc_dw *d, const group *g) {
    any_row(d, g, DSCONV_F16);
}
static void any_bf16(const nhwc_dw *d, const group *g) {
    any_row(d, g, DSCONV_BF16);
}

/* Fills what kernels of the border need. */
static void set_border(const nhwc_dw *d, group *g, int64_t q, int64_t columns) {
    const int64_t left = q * d->stride_w - d->pad_left;
    for (int64_t k = 0; k < columns; k++)
        g->inside[k] = left + k >= 0 && left + k < d->w;
}

/* taps 0: known at run time only. */
CPU_INLINE void rows_of(const nhwc_dw *d, const void *image, int64_t p, int rows, int64_t q0,
                        int64_t q1, float *mid, int64_t next_row, int taps, int stride,
                        dsconv_dtype dtype) {
    static void (*const any[])(const nhwc_dw *, const group *) = {any_f32, any_f16, any_bf16};
    const bool pair = PAIRS && taps && stride == 1 && rows == 2 && p >= d->pad_top &&
                      p + 1 - d->pad_top + taps <= d->h;
    group row[2] = {{.image = image}, {.image = image}};
    for (int i = 0; i < rows; i++)
        set_row(d, &row[i], p + i);
    for (int64_t q = q0; q < q1; q += 4) {
        const int pixels = q1 - q < 4 ? (int)(q1 - q) : 4;
        const bool inner = pixels == 4 && q >= d->inner_begin && q + 4 <= d->inner_end;
        for (int i = 0; i < rows; i++) {
            group g = row[i];
            g.at += (q * d->stride_w - d->pad_left) * d->x_pixel;
            g.mid = mid + (q - q0) * d->pitch + i * next_row;
            g.pixels = pixels;
            if (pair && inner) {
                two_rows(d, &g, next_row, taps, dtype);
                break;
            }
            if (stride && inner) {
                one_row(d, &g, taps ? taps : d->s, stride, false, dtype);
            } else if (taps && d->finite) {
                set_border(d, &g, q, 3 * stride + taps);
                one_row(d, &g, taps, stride, true, dtype);
            } else {
                set_columns(d, &g, q);
                any[dtype](d, &g);
            }
        }
    }
}

#define KERNEL(name, taps, stride, dtype)                                                          \
    static void name##_##taps##_##stride(const nhwc_dw *d, const void *image, int64_t p, int rows, \
                                         int64_t q0, int64_t q1, float *mid, int64_t next_row) {   \
        rows_of(d, image, p, rows, q0, q1, mid, next_row, taps, stride, dtype);                    \
    }
#define KERNELS(name, dtype)                                                                       \
    KERNEL(name, 3, 1, dtype)                                                                      \
    KERNEL(name, 3, 2, dtype)                                                                      \
    KERNEL(name, 5, 1, dtype)                                                                      \
    KERNEL(name, 5, 2, dtype)                                                                      \
    KERNEL(name, 7, 1, dtype)                                                                      \
    KERNEL(name, 7, 2, dtype)                                                                      \
    KERNEL(name, 0, 1, dtype)                                                                      \
    KERNEL(name, 0, 2, dtype)                                                                      \
    KERNEL(name, 0, 0, dtype)
#define TABLE(name)                                                                                \
    {                                                                                              \
        {name##_3_1, name##_3_2}, {name##_5_1, name##_5_2}, {name##_7_1, name##_7_2}, {            \
            name##_0_1, name##_0_2                                                                 \
        }                                                                                          \
    }

KERNELS(f32, DSCONV_F32)
KERNELS(f16, DSCONV_F16)
KERNELS(bf16, DSCONV_BF16)

nhwc_dw_fn *CPU_NAME(nhwc_select_dw)(const nhwc_dw *d, bool *pairs) {
    static nhwc_dw_fn *const table[][4][2] = {TABLE(f32), TABLE(f16), TABLE(bf16)};
    static nhwc_dw_fn *const any[] = {f32_0_0, f16_0_0, bf16_0_0};
    const bool odd = d->s == 3 || d->s == 5 || d->s == 7;
    *pairs = false;
    if (d->dil_w != 1 || d->stride_w > 2 || d->multiplier != 1 || d->c < VL)
        return any[d->dtype];
    *pairs = PAIRS && odd && d->r == d->s && d->stride_h == 1 && d->stride_w == 1 && d->dil_h == 1;
    return table[d->dtype][odd ? (d->s - 3) / 2 : 3][d->stride_w - 1];
}
