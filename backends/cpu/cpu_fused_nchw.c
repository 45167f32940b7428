/* Algorithm `fused` for NCHW: the shape of tiles and the packing of weights. */
#include "cpu_kernels.h"

#include <math.h>
#include <string.h>

#include "kernels/nchw.h"

/* Bytes of D that one thread works on: a part of the second-level cache. */
static const int64_t d_target = (int64_t)512 * 1024;

/* Per-thread memory beyond which a problem is better left to `generic`. */
static const int64_t memory_limit = (int64_t)32 * 1024 * 1024;

/* With windows and steps up to these no size of a tile overflows. */
static const int64_t most_window = 1 << 20, most_step = 1 << 12;

/* Outputs larger than this leave the caches anyway, so they are stored past them. */
static const int64_t stream_from = (int64_t)8 * 1024 * 1024;

/* Slots of a tile: consecutive input rows, or those of each tap apart where that takes fewer. */
static void choose_slots(nchw_plan *f) {
    const dsconv_problem *p = &f->shape.problem;
    const int64_t together = (f->rows - 1) * p->stride_h + (p->r - 1) * p->dil_h + 1;
    f->together = together <= f->rows * p->r;
    f->slots = f->together ? together : f->rows * p->r;
    f->step_p = f->together ? p->stride_h : 1;
    f->step_r = f->together ? p->dil_h : f->rows;
}

static void choose_memory(nchw_plan *f, int64_t vector) {
    const dsconv_problem *p = &f->shape.problem;
    const int64_t columns = (f->cols - 1) * p->stride_w + (p->s - 1) * p->dil_w + 1;
    choose_slots(f);
    f->phase_pitch = round_up(ceil_div(columns, p->stride_w) + 2 * vector, vector);
    f->slot_pitch = f->phase_pitch * p->stride_w;
    f->pitch = f->flat ? (f->rows - 1) * f->cols + round_up(f->cols, vector)
                       : f->rows * round_up(f->cols, vector);
    f->pitch = round_up(f->pitch, vector);
    if (f->pitch / vector % 8 == 0)
        f->pitch += vector; /* such a pitch would crowd into few sets of the cache */
    f->d_size = (size_t)round_up(f->pitch * f->shape.mid_channels * (int64_t)sizeof(float), 256);
    /* Three words for each slot, then two buffers. */
    const int64_t words = 3 * f->slots, floats = 2 * f->slots * f->slot_pitch;
    f->scratch_size =
        (size_t)round_up(words * (int64_t)sizeof(int64_t) + floats * (int64_t)sizeof(float), 256);
}

/* Multiplications per output channel and depthwise channel of a tile, in vectors, with what is
 * lost at the panels' ends. */
static double panel_cost(int64_t pixels, int64_t vector) {
    int64_t tail = pixels % vector, vectors = pixels / vector;
    double cost = 0.0;
    if (tail > vector / 4)
        vectors++;
    else
        cost = (double)tail * 2.0 / (double)vector;
    int64_t rest = vectors % 3;
    return cost + (double)vectors + (rest == 2 ? 0.05 : rest == 1 && vectors > 1 ? 0.1 : 0.0);
}

