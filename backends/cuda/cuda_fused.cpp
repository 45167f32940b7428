/* Algorithm `fused`: the Hopper kernels. That of sm90_rows.h where it applies and the pointers of
 * a run are aligned enough, with sm90_tiles.h for those that are not; else that of small.h. */
#include "cuda_internal.h"
#include "sm90_half.h"
#include "sm90_tiles.h"

typedef void (*tiles_kernel)(gpu_conv);

static const struct tiles_variant {
    const char *name;
    struct {
        tiles_kernel kernel;
        int shared_size;
    } any, three, strip; /* windows: any, 3 x 3, 3 x 3 in the arithmetic of sm90_rows.h */
} variants[CUDA_VARIANTS] = {
#define KERNEL(numerics, window)                                                                   \
    {                                                                                              \
        sm90_tiles_kernel<sm90_tiles_config<numerics, window>>,                                    \
            (int)sizeof(sm90_tiles_config<numerics, window>::shared)                               \
    }
#define VARIANT(name, strip)                                                                       \
    { "sm90_tiles_" #name, KERNEL(sm90_##name, 0), KERNEL(sm90_##name, 3), KERNEL(strip, 3) }
    VARIANT(f32_strict, sm90_f32_strict),
    VARIANT(f16_strict, sm90_half<gpu_f16>),
    VARIANT(bf16_strict, sm90_half<gpu_bf16>),
    VARIANT(f32_tf32, sm90_f32_tf32),
#undef VARIANT
#undef KERNEL
};

typedef struct fused_data {
    cuda_rows rows;   /* without a variant where it does not apply */
    cuda_small small; /* the same */
    tiles_kernel kernel;
    int shared_size;
    int blocks;
} fused_data;
static_assert(sizeof(fused_data) <= GPU_PLAN_DATA_SIZE, "plan data");

static const char *refuse(const gpu_context *context, const dsconv_shape *shape) {
    if (context->capability != 90)
        return "needs compute capability 9.0";
    /* A split product errs by up to 2^-22, which a sum of few terms in fp32 does not reach. */
    if (shape->problem.dtype == DSCONV_F32 && shape->problem.math == DSCONV_STRICT &&
        shape->mid_channels < 16)
        return "strict math in f32 needs at least 16 channels of mid";
    return gpu_algo_portable.refuse(context, shape);
}

/* Strips are 64 pixels wide and 64 channels deep: narrower images leave too much of them idle. */
static bool rows_suit(const dsconv_shape *shape) {
    return cuda_rows_applicable(shape) && shape->q >= 40 && shape->mid_channels > 16;
}

/* With fewer channels most of a step of 64 would be zeros. */
static bool prefer(const dsconv_shape *shape) {
    return rows_suit(shape) || shape->mid_channels >= 16;
}

static gpuError_t pack(const gpu_plan *plan) {
    return cuda_small_pack(plan, &((const fused_data *)plan->data)->small);
}

/* The tile kernel: of any problem, or in the arithmetic of the strip kernel for its problems. */
static gpuError_t prepare_tiles(const gpu_context *context, gpu_plan *plan, int variant, bool strip,
                                fused_data *data) {
    const gpu_conv *conv = &plan->conv;
    const tiles_variant *v = &variants[variant];
    const auto &chosen = strip ? v->strip : conv->r == 3 && conv->s == 3 ? v->three : v->any;
    data->kernel = chosen.kernel;
    data->shared_size = chosen.shared_size;
    const int64_t tiles =
        gpu_ceil_div(conv->pixels, SM90_PIXELS) * gpu_ceil_div(conv->k, SM90_OUTPUTS);
    data->blocks = tiles < context->compute_units ? (int)tiles : context->compute_units;
    plan->kernel = v->name;
    return cudaFuncSetAttribute((const void *)data->kernel,
                                cudaFuncAttributeMaxDynamicSharedMemorySize, data->shared_size);
}

static gpuError_t prepare(const gpu_context *context, const dsconv_shape *shape, gpu_plan *plan) {
    fused_data *data = (fused_data *)plan->data;
    plan->uses_tf32 = plan->math == DSCONV_TF32 && plan->dtype == DSCONV_F32;
    const int variant = plan->uses_tf32 ? CUDA_F32_TF32 : (int)plan->dtype;
    const bool strip = rows_suit(shape);
    if (!strip && cuda_small_applicable(shape)) {
        plan->pack = pack;
        const gpuError_t error = cuda_small_prepare(context, plan, variant, &data->small);
        plan->kernel = cuda_small_name(&data->small);
        return error;
    }
    gpuError_t error = prepare_tiles(context, plan, variant, strip, data);
    if (error == cudaSuccess && strip) {
        error = cuda_rows_prepare(context, plan, variant, &data->rows);
        plan->kernel = cuda_rows_name(&data->rows);
    }
    return error;
}

static gpuError_t launch(const gpu_plan *plan, const gpu_conv *conv, gpuStream_t stream) {
    const fused_data *data = (const fused_data *)plan->data;
    gpuError_t error;
    if (data->rows.variant && cuda_rows_launch(&data->rows, conv, stream, &error))
        return error;
    if (data->small.variant)
        return cuda_small_launch(plan, &data->small, conv, stream);
    gpu_conv copy = *conv;
    void *list[] = {&copy};
    return cudaLaunchKernel((const void *)data->kernel, dim3((unsigned)data->blocks),
                            dim3(sm90_tiles_config<sm90_f32_strict, 0>::THREADS), list,
                            (size_t)data->shared_size, stream);
}

const gpu_algo cuda_algo_fused = {"fused", refuse, prefer, prepare, launch};
