/*
 * Algorithm `fused` for NHWC. A tile is a run of output pixels of one image; its mid lies in the
 * L2 cache, pixel by pixel, and while the pointwise stage works through one tile, the depthwise
 * stage of the next one is done in steps between its micro-kernels.
 */
#include <stdlib.h>
#include <string.h>

#include "cpu_kernels.h"
#include "kernels/nhwc.h"

enum {
    TILE_BYTES = 256 << 10,
    LINE = 16,        /* floats per cache line */
    STEP_COLUMNS = 8, /* depthwise work between two micro-kernels */
    MIN_PIXELS = 12   /* fewest pixels of a tile that is made smaller for more threads */
};

typedef struct fused {
    const nhwc_kernels *kernels;
    nhwc_dw dw;
    nhwc_dw_fn *depthwise;
    bool pairs; /* rows in pairs share depthwise input */
    epilogue act_mid, copy_mid, out;
    bool mid_pass, direct;   /* act_mid is a pass of its own; y is stored by the micro-kernel */
    float lo, hi;            /* bounds of y when direct */
    int64_t vectors, blocks; /* of output channels */
    int64_t tile;            /* pixels of a tile, and at most */
    int64_t tile_max;
    float *weights_dw, *bias_dw, *weights_pw, *bias_pw;
    int32_t *expand;
} fused;

/* How a run is cut into items of work. */
typedef struct split {
    int64_t tiles, align; /* per image; tiles begin at multiples of align */
    int64_t parts;        /* of the output channels */
} split;

typedef struct arguments {
    const cpu_plan *plan;
    const dsconv_run_params *params;
    split split;
} arguments;

/* One item: pixels begin ... end-1 of image n, blocks b0 ... b1-1 of
 * output channels. */
typedef struct item {
    int64_t n, begin, end, b0, b1;
    float *mid;
    int64_t p, q, done; /* where the depthwise stage goes on, and the pixels it has done */
    int rows;
} item;

static int64_t round_up(int64_t a, int64_t multiple) {
    return (a + multiple - 1) / multiple * multiple;
}

