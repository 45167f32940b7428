/*
 * Algorithm `fused` for NHWC. A tile is a run of output pixels of one image; its mid lies in the
 * L2 cache, pixel by pixel. While the pointwise stage works through a tile, the input of the next
 * one is fetched. Doing the depthwise stage in steps between micro-kernels instead was slower: it
 * drives the pointwise weights out of the L1 cache.
 */
#include <math.h>
#include <string.h>

#include "cpu_fused_nhwc.h"
#include "cpu_kernels.h"
#include "cpu_nhwc_tiles.h"
#include "kernels/nhwc.h"

enum {
    TILE_BYTES = 384 << 10,
    BLOCK_BYTES = 256 << 10, /* of weights that all pixels of a tile are multiplied with */
    LARGE = 16 << 20,        /* bytes of x */
    LINE_BYTES = 64,
    LINE = 16,    /* floats per cache line */
    MIN_TILE = 24 /* pixels */
};

typedef struct fused {
    const nhwc_kernels *kernels;
    nhwc_dw dw;
    nhwc_dw_fn *depthwise;
    bool pairs; /* rows in pairs share depthwise input */
    bool large; /* x comes from memory rather than from a cache */
    epilogue act_mid, copy_mid, out;
    bool mid_pass, direct; /* act_mid is a pass of its own; y is stored by the micro-kernel */
    float lo, hi;          /* bounds of y when direct */
    int64_t vectors, block_vectors, blocks; /* of output channels */
    int64_t tile;                           /* pixels of a tile, and at most */
    int64_t tile_max;
    float *weights_dw, *bias_dw, *weights_pw, *bias_pw;
    int32_t *expand;
} fused;

typedef struct arguments {
    const cpu_plan *plan;
    const dsconv_run_params *params;
    const nhwc_exchange *exchange; /* NULL: x and y are the caller's */
    nhwc_tiling tiling;
    int64_t parts; /* of the output channels, where tiles are too few for the threads */
} arguments;

/* One item of work: a tile of image n, blocks b0 ... b1-1 of output channels. */
typedef struct item {
    int64_t n, b0, b1;
    nhwc_tile tile;
    int64_t pixels, first; /* their number; the first one where y begins with it, else 0 */
    float *mid;
    int64_t p, row, byte; /* output row, new input row of it, and place there to fetch next */
} item;

/* In assembly: GCC takes a function that only prefetches for one without effect. */
static void prefetch(const char *p) {
#ifdef CPU_X86
    __asm__ volatile("prefetcht0 %0" : : "m"(*p));
#else
    __builtin_prefetch(p);
#endif
}

/* Output channels go in blocks of max_vectors; a single vector at the end gets a second one. */
static int64_t block_begin(const fused *f, int64_t block) {
    int64_t v = minimum(block * f->block_vectors, f->vectors);
    return v > 0 && v == f->vectors - 1 ? v - 1 : v;
}

/* Bytes of x from an output column to the next. */
static int64_t pixel_bytes(const fused *f) {
    return f->dw.stride_w * f->dw.x_pixel * (f->dw.dtype == DSCONV_F32 ? 4 : 2);
}

static item make_item(const arguments *a, int64_t index, float *mid) {
    const fused *f = a->plan->data;
    const int64_t part = index % a->parts, tile = index / a->parts;
    item t = {.n = tile / a->tiling.tiles,
              .tile = dsconv_nhwc_make_tile(&a->tiling, tile % a->tiling.tiles),
              .mid = mid};
    cpu_share(f->blocks, (int)part, (int)a->parts, &t.b0, &t.b1);
    t.pixels = nhwc_tile_pixels(&t.tile);
    t.first = a->exchange ? t.tile.p0 * t.tile.q + t.tile.q0 : 0;
    t.p = t.tile.p0;
    t.byte = t.tile.q0 * pixel_bytes(f);
    return t;
}

/* What follows the depthwise sums of columns q0 ... q1-1 of row p. */
static void finish_mid(const arguments *a, const item *t, int64_t p, int64_t q0, int64_t q1) {
    const fused *f = a->plan->data;
    const dsconv_shape *shape = &a->plan->shape;
    const int64_t channels = shape->mid_channels, *strides = shape->mid_strides;
    const int64_t size = shape->problem.dtype == DSCONV_F32 ? 4 : 2;
    for (int64_t q = q0; q < q1; q++) {
        float *mid = t->mid + nhwc_tile_pixel(&t->tile, p, q) * f->dw.pitch;
        if (f->mid_pass)
            f->kernels->epilogue_row(&f->act_mid, mid, NULL, mid, channels);
        if (shape->problem.output_mid && t->b0 == 0) {
            char *to = a->params->mid;
            to += size * (t->n * strides[0] + p * strides[2] + q * strides[3]);
            f->kernels->epilogue_row(&f->copy_mid, mid, NULL, to, channels);
        }
    }
}

