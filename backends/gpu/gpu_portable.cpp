/* Algorithm `portable`: the kernel of gpu_portable.h. */
#include "gpu_portable.h"

#include "gpu_internal.h"

typedef void (*portable_kernel)(gpu_conv);

typedef gpu_tile_size<64, 128, 4, 8> wide_tile;
typedef gpu_tile_size<128, 64, 8, 4> narrow_tile;
typedef gpu_tile_size<32, 64, 4, 4> small_tile;

/* In the order of preference, the one for small problems last. */
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
    {"portable_64x128", TILE(wide_tile)},
    {"portable_128x64", TILE(narrow_tile)},
    {"portable_32x64", TILE(small_tile)},
#undef TILE
};
enum { TILES = sizeof tiles / sizeof *tiles };

typedef struct portable_data {
    portable_kernel kernel;
    int64_t blocks;
    int threads;
} portable_data;
static_assert(sizeof(portable_data) <= GPU_PLAN_DATA_SIZE, "plan data");

static int64_t blocks(const tile *t, int64_t pixels, int64_t outputs) {
    return gpu_ceil_div(pixels, t->pixels) * gpu_ceil_div(outputs, t->outputs);
}

/* The first tile that still gives every compute unit two blocks and wastes few outputs. */
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
    return (double)pb->r * (double)pb->s > limit ? "more than 2^31 - 1 taps" : NULL;
}

static gpuError_t prepare(const gpu_context *context, const dsconv_shape *shape, gpu_plan *plan) {
    (void)shape;
    portable_data *data = (portable_data *)plan->data;
    const gpu_conv *conv = &plan->conv;
    const tile *t = choose_tile(context, conv);
    plan->kernel = t->name;
    data->kernel = t->kernels[plan->dtype][conv->r == 3 && conv->s == 3];
    data->blocks = blocks(t, conv->pixels, conv->k);
    data->threads = t->threads;
    return gpu_prepare(data->kernel);
}

static gpuError_t launch(const gpu_plan *plan, const gpu_conv *conv, gpuStream_t stream) {
    const portable_data *data = (const portable_data *)plan->data;
    return gpu_launch(data->kernel, data->blocks, data->threads, stream, *conv);
}

gpu_algo gpu_algo_portable = {"portable", refuse, NULL, prepare, launch};
