/*
 * Stands in for the runtime of CUDA or HIP, so that kernels run on the CPU: the names that kernels
 * use, then those that backends/gpu/gpu_rt.h gives the host. Waves have GPU_SHIM_WAVE threads.
 */
#ifndef GPU_SHIM_H
#define GPU_SHIM_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "gpu_shim_block.h"

/* ---- kernels ---- */

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __noinline__    __attribute__((noinline))
#define __launch_bounds__(...)

/* Each declaration is a place between guard zones, filled with NaNs before every block. */
#define GPU_SHARED(name, ...)                                                                      \
    __VA_ARGS__ &name = *(__VA_ARGS__ *)gpu_shim_shared(sizeof(__VA_ARGS__), alignof(__VA_ARGS__))

#define threadIdx (gpu_shim_at.thread)
#define blockIdx  (gpu_shim_at.block)
#define blockDim  (gpu_shim_at.threads)
#define gridDim   (gpu_shim_at.blocks)

static constexpr int warpSize = GPU_SHIM_WAVE;

inline void __syncthreads(gpu_shim_site site = gpu_shim_site::here()) {
    gpu_shim_wait_block({"__syncthreads", site});
}

inline void __syncwarp(gpu_shim_site site = gpu_shim_site::here()) {
    const char none = 0;
    (void)gpu_shim_exchange(&none, sizeof none, {"__syncwarp", site});
}

/* All shuffles: `lane` is the source, which must exist. */
template <class T> T gpu_shim_shuffle(T value, int lane, const gpu_shim_operation &operation) {
    T result;
    const char *all = (const char *)gpu_shim_exchange(&value, sizeof value, operation);
    memcpy(&result, all + (size_t)lane * sizeof value, sizeof value);
    return result;
}

template <class T>
T __shfl(T value, int source, int width = warpSize, gpu_shim_site site = gpu_shim_site::here()) {
    const int first = gpu_shim_lane() / width * width;
    return gpu_shim_shuffle(value, first + source % width, {"__shfl", site});
}

template <class T>
T __shfl_xor(T value, int mask, int width = warpSize, gpu_shim_site site = gpu_shim_site::here()) {
    const int lane = gpu_shim_lane(), source = lane ^ mask;
    return gpu_shim_shuffle(value, source / width == lane / width ? source : lane,
                            {"__shfl_xor", site});
}

template <class T>
T __shfl_down(T value, int by, int width = warpSize, gpu_shim_site site = gpu_shim_site::here()) {
    const int lane = gpu_shim_lane();
    return gpu_shim_shuffle(value, lane % width + by < width ? lane + by : lane,
                            {"__shfl_down", site});
}

inline uint64_t __ballot(int predicate, gpu_shim_site site = gpu_shim_site::here()) {
    const char mine = predicate != 0;
    const char *all = (const char *)gpu_shim_exchange(&mine, sizeof mine, {"__ballot", site});
    uint64_t result = 0;
    for (int lane = 0; lane < gpu_shim_lanes(); lane++)
        result |= (uint64_t)all[lane] << lane;
    return result;
}

inline float __uint_as_float(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

inline uint32_t __float_as_uint(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

inline float gpu_f16_to_float(uint16_t bits) {
    _Float16 value;
    memcpy(&value, &bits, sizeof value);
    return (float)value;
}

inline uint16_t gpu_float_to_f16(float value) {
    const _Float16 rounded = (_Float16)value;
    uint16_t bits;
    memcpy(&bits, &rounded, sizeof bits);
    return bits;
}

inline uint16_t gpu_float_to_bf16(float value) {
    const uint32_t bits = __float_as_uint(value);
    if (value != value)
        return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/* ---- host ---- */

typedef struct gpu_shim_stream *gpuStream_t;

typedef enum gpuError_t {
    gpuSuccess,
    gpuErrorInvalidValue,
    gpuErrorMemoryAllocation,
    gpuErrorNoDevice,
    gpuErrorInsufficientDriver,
    gpuErrorLaunchFailure,
} gpuError_t;

typedef enum gpuMemcpyKind {
    gpuMemcpyHostToDevice,
    gpuMemcpyDeviceToHost,
    gpuMemcpyDeviceToDevice,
} gpuMemcpyKind;

typedef struct gpuDeviceProp {
    char name[64], gcnArchName[64];
    int major, minor, multiProcessorCount;
    size_t totalGlobalMem;
} gpuDeviceProp;

#define hipGetDevice gpuGetDevice /* backends/hip/ says these itself */
#define hipSetDevice gpuSetDevice

gpuError_t gpuDeviceSynchronize(void);
gpuError_t gpuDriverGetVersion(int *version);
gpuError_t gpuFree(void *pointer);
gpuError_t gpuGetDevice(int *device);
gpuError_t gpuGetDeviceCount(int *count);
gpuError_t gpuGetDeviceProperties(gpuDeviceProp *properties, int device);
const char *gpuGetErrorName(gpuError_t error);
const char *gpuGetErrorString(gpuError_t error);
gpuError_t gpuGetLastError(void);
gpuError_t gpuMalloc(void **pointer, size_t size);
gpuError_t gpuMemcpyAsync(void *to, const void *from, size_t size, gpuMemcpyKind kind,
                          gpuStream_t stream);
gpuError_t gpuMemsetAsync(void *pointer, int value, size_t size, gpuStream_t stream);
gpuError_t gpuSetDevice(int device);
gpuError_t gpuStreamSynchronize(gpuStream_t stream);

typedef gpu_shim_index dim3;

/* Every stream is done at once. */
template <class Args>
gpuError_t gpu_start(void (*kernel)(Args), dim3 grid, int threads, gpuStream_t, Args args) {
    struct call {
        void (*kernel)(Args);
        const Args &args;
        static void thread(const void *data) {
            const call *c = (const call *)data;
            c->kernel(c->args);
        }
    };
    const call data = {kernel, args};
    return gpu_shim_launch({(const void *)kernel, call::thread, &data, grid, threads})
               ? gpuSuccess
               : gpuErrorLaunchFailure;
}

template <class Args> gpuError_t gpu_prepare(void (*)(Args)) {
    return gpuSuccess;
}

#endif