/* One micro-kernel: `count` pixels from (p, q) on, output channels from vector v on. */
static void pointwise(const arguments *a, const item *t, const nhwc_pw *pw, int64_t p, int64_t q,
                      int count, int64_t v, int vectors) {
    const fused *f = a->plan->data;
    const dsconv_problem *pb = &a->plan->shape.problem;
    const nhwc_kernels *k = f->kernels;
    const int64_t channel = v * k->vector_length;
    const int64_t *sy = pb->y_strides, *sr = pb->residual_strides;
    const float *mid = t->mid + nhwc_tile_pixel(&t->tile, p, q) * f->dw.pitch;
    nhwc_pw_fn *kernel = k->pw[vectors - 1][count - 1];
    const int64_t size = pb->dtype == DSCONV_F32 ? 4 : 2;
    char *y = a->params->y;
    y += size * (t->n * sy[0] + p * sy[2] + (q - t->first) * sy[3] + channel);
    if (f->direct) {
        kernel(pw, mid, y, sy[3]);
        return;
    }
    enum { PITCH = 64 };
    float sums[NHWC_MAX_PIXELS * PITCH];
    const int64_t channels = (vectors - 1) * k->vector_length + pw->last;
    const char *residual = a->params->residual;
    if (residual)
        residual += size * (t->n * sr[0] + p * sr[2] + q * sr[3] + channel);
    kernel(pw, mid, sums, PITCH);
    for (int i = 0; i < count; i++) {
        k->epilogue_row(&f->out, sums + (int64_t)i * PITCH, residual, y, channels);
        y += size * sy[3];
        if (residual)
            residual += size * sr[3];
    }
}

/* Asks for the next `lines` cache lines of the input rows that are new to a tile. */
static void fetch(const arguments *a, item *t, int64_t lines) {
    const nhwc_dw *d = &((const fused *)a->plan->data)->dw;
    const int64_t size = d->dtype == DSCONV_F32 ? 4 : 2;
    const int64_t step = pixel_bytes(a->plan->data);
    const char *image = a->params->x;
    image += size * t->n * a->plan->shape.problem.x_strides[0];
    while (lines > 0 && t->p < t->tile.p1) {
        const int64_t y =
            t->p * d->stride_h - d->pad_top + (d->r - 1) * d->dil_h + 1 - d->stride_h + t->row;
        const int64_t end = minimum(nhwc_row_end(&t->tile, t->p) * step, size * d->w * d->x_pixel);
        if (y >= 0 && y < d->h)
            for (; lines > 0 && t->byte < end; lines--, t->byte += LINE_BYTES)
                prefetch(image + y * size * d->x_row + t->byte);
        if (lines == 0)
            return;
        t->row = (t->row + 1) % d->stride_h;
        t->p += t->row == 0;
        t->byte = nhwc_row_begin(&t->tile, t->p) * step;
    }
}

/* The depthwise stage of an item. */
static void item_depthwise(const arguments *a, const item *t) {
    const fused *f = a->plan->data;
    const dsconv_problem *pb = &a->plan->shape.problem;
    const int64_t size = pb->dtype == DSCONV_F32 ? 4 : 2;
    const char *image = (const char *)a->params->x + size * t->n * pb->x_strides[0];
    int rows;
    for (int64_t p = t->tile.p0; p < t->tile.p1; p += rows) {
        const int64_t q0 = nhwc_row_begin(&t->tile, p), q1 = nhwc_row_end(&t->tile, p);
        const int64_t first = nhwc_tile_pixel(&t->tile, p, q0);
        const int64_t next_row = nhwc_tile_pixel(&t->tile, p + 1, q0) - first;
        rows = f->pairs && p + 1 < t->tile.p1 && nhwc_row_begin(&t->tile, p + 1) == q0 &&
                       nhwc_row_end(&t->tile, p + 1) == q1
                   ? 2
                   : 1;
        f->depthwise(&f->dw, image, p, rows, q0, q1, t->mid + first * f->dw.pitch,
                     next_row * f->dw.pitch);
        if (f->mid_pass || pb->output_mid)
            for (int i = 0; i < rows; i++)
                finish_mid(a, t, p + i, q0, q1);
    }
}

