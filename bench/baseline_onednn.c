#include "baseline_onednn.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../backends/cpu/onednn/onednn_pair.h"

typedef struct variant {
    const char *name;
    onednn_format format;
    int reorder, split;
} variant;

static const variant variants[] = {
    {"onednn plain", ONEDNN_PLAIN, 1, 0},
    {"onednn plain, split", ONEDNN_PLAIN, 1, 1},
    {"onednn any+reorders", ONEDNN_ANY, 1, 0},
    {"onednn blocked+reorders", ONEDNN_BLOCKED, 1, 0},
    {"onednn blocked+reorders, split", ONEDNN_BLOCKED, 1, 1},
    {"onednn any", ONEDNN_ANY, 0, 0},
    {"onednn blocked", ONEDNN_BLOCKED, 0, 0},
};

/* Bytes of y in one part of a split batch: what lies between the primitives stays in the caches. */
static const size_t split_size = (size_t)4 << 20;

struct baseline_onednn {
    onednn_pair *pair;
    onednn_pair_info info;
    int64_t parts;
    int32_t threads;
    int own_layout; /* x and y of run are not used: both lie in scratch, in oneDNN's layout */
    char kernel[160];
};

/* Keeps every buffer aligned to a page. */
static size_t padded(size_t size) {
    return (size + 4095) / 4096 * 4096;
}

size_t baseline_onednn_count(void) {
    return sizeof(variants) / sizeof(variants[0]);
}

const char *baseline_onednn_name(size_t index) {
    return variants[index].name;
}

int baseline_onednn_takes_layout(size_t index) {
    return variants[index].reorder;
}

static dsconv_status refuse(dsconv_message *message, const char *why) {
    snprintf(message->text, sizeof(message->text), "%s", why);
    return DSCONV_ERROR_UNSUPPORTED;
}

static int is_strided(const dsconv_problem *problem) {
    static const int64_t dense[4] = {0, 0, 0, 0};
    return memcmp(problem->x_strides, dense, sizeof(dense)) != 0 ||
           memcmp(problem->y_strides, dense, sizeof(dense)) != 0 ||
           memcmp(problem->residual_strides, dense, sizeof(dense)) != 0;
}

/* Largest divisor of the batch whose part of y is no larger than split_size. */
static int64_t images_per_part(const dsconv_shape *shape, const variant *v) {
    const dsconv_problem *p = &shape->problem;
    const size_t element = p->dtype == DSCONV_F32 ? 4 : 2;
    const size_t image = (size_t)(p->k * shape->p * shape->q) * element;
    for (int64_t images = p->n; images > 1; images--)
        if (!v->split || (p->n % images == 0 && (size_t)images * image <= split_size))
            return images;
    return 1;
}

dsconv_status baseline_onednn_create(size_t index, const dsconv_problem *problem, int32_t threads,
                                     const float *w_dw, const float *w_pw, const float *bias_dw,
                                     const float *bias_pw, baseline_onednn **out,
                                     dsconv_message *message) {
    const variant *v = &variants[index];
    dsconv_problem_info geometry = DSCONV_PROBLEM_INFO_INIT;

    *out = NULL;
    dsconv_status status = dsconv_problem_query(problem, &geometry);
    if (status != DSCONV_OK)
        return refuse(message, dsconv_last_message());
    if (problem->n == 0 || problem->output_mid || is_strided(problem))
        return refuse(message, "empty, strided or with mid as output");
    if (problem->layout == DSCONV_NHWC && v->format == ONEDNN_BLOCKED)
        return refuse(message, "blocked layout from NHWC");
    const dsconv_shape shape = {.problem = *problem,
                                .p = geometry.p,
                                .q = geometry.q,
                                .mid_channels = geometry.mid_channels};
    const int64_t images = images_per_part(&shape, v);
    if (v->split && images == problem->n)
        return refuse(message, "batch too small to split");

    baseline_onednn *b = calloc(1, sizeof(*b));
    if (!b)
        return DSCONV_ERROR_OUT_OF_MEMORY;
    const onednn_pair_options options = {.images = images,
                                         .format = v->format,
                                         .dtype = problem->dtype,
                                         .threads = threads,
                                         .reorder = v->reorder,
                                         .reference = 1,
                                         .post_ops = 1};
    b->parts = problem->n / images;
    b->threads = threads;
    status = onednn_pair_create(&shape, &options, &b->pair, &b->info, message);
    if (status == DSCONV_OK && v->format == ONEDNN_ANY && b->info.all_plain)
        status = refuse(message, "same as plain");
    if (status == DSCONV_OK)
        status = onednn_pair_set_weights(b->pair, threads, w_dw, w_pw, bias_dw, bias_pw, message);
    b->own_layout = !v->reorder;
    snprintf(b->kernel, sizeof(b->kernel), "%s + %s", b->info.kernel_dw, b->info.kernel_pw);
    if (status == DSCONV_OK)
        *out = b;
    else
        baseline_onednn_destroy(b);
    return status;
}

const char *baseline_onednn_kernel(const baseline_onednn *b) {
    return b->kernel;
}

size_t baseline_onednn_scratch_size(const baseline_onednn *b) {
    const size_t own = b->own_layout ? padded(b->info.x_size) + padded(b->info.y_size) : 0;
    return padded(b->info.mid_size) + padded(b->info.workspace_size) + own;
}

dsconv_status baseline_onednn_run(baseline_onednn *b, const void *x, void *y, void *scratch,
                                  dsconv_message *message) {
    char *mid = scratch;
    char *workspace = mid + padded(b->info.mid_size);
    char *own = workspace + padded(b->info.workspace_size);
    const char *from = b->own_layout ? own : x;
    char *to = b->own_layout ? own + padded(b->info.x_size) : y;
    dsconv_status status = DSCONV_OK;
    for (int64_t i = 0; i < b->parts && status == DSCONV_OK; i++) {
        status = onednn_pair_depthwise(b->pair, b->threads, from + (size_t)i * b->info.x_size, mid,
                                       workspace, message);
        if (status == DSCONV_OK)
            status = onednn_pair_pointwise(b->pair, b->threads, mid,
                                           to + (size_t)i * b->info.y_size, workspace, message);
    }
    return status;
}

void baseline_onednn_destroy(baseline_onednn *b) {
    if (!b)
        return;
    onednn_pair_destroy(b->pair);
    free(b);
}