static int64_t minimum(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static int64_t maximum(int64_t a, int64_t b) {
    return a > b ? a : b;
}

/* Output channels go in blocks of max_vectors; a single vector at the end gets a second one. */
static int64_t block_begin(const fused *f, int64_t block) {
    int64_t v = minimum(block * f->kernels->max_vectors, f->vectors);
    return v > 0 && v == f->vectors - 1 ? v - 1 : v;
}

static split make_split(const cpu_plan *plan, int64_t threads) {
    const fused *f = plan->data;
    const int64_t n = plan->shape.problem.n, q = plan->shape.q, pixels = plan->shape.p * q;
    split s = {.align = 1, .parts = 1};
    s.tiles = (pixels + f->tile - 1) / f->tile;
    const int64_t most = maximum(s.tiles, pixels / MIN_PIXELS);
    if (n * s.tiles < threads)
        s.tiles = minimum(most, (threads + n - 1) / n);
    for (int64_t t = s.tiles; n * s.tiles < 8 * threads && t <= minimum(most, 2 * s.tiles); t++)
        if (n * t % threads == 0) {
            s.tiles = t;
            break;
        }
    if (n * s.tiles < threads)
        s.parts = minimum(threads / (n * s.tiles), f->blocks);
    /* Whole rows or pairs of them, where that leaves the threads evenly loaded. */
    const int64_t share = maximum(n * pixels / threads, 1);
    for (int64_t rows = f->pairs ? 2 : 1; rows > 0; rows--)
        if (rows * q * 2 <= f->tile && (share % (rows * q) == 0 || rows * q * 50 <= share)) {
            s.align = rows * q;
            break;
        }
    return s;
}

static int64_t tile_begin(const split *s, int64_t pixels, int64_t tile) {
    return tile == s->tiles ? pixels : pixels * tile / s->tiles / s->align * s->align;
}

static item make_item(const arguments *a, int64_t index, float *mid) {
    const fused *f = a->plan->data;
    const split *s = &a->split;
    const int64_t q = a->plan->shape.q, pixels = a->plan->shape.p * q;
    const int64_t part = index % s->parts, tile = index / s->parts % s->tiles;
    item t = {.n = index / s->parts / s->tiles, .mid = mid, .rows = 1};
    t.begin = tile_begin(s, pixels, tile);
    t.end = tile_begin(s, pixels, tile + 1);
    cpu_share(f->blocks, (int)part, (int)s->parts, &t.b0, &t.b1);
    t.p = t.begin / q;
    t.q = t.begin % q;
    return t;
}

/* What follows the depthwise sums of a run of pixels. */
static void finish_mid(const arguments *a, const item *t, int64_t pixel, int64_t count) {
    const fused *f = a->plan->data;
    const dsconv_shape *shape = &a->plan->shape;
    const int64_t channels = shape->mid_channels;
    const int64_t size = shape->problem.dtype == DSCONV_F32 ? 4 : 2;
    for (int64_t i = pixel; i < pixel + count; i++) {
        float *mid = t->mid + (i - t->begin) * f->dw.pitch;
        if (f->mid_pass)
            f->kernels->epilogue_row(&f->act_mid, mid, NULL, mid, channels);
        if (shape->problem.output_mid && t->b0 == 0) {
            char *to = a->params->mid;
            to += size * (t->n * shape->mid_strides[0] + i * channels);
            f->kernels->epilogue_row(&f->copy_mid, mid, NULL, to, channels);
        }
    }
}

/* The next step of the depthwise stage. */
static void step(const arguments *a, item *t) {
    const fused *f = a->plan->data;
    const dsconv_problem *pb = &a->plan->shape.problem;
    const int64_t q = a->plan->shape.q, size = pb->dtype == DSCONV_F32 ? 4 : 2;
    const char *image = (const char *)a->params->x + size * t->n * pb->x_strides[0];
    if (t->q == 0)
        t->rows = f->pairs && (t->p + 2) * q <= t->end ? 2 : 1;
    const int64_t row_end = minimum(q, t->end - t->p * q);
    const int64_t q1 = minimum(t->q + STEP_COLUMNS, row_end);
    const int64_t pixel = t->p * q + t->q;
    f->depthwise(&f->dw, image, t->p, t->rows, t->q, q1, t->mid + (pixel - t->begin) * f->dw.pitch,
                 q * f->dw.pitch);
    if (f->mid_pass || pb->output_mid)
        for (int i = 0; i < t->rows; i++)
            finish_mid(a, t, pixel + i * q, q1 - t->q);
    t->done += t->rows * (q1 - t->q);
    t->q = q1;
    if (t->q == row_end) {
        t->p += t->rows;
        t->q = 0;
    }
}

/* One micro-kernel: `count` pixels from `pixel` on, output channels from vector v on. */
static void pointwise(const arguments *a, const item *t, nhwc_pw *pw, int64_t pixel, int64_t row,
                      int64_t column, int count, int64_t v, int vectors) {
    const fused *f = a->plan->data;
    const dsconv_problem *pb = &a->plan->shape.problem;
    const nhwc_kernels *k = f->kernels;
    const int64_t channel = v * k->vector_length;
    const int64_t *sy = pb->y_strides, *sr = pb->residual_strides;
    const float *mid = t->mid + (pixel - t->begin) * f->dw.pitch;
    nhwc_pw_fn *kernel = k->pw[vectors - 1][count - 1];
    const int64_t at = t->n * sy[0] + row * sy[2] + column * sy[3] + channel;
    if (f->direct) {
        kernel(pw, mid, (float *)a->params->y + at, sy[3]);
        return;
    }
    enum { PITCH = 64 };
    float sums[NHWC_MAX_PIXELS * PITCH];
    const int64_t channels = (vectors - 1) * k->vector_length + pw->last;
    const int64_t size = pb->dtype == DSCONV_F32 ? 4 : 2;
    char *y = (char *)a->params->y + size * at;
    const char *residual = a->params->residual;
    if (residual)
        residual += size * (t->n * sr[0] + row * sr[2] + column * sr[3] + channel);
    kernel(pw, mid, sums, PITCH);
    for (int i = 0; i < count; i++) {
        k->epilogue_row(&f->out, sums + i * PITCH, residual, y, channels);
        y += size * sy[3];
        if (residual)
            residual += size * sr[3];
    }
}

/* Depthwise work of `next`, in proportion to the share done / total of the present item. */
static void advance(const arguments *a, item *next, int64_t done, int64_t total) {
    const int64_t pixels = next->end - next->begin;
    while (next->done < pixels && next->done * total < pixels * done)
        step(a, next);
}

/* The pointwise stage of an item, and meanwhile the depthwise stage of the next one. */
static void item_pointwise(const arguments *a, const item *t, item *next) {
    const fused *f = a->plan->data;
    const dsconv_problem *pb = &a->plan->shape.problem;
    const nhwc_kernels *k = f->kernels;
    const int64_t q = a->plan->shape.q, channels = a->plan->shape.mid_channels;
    const int64_t *sy = pb->y_strides, *sr = pb->residual_strides;
    /* Rows that follow each other without a gap are one long row. */
    const bool flat = sy[2] == q * sy[3] && (!pb->residual || sr[2] == q * sr[3]);
    const int64_t total = (t->end - t->begin) * (block_begin(f, t->b1) - block_begin(f, t->b0));
    nhwc_pw pw = {.mid_channels = channels,
                  .pitch = f->dw.pitch,
                  .clamp = f->direct && pb->act_out.kind != DSCONV_ACT_NONE,
                  .lo = f->lo,
                  .hi = f->hi};
    int64_t done = 0;
    for (int64_t b = t->b0; b < t->b1; b++) {
        const int64_t v = block_begin(f, b);
        const int vectors = (int)(block_begin(f, b + 1) - v);
        pw.weights = f->weights_pw + v * k->vector_length * channels;
        pw.bias = f->bias_pw + v * k->vector_length;
        pw.last = (int)minimum(k->vector_length, pb->k - (v + vectors - 1) * k->vector_length);
        int64_t end;
        for (int64_t pixel = t->begin; pixel < t->end; pixel = end) {
            const int64_t row = flat ? 0 : pixel / q;
            end = flat ? t->end : minimum((row + 1) * q, t->end);
            int64_t kernels = (end - pixel + k->pixels[vectors - 1] - 1) / k->pixels[vectors - 1];
            for (int64_t at = pixel; at < end; kernels--) {
                const int count = (int)((end - at) / kernels);
                pointwise(a, t, &pw, at, row, at - row * q, count, v, vectors);
                at += count;
                done += (int64_t)count * vectors;
                if (next)
                    advance(a, next, done, total);
            }
        }
    }
}

static void work(const void *opaque, int thread, int threads) {
    const arguments *a = opaque;
    const fused *f = a->plan->data;
    const int64_t size = f->tile_max * f->dw.pitch;
    float *mid = (float *)a->params->workspace + 2 * thread * size;
    int64_t index, last;
    cpu_share(a->plan->shape.problem.n * a->split.tiles * a->split.parts, thread, threads, &index,
              &last);
    if (index == last)
        return;
    item items[2] = {make_item(a, index, mid)};
    advance(a, &items[0], 1, 1);
    for (int even = 0; index < last; even = !even) {
        item *next = &items[!even];
        if (++index < last)
            *next = make_item(a, index, mid + !even * size);
        item_pointwise(a, &items[even], index < last ? next : NULL);
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

static int64_t ceil_div(int64_t a, int64_t b) {
    return (a + b - 1) / b;
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
                   .dtype = pb->dtype};
    /* An odd number of cache lines spreads the pixels over the sets of the cache. */
    d->pitch = round_up(shape->mid_channels, LINE);
    d->pitch += d->pitch / LINE % 2 == 0 ? LINE : 0;
    f->act_mid = (epilogue){DSCONV_F32, DSCONV_RESIDUAL_NONE, pb->act_mid};
    f->copy_mid = (epilogue){pb->dtype, DSCONV_RESIDUAL_NONE, {DSCONV_ACT_NONE, 0.0F}};
    f->mid_pass = !epilogue_clamp(&f->act_mid, &d->lo, &d->hi);
    d->clamp = !f->mid_pass && pb->act_mid.kind != DSCONV_ACT_NONE;
    f->depthwise = f->kernels->select_dw(d, &f->pairs);
}

static dsconv_status create(cpu_plan *plan, dsconv_message *message) {
    const dsconv_shape *shape = &plan->shape;
    const dsconv_problem *pb = &shape->problem;
    const int vl = plan->kernels->vector_length;
    fused *f = plan->data = calloc(1, sizeof *f);
    if (!f)
        return cpu_out_of_memory(message);
    f->kernels = plan->kernels->nhwc;
    set_depthwise(f, shape);
    f->out = (epilogue){pb->dtype, pb->residual, pb->act_out};
    f->direct = epilogue_clamp(&f->out, &f->lo, &f->hi);
    f->vectors = ceil_div(pb->k, vl);
    f->blocks = ceil_div(f->vectors, f->kernels->max_vectors);
    f->tile = maximum(TILE_BYTES / (int64_t)sizeof(float) / f->dw.pitch, 2 * MIN_PIXELS);
    f->tile = minimum(f->tile, shape->p * shape->q);
    f->tile_max = minimum(f->tile + f->tile / 2, shape->p * shape->q);
    const int64_t padded = round_up(shape->mid_channels, vl);
    f->weights_dw = cpu_alloc(padded * pb->r * pb->s, sizeof(float));
    f->bias_dw = cpu_alloc(padded, sizeof(float));
    f->weights_pw = cpu_alloc(f->vectors * vl * shape->mid_channels, sizeof(float));
    f->bias_pw = cpu_alloc(f->vectors * vl, sizeof(float));
    f->expand = cpu_alloc(padded, sizeof(int32_t));
    if (!f->weights_dw || !f->bias_dw || !f->weights_pw || !f->bias_pw || !f->expand)
        return cpu_out_of_memory(message);
    for (int64_t j = 0; j < shape->mid_channels; j++)
        f->expand[j] = (int32_t)(j / pb->multiplier - j / vl * vl / pb->multiplier);
    f->dw.weights = f->weights_dw;
    f->dw.bias = f->bias_dw;
    f->dw.expand = f->expand;
    plan->kernel = plan->kernels->isa;
    plan->workspace_size =
        (size_t)plan->threads * 2 * sizeof(float) * (size_t)(f->tile_max * f->dw.pitch);
    return DSCONV_OK;
}

static void destroy(cpu_plan *plan) {
    fused *f = plan->data;
    if (f) {
        free(f->weights_dw);
        free(f->bias_dw);
        free(f->weights_pw);
        free(f->bias_pw);
        free(f->expand);
    }
    free(f);
}

static dsconv_status set_weights(cpu_plan *plan, const dsconv_weights *from,
                                 dsconv_message *message) {
    const dsconv_problem *pb = &plan->shape.problem;
    const int64_t channels = plan->shape.mid_channels, taps = pb->r * pb->s;
    const int64_t vl = plan->kernels->vector_length, size = pb->dtype == DSCONV_F32 ? 4 : 2;
    fused *f = plan->data;
    float *row = cpu_alloc(maximum(taps, channels), sizeof(float));
    if (!row)
        return cpu_out_of_memory(message);
    for (int64_t j = 0; j < channels; j++) {
        cpu_to_float(row, (const char *)from->w_dw + j * taps * size, taps, pb->dtype);
        for (int64_t i = 0; i < taps; i++)
            f->weights_dw[(j / vl * taps + i) * vl + j % vl] = row[i];
    }
    for (int64_t b = 0; b < f->blocks; b++) {
        const int64_t first = block_begin(f, b) * vl, end = block_begin(f, b + 1) * vl;
        for (int64_t k = first; k < minimum(end, pb->k); k++) {
            cpu_to_float(row, (const char *)from->w_pw + k * channels * size, channels, pb->dtype);
            for (int64_t j = 0; j < channels; j++)
                f->weights_pw[first * channels + j * (end - first) + k - first] = row[j];
        }
    }
    if (from->bias_dw)
        cpu_to_float(f->bias_dw, from->bias_dw, channels, pb->dtype);
    if (from->bias_pw)
        cpu_to_float(f->bias_pw, from->bias_pw, pb->k, pb->dtype);
    free(row);
    return DSCONV_OK;
}

static dsconv_status run(const cpu_plan *plan, const dsconv_run_params *params,
                         dsconv_message *message) {
    (void)message;
    arguments a = {plan, params, make_split(plan, cpu_threads(plan))};
    cpu_parallel(plan, work, &a);
    return DSCONV_OK;
}

const cpu_algo cpu_algo_fused_nhwc = {
    .name = "fused",
    .refuse = refuse,
    .create = create,
    .destroy = destroy,
    .set_weights = set_weights,
    .run = run,
};