/* The pointwise stage of an item, while the input of the next one is fetched. */
static void item_pointwise(const arguments *a, const item *t, item *next) {
    const fused *f = a->plan->data;
    const dsconv_problem *pb = &a->plan->shape.problem;
    const nhwc_kernels *k = f->kernels;
    const nhwc_tile *tile = &t->tile;
    const int64_t channels = a->plan->shape.mid_channels;
    const int64_t *sy = pb->y_strides, *sr = pb->residual_strides;
    /* Rows that follow each other without a gap are one long row. */
    const bool joined =
        !tile->cut && sy[2] == tile->q * sy[3] && (!pb->residual || sr[2] == tile->q * sr[3]);
    const int64_t total = t->pixels * (block_begin(f, t->b1) - block_begin(f, t->b0));
    const int64_t bytes = next && f->large ? next->pixels * pixel_bytes(f) * f->dw.stride_h : 0;
    nhwc_pw pw = {.mid_channels = channels,
                  .pitch = f->dw.pitch,
                  .dtype = f->direct ? pb->dtype : DSCONV_F32,
                  .clamp = f->direct && pb->act_out.kind != DSCONV_ACT_NONE,
                  .lo = f->lo,
                  .hi = f->hi};
    for (int64_t b = t->b0; b < t->b1; b++) {
        const int64_t v = block_begin(f, b);
        const int vectors = (int)(block_begin(f, b + 1) - v);
        const int most = k->pixels[vectors - 1];
        const int64_t lines = bytes ? bytes * most * vectors / (total * LINE_BYTES) + 1 : 0;
        pw.weights = f->weights_pw + v * k->vector_length * channels;
        pw.bias = f->bias_pw + v * k->vector_length;
        pw.last = (int)minimum(k->vector_length, pb->k - (v + vectors - 1) * k->vector_length);
        for (int64_t p = tile->p0; p < tile->p1; p = joined ? tile->p1 : p + 1) {
            int64_t q = nhwc_row_begin(tile, p);
            const int64_t end = joined ? q + t->pixels : nhwc_row_end(tile, p);
            for (int64_t kernels = ceil_div(end - q, most); kernels > 0; kernels--) {
                const int count = (int)((end - q) / kernels);
                pointwise(a, t, &pw, p, q, count, v, vectors);
                q += count;
                if (lines)
                    fetch(a, next, lines);
            }
        }
    }
}

static void item_bring(const arguments *a, const item *t) {
    const nhwc_dw *d = &((const fused *)a->plan->data)->dw;
    const int64_t begin = t->tile.p0 * d->stride_h - d->pad_top;
    const int64_t end = (t->tile.p1 - 1) * d->stride_h - d->pad_top + (d->r - 1) * d->dil_h + 1;
    a->exchange->bring(a->exchange->self, t->n, maximum(begin, 0), minimum(end, d->h));
}

static void item_take(const arguments *a, const item *t) {
    const fused *f = a->plan->data;
    const int64_t vl = f->kernels->vector_length;
    a->exchange->take(a->exchange->self, t->n, t->first, t->pixels, block_begin(f, t->b0) * vl,
                      minimum(block_begin(f, t->b1) * vl, a->plan->shape.problem.k));
}

static void work(const void *opaque, int thread, int threads) {
    const arguments *a = opaque;
    const fused *f = a->plan->data;
    float *mid = (float *)a->params->workspace + thread * f->tile_max * f->dw.pitch;
    int64_t index, last;
    cpu_share(a->plan->shape.problem.n * a->tiling.tiles * a->parts, thread, threads, &index,
              &last);
    if (index == last)
        return;
    item items[2] = {make_item(a, index, mid)};
    for (int even = 0; index < last; even = !even) {
        item *next = &items[!even];
        if (++index < last)
            *next = make_item(a, index, mid);
        if (a->exchange)
            item_bring(a, &items[even]);
        item_depthwise(a, &items[even]);
        item_pointwise(a, &items[even], index < last ? next : NULL);
        if (a->exchange)
            item_take(a, &items[even]);
    }
}