/* Estimated time of a run with tiles of `rows` whole rows. */
static double tile_cost(const nchw_plan *f, int threads, int64_t vector, int64_t rows,
                        bool shared) {
    const dsconv_problem *p = &f->shape.problem;
    const int64_t full = f->shape.p / rows, rest = f->shape.p % rows;
    const double width = (double)ceil_div(f->shape.q, vector), k = (double)p->k;
    const double taps = 1.3 * (double)(p->r * p->s);
    double times[2];
    for (int i = 0; i < 2; i++) {
        int64_t count = i == 0 ? rows : rest;
        double halo = (double)((count - 1) * p->stride_h + p->r) * (double)p->stride_w;
        times[i] = panel_cost(count * f->shape.q, vector) * k +
                   width * ((double)count * taps + 2.0 * halo) + 40.0;
    }
    double tiles = (double)p->n * (double)(full + (rest > 0));
    double total = (double)p->n * ((double)full * times[0] + (rest > 0 ? times[1] : 0.0));
    if (shared) {
        /* Much of D comes from other cores, and nothing fetches the input ahead. */
        double blocks = (double)p->k / 8.0;
        return 1.1 * total / blocks * ceil(blocks / threads) +
               tiles * 2e4 / (double)f->shape.mid_channels;
    }
    /* Each thread gets consecutive tiles; the busiest has the fewest that end an image. */
    const double most = ceil(tiles / threads), last = floor(most * (double)p->n / tiles);
    return (most - last) * times[0] + last * times[rest > 0];
}

static bool fits(const nchw_plan *f) {
    return (int64_t)(2 * f->d_size + f->scratch_size) <= memory_limit;
}

/* Tiles of whole rows, as many as balance best within D's target; of a part of one row when even
 * that is too much. The result does not depend on it. */
static void choose_tile(nchw_plan *f, int threads, int64_t vector) {
    const dsconv_problem *p = &f->shape.problem;
    const int64_t P = f->shape.p, Q = f->shape.q;
    int64_t pixels = d_target / (f->shape.mid_channels * (int64_t)sizeof(float));
    if (pixels < 3 * vector)
        pixels = 3 * vector;
    f->cols = Q > 2 * pixels ? round_up(ceil_div(Q, ceil_div(Q, pixels)), vector) : Q;
    f->flat = f->cols == Q && p->y_strides[3] == 1 && p->y_strides[2] == Q &&
              (p->residual == DSCONV_RESIDUAL_NONE ||
               (p->residual_strides[3] == 1 && p->residual_strides[2] == Q));
    f->shared = false;
    int64_t best_rows = 1;
    double best = INFINITY;
    for (int64_t rows = 1; rows <= P && (rows == 1 || rows * Q <= pixels); rows++) {
        f->rows = rows;
        choose_memory(f, vector);
        if (rows > 1 && !fits(f))
            break; /* whether a problem is refused must not depend on threads */
        for (int shared = 0; shared < 2; shared++) {
            double cost = tile_cost(f, threads, vector, rows, shared);
            if (cost >= best || (shared && threads == 1))
                continue;
            best = cost;
            best_rows = rows;
            f->shared = shared;
        }
    }
    f->rows = best_rows;
    f->tiles_p = ceil_div(P, f->rows);
    f->tiles_q = ceil_div(Q, f->cols);
    choose_memory(f, vector);
}

static const char *refuse(const cpu_context *context, const dsconv_shape *shape) {
    if (shape->problem.layout != DSCONV_NCHW)
        return "layout nhwc";
    nchw_plan f = {.shape = *shape};
    const dsconv_problem *p = &shape->problem;
    if (shape->mid_channels > memory_limit || p->dil_w * p->s > most_window ||
        p->stride_w > most_step || p->r > most_step)
        return "extents too large for a tile in the cache";
    choose_tile(&f, context->threads, context->kernels->vector_length);
    if (!fits(&f))
        return "extents too large for a tile in the cache";
    return NULL;
}

