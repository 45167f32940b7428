/*
 * Algorithm `onednn`: depthwise and pointwise as two oneDNN primitives, in fp32.
 *
 * Conversions, activations and the residual are this library's own passes: oneDNN's drop a NaN.
 * The batch is worked through in equal parts, so that what lies between the steps stays small.
 */
#include "cpu_internal.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cpu_kernels.h"
#include "kernels/nhwc.h"
#include "loader.h"
#include "onednn/onednn_module.h"

typedef struct pair_plan {
    onednn_pair *pair;
    onednn_pair_info info;
    int64_t images; /* of one part */
    int threads;    /* that the pair was made for */
    /* The workspace, in bytes from its start: x as floats, where the caller's is not so, mid, the
     * sums, where they cannot go into y, and what the pair needs. */
    size_t mid_at, sum_at, pair_at;
    char kernel[128];
} pair_plan;

/* One pass over contiguous elements: from floats or to floats. */
typedef struct pass {
    const cpu_kernels *kernels;
    epilogue finish;
    const void *from, *residual;
    void *to;
    int64_t count;
} pass;

static pthread_once_t opened = PTHREAD_ONCE_INIT;
static const onednn_module *module; /* NULL: absent, and why in absent_reason */
static char absent_reason[256];

static void open_module(void) {
    dsconv_message message = {""};
    void *address = NULL;
    onednn_module_entry_fn entry;
    if (dsconv_module_open(ONEDNN_MODULE_NAME, ONEDNN_MODULE_ENTRY, true, &address, &message) ==
        DSCONV_MODULE_OPENED) {
        memcpy(&entry, &address, sizeof entry);
        module = entry();
        if (module->abi == ONEDNN_MODULE_ABI)
            return;
        module = NULL;
        (void)snprintf(message.text, sizeof message.text, "dsconv_onednn.so is of another version");
    }
    memcpy(absent_reason, message.text, sizeof absent_reason);
}

/* Elements of one image of x, mid and y. */
static int64_t x_image(const dsconv_shape *shape) {
    return shape->problem.c * shape->problem.h * shape->problem.w;
}

static int64_t mid_image(const dsconv_shape *shape) {
    return shape->mid_channels * shape->p * shape->q;
}

static int64_t y_image(const dsconv_shape *shape) {
    return shape->problem.k * shape->p * shape->q;
}

static size_t dtype_size(dsconv_dtype type) {
    return type == DSCONV_F32 ? 4 : 2;
}

static const void *elements(const void *base, int64_t index, size_t size) {
    return base ? (const char *)base + (size_t)index * size : NULL;
}

static size_t rounded(size_t size) {
    return (size + 255) & ~(size_t)255;
}

/* The steps along axes of one element do not count. */
static bool is_dense(const dsconv_problem *pb, const int64_t strides[4], int64_t channels,
                     int64_t height, int64_t width) {
    const bool nhwc = pb->layout == DSCONV_NHWC;
    const int64_t extents[4] = {pb->n, channels, height, width};
    const int64_t dense[4] = {channels * height * width, nhwc ? 1 : height * width,
                              nhwc ? width * channels : width, nhwc ? channels : 1};
    for (int i = 0; i < 4; i++)
        if (extents[i] > 1 && strides[i] != dense[i])
            return false;
    return true;
}

/* Largest divisor of the batch with which a part's largest tensor is no larger than this. */
static int64_t images_per_part(const dsconv_shape *shape) {
    const int64_t limit = (int64_t)1 << 20;
    int64_t image = y_image(shape), images = shape->problem.n;
    image = x_image(shape) > image ? x_image(shape) : image;
    image = mid_image(shape) > image ? mid_image(shape) : image;
    images = images > limit / image ? limit / image : images;
    while (images > 1 && shape->problem.n % images)
        images--;
    images = images > 1 ? images : 1;
    return images;
}

