/* The fused NCHW algorithm: what one thread does. */
#include "nchw.h"

#include "cpu_kernels.h"
#include "nchw_depthwise.h"
#include "nchw_pointwise.h"

#define panels       CPU_NAME(nchw_panel)
#define epilogue_row CPU_NAME(epilogue_row)

/* Panels that go through the output channels together: two stay in L1, many make long runs of
 * pixels of a channel for stores past the caches. */
enum { GROUP = 2, STREAM_GROUP = 8 };

static nchw_tile tile_at(const nchw_plan *plan, int64_t index) {
    nchw_tile tile;
    tile.q = index % plan->tiles_q * plan->cols;
    index /= plan->tiles_q;
    tile.p = index % plan->tiles_p * plan->rows;
    tile.n = index / plan->tiles_p;
    tile.rows = plan->shape.p - tile.p < plan->rows ? plan->shape.p - tile.p : plan->rows;
    tile.cols = plan->shape.q - tile.q < plan->cols ? plan->shape.q - tile.q : plan->cols;
    tile.pitch = plan->flat ? tile.cols : (tile.cols + VL - 1) / VL * VL;
    return tile;
}

/* What the plain stages leave to do to a row of D: the activation, and the copy for the caller. */
static void finish_mid(const nchw_run *run, const nchw_tile *tile, int64_t j, float *d) {
    const nchw_plan *plan = run->plan;
    const dsconv_problem *p = &plan->shape.problem;
    float low, high;
    if (!epilogue_clamp(&plan->mid, &low, &high))
        for (int64_t row = 0; row < tile->rows; row++) {
            float *at = d + row * tile->pitch;
            epilogue_row(&plan->mid, at, NULL, at, tile->cols);
        }
    if (p->output_mid) {
        const epilogue copy = {.dtype = p->dtype};
        const int64_t *stride = plan->shape.mid_strides;
        const int64_t at = tile->n * stride[0] + j * stride[1] + tile->p * stride[2] + tile->q;
        char *mid = (char *)run->params->mid + at * (int64_t)dtype_size(p->dtype);
        for (int64_t row = 0; row < tile->rows; row++)
            epilogue_row(&copy, d + row * tile->pitch, NULL,
                         mid + row * stride[2] * (int64_t)dtype_size(p->dtype), tile->cols);
    }
}

/* The depthwise stage of a tile, in steps that can go between the panels of another tile: while
 * those compute, the input of the next channel comes into the cache line by line. */
typedef struct background {
    const nchw_run *run;
    nchw_tile tile;
    nchw_depthwise state;
    float *d;
    int64_t j, end;        /* the next channel, the end of all */
    int64_t steps, credit; /* of all steps; channels due, in 1/steps */
    const char *line;      /* input to be fetched up to line_end */
    const char *line_end;
    int64_t lines; /* per step */
} background;

static void fetch_channel(background *b) {
    const dsconv_problem *p = &b->run->plan->shape.problem;
    const int64_t size = (int64_t)dtype_size(p->dtype);
    const int64_t row = b->tile.p * p->stride_h - p->pad_top, begin = row < 0 ? 0 : row;
    int64_t end = row + (b->tile.rows - 1) * p->stride_h + (p->r - 1) * p->dil_h + 1;
    if (b->steps == 0 || p->x_strides[3] != 1 || p->x_strides[2] > 2 * p->w)
        return; /* too much of what lies there is no input */
    end = end > p->h ? p->h : end;
    const int64_t at = b->tile.n * p->x_strides[0] + (b->j + 1) / p->multiplier * p->x_strides[1];
    b->line = (const char *)b->run->params->x + (at + begin * p->x_strides[2]) * size;
    b->line_end = b->line + (end - begin) * p->x_strides[2] * size;
    b->lines = (b->line_end - b->line) / 64 * (b->end + 1) / b->steps + 1;
}

static void background_begin(background *b, const nchw_run *run, const nchw_tile *tile,
                             int64_t begin, int64_t end, void *scratch, float *d) {
    *b = (background){.run = run, .tile = *tile, .d = d, .j = begin, .end = end};
    CPU_NAME(nchw_depthwise_begin)(&b->state, run->plan, &b->tile, scratch);
    CPU_NAME(nchw_depthwise_load)
    (&b->state, run->params->x, begin / run->plan->shape.problem.multiplier);
}

