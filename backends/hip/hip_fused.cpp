/* Algorithm `fused`: the kernels of CDNA and RDNA. */
#include <math.h>
#include <string.h>

#include "cdna_tile.h"
#include "hip_internal.h"
#include "rdna_tile.h"

typedef void (*tile_kernel)(hip_tile_args);

static const struct family {
    const char *arches[9]; /* then NULL */
    int channels;          /* of mid in shared memory at a time */
    struct {
        const char *name;
        tile_kernel kernel;
    } by_type[3];
} families[] = {
#define KERNELS(family)                                                                            \
    {                                                                                              \
        {#family "_tile_f32", family##_tile_kernel<gpu_f32>},                                      \
            {#family "_tile_f16", family##_tile_kernel<gpu_f16>}, {                                \
#family "_tile_bf16", family##_tile_kernel < gpu_bf16>                                 \
        }                                                                                          \
    }
    {{"gfx90a", "gfx942"}, 8, KERNELS(cdna)},
    {{"gfx1100", "gfx1101", "gfx1102", "gfx1103", "gfx1150", "gfx1151", "gfx1200", "gfx1201"},
     16,
     KERNELS(rdna)},
#undef KERNELS
};

typedef struct fused_data {
    tile_kernel kernel;
    int64_t blocks;
    hip_tile tile;
} fused_data;
static_assert(sizeof(fused_data) <= GPU_PLAN_DATA_SIZE, "plan data");

/* NULL if the device is of none. */
static const family *find_family(const gpu_context *context) {
#ifndef __HIP_PLATFORM_NVIDIA__
    gpuDeviceProp device;
    if (gpuGetDeviceProperties(&device, context->device) != gpuSuccess)
        return NULL;
    const size_t length = strcspn(device.gcnArchName, ":"); /* features follow */
    for (const family &f : families)
        for (const char *const *name = f.arches; *name; name++)
            if (strlen(*name) == length && strncmp(*name, device.gcnArchName, length) == 0)
                return &f;
#endif
    (void)context;
    (void)families;
    return NULL;
}

static hip_divisor divisor(int by) {
    return {by, (((uint32_t)1 << 24) - 1) / (uint32_t)by + 1};
}

static double images(const hip_tile &t) {
    return HIP_PIXELS >> (t.log_columns + t.log_rows);
}

/* Tiles per image of a batch that fills them. */
static double tiles_per_image(const dsconv_shape *shape, const hip_tile &t) {
    return (double)gpu_ceil_div(shape->p, (int64_t)1 << t.log_rows) *
           (double)gpu_ceil_div(shape->q, (int64_t)1 << t.log_columns) / images(t);
}

/* What the tile's windows cover; false if that is too much. */
static bool describe_patch(const dsconv_problem *pb, hip_tile *t) {
    const int vector = pb->dtype == DSCONV_F32 ? 4 : 8;
    const double rows = (double)((1 << t->log_rows) - 1) * (double)pb->stride_h +
                        (double)(pb->r - 1) * (double)pb->dil_h + 1.0;
    const double columns = (double)((1 << t->log_columns) - 1) * (double)pb->stride_w +
                           (double)(pb->s - 1) * (double)pb->dil_w + 1.0;
    if (rows > HIP_PATCH || columns > HIP_PATCH)
        return false;
    const int vectors = ((int)columns + vector - 2) / vector + 1;    /* may start within one */
    const double plane = images(*t) * rows * vectors * vector + 4.0; /* + 4: bank conflicts */
    if (plane > HIP_PATCH)
        return false;
    t->columns = vectors * vector;
    t->vector_mask = vector - 1;
    t->plane = (int)plane;
    t->patch_rows = divisor((int)rows);
    t->row_vectors = divisor(vectors);
    return true;
}

/* The shape that leaves the fewest pixels idle and stages the least; false if none fits. */
static bool choose_tile(const dsconv_shape *shape, hip_tile *best) {
    double best_cost = INFINITY;
    hip_tile t = {};
    for (t.log_columns = 6; t.log_columns >= 0; t.log_columns--)
        for (t.log_rows = HIP_LOG_PIXELS - t.log_columns; t.log_rows >= 0; t.log_rows--) {
            t.log_images = HIP_LOG_PIXELS - t.log_columns - t.log_rows;
            if (!describe_patch(&shape->problem, &t))
                continue;
            const double cost = tiles_per_image(shape, t) * (HIP_PIXELS + t.plane);
            if (cost < best_cost) {
                best_cost = cost;
                *best = t;
            }
        }
    return best_cost < INFINITY;
}

static const char *refuse(const gpu_context *context, const dsconv_shape *shape) {
    hip_tile t;
    if (!find_family(context))
        return "needs a gfx90a, gfx942, gfx11 or gfx12 device";
    if ((double)shape->mid_channels * (double)(shape->problem.r * shape->problem.s) > 1e9)
        return "more than 10^9 taps";
    if (!choose_tile(shape, &t))
        return "the windows of any tile of 128 pixels cover more than shared memory holds";
    const double blocks = (double)gpu_ceil_div(shape->problem.n, (int64_t)1 << t.log_images) *
                          tiles_per_image(shape, t) * images(t) *
                          (double)gpu_ceil_div(shape->problem.k, HIP_OUTPUTS);
    return blocks > (double)gpu_max_blocks(HIP_THREADS) ? "more blocks than a launch can have"
                                                        : NULL;
}

/* Where at least half of a tile's products are needed. */
static bool prefer(const dsconv_shape *shape) {
    hip_tile t;
    const double outputs = (double)gpu_ceil_div(shape->problem.k, HIP_OUTPUTS) * HIP_OUTPUTS;
    return choose_tile(shape, &t) && shape->mid_channels >= 8 &&
           2.0 * (double)shape->p * (double)shape->q * (double)shape->problem.k >=
               tiles_per_image(shape, t) * HIP_PIXELS * outputs;
}

static bool is_bound(dsconv_activation act) {
    return act.kind == DSCONV_ACT_RELU || act.kind == DSCONV_ACT_RELU6;
}

static gpuError_t prepare(const gpu_context *context, const dsconv_shape *shape, gpu_plan *plan) {
    const dsconv_problem *pb = &shape->problem;
    const family *f = find_family(context);
    fused_data *data = (fused_data *)plan->data;
    hip_tile *t = &data->tile;
    (void)choose_tile(shape, t);
    t->batch = pb->n;
    t->tiles_q = (int)gpu_ceil_div(shape->q, (int64_t)1 << t->log_columns);
    t->tiles_p = (int)gpu_ceil_div(shape->p, (int64_t)1 << t->log_rows);
    t->output_tiles = (int)gpu_ceil_div(pb->k, HIP_OUTPUTS);
    t->step = HIP_PATCH / t->plane < f->channels ? HIP_PATCH / t->plane : f->channels;
    t->channel_vectors = divisor((t->step - 1) / (pb->dtype == DSCONV_F32 ? 4 : 8) + 1);
    t->mid_low = is_bound(pb->act_mid) ? 0.0F : -INFINITY;
    t->mid_high = pb->act_mid.kind == DSCONV_ACT_RELU6 ? 6.0F : INFINITY;
    data->blocks = gpu_ceil_div(pb->n, (int64_t)1 << t->log_images) * t->tiles_p * t->tiles_q *
                   t->output_tiles;
    data->kernel = f->by_type[pb->dtype].kernel;
    plan->kernel = f->by_type[pb->dtype].name;
    return gpu_prepare(data->kernel);
}

static gpuError_t launch(const gpu_plan *plan, const gpu_conv *conv, gpuStream_t stream) {
    const fused_data *data = (const fused_data *)plan->data;
    hip_tile_args args;
    (hip_tile &)args = data->tile;
    args.conv = *conv;
    return gpu_launch(data->kernel, data->blocks, HIP_THREADS, stream, args);
}

gpu_algo hip_algo_fused = {"fused", refuse, prefer, prepare, launch};
