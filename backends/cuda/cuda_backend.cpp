/* Backend `cuda`: what is CUDA's own on the host side, and the table. */
#include <cuda.h>
#include <stdio.h>

#include "cuda_config.h"
#include "cuda_internal.h"

const char gpu_backend_name[] = "cuda";
const char gpu_driver_name[] = "CUDA driver (libcuda.so.1)";
const gpu_algo *const gpu_algos[] = {&cuda_algo_fused, &gpu_algo_portable, NULL};

static const char *const algo_names[] = {"fused", "portable", NULL};

/* Capabilities with machine code, and the one whose PTX newer devices can use (0: none). */
static const int code_for[] = {CUDA_CODE};
static const int feature_code_for[] = {CUDA_FEATURE_CODE, 0}; /* such as 90 for 90a */
static const int ptx_for = CUDA_PTX;

bool gpu_describe_arch(const gpuDeviceProp *device, char *arch, size_t size) {
    const int capability = 10 * device->major + device->minor;
    (void)snprintf(arch, size, "sm_%d", capability);
    for (int code : feature_code_for)
        if (code == capability)
            return true;
    for (int code : code_for)
        if (code / 10 == capability / 10 && code <= capability)
            return true;
    return ptx_for && ptx_for <= capability;
}

void *cuda_driver_entry(const char *name, unsigned version) {
    cudaDriverEntryPointQueryResult found;
    void *entry = NULL;
    cudaError_t error =
        cudaGetDriverEntryPointByVersion(name, &entry, version, cudaEnableDefault, &found);
    return error == cudaSuccess && found == cudaDriverEntryPointSuccess ? entry : NULL;
}

/* gpu_context.native: the primary context and the functions that make it current. */
enum { CONTEXT, PUSH, POP };
typedef CUresult (*push_context)(CUcontext);
typedef CUresult (*pop_context)(CUcontext *);

cudaError_t gpu_attach(gpu_context *context) {
    typedef CUresult (*retain_context)(CUcontext *, CUdevice);
    retain_context retain = (retain_context)cuda_driver_entry("cuDevicePrimaryCtxRetain", 7000);
    context->native[PUSH] = cuda_driver_entry("cuCtxPushCurrent", 4000);
    context->native[POP] = cuda_driver_entry("cuCtxPopCurrent", 4000);
    if (!retain || !context->native[PUSH] || !context->native[POP])
        return cudaErrorSymbolNotFound;
    CUresult result = retain((CUcontext *)&context->native[CONTEXT], context->device);
    return (cudaError_t)result; /* both enumerations give driver errors the same values */
}

void gpu_detach(gpu_context *context) {
    typedef CUresult (*release_context)(CUdevice);
    release_context release =
        (release_context)cuda_driver_entry("cuDevicePrimaryCtxRelease", 11000);
    if (release)
        (void)release(context->device);
}

cudaError_t gpu_enter(const gpu_context *context, int *previous) {
    *previous = 0;
    return (cudaError_t)((push_context)context->native[PUSH])((CUcontext)context->native[CONTEXT]);
}

void gpu_leave(const gpu_context *context, int previous) {
    (void)previous;
    CUcontext popped;
    (void)((pop_context)context->native[POP])(&popped);
}

extern "C" const dsconv_backend dsconv_backend_cuda;
const dsconv_backend dsconv_backend_cuda = gpu_backend_table(gpu_backend_name, algo_names);
