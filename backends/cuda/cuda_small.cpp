/* Launching the kernel of small.h, and its own order of weights. */
#include "cuda_internal.h"
#include "small.h"

typedef void (*small_kernel_function)(small_args);

enum { SMALL_WINDOWS = 3, SMALL_SIZES = 3 };

/* By window (any, 3 x 3, 5 x 5) and pixels (8, 16, 32). */
struct cuda_small_variant {
    const char *name;
    small_kernel_function kernels[SMALL_WINDOWS][SMALL_SIZES];
    bool split_mid, round;
};

static const cuda_small_variant variants[CUDA_VARIANTS] = {
#define KERNELS(name, window)                                                                      \
    {                                                                                              \
        small_kernel<sm90_##name, window, 1>, small_kernel<sm90_##name, window, 2>,                \
            small_kernel<sm90_##name, window, 4>                                                   \
    }
#define VARIANT(name)                                                                              \
    {                                                                                              \
        "small_" #name, {KERNELS(name, 0), KERNELS(name, 3), KERNELS(name, 5)},                    \
            sm90_##name::SPLIT_MID, !sm90_##name::SPLIT_WEIGHTS                                    \
    }
    VARIANT(f32_strict),
    VARIANT(f16_strict),
    VARIANT(bf16_strict),
    VARIANT(f32_tf32),
#undef VARIANT
#undef KERNELS
};

static int64_t padded_channels(const gpu_conv *conv) {
    return gpu_ceil_div(conv->mid_channels, 64) * 64;
}

/* One more than the largest offset of an element. */
static double span(const int64_t strides[4], double n, double c, double h, double w) {
    return (n - 1) * strides[0] + (c - 1) * strides[1] + (h - 1) * strides[2] +
           (w - 1) * strides[3] + 1;
}

bool cuda_small_applicable(const dsconv_shape *shape) {
    const dsconv_problem *pb = &shape->problem;
    const double limit = 0x1p30; /* also of a window's reach beyond the image */
    const double n = (double)pb->n, k = (double)pb->k, p = (double)shape->p, q = (double)shape->q;
    const double mid = (double)shape->mid_channels, taps = (double)pb->r * pb->s;
    return span(pb->x_strides, n, (double)pb->c, (double)pb->h, (double)pb->w) < limit &&
           span(pb->y_strides, n, k, p, q) < limit &&
           span(pb->residual_strides, n, k, p, q) < limit &&
           span(shape->mid_strides, n, mid, p, q) < limit && (mid + 64) * (taps + 1) < limit &&
           (k + 16) * (mid + 64) < limit && (p + 1) * pb->stride_h + pb->r * pb->dil_h < limit &&
           (q + 1) * pb->stride_w + pb->s * pb->dil_w < limit;
}

/* The largest chunk of channels that leaves room for two blocks on a multiprocessor. */
static int chunk_of(int64_t channels, int pixels, bool split) {
    const int64_t most = 96 * 1024 / pixels / (split ? 8 : 4) / 64 * 64;
    return (int)(channels < most ? channels : most);
}

/* Estimates a launch in cycles, up to a constant: what a block does one after the other, times how
 * often the multiprocessors have to. Measured on an H200. */
static double cost(const gpu_context *context, const gpu_conv *conv, int pixels, int outputs) {
    const double taps = (double)conv->r * conv->s, channels = (double)padded_channels(conv);
    const double blocks =
        (double)gpu_ceil_div(conv->pixels, pixels) * (double)gpu_ceil_div(conv->k, outputs);
    const double depthwise = pixels * channels * taps * (conv->channels_last ? 0.045 : 0.07);
    const double multiply = channels * (outputs * 0.06 + pixels * outputs / 300.0);
    const double rounds = blocks / context->compute_units;
    return (depthwise + multiply + 1500) * (rounds < 1 ? 1 : rounds);
}

gpuError_t cuda_small_prepare(const gpu_context *context, gpu_plan *plan, int variant,
                              cuda_small *small) {
    const gpu_conv *conv = &plan->conv;
    const cuda_small_variant *v = &variants[variant];
    const int window = conv->r != conv->s ? 0 : conv->r == 3 ? 1 : conv->r == 5 ? 2 : 0;
    double best = 0;
    for (int size = 0; size < SMALL_SIZES; size++)
        for (int outputs = 16; outputs <= 128; outputs += 16) {
            const double estimate = cost(context, conv, 8 << size, outputs);
            if (small->variant && estimate >= best)
                continue;
            best = estimate;
            small->variant = v;
            small->pixels = 8 << size;
            small->outputs = outputs;
            small->kernel = (const void *)v->kernels[window][size];
        }
    small->chunk = chunk_of(padded_channels(conv), small->pixels, v->split_mid);
    const int pitch = v->split_mid ? small_tile<sm90_f32_strict>::pitch_of(small->chunk)
                                   : small_tile<sm90_f32_tf32>::pitch_of(small->chunk);
    small->shared_size = small->pixels * pitch * 4;
    small->blocks =
        gpu_ceil_div(conv->pixels, small->pixels) * gpu_ceil_div(conv->k, small->outputs);
    const size_t element = plan->dtype == DSCONV_F32 ? 4 : 2;
    const size_t channels = (size_t)padded_channels(conv);
    plan->packed_size = channels * ((size_t)conv->r * conv->s + 1) * 4 +
                        channels * (size_t)gpu_ceil_div(conv->k, 16) * 16 * element;
    return cudaFuncSetAttribute(small->kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                small->shared_size);
}

