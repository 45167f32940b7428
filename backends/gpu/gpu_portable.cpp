/* Algorithm `portable`: the kernel of gpu_portable.h. */
#include "gpu_portable.h"

#include "gpu_internal.h"

typedef void (*portable_kernel)(gpu_conv);

typedef gpu_tile_size<128, 128, 8, 8> large_tile;
typedef gpu_tile_size<128, 64, 8, 4> narrow_tile;
typedef gpu_tile_size<32, 64, 4, 4> small_tile;

/* Largest first. */
static const struct tile {
    const char *name;
    int pixels, outputs, threads;
    portable_kernel kernels[3][2]; /* by storage type; any window, 3 x 3 */
} tiles[] = {
#define TILE(size)                                                                                 \
    size::PIXELS, size::OUTPUTS, size::THREADS, {                                                  \
        {gpu_portable_kernel<gpu_f32, 0, size>, gpu_portable_kernel<gpu_f32, 3, size>},            \
            {gpu_portable_kernel<gpu_f16, 0, size>, gpu_portable_kernel<gpu_f16, 3, size>}, {      \
            gpu_portable_kernel<gpu_bf16, 0, size>, gpu_portable_kernel<gpu_bf16, 3, size>         \
        }                                                                                          \
    }
    {"portable_128x128", TILE(large_tile)},
    {"portable_128x64", TILE(narrow_tile)},
    {"portable_32x64", TILE(small_tile)},
#undef TILE
};
enum { TILES = sizeof tiles / sizeof *tiles };

static int64_t blocks(const tile *t, int64_t pixels, int64_t outputs) {
    return ((pixels - 1) / t->pixels + 1) * ((outputs - 1) / t->outputs + 1);
}

/* The largest tile that still gives every compute unit two blocks and wastes few outputs. */
static const tile *choose_tile(const gpu_context *context, const gpu_conv *conv) {
    for (const tile *t = tiles; t < tiles + TILES - 1; t++)
        if (blocks(t, conv->pixels, conv->k) >= 2 * context->compute_units &&
            (conv->k - 1) % t->outputs + 1 > t->outputs / 2)
            return t;
    return &tiles[TILES - 1];
}

static const char *refuse(const gpu_context *context, const dsconv_shape *shape) {
    (void)context;
    const dsconv_problem *pb = &shape->problem;
    const double limit = 2147483647.0;
    if ((double)pb->r * (double)pb->s > limit)
        return "more than 2^31 - 1 taps";
    if (((double)pb->n * (double)shape->p * (double)shape->q / 32 + 1) * ((double)pb->k / 64 + 1) >
        limit)
        return "more blocks than a launch can have";
    return NULL;
}

gpuError_t gpu_portable_prepare(const gpu_context *context, gpu_plan *plan) {
    gpu_portable *portable = &plan->portable;
    const gpu_conv *conv = &plan->conv;
    const tile *t = conv->pixels ? choose_tile(context, conv) : tiles;
    portable->name = t->name;
    portable->kernel = t->kernels[plan->dtype][conv->r == 3 && conv->s == 3];
    portable->blocks = conv->pixels ? blocks(t, conv->pixels, conv->k) : 0;
    portable->threads = t->threads;
    return gpu_prepare(portable->kernel);
}

gpuError_t gpu_portable_launch(const gpu_plan *plan, const gpu_conv *conv, gpuStream_t stream) {
    const gpu_portable *portable = &plan->portable;
    return gpu_launch(portable->kernel, portable->blocks, portable->threads, stream, *conv);
}

/* gpu_portable_prepare() has done everything. */
static gpuError_t prepare(const gpu_context *context, gpu_plan *plan) {
    (void)context;
    plan->kernel = plan->portable.name;
    return gpuSuccess;
}

const gpu_algo gpu_algo_portable = {"portable", refuse, NULL, prepare, gpu_portable_launch};
