/* Algorithm `fused`: the Hopper kernels. That of sm90_rows.h where it applies and the pointers of
 * a run are aligned enough, with sm90_tiles.h for those that are not; else that of small.h. */
#include "cuda_internal.h"
#include "sm90_half.h"
#include "sm90_tiles.h"

typedef void (*tiles_kernel)(gpu_conv);

static const struct tiles_variant {
    tiles_kernel kernel;
    int shared_size;
} variants[CUDA_VARIANTS] = {
#define VARIANT(...)                                                                               \
    {                                                                                              \
        sm90_tiles_kernel<sm90_tiles_config<__VA_ARGS__>>,                                         \
            (int)sizeof(sm90_tiles_config<__VA_ARGS__>::shared)                                    \
    }
    VARIANT(sm90_f32_strict),
    VARIANT(sm90_half<gpu_f16>),
    VARIANT(sm90_half<gpu_bf16>),
    VARIANT(sm90_f32_tf32),
#undef VARIANT
};

typedef struct fused_data {
    cuda_rows rows;   /* without a variant where it does not apply */
    cuda_small small; /* the same */
    tiles_kernel tiles;
    int tiles_shared_size, tiles_blocks;
} fused_data;
static_assert(sizeof(fused_data) <= GPU_PLAN_DATA_SIZE, "plan data");

/* Strips are 64 pixels wide and 64 channels deep: narrower images leave too much of them idle. */
static bool rows_suit(const dsconv_shape *shape) {
    return cuda_rows_applicable(shape) && shape->q >= 40 && shape->mid_channels > 16;
}

static const char *refuse(const gpu_context *context, const dsconv_shape *shape) {
    if (context->capability != 90)
        return "needs compute capability 9.0";
    /* A split product errs by up to 2^-22, which a sum of few terms in fp32 does not reach. */
    if (shape->problem.dtype == DSCONV_F32 && shape->problem.math == DSCONV_STRICT &&
        shape->mid_channels < 16)
        return "strict math in f32 needs at least 16 channels of mid";
    if (!rows_suit(shape) && !cuda_small_applicable(shape))
        return "needs images that span less than 2^30 elements, strides and padding of less than "
               "2^29";
    return gpu_algo_portable.refuse(context, shape);
}

/* With fewer channels most of a step of 64 would be zeros. */
static bool prefer(const dsconv_shape *shape) {
    return rows_suit(shape) || shape->mid_channels >= 16;
}

static gpuError_t pack(const gpu_plan *plan) {
    return cuda_small_pack(plan, &((const fused_data *)plan->data)->small);
}

static gpuError_t prepare_tiles(const gpu_context *context, const gpu_conv *conv, int variant,
                                fused_data *data) {
    data->tiles = variants[variant].kernel;
    data->tiles_shared_size = variants[variant].shared_size;
    const int64_t tiles =
        gpu_ceil_div(conv->pixels, SM90_PIXELS) * gpu_ceil_div(conv->k, SM90_OUTPUTS);
    data->tiles_blocks = tiles < context->compute_units ? (int)tiles : context->compute_units;
    return cudaFuncSetAttribute((const void *)data->tiles,
                                cudaFuncAttributeMaxDynamicSharedMemorySize,
                                data->tiles_shared_size);
}

static gpuError_t prepare(const gpu_context *context, const dsconv_shape *shape, gpu_plan *plan) {
    fused_data *data = (fused_data *)plan->data;
    plan->uses_tf32 = plan->math == DSCONV_TF32 && plan->dtype == DSCONV_F32;
    const int variant = plan->uses_tf32 ? CUDA_F32_TF32 : (int)plan->dtype;
    if (!rows_suit(shape)) {
        plan->pack = pack;
        const gpuError_t error = cuda_small_prepare(context, plan, variant, &data->small);
        plan->kernel = cuda_small_name(&data->small);
        return error;
    }
    const gpuError_t error = prepare_tiles(context, &plan->conv, variant, data);
    if (error != cudaSuccess)
        return error;
    const gpuError_t rows_error = cuda_rows_prepare(context, plan, variant, &data->rows);
    plan->kernel = cuda_rows_name(&data->rows);
    return rows_error;
}

static gpuError_t launch(const gpu_plan *plan, const gpu_conv *conv, gpuStream_t stream) {
    const fused_data *data = (const fused_data *)plan->data;
    gpuError_t error;
    if (data->small.variant)
        return cuda_small_launch(plan, &data->small, conv, stream);
    if (cuda_rows_launch(&data->rows, conv, stream, &error))
        return error;
    gpu_conv copy = *conv;
    void *list[] = {&copy};
    return cudaLaunchKernel((const void *)data->tiles, dim3((unsigned)data->tiles_blocks),
                            dim3(sm90_tiles_config<sm90_f32_strict>::THREADS), list,
                            (size_t)data->tiles_shared_size, stream);
}

const gpu_algo cuda_algo_fused = {"fused", refuse, prefer, prepare, launch};
