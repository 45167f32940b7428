/*
 * How a backend uses an NVIDIA device: through its primary context, made current by the driver's
 * own functions. They are looked up, so that a module can be loaded where there is no driver.
 * Included by one file of each such backend.
 */
#ifndef DSCONV_GPU_NVIDIA_H
#define DSCONV_GPU_NVIDIA_H

#include <cuda.h>
#include <cuda_runtime.h>

#include "gpu_internal.h"

#if defined(__HIP_PLATFORM_NVIDIA__)
static gpuError_t from_cuda(cudaError_t error) {
    return hipCUDAErrorTohipError(error);
}
#else
static gpuError_t from_cuda(cudaError_t error) {
    return error;
}
#endif

/* Both enumerations give the driver's errors the same values. */
static gpuError_t from_driver(CUresult result) {
    return from_cuda((cudaError_t)result);
}

/* A function of the driver as of a version of CUDA; NULL if there is none. */
void *gpu_driver_entry(const char *name, unsigned version) {
    cudaDriverEntryPointQueryResult found;
    void *entry = NULL;
#if CUDART_VERSION >= 12050
    cudaError_t error =
        cudaGetDriverEntryPointByVersion(name, &entry, version, cudaEnableDefault, &found);
#else /* as of the CUDA that this is built with */
    (void)version;
    cudaError_t error = cudaGetDriverEntryPoint(name, &entry, cudaEnableDefault, &found);
#endif
    return error == cudaSuccess && found == cudaDriverEntryPointSuccess ? entry : NULL;
}

/* gpu_context.native: the primary context and the functions that make it current. */
enum { CONTEXT, PUSH, POP };
typedef CUresult (*push_context)(CUcontext);
typedef CUresult (*pop_context)(CUcontext *);

gpuError_t gpu_attach(gpu_context *context) {
    typedef CUresult (*retain_context)(CUcontext *, CUdevice);
    retain_context retain = (retain_context)gpu_driver_entry("cuDevicePrimaryCtxRetain", 7000);
    context->native[PUSH] = gpu_driver_entry("cuCtxPushCurrent", 4000);
    context->native[POP] = gpu_driver_entry("cuCtxPopCurrent", 4000);
    if (!retain || !context->native[PUSH] || !context->native[POP])
        return from_cuda(cudaErrorSymbolNotFound);
    return from_driver(retain((CUcontext *)&context->native[CONTEXT], context->device));
}

void gpu_detach(gpu_context *context) {
    typedef CUresult (*release_context)(CUdevice);
    release_context release = (release_context)gpu_driver_entry("cuDevicePrimaryCtxRelease", 11000);
    if (release)
        (void)release(context->device);
}

gpuError_t gpu_enter(const gpu_context *context, int *previous) {
    *previous = 0;
    return from_driver(((push_context)context->native[PUSH])((CUcontext)context->native[CONTEXT]));
}

void gpu_leave(const gpu_context *context, int previous) {
    (void)previous;
    CUcontext popped;
    (void)((pop_context)context->native[POP])(&popped);
}

#endif
