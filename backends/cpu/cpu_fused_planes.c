/*
 * Algorithm `fused` for small NCHW planes: an image is turned into pixels in the cache, goes
 * through the NHWC kernels there, and its result is turned back into planes. The sums are those of
 * the other fused kernels, bit for bit.
 */
#include <math.h>

#include "cpu_fused_nhwc.h"
#include "cpu_kernels.h"
#include "kernels/planes.h"

/* Bytes of an image and its result, as floats, up to which they stay in the cache. */
static const int64_t most_bytes = INT64_C(12) << 20;

/* Planes of more pixels fill the vectors of the NCHW kernels. Turning them pays up to a size, with
 * so many channels that few of their pixels are in the cache at a time, if each value that is
 * turned enters this many multiplications. */
static const int64_t small_plane = 784, most_plane = 1600, many_channels = 128,
                     enough_products = 120;

enum { LINE = 16 }; /* floats per cache line, a multiple of all vector lengths */

typedef struct planes {
    cpu_plan pixels; /* one image in NHWC, fp32 */
    epilogue out;    /* what is left to do after it */
    int64_t x_pitch, y_pitch;
    size_t x_size, y_size; /* bytes, of a multiple of 256 */
} planes;

typedef struct arguments {
    const cpu_plan *plan;
    const dsconv_run_params *params;
} arguments;

static int64_t lines(int64_t channels) {
    return ceil_div(channels, LINE);
}

/* Floats from a pixel to the next: an odd number of cache lines spreads the pixels over the sets of
 * the cache. */
static int64_t pixel_pitch(int64_t channels) {
    return (lines(channels) | 1) * LINE;
}

static size_t image_size(int64_t pixels, int64_t pitch) {
    return (size_t)round_up(pixels * pitch * (int64_t)sizeof(float), 256);
}

static bool dense_planes(const int64_t strides[4], int64_t w) {
    return strides[3] == 1 && strides[2] == w;
}

static const char *refuse(const cpu_context *context, const dsconv_shape *shape) {
    (void)context;
    const dsconv_problem *p = &shape->problem;
    if (p->layout != DSCONV_NCHW)
        return "layout nhwc";
    const double x_plane = (double)p->h * (double)p->w;
    const double y_plane = (double)shape->p * (double)shape->q;
    if (x_plane * (double)p->c + y_plane * (double)p->k > (double)most_bytes / sizeof(float))
        return "planes too large to turn in the cache";
    const double plane = fmax(x_plane, y_plane);
    if (plane > (double)most_plane)
        return "planes that fill vectors as they are";
    if (plane > (double)small_plane &&
        (p->c < many_channels || p->k > p->c ||
         y_plane * (double)(p->r * p->s + p->k) < (double)enough_products * x_plane))
        return "planes with too little work to turn them";
    if (!dense_planes(p->x_strides, p->w) || !dense_planes(p->y_strides, shape->q) ||
        (p->residual && !dense_planes(p->residual_strides, shape->q)))
        return "planes with gaps";
    if (p->output_mid)
        return "output of mid";
    if (p->residual == DSCONV_RESIDUAL_BEFORE_ACT && p->act_out.kind != DSCONV_ACT_NONE)
        return "a residual before an activation";
    return NULL;
}

static void fill_strides(int64_t strides[4], int64_t w, int64_t pitch) {
    strides[0] = 0;
    strides[1] = 1;
    strides[2] = w * pitch;
    strides[3] = pitch;
}