static void background_channels(background *b, int64_t end) {
    const nchw_plan *plan = b->run->plan;
    const int64_t multiplier = plan->shape.problem.multiplier;
    const void *x = b->run->params->x;
    for (; b->j < end; b->j++) {
        float *d = b->d + b->j * plan->pitch;
        if (b->j + 1 < b->end)
            CPU_NAME(nchw_depthwise_load)(&b->state, x, (b->j + 1) / multiplier);
        CPU_NAME(nchw_depthwise_channel)(&b->state, x, b->j, d);
        finish_mid(b->run, &b->tile, b->j, d);
    }
}

static void background_step(background *b) {
    if (b->j >= b->end)
        return;
    for (int64_t i = 0; i < b->lines && b->line < b->line_end; i++, b->line += 64)
        prefetch_read(b->line);
    b->credit += b->end;
    if (b->credit >= b->steps) {
        background_channels(b, minimum(b->j + b->credit / b->steps, b->end));
        b->credit %= b->steps;
        if (b->j < b->end)
            fetch_channel(b);
    }
}

/* Ends up to n sums of one output channel that lie side by side in y, at element `at` there and
 * element `at_residual` of the residual. */
static void finish_run(const nchw_run *run, float *sum, int64_t at, int64_t at_residual,
                       int64_t n) {
    const dsconv_problem *p = &run->plan->shape.problem;
    const epilogue *out = &run->plan->out;
    const int64_t size = (int64_t)dtype_size(p->dtype);
    const int64_t step = p->y_strides[3], step_residual = p->residual_strides[3];
    const char *residual = run->params->residual;
    char *y = (char *)run->params->y + at * size;
    if (residual)
        residual += at_residual * size;
    if (step == 1 && (!residual || step_residual == 1))
        epilogue_row(out, sum, residual, y, n);
    else
        for (int64_t i = 0; i < n; i++)
            epilogue_row(out, sum + i, residual ? residual + i * step_residual * size : NULL,
                         y + i * step * size, 1);
}

/* Where pixel `index` of a tile's D is: offset from the tile's first element in y or residual. */
static int64_t pixel_offset(const nchw_tile *tile, const int64_t *strides, int64_t index) {
    return index / tile->pitch * strides[2] + index % tile->pitch * strides[3];
}

typedef struct stage {
    const nchw_run *run;
    const nchw_tile *tile;
    const float *d;
    int64_t y, residual; /* the tile's first element of output channel 0 */
    int64_t vectors;     /* of pixels, the last one perhaps partial */
    int64_t pixels;      /* floats of D in use per channel */
    int tail;            /* pixels left to nchw_tail, not counted in vectors */
    bool direct;         /* the kernel itself stores y */
} stage;

/* Elements in use of vector v of D. */
static int64_t vector_length(const stage *s, int64_t v) {
    int64_t end = s->run->plan->flat ? s->pixels : s->tile->cols;
    int64_t at = s->run->plan->flat ? v * VL : v * VL % s->tile->pitch;
    return end - at < VL ? end - at : VL;
}

/* Where a run of pixels of an output channel k begins, as elements of y and of the residual. */
static void finish_pixels(const stage *s, int64_t k, int64_t pixel, float *sums, int64_t n) {
    const dsconv_problem *p = &s->run->plan->shape.problem;
    finish_run(s->run, sums,
               s->y + k * p->y_strides[1] + pixel_offset(s->tile, p->y_strides, pixel),
               s->residual + k * p->residual_strides[1] +
                   pixel_offset(s->tile, p->residual_strides, pixel),
               n);
}

typedef struct part_panel {
    panel call;
    int64_t v; /* first vector */
    int vectors;
} part_panel;

