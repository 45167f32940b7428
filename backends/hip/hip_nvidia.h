/*
 * Included before all else when the module is built for HIP's NVIDIA platform: lets the headers of
 * HIP 5.2, whose inline functions call CUDA as it was in 2022, compile with CUDA 12 and 13. Of what
 * is mended here the library uses hipGetDeviceProperties alone; the rest must only compile.
 */
#ifndef DSCONV_HIP_NVIDIA_H
#define DSCONV_HIP_NVIDIA_H

#include <cuda.h>
#include <cuda_runtime.h>

#if CUDART_VERSION >= 12000

template <class... Args> static inline cudaError_t hip_nvidia_gone(Args &&...) {
    return cudaErrorNotSupported;
}

/* CUDA 12 took out texture references. */
template <class T, int dim = cudaTextureType1D, cudaTextureReadMode mode = cudaReadModeElementType>
struct texture {};
struct textureReference;

#define cudaBindTexture               hip_nvidia_gone
#define cudaBindTexture2D             hip_nvidia_gone
#define cudaBindTextureToArray        hip_nvidia_gone
#define cudaUnbindTexture             hip_nvidia_gone
#define cudaGetTextureAlignmentOffset hip_nvidia_gone

#endif

#if CUDART_VERSION >= 13000

/* CUDA 13 took these fields out of cudaDeviceProp. HIP copies them; here they are 0. */
struct hip_nvidia_properties : cudaDeviceProp {
    int clockRate, computeMode, cooperativeMultiDeviceLaunch, kernelExecTimeoutEnabled;
    int memoryClockRate;
};

static inline cudaError_t hip_nvidia_get_properties(hip_nvidia_properties *p, int device) {
    *p = hip_nvidia_properties();
    return cudaGetDeviceProperties(p, device);
}

static inline cudaError_t hip_nvidia_choose(int *device, const hip_nvidia_properties *p) {
    return cudaChooseDevice(device, p);
}

#define cudaDeviceProp                          hip_nvidia_properties
#define cudaGetDeviceProperties                 hip_nvidia_get_properties
#define cudaChooseDevice                        hip_nvidia_choose
#define cudaDevAttrCooperativeMultiDeviceLaunch cudaDevAttrCooperativeLaunch

/* A place in memory is no longer a number. */
static inline cudaMemLocation hip_nvidia_location(int device) {
    cudaMemLocation location = {};
    location.type = device < 0 ? cudaMemLocationTypeHost : cudaMemLocationTypeDevice;
    location.id = device < 0 ? 0 : device;
    return location;
}

#define cudaMemAdvise(p, size, advice, d) cudaMemAdvise(p, size, advice, hip_nvidia_location(d))
#define cudaMemPrefetchAsync(p, size, d, stream)                                                   \
    cudaMemPrefetchAsync(p, size, hip_nvidia_location(d), 0, stream)

/* These have gained a parameter, which may be NULL. */
#undef cuCtxCreate
#define cuCtxCreate(context, flags, d)          cuCtxCreate_v4(context, NULL, flags, d)
#define cudaGraphAddDependencies(g, a, b, n)    cudaGraphAddDependencies(g, a, b, NULL, n)
#define cudaGraphGetEdges(g, a, b, n)           cudaGraphGetEdges(g, a, b, NULL, n)
#define cudaGraphNodeGetDependencies(a, b, n)   cudaGraphNodeGetDependencies(a, b, NULL, n)
#define cudaGraphNodeGetDependentNodes(a, b, n) cudaGraphNodeGetDependentNodes(a, b, NULL, n)
#define cudaGraphRemoveDependencies(g, a, b, n) cudaGraphRemoveDependencies(g, a, b, NULL, n)
#define cudaStreamUpdateCaptureDependencies(s, d, n, flags)                                        \
    cudaStreamUpdateCaptureDependencies(s, d, NULL, n, flags)
#define cudaStreamGetCaptureInfo_v2(s, status, id, g, d, n)                                        \
    cudaStreamGetCaptureInfo(s, status, id, g, d, NULL, n)

/* Launches on several devices are gone. */
#define cudaLaunchCooperativeKernelMultiDevice hip_nvidia_gone

#endif

#endif