static const char *refuse(const cpu_context *context, const dsconv_shape *shape) {
    (void)context;
    const dsconv_problem *pb = &shape->problem;
    if (pb->layout != DSCONV_NHWC)
        return "layout nchw";
    if (pb->x_strides[1] != 1 || pb->y_strides[1] != 1 ||
        (pb->residual && pb->residual_strides[1] != 1))
        return "a channel stride other than 1";
    return NULL;
}

static void set_depthwise(fused *f, const dsconv_shape *shape) {
    const dsconv_problem *pb = &shape->problem;
    const int64_t last = pb->w - 1 - (pb->s - 1) * pb->dil_w + pb->pad_left;
    nhwc_dw *d = &f->dw;
    *d = (nhwc_dw){.h = pb->h,
                   .w = pb->w,
                   .c = pb->c,
                   .mid_channels = shape->mid_channels,
                   .multiplier = pb->multiplier,
                   .r = pb->r,
                   .s = pb->s,
                   .stride_h = pb->stride_h,
                   .stride_w = pb->stride_w,
                   .dil_h = pb->dil_h,
                   .dil_w = pb->dil_w,
                   .pad_top = pb->pad_top,
                   .pad_left = pb->pad_left,
                   .x_row = pb->x_strides[2],
                   .x_pixel = pb->x_strides[3],
                   .inner_begin = ceil_div(pb->pad_left, pb->stride_w),
                   .inner_end = last < 0 ? 0 : last / pb->stride_w + 1,
                   .dtype = pb->dtype,
                   .blocks = ceil_div(shape->mid_channels, f->kernels->vector_length)};
    /* An odd number of cache lines spreads the pixels over the sets of the cache. */
    d->pitch = round_up(shape->mid_channels, LINE);
    d->pitch += d->pitch / LINE % 2 == 0 ? LINE : 0;
    f->act_mid = (epilogue){DSCONV_F32, DSCONV_RESIDUAL_NONE, pb->act_mid};
    f->copy_mid = (epilogue){pb->dtype, DSCONV_RESIDUAL_NONE, {DSCONV_ACT_NONE, 0.0F}};
    f->mid_pass = !epilogue_clamp(&f->act_mid, &d->lo, &d->hi);
    d->clamp = !f->mid_pass && pb->act_mid.kind != DSCONV_ACT_NONE;
    f->depthwise = f->kernels->select_dw(d, &f->pairs);
}

static int64_t dw_block_begin(const fused *f, int64_t block) {
    const int64_t vl = f->kernels->vector_length;
    return minimum(block * vl, maximum(f->dw.mid_channels - vl, 0));
}

static dsconv_status create(cpu_plan *plan, dsconv_message *message) {
    const dsconv_shape *shape = &plan->shape;
    const dsconv_problem *pb = &shape->problem;
    const int vl = plan->kernels->vector_length;
    fused *f = plan->data = dsconv_cpu_plan_alloc(plan, 1, sizeof *f);
    if (!f)
        return dsconv_cpu_out_of_memory(message);
    f->kernels = plan->kernels->nhwc;
    set_depthwise(f, shape);
    f->large = pb->x_strides[3] <= 2 * pb->c &&
               pb->n * pb->x_strides[0] >= LARGE / (pb->dtype == DSCONV_F32 ? 4 : 2);
    f->out = (epilogue){pb->dtype, pb->residual, pb->act_out};
    const epilogue as_float = {DSCONV_F32, pb->residual, pb->act_out};
    f->direct = epilogue_clamp(&as_float, &f->lo, &f->hi);
    f->vectors = ceil_div(pb->k, vl);
    f->block_vectors = f->kernels->max_vectors;
    /* Weights that leave the cache between uses are better read slowly, by kernels of more pixels.
     */
    if (f->block_vectors * vl * shape->mid_channels * (int64_t)sizeof(float) > BLOCK_BYTES)
        f->block_vectors = 2;
    f->blocks = ceil_div(f->vectors, f->block_vectors);
    f->tile = maximum(TILE_BYTES / (int64_t)sizeof(float) / f->dw.pitch, MIN_TILE);
    f->tile = minimum(f->tile, shape->p * shape->q);
    f->tile_max = dsconv_nhwc_most_pixels(shape->p, shape->q, f->tile);
    const int64_t padded = f->dw.blocks * vl;
    f->weights_dw = dsconv_cpu_plan_alloc(plan, padded * pb->r * pb->s, sizeof(float));
    f->bias_dw = dsconv_cpu_plan_alloc(plan, padded, sizeof(float));
    f->weights_pw =
        dsconv_cpu_plan_alloc(plan, f->vectors * vl * shape->mid_channels, sizeof(float));
    f->bias_pw = dsconv_cpu_plan_alloc(plan, f->vectors * vl, sizeof(float));
    f->expand = dsconv_cpu_plan_alloc(plan, padded, sizeof(int32_t));
    if (plan->out_of_memory)
        return dsconv_cpu_out_of_memory(message);
    for (int64_t i = 0; i < padded; i++) {
        const int64_t first = dw_block_begin(f, i / vl), j = first + i % vl;
        f->expand[i] = (int32_t)(j / pb->multiplier - first / pb->multiplier);
    }
    f->dw.weights = f->weights_dw;
    f->dw.bias = f->bias_dw;
    f->dw.expand = f->expand;
    plan->kernel = plan->kernels->isa;
    plan->workspace_size =
        (size_t)plan->threads * sizeof(float) * (size_t)(f->tile_max * f->dw.pitch);
    return DSCONV_OK;
}

