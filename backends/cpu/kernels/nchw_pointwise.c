#include "nchw_pointwise.h"

/* Accumulators have names of their own because GCC keeps an array of them in memory. */
#if PW_ROWS == 8
#define EACH_ROW(M) M(0) M(1) M(2) M(3) M(4) M(5) M(6) M(7)
#else
#define EACH_ROW(M) M(0) M(1) M(2) M(3)
#endif

#define START(m) vf a##m = vf_set1(a->bias[m]), b##m = a##m, c##m = a##m;

#define STEP(m)                                                                                    \
    {                                                                                              \
        vf weight = vf_set1(w[m]);                                                                 \
        a##m = vf_fma(weight, d0, a##m);                                                           \
        if (vectors > 1)                                                                           \
            b##m = vf_fma(weight, d1, b##m);                                                       \
        if (vectors > 2)                                                                           \
            c##m = vf_fma(weight, d2, c##m);                                                       \
    }

#define CLAMP(m)                                                                                   \
    a##m = vf_min(high, vf_max(low, a##m));                                                        \
    b##m = vf_min(high, vf_max(low, b##m));                                                        \
    c##m = vf_min(high, vf_max(low, c##m));

#define STORE_WITH(one, m)                                                                         \
    one(y + a->at[0], a##m, type, a->n[0]);                                                        \
    if (vectors > 1)                                                                               \
        one(y + a->at[1], b##m, type, a->n[1]);                                                    \
    if (vectors > 2)                                                                               \
        one(y + a->at[2], c##m, type, a->n[2]);                                                    \
    y += a->y_row;

#define STREAM(m)     STORE_WITH(store_stream, m)
#define STORE_FULL(m) STORE_WITH(store_full, m)
#define STORE(m)                                                                                   \
    if (m < a->rows) {                                                                             \
        STORE_WITH(vf_store_as, m)                                                                 \
    }

#define PREFETCH(m)                                                                                \
    if (m < a->rows)                                                                               \
        for (int i = 0; i < vectors; i++)                                                          \
            prefetch_write(a->y + m * a->y_row + a->at[i]);

CPU_INLINE void store_full(char *y, vf v, const dsconv_dtype type, int64_t n) {
    (void)n;
    vf_store_as(y, v, type, VL);
}

CPU_INLINE void store_stream(char *y, vf v, const dsconv_dtype type, int64_t n) {
    (void)type, (void)n;
    vf_stream((float *)(void *)y, v);
}

CPU_INLINE void panel_of(const panel *a, const dsconv_dtype type, const int vectors) {
    const float *w = a->w, *d = a->d;
    const int64_t pitch = a->pitch;
    if (!a->stream) {
        EACH_ROW(PREFETCH)
    }
    EACH_ROW(START)
    for (int64_t j = a->channels; j > 0; j--) {
        vf d0 = vf_load(d);
        vf d1 = vectors > 1 ? vf_load(d + VL) : d0;
        vf d2 = vectors > 2 ? vf_load(d + 2 * VL) : d0;
        EACH_ROW(STEP)
        d += pitch;
        w += PW_ROWS;
    }
    if (a->clamp) {
        const vf low = vf_set1(a->low), high = vf_set1(a->high);
        EACH_ROW(CLAMP)
    }
    /* Few instructions between a panel's last product and the next one's first: what waits for the
     * one must not keep the other out of the processor's window. */
    char *y = a->y;
    const bool full = a->rows == PW_ROWS && a->n[0] >= VL && (vectors < 2 || a->n[1] >= VL) &&
                      (vectors < 3 || a->n[2] >= VL);
    if (type == DSCONV_F32 && full && a->stream) {
        EACH_ROW(STREAM)
    } else if (full) {
        EACH_ROW(STORE_FULL)
    } else {
        EACH_ROW(STORE)
    }
}

#define PANEL(name, type, vectors)                                                                 \
    static void name##_##vectors(const panel *a) {                                                 \
        panel_of(a, type, vectors);                                                                \
    }
#define PANELS(name, type) PANEL(name, type, 1) PANEL(name, type, 2) PANEL(name, type, 3)
PANELS(f32, DSCONV_F32)
PANELS(f16, DSCONV_F16)
PANELS(bf16, DSCONV_BF16)

panel_fn *const CPU_NAME(nchw_panel)[3][PW_VECTORS] = {
    {f32_1, f32_2, f32_3},
    {f16_1, f16_2, f16_3},
    {bf16_1, bf16_2, bf16_3},
};

#define TAIL_START(n, block)                                                                       \
    const float *w##n = a->w + (block)*a->channels * PW_ROWS;                                      \
    vf a##n = vf_load_n(a->bias + (block)*PW_ROWS, PW_ROWS);
#define TAIL_STEP(n, pixel) a##n = vf_fma(vf_load_n(w##n + at, PW_ROWS), vf_set1(d[pixel]), a##n);

/* Four sums, of 1 block x 4 pixels, 2 x 2 or 4 x 1, or three of 1 x 3. */
CPU_INLINE void tail_of(const panel *a, const int pixels, const int blocks, float *y) {
    const float *d = a->d;
    TAIL_START(0, 0)
    TAIL_START(1, blocks > 2 ? 1 : 0)
    TAIL_START(2, blocks > 2 ? 2 : blocks > 1 ? 1 : 0)
    TAIL_START(3, blocks > 2 ? 3 : blocks > 1 ? 1 : 0)
    for (int64_t j = 0, at = 0; j < a->channels; j++, at += PW_ROWS, d += a->pitch) {
        TAIL_STEP(0, 0)
        TAIL_STEP(1, pixels > 1 ? 1 : 0)
        TAIL_STEP(2, pixels > 2 ? 2 : 0)
        TAIL_STEP(3, pixels > 3 ? 3 : pixels == 2 ? 1 : 0)
    }
    vf_store(y, a0);
    vf_store(y + VL, a1);
    vf_store(y + 2 * VL, a2);
    vf_store(y + 3 * VL, a3);
}

void CPU_NAME(nchw_tail)(const panel *a, int pixels, int blocks, float *y) {
    if (pixels > 2)
        tail_of(a, 4, 1, y);
    else if (pixels == 2 && blocks > 1)
        tail_of(a, 2, 2, y);
    else if (pixels == 2)
        tail_of(a, 2, 1, y);
    else if (blocks > 1)
        tail_of(a, 1, 4, y);
    else
        tail_of(a, 1, 1, y);
}