static dsconv_status create(cpu_plan *plan, dsconv_message *message) {
    const dsconv_problem *p = &plan->shape.problem;
    const int64_t mid = plan->shape.mid_channels, rows = plan->kernels->nchw_pw_rows;
    nchw_plan *f = plan->data = dsconv_cpu_plan_alloc(plan, 1, sizeof *f);
    if (!f)
        return dsconv_cpu_out_of_memory(message);
    f->shape = plan->shape;
    f->mid = (epilogue){DSCONV_F32, DSCONV_RESIDUAL_NONE, p->act_mid};
    f->out = (epilogue){p->dtype, p->residual, p->act_out};
    choose_tile(f, plan->threads, plan->kernels->vector_length);
    f->tap = dsconv_cpu_plan_alloc(plan, p->s, sizeof *f->tap);
    f->zeros = dsconv_cpu_plan_alloc(plan, f->slot_pitch, sizeof(float));
    f->w_dw = dsconv_cpu_plan_alloc(plan, mid, (size_t)(p->r * p->s) * sizeof(float));
    f->bias_dw = dsconv_cpu_plan_alloc(plan, mid, sizeof(float));
    f->bias_pw = dsconv_cpu_plan_alloc(plan, round_up(p->k, rows), sizeof(float));
    f->w_pw = dsconv_cpu_plan_alloc(plan, round_up(p->k, rows), (size_t)mid * sizeof(float));
    f->non_finite = dsconv_cpu_plan_alloc(plan, mid, sizeof(bool));
    if (plan->out_of_memory)
        return dsconv_cpu_out_of_memory(message);
    for (int64_t s = 0; s < p->s; s++)
        f->tap[s] = s * p->dil_w % p->stride_w * f->phase_pitch + s * p->dil_w / p->stride_w;
    plan->kernel = plan->kernels->nchw_name;
    plan->workspace_size = f->shared ? 2 * f->d_size + (size_t)plan->threads * f->scratch_size
                                     : (size_t)plan->threads * (2 * f->d_size + f->scratch_size);
    return DSCONV_OK;
}

static dsconv_status set_weights(cpu_plan *plan, const cpu_weights *from, dsconv_message *message) {
    const dsconv_problem *p = &plan->shape.problem;
    const int64_t mid = plan->shape.mid_channels, rows = plan->kernels->nchw_pw_rows;
    nchw_plan *f = plan->data;
    (void)message;
    memcpy(f->w_dw, from->w_dw, (size_t)(mid * p->r * p->s) * sizeof(float));
    if (from->bias_dw)
        memcpy(f->bias_dw, from->bias_dw, (size_t)mid * sizeof(float));
    if (from->bias_pw)
        memcpy(f->bias_pw, from->bias_pw, (size_t)p->k * sizeof(float));
    for (int64_t i = 0; i < mid * p->r * p->s; i++)
        if (!isfinite(f->w_dw[i]))
            f->non_finite[i / (p->r * p->s)] = true;
    for (int64_t k = 0; k < p->k; k++) {
        float *to = f->w_pw + k / rows * rows * mid + k % rows;
        for (int64_t j = 0; j < mid; j++)
            to[j * rows] = from->w_pw[k * mid + j];
    }
    return DSCONV_OK;
}

/* Whether every vector stored lies on a boundary of its own size. */
static bool aligned(const nchw_plan *f, const void *y) {
    const dsconv_problem *p = &f->shape.problem;
    const int64_t stride = p->y_strides[0] | p->y_strides[1] | p->y_strides[2];
    return ((uintptr_t)y | (uintptr_t)(stride * 4)) % 64 == 0 && p->y_strides[3] == 1 &&
           f->shape.q % 16 == 0;
}

static dsconv_status run(const cpu_plan *plan, const dsconv_run_params *params,
                         dsconv_message *message) {
    (void)message;
    const nchw_plan *f = plan->data;
    const dsconv_problem *p = &f->shape.problem;
    nchw_run arguments = {.plan = f, .params = params};
    int64_t size;
    if (__builtin_mul_overflow(p->n * p->k, f->shape.p * f->shape.q * 4, &size))
        size = INT64_MAX;
    arguments.stream = p->dtype == DSCONV_F32 && size >= stream_from && aligned(f, params->y);
    dsconv_cpu_parallel(plan, plan->kernels->nchw_work, &arguments);
    return DSCONV_OK;
}

const cpu_algo dsconv_cpu_algo_fused_nchw = {
    .name = "fused",
    .refuse = refuse,
    .create = create,
    .set_weights = set_weights,
    .run = run,
};