static dsconv_status set_weights(cpu_plan *plan, const cpu_weights *from, dsconv_message *message) {
    (void)message;
    const dsconv_problem *pb = &plan->shape.problem;
    const int64_t channels = plan->shape.mid_channels, taps = pb->r * pb->s;
    const int64_t vl = plan->kernels->vector_length;
    fused *f = plan->data;
    f->dw.finite = true;
    for (int64_t i = 0; i < f->dw.blocks * vl; i++) {
        const int64_t j = dw_block_begin(f, i / vl) + i % vl;
        if (j >= channels)
            break;
        if (from->bias_dw)
            f->bias_dw[i] = from->bias_dw[j];
        for (int64_t tap = 0; tap < taps; tap++) {
            const float weight = from->w_dw[j * taps + tap];
            f->weights_dw[(i / vl * taps + tap) * vl + i % vl] = weight;
            f->dw.finite = f->dw.finite && isfinite(weight);
        }
    }
    for (int64_t b = 0; b < f->blocks; b++) {
        const int64_t first = block_begin(f, b) * vl, end = block_begin(f, b + 1) * vl;
        float *block = f->weights_pw + first * channels;
        for (int64_t k = first; k < minimum(end, pb->k); k++)
            for (int64_t j = 0; j < channels; j++)
                block[j * (end - first) + k - first] = from->w_pw[k * channels + j];
    }
    if (from->bias_pw)
        memcpy(f->bias_pw, from->bias_pw, (size_t)pb->k * sizeof(float));
    return DSCONV_OK;
}

static arguments make_arguments(const cpu_plan *plan, const dsconv_run_params *params,
                                const nhwc_exchange *exchange, int threads) {
    const fused *f = plan->data;
    const dsconv_shape *shape = &plan->shape;
    const int64_t n = shape->problem.n;
    /* What is exchanged is a run of pixels, so no tile may be cut. */
    const bool pairs = f->pairs && (!exchange || 4 * shape->q <= f->tile);
    arguments a = {.plan = plan,
                   .params = params,
                   .exchange = exchange,
                   .tiling =
                       dsconv_nhwc_make_tiling(n, shape->p, shape->q, f->tile, pairs, threads),
                   .parts = 1};
    if (n * a.tiling.tiles < threads)
        a.parts = minimum(threads / (n * a.tiling.tiles), f->blocks);
    return a;
}

void dsconv_cpu_fused_nhwc_part(const cpu_plan *plan, const dsconv_run_params *params,
                                const nhwc_exchange *exchange, int thread, int threads) {
    const arguments a = make_arguments(plan, params, exchange, threads);
    work(&a, thread, threads);
}

int64_t dsconv_cpu_fused_nhwc_most_pixels(const cpu_plan *plan) {
    return ((const fused *)plan->data)->tile_max;
}

static dsconv_status run(const cpu_plan *plan, const dsconv_run_params *params,
                         dsconv_message *message) {
    (void)message;
    const arguments a = make_arguments(plan, params, NULL, dsconv_cpu_threads(plan));
    dsconv_cpu_parallel(plan, work, &a);
    return DSCONV_OK;
}

const cpu_algo dsconv_cpu_algo_fused_nhwc = {
    .name = "fused",
    .refuse = refuse,
    .create = create,
    .set_weights = set_weights,
    .run = run,
};