/* y may depend neither on n nor on the threads. A pair that does is made for one of each. */
static dsconv_status make_pair(pair_plan *pp, const dsconv_shape *shape,
                               const onednn_pair_options *wanted, dsconv_message *message) {
    onednn_pair_options options = *wanted;
    dsconv_status status = module->pair_create(shape, &options, &pp->pair, &pp->info, message);
    if (status == DSCONV_OK && !pp->info.is_steady) {
        module->pair_destroy(pp->pair);
        options.images = 1;
        options.threads = 1;
        status = module->pair_create(shape, &options, &pp->pair, &pp->info, message);
    }
    pp->images = options.images;
    pp->threads = options.threads;
    return status;
}

/* The first way that oneDNN has a kernel for, quickest first. Measured on Zen 4 and Zen 5: blocks
 * win for NCHW, unless they end in padding. */
static dsconv_status choose_pair(pair_plan *pp, const dsconv_shape *shape, int threads,
                                 bool flush_denormals, dsconv_message *message) {
    const dsconv_problem *pb = &shape->problem;
    const bool reorders = pb->layout == DSCONV_NCHW && !pb->output_mid;
    const struct {
        bool fits;
        onednn_format format;
        int32_t reference;
    } ways[] = {{reorders && shape->mid_channels % 16 == 0, ONEDNN_BLOCKED, 0},
                {reorders, ONEDNN_ANY, 0},
                {true, ONEDNN_PLAIN, 0},
                {true, ONEDNN_PLAIN, 1}};
    dsconv_status status = DSCONV_ERROR_UNSUPPORTED;

    for (size_t i = 0; i < sizeof ways / sizeof *ways && status == DSCONV_ERROR_UNSUPPORTED; i++) {
        const onednn_pair_options options = {.images = images_per_part(shape),
                                             .format = ways[i].format,
                                             .dtype = DSCONV_F32,
                                             .threads = threads,
                                             .reorder = 1,
                                             .reference = ways[i].reference,
                                             .flush_denormals = flush_denormals};
        if (ways[i].fits)
            status = make_pair(pp, shape, &options, message);
    }
    return status;
}

static const char *refuse(const cpu_context *context, const dsconv_shape *shape) {
    const dsconv_problem *pb = &shape->problem;
    const int64_t largest[] = {x_image(shape),
                               mid_image(shape),
                               y_image(shape),
                               pb->pad_top,
                               pb->pad_bottom,
                               pb->pad_left,
                               pb->pad_right,
                               pb->stride_h,
                               pb->stride_w,
                               pb->dil_h,
                               pb->dil_w,
                               shape->mid_channels * pb->r * pb->s,
                               shape->mid_channels * pb->k};
    dsconv_message message = {""};
    pair_plan trial = {.pair = NULL};

    (void)pthread_once(&opened, open_module);
    if (!module)
        return absent_reason;
    for (size_t i = 0; i < sizeof largest / sizeof *largest; i++)
        if (largest[i] > INT32_MAX)
            return "an image, a weight tensor or a field has more than 2^31 - 1";
    if (!is_dense(pb, pb->x_strides, pb->c, pb->h, pb->w))
        return "x_strides: oneDNN is given dense tensors only";
    if (!is_dense(pb, pb->y_strides, pb->k, shape->p, shape->q))
        return "y_strides: oneDNN is given dense tensors only";
    if (pb->residual != DSCONV_RESIDUAL_NONE &&
        !is_dense(pb, pb->residual_strides, pb->k, shape->p, shape->q))
        return "residual_strides: oneDNN is given dense tensors only";
    if (choose_pair(&trial, shape, context->threads, false, &message) != DSCONV_OK)
        return "oneDNN has no kernel for this problem";
    module->pair_destroy(trial.pair);
    return NULL;
}

/* Whether the sums need a buffer: y holds something else, or the residual may be y. */
static bool needs_sum(const dsconv_problem *pb) {
    return pb->dtype != DSCONV_F32 || pb->residual != DSCONV_RESIDUAL_NONE;
}