static dsconv_status create(cpu_plan *plan, dsconv_message *message) {
    const dsconv_problem *p = &plan->shape.problem;
    planes *f = plan->data = dsconv_cpu_plan_alloc(plan, 1, sizeof *f);
    if (!f)
        return dsconv_cpu_out_of_memory(message);
    f->pixels = (cpu_plan){.algo = &dsconv_cpu_algo_fused_nhwc,
                           .kernels = plan->kernels,
                           .shape = plan->shape,
                           .threads = plan->threads};
    dsconv_problem *inner = &f->pixels.shape.problem;
    f->x_pitch = pixel_pitch(p->c);
    f->y_pitch = pixel_pitch(p->k);
    inner->layout = DSCONV_NHWC;
    inner->dtype = DSCONV_F32;
    inner->residual = DSCONV_RESIDUAL_NONE;
    fill_strides(inner->x_strides, p->w, f->x_pitch);
    fill_strides(inner->y_strides, plan->shape.q, f->y_pitch);
    f->out = (epilogue){p->dtype, p->residual, {DSCONV_ACT_NONE, 0.0F}};
    f->x_size = image_size(p->h * p->w, f->x_pitch);
    const dsconv_status status = dsconv_cpu_algo_fused_nhwc.create(&f->pixels, message);
    if (status)
        return status;
    f->y_size = image_size(dsconv_cpu_fused_nhwc_most_pixels(&f->pixels), f->y_pitch);
    plan->kernel = plan->kernels->planes_name;
    plan->workspace_size =
        (size_t)plan->threads * (f->x_size + f->y_size) + f->pixels.workspace_size;
    return DSCONV_OK;
}

static void destroy(cpu_plan *plan) {
    planes *f = plan->data;
    if (f)
        dsconv_cpu_plan_release(&f->pixels);
}

static dsconv_status set_weights(cpu_plan *plan, const cpu_weights *weights,
                                 dsconv_message *message) {
    planes *f = plan->data;
    return dsconv_cpu_algo_fused_nhwc.set_weights(&f->pixels, weights, message);
}

/* What one thread has of the image that it works on. */
typedef struct state {
    const arguments *arguments;
    float *x, *y;
    int64_t n, rows; /* image; the rows before this one that tiles to come may need are in x */
} state;

static void bring(void *self, int64_t n, int64_t begin, int64_t end) {
    state *s = self;
    const cpu_plan *plan = s->arguments->plan;
    const planes *f = plan->data;
    const dsconv_problem *p = &plan->shape.problem;
    const int64_t size = p->dtype == DSCONV_F32 ? 4 : 2;
    begin = n == s->n ? maximum(begin, s->rows) : begin;
    if (begin < end)
        plan->kernels->planes_in((const char *)s->arguments->params->x +
                                     (n * p->x_strides[0] + begin * p->w) * size,
                                 p->dtype, p->x_strides[1], 0, p->c, (end - begin) * p->w,
                                 s->x + begin * p->w * f->x_pitch, f->x_pitch);
    s->rows = n == s->n ? maximum(s->rows, end) : end;
    s->n = n;
}

static void take(void *self, int64_t n, int64_t first, int64_t pixels, int64_t k0, int64_t k1) {
    const state *s = self;
    const cpu_plan *plan = s->arguments->plan;
    const planes *f = plan->data;
    const dsconv_problem *p = &plan->shape.problem;
    const int64_t size = p->dtype == DSCONV_F32 ? 4 : 2;
    const char *residual = s->arguments->params->residual;
    char *y = s->arguments->params->y;
    if (p->residual)
        residual += (n * p->residual_strides[0] + first) * size;
    plan->kernels->planes_out(&f->out, s->y, f->y_pitch, k0, k1, pixels, residual,
                              p->residual_strides[1], y + (n * p->y_strides[0] + first) * size,
                              p->y_strides[1]);
}

static void work(const void *opaque, int thread, int threads) {
    const arguments *a = opaque;
    const planes *f = a->plan->data;
    char *tiles = a->params->workspace;
    char *own = tiles + f->pixels.workspace_size + (size_t)thread * (f->x_size + f->y_size);
    state s = {.arguments = a,
               .x = (float *)(void *)own,
               .y = (float *)(void *)(own + f->x_size),
               .n = -1};
    const nhwc_exchange exchange = {&s, bring, take};
    const dsconv_run_params inner = {.x = s.x, .y = s.y, .workspace = tiles};
    dsconv_cpu_fused_nhwc_part(&f->pixels, &inner, &exchange, thread, threads);
}

static dsconv_status run(const cpu_plan *plan, const dsconv_run_params *params,
                         dsconv_message *message) {
    (void)message;
    const arguments a = {plan, params};
    dsconv_cpu_parallel(plan, work, &a);
    return DSCONV_OK;
}

const cpu_algo dsconv_cpu_algo_fused_planes = {
    .name = "fused",
    .refuse = refuse,
    .create = create,
    .destroy = destroy,
    .set_weights = set_weights,
    .run = run,
};