const char *cuda_small_name(const cuda_small *small) {
    return small->variant->name;
}

static small_args arguments(const gpu_plan *plan, const cuda_small *small, const gpu_conv *conv) {
    small_args args = {};
    args.conv = *conv;
    args.channels = (int)padded_channels(conv);
    args.chunk = small->chunk;
    args.outputs = small->outputs;
    args.taps = (const float *)plan->packed;
    args.weights =
        (const uint4 *)(args.taps + (int64_t)args.channels * ((int64_t)conv->r * conv->s + 1));
    return args;
}

/* A thread an element of the taps. */
static __global__ void pack_taps_kernel(small_args s) {
    const gpu_conv &a = s.conv;
    const int64_t taps = (int64_t)a.r * a.s;
    const int64_t i = (int64_t)blockIdx.x * SMALL_THREADS + threadIdx.x;
    const int64_t tap = i / s.channels - 1, channel = i % s.channels;
    if (tap >= taps)
        return;
    float v = 0.0F;
    if (channel < a.mid_channels)
        v = tap < 0 ? a.weights.bias_dw[channel] : a.weights.dw[channel * taps + tap];
    ((float *)s.taps)[i] = v;
}

/* A thread an element of the pointwise weights. */
template <class T, bool ROUND> __global__ void pack_weights_kernel(small_args s) {
    const gpu_conv &a = s.conv;
    const int64_t i = (int64_t)blockIdx.x * SMALL_THREADS + threadIdx.x;
    const int64_t channel = i % s.channels, output = i / s.channels;
    if (output >= (a.k + 15) / 16 * 16)
        return;
    float v = 0.0F;
    if (channel < a.mid_channels && output < a.k)
        v = a.weights.pw[channel * a.k + output];
    const int lane = (int)(output % 16 / 2 * 4 + channel % 4);
    const int e = (int)(output % 2 + channel / 4 % 2 * 2);
    const int64_t place =
        output / 16 * 16 * s.channels + small_fragments<T>::place(channel / SMALL_EIGHT, lane, e);
    gpu_store<T>((void *)s.weights, place, ROUND ? round_tf32(v) : v);
}

gpuError_t cuda_small_pack(const gpu_plan *plan, const cuda_small *small) {
    static void (*const kernels[CUDA_VARIANTS])(small_args) = {
        pack_weights_kernel<gpu_f32, false>, pack_weights_kernel<gpu_f16, false>,
        pack_weights_kernel<gpu_bf16, false>, pack_weights_kernel<gpu_f32, true>};
    const small_args args = arguments(plan, small, &plan->conv);
    const int64_t taps = args.channels * ((int64_t)plan->conv.r * plan->conv.s + 1);
    const int64_t weights = args.channels * gpu_ceil_div(plan->conv.k, 16) * 16;
    gpuError_t error =
        gpu_launch(pack_taps_kernel, gpu_ceil_div(taps, SMALL_THREADS), SMALL_THREADS, 0, args);
    if (error == cudaSuccess)
        error = gpu_launch(kernels[small->variant - variants], gpu_ceil_div(weights, SMALL_THREADS),
                           SMALL_THREADS, 0, args);
    return error;
}

/* Whether eight neighbouring channels of every pixel of x are whole 16-byte words. */
static bool eights(const gpu_plan *plan, const gpu_conv *conv) {
    const int64_t word = plan->dtype == DSCONV_F32 ? 4 : 8;
    return conv->xs.c == 1 && conv->multiplier == 1 && conv->mid_channels % SMALL_EIGHT == 0 &&
           conv->xs.n % word == 0 && conv->xs.h % word == 0 && conv->xs.w % word == 0 &&
           (uintptr_t)conv->x % 16 == 0;
}

gpuError_t cuda_small_launch(const gpu_plan *plan, const cuda_small *small, const gpu_conv *conv,
                             gpuStream_t stream) {
    small_args args = arguments(plan, small, conv);
    args.eights = eights(plan, conv);
    void *list[] = {&args};
    return cudaLaunchKernel(small->kernel, dim3((unsigned)small->blocks), dim3(SMALL_THREADS), list,
                            (size_t)small->shared_size, stream);
}