static dsconv_status create(cpu_plan *plan, dsconv_message *message) {
    const dsconv_shape *shape = &plan->shape;
    const dsconv_problem *pb = &shape->problem;
    pair_plan *pp = plan->data = dsconv_cpu_plan_alloc(plan, 1, sizeof *pp);
    if (!pp)
        return dsconv_cpu_out_of_memory(message);
    dsconv_status status = choose_pair(pp, shape, plan->threads, plan->flush_denormals, message);
    if (status != DSCONV_OK)
        return status;
    pp->mid_at = pb->dtype == DSCONV_F32 ? 0 : rounded(pp->info.x_size);
    pp->sum_at = pp->mid_at + rounded(pp->info.mid_size);
    pp->pair_at = pp->sum_at + (needs_sum(pb) ? rounded(pp->info.y_size) : 0);
    (void)snprintf(pp->kernel, sizeof pp->kernel, "%s + %s", pp->info.kernel_dw,
                   pp->info.kernel_pw);
    plan->kernel = pp->kernel;
    plan->workspace_size = pp->pair_at + pp->info.workspace_size;
    return DSCONV_OK;
}

static void destroy(cpu_plan *plan) {
    pair_plan *pp = plan->data;
    if (pp && pp->pair)
        module->pair_destroy(pp->pair);
}

static int pair_threads(const cpu_plan *plan) {
    const pair_plan *pp = plan->data;
    const int threads = dsconv_cpu_threads(plan);
    return threads < pp->threads ? threads : pp->threads;
}

/* oneDNN's GEMM multiplies the zeros outside the image by the weights there. Where one of them is
 * Inf or NaN, a kernel takes its place that does not. */
static dsconv_status avoid_border(cpu_plan *plan, const float *w_dw, dsconv_message *message) {
    const dsconv_shape *shape = &plan->shape;
    const dsconv_problem *pb = &shape->problem;
    pair_plan *pp = plan->data;
    onednn_pair *pair;
    onednn_pair_info info;
    bool finite = true;

    for (int64_t i = 0; i < shape->mid_channels * pb->r * pb->s; i++)
        finite = finite && isfinite(w_dw[i]);
    if (finite || pp->info.skips_border)
        return DSCONV_OK;
    const onednn_pair_options options = {.images = pp->images,
                                         .format = ONEDNN_PLAIN,
                                         .dtype = DSCONV_F32,
                                         .threads = pp->threads,
                                         .reorder = 1,
                                         .reference = 1,
                                         .skip_border = 1,
                                         .flush_denormals = plan->flush_denormals};
    dsconv_status status = module->pair_create(shape, &options, &pair, &info, message);
    if (status != DSCONV_OK)
        return status;
    if (info.mid_size > pp->info.mid_size || info.workspace_size > pp->info.workspace_size) {
        module->pair_destroy(pair);
        (void)snprintf(message->text, sizeof message->text,
                       "w_dw: Inf or NaN, for which oneDNN needs more workspace");
        return DSCONV_ERROR_UNSUPPORTED;
    }
    module->pair_destroy(pp->pair);
    pp->pair = pair;
    return DSCONV_OK;
}

static dsconv_status set_weights(cpu_plan *plan, const cpu_weights *from, dsconv_message *message) {
    pair_plan *pp = plan->data;
    dsconv_status status = avoid_border(plan, from->w_dw, message);
    if (status == DSCONV_OK)
        status = module->pair_set_weights(pp->pair, pair_threads(plan), from->w_dw, from->w_pw,
                                          from->bias_dw, from->bias_pw, message);
    return status;
}

static void widen(const void *opaque, int thread, int threads) {
    const pass *p = opaque;
    int64_t begin, end;
    cpu_share(p->count, thread, threads, &begin, &end);
    p->kernels->to_float((float *)p->to + begin, (const char *)p->from + 2 * begin, end - begin,
                         p->finish.dtype);
}

static void finish(const void *opaque, int thread, int threads) {
    const pass *p = opaque;
    const size_t size = dtype_size(p->finish.dtype);
    int64_t begin, end;
    cpu_share(p->count, thread, threads, &begin, &end);
    p->kernels->nhwc->epilogue_row(&p->finish, (const float *)p->from + begin,
                                   elements(p->residual, begin, size),
                                   (char *)p->to + (size_t)begin * size, end - begin);
}

