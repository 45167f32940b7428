/* Packing of weights: to fp32, the pointwise ones transposed. */
#include <float.h>

#include "gpu_internal.h"
#include "gpu_value.h"

struct gpu_pack {
    const void *from; /* [rows][columns], NULL: zeros */
    float *to;        /* [columns][rows] */
    int64_t rows, columns;
    float least, most; /* bounds of what is not extreme */
    int *extreme;      /* set to 1 for what is, unless NULL */
};

enum { PACK_THREADS = 256 };

template <class T> static __global__ void pack_kernel(gpu_pack a) {
    const int64_t i = gpu_block_number<PACK_THREADS>() * PACK_THREADS + threadIdx.x;
    if (i >= a.rows * a.columns)
        return;
    float value = a.from ? gpu_load<T>(a.from, i % a.rows * a.columns + i / a.rows) : 0.0F;
    a.to[i] = value;
    float size = fabsf(value);
    if (a.extreme && value != 0.0F && !(size >= a.least && size <= a.most))
        *a.extreme = 1;
}

static gpuError_t pack(dsconv_dtype dtype, const gpu_pack *part) {
    static void (*const kernels[])(gpu_pack) = {pack_kernel<gpu_f32>, pack_kernel<gpu_f16>,
                                                pack_kernel<gpu_bf16>};
    const int64_t blocks = gpu_ceil_div(part->rows * part->columns, PACK_THREADS);
    return gpu_launch(kernels[dtype], blocks, PACK_THREADS, 0, *part);
}

gpuError_t gpu_pack_weights(const gpu_plan *plan, const dsconv_weights *weights) {
    const gpu_conv *conv = &plan->conv;
    const int64_t taps = (int64_t)conv->r * conv->s;
    int *const flags = conv->weights.extreme;
    gpu_pack parts[] = {
        {weights->w_dw, conv->weights.dw, 1, conv->mid_channels * taps, 0.0F, FLT_MAX, flags},
        {weights->w_pw, conv->weights.pw, conv->k, conv->mid_channels, 0x1p-40F, 0x1p126F,
         flags + 1},
        {weights->bias_dw, conv->weights.bias_dw, 1, conv->mid_channels, 0.0F, 0.0F, NULL},
        {weights->bias_pw, conv->weights.bias_pw, 1, conv->k, 0.0F, 0.0F, NULL},
    };
    const size_t element = plan->dtype == DSCONV_F32 ? 4 : 2;
    void *copies[4] = {NULL, NULL, NULL, NULL};
    gpuError_t error = gpuDeviceSynchronize(); /* for what still writes the caller's weights */
    if (error == gpuSuccess)
        error = gpuMemsetAsync(flags, 0, 2 * sizeof *flags, 0);
    for (int i = 0; i < 4 && error == gpuSuccess; i++) {
        size_t size = (size_t)(parts[i].rows * parts[i].columns) * element;
        if (weights->memory == DSCONV_MEMORY_HOST && parts[i].from) {
            error = gpuMalloc(&copies[i], size);
            if (error == gpuSuccess)
                error = gpuMemcpyAsync(copies[i], parts[i].from, size, gpuMemcpyHostToDevice, 0);
            parts[i].from = copies[i];
        }
        if (error == gpuSuccess)
            error = pack(plan->dtype, &parts[i]);
    }
    if (error == gpuSuccess && plan->pack)
        error = plan->pack(plan);
    if (error == gpuSuccess)
        error = gpuDeviceSynchronize();
    for (void *copy : copies)
        if (copy)
            (void)gpuFree(copy);
    return error;
}