/* What is the same for all output channels. */
static part_panel panel_at(const stage *s, int64_t v, int vectors) {
    const nchw_plan *plan = s->run->plan;
    const dsconv_problem *p = &plan->shape.problem;
    part_panel at = {.v = v, .vectors = vectors};
    panel *a = &at.call;
    a->channels = plan->shape.mid_channels;
    a->d = s->d + v * VL;
    a->pitch = plan->pitch;
    if (s->direct) {
        const int64_t size = (int64_t)dtype_size(p->dtype);
        a->clamp = plan->out.act.kind != DSCONV_ACT_NONE;
        (void)epilogue_clamp(&plan->out, &a->low, &a->high);
        a->y_row = p->y_strides[1] * size;
        a->stream = s->run->stream;
        for (int i = 0; i < vectors; i++) {
            a->at[i] = pixel_offset(s->tile, p->y_strides, (v + i) * VL) * size;
            a->n[i] = vector_length(s, v + i);
        }
    } else {
        a->y_row = (int64_t)sizeof(float) * PW_VECTORS * VL;
        for (int i = 0; i < vectors; i++) {
            a->at[i] = i * VL * (int64_t)sizeof(float);
            a->n[i] = VL;
        }
    }
    return at;
}

/* Output channels k .. k+PW_ROWS of a panel. */
static void one_panel(const stage *s, part_panel *at, int64_t k) {
    const nchw_plan *plan = s->run->plan;
    const dsconv_problem *p = &plan->shape.problem;
    panel *a = &at->call;
    a->w = plan->w_pw + k * a->channels;
    a->bias = plan->bias_pw + k;
    a->rows = (int)(p->k - k < PW_ROWS ? p->k - k : PW_ROWS);
    if (s->direct) {
        const int64_t size = (int64_t)dtype_size(p->dtype);
        a->y = (char *)s->run->params->y + (s->y + k * p->y_strides[1]) * size;
        panels[p->dtype][at->vectors - 1](a);
        return;
    }
    float sums[PW_ROWS * PW_VECTORS * VL];
    a->y = (char *)sums;
    panels[DSCONV_F32][at->vectors - 1](a);
    for (int row = 0; row < a->rows; row++)
        for (int i = 0; i < at->vectors; i++)
            finish_pixels(s, k + row, (at->v + i) * VL, sums + (row * PW_VECTORS + i) * VL,
                          vector_length(s, at->v + i));
}

/* The pixels after the last panel, for TAIL_BLOCKS * PW_ROWS output channels from k. */
static void tail_panel(const stage *s, int64_t k, int blocks) {
    const nchw_plan *plan = s->run->plan;
    const dsconv_problem *p = &plan->shape.problem;
    const int64_t channels = plan->shape.mid_channels, pixel = s->vectors * VL;
    float sums[4 * VL];
    const panel a = {
        .channels = channels,
        .w = plan->w_pw + k * channels,
        .bias = plan->bias_pw + k,
        .d = s->d + pixel,
        .pitch = plan->pitch,
    };
    CPU_NAME(nchw_tail)(&a, s->tail, blocks, sums);
    for (int64_t row = 0; row < blocks * PW_ROWS && k + row < p->k; row++) {
        float line[4];
        for (int i = 0; i < s->tail; i++)
            line[i] = sums[(row / PW_ROWS * s->tail + i) * VL + row % PW_ROWS];
        finish_pixels(s, k + row, pixel, line, s->tail);
    }
}

/* Vectors of the next panel when `left` remain: threes, but two twos rather than three and one. */
static int panel_vectors(int64_t left) {
    return left >= 3 && left != 4 ? 3 : left >= 2 ? 2 : 1;
}

/* Output channels [begin, end) of a tile, in multiples of PW_ROWS. */
static void pointwise(const stage *s, int64_t begin, int64_t end, background *next) {
    const int most_panels = s->run->stream ? STREAM_GROUP : GROUP;
    int64_t v = 0;
    while (v < s->vectors) {
        part_panel group[STREAM_GROUP];
        int size = 0;
        for (; size < most_panels && v < s->vectors; size++) {
            group[size] = panel_at(s, v, panel_vectors(s->vectors - v));
            v += group[size].vectors;
        }
        for (int64_t k = begin; k < end; k += PW_ROWS)
            for (int i = 0; i < size; i++) {
                one_panel(s, &group[i], k);
                if (next)
                    background_step(next);
            }
    }
    /* Four chains of sums at least keep the multipliers busy. */
    const int most = s->tail == 1 ? 4 : s->tail == 2 ? 2 : 1;
    for (int64_t k = begin; s->tail > 0 && k < end;) {
        int blocks = end - k > (most - 1) * PW_ROWS ? most : 1;
        tail_panel(s, k, blocks);
        k += blocks * PW_ROWS;
    }
}