/* mid's activation and its copy for the caller. Blocks of channels may end in padding, which is
 * activated too: it meets zero weights. */
static void finish_mid(const cpu_plan *plan, float *mid, void *copy, int64_t count) {
    const pair_plan *pp = plan->data;
    const dsconv_problem *pb = &plan->shape.problem;
    const pass activate = {.kernels = plan->kernels,
                           .finish = {DSCONV_F32, DSCONV_RESIDUAL_NONE, pb->act_mid},
                           .from = mid,
                           .to = mid,
                           .count = (int64_t)(pp->info.mid_size / sizeof *mid)};
    const pass round = {.kernels = plan->kernels,
                        .finish.dtype = pb->dtype,
                        .from = mid,
                        .to = copy,
                        .count = count};
    if (pb->act_mid.kind != DSCONV_ACT_NONE)
        dsconv_cpu_parallel(plan, finish, &activate);
    if (copy && copy != mid)
        dsconv_cpu_parallel(plan, finish, &round);
}

static dsconv_status run_part(const cpu_plan *plan, const dsconv_run_params *params, int64_t part,
                              dsconv_message *message) {
    const dsconv_shape *shape = &plan->shape;
    const dsconv_problem *pb = &shape->problem;
    const pair_plan *pp = plan->data;
    const size_t size = dtype_size(pb->dtype);
    const int64_t xs = pp->images * x_image(shape), mids = pp->images * mid_image(shape),
                  ys = pp->images * y_image(shape);
    const int threads = pair_threads(plan);
    char *workspace = params->workspace;
    const void *x = elements(params->x, part * xs, size);
    void *y = (char *)params->y + (size_t)(part * ys) * size;
    void *copy = params->mid ? (char *)params->mid + (size_t)(part * mids) * size : NULL;
    float *mid = copy && pb->dtype == DSCONV_F32 ? copy : (void *)(workspace + pp->mid_at);
    float *sum = needs_sum(pb) ? (void *)(workspace + pp->sum_at) : y;
    const pass widen_x = {.kernels = plan->kernels,
                          .finish.dtype = pb->dtype,
                          .from = x,
                          .to = workspace,
                          .count = xs};
    const pass finish_y = {.kernels = plan->kernels,
                           .finish = {pb->dtype, pb->residual, pb->act_out},
                           .from = sum,
                           .residual = elements(params->residual, part * ys, size),
                           .to = y,
                           .count = ys};

    if (pb->dtype != DSCONV_F32) {
        dsconv_cpu_parallel(plan, widen, &widen_x);
        x = widen_x.to;
    }
    dsconv_status status =
        module->pair_depthwise(pp->pair, threads, x, mid, workspace + pp->pair_at, message);
    if (status != DSCONV_OK)
        return status;
    finish_mid(plan, mid, copy, mids);
    status = module->pair_pointwise(pp->pair, threads, mid, sum, workspace + pp->pair_at, message);
    if (status == DSCONV_OK && (sum != y || pb->act_out.kind != DSCONV_ACT_NONE))
        dsconv_cpu_parallel(plan, finish, &finish_y);
    return status;
}

static dsconv_status run(const cpu_plan *plan, const dsconv_run_params *params,
                         dsconv_message *message) {
    const pair_plan *pp = plan->data;
    dsconv_status status = DSCONV_OK;
    const int64_t parts = plan->shape.problem.n / pp->images;
    for (int64_t part = 0; part < parts && status == DSCONV_OK; part++)
        status = run_part(plan, params, part, message);
    return status;
}

/* Auto has kernels of this library's own for everything. */
static bool prefer(const cpu_context *context, const dsconv_shape *shape) {
    (void)context, (void)shape;
    return false;
}

const cpu_algo dsconv_cpu_algo_onednn = {
    .name = "onednn",
    .refuse = refuse,
    .prefer = prefer,
    .create = create,
    .destroy = destroy,
    .set_weights = set_weights,
    .run = run,
};