static stage stage_of(const nchw_run *run, const nchw_tile *tile, const float *d) {
    const nchw_plan *plan = run->plan;
    const dsconv_problem *p = &plan->shape.problem;
    const int64_t *y = p->y_strides, *residual = p->residual_strides;
    float low, high;
    stage s = {.run = run, .tile = tile, .d = d};
    s.y = tile->n * y[0] + tile->p * y[2] + tile->q * y[3];
    s.residual = tile->n * residual[0] + tile->p * residual[2] + tile->q * residual[3];
    s.pixels = tile->rows * tile->pitch;
    s.tail = (int)(s.pixels % VL);
    if (s.tail > VL / 4)
        s.tail = 0;
    s.vectors = (s.pixels - s.tail + VL - 1) / VL;
    const epilogue as_float = {DSCONV_F32, plan->out.residual, plan->out.act};
    s.direct = epilogue_clamp(&as_float, &low, &high) && y[3] == 1;
    return s;
}

/* Each tile's depthwise stage goes on behind the pointwise stage of the one before. */
static void work_alone(const nchw_run *run, void *scratch, float *const d[2], int thread,
                       int threads) {
    const nchw_plan *plan = run->plan;
    const dsconv_problem *p = &plan->shape.problem;
    const int64_t channels = plan->shape.mid_channels;
    int64_t begin, end;
    background next;
    cpu_share(p->n * plan->tiles_p * plan->tiles_q, thread, threads, &begin, &end);
    for (int64_t i = begin; i < end; i++) {
        nchw_tile tile = tile_at(plan, i);
        if (i == begin)
            background_begin(&next, run, &tile, 0, channels, scratch, d[i % 2]);
        background_channels(&next, channels);
        stage s = stage_of(run, &tile, d[i % 2]);
        if (i + 1 < end) {
            nchw_tile following = tile_at(plan, i + 1);
            background_begin(&next, run, &following, 0, channels, scratch, d[(i + 1) % 2]);
            next.steps = (s.vectors + 2) / 3 * ((p->k + PW_ROWS - 1) / PW_ROWS);
            fetch_channel(&next);
        }
        pointwise(&s, 0, p->k, i + 1 < end ? &next : NULL);
    }
}

/* Two tiles in turn, so that one barrier a tile is enough. */
static void work_together(const nchw_run *run, void *scratch, float *const d[2], int thread,
                          int threads) {
    const nchw_plan *plan = run->plan;
    const dsconv_problem *p = &plan->shape.problem;
    int64_t j_begin, j_end, k_begin, k_end;
    cpu_share(plan->shape.mid_channels, thread, threads, &j_begin, &j_end);
    cpu_share((p->k + PW_ROWS - 1) / PW_ROWS, thread, threads, &k_begin, &k_end);
    k_end = k_end * PW_ROWS < p->k ? k_end * PW_ROWS : p->k;
    for (int64_t i = 0; i < p->n * plan->tiles_p * plan->tiles_q; i++) {
        nchw_tile tile = tile_at(plan, i);
        if (j_begin < j_end) {
            background depthwise;
            background_begin(&depthwise, run, &tile, j_begin, j_end, scratch, d[i % 2]);
            background_channels(&depthwise, j_end);
        }
        if (threads > 1)
            dsconv_cpu_barrier();
        stage s = stage_of(run, &tile, d[i % 2]);
        pointwise(&s, k_begin * PW_ROWS, k_end, NULL);
    }
}

void CPU_NAME(nchw_work)(const void *arguments, int thread, int threads) {
    const nchw_run *run = arguments;
    const nchw_plan *plan = run->plan;
    char *memory = run->params->workspace;
    const size_t d_sizes = 2 * plan->d_size;
    float *const own =
        (float *)(void *)(memory +
                          (plan->shared ? 0 : (size_t)thread * (d_sizes + plan->scratch_size)));
    float *const d[2] = {own, own + plan->d_size / sizeof(float)};
    if (plan->shared)
        work_together(run, memory + d_sizes + (size_t)thread * plan->scratch_size, d, thread,
                      threads);
    else
        work_alone(run, (char *)own + d_sizes, d, thread, threads);
    if (run->stream)
        stream_fence();
}
