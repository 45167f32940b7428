/*
 * The runtime of CUDA or HIP under one set of names, gpu*: the only place that tells the vendors
 * apart. GPU_SHIM names a header that stands in for both, to execute kernels on the CPU.
 *
 * Kernels take one structure by value and are started by gpu_launch(), so that the stand-in needs
 * no launch syntax.
 */
#ifndef DSCONV_GPU_RT_H
#define DSCONV_GPU_RT_H

#include <stddef.h>
#include <stdint.h>

#if defined(GPU_SHIM)

#include GPU_SHIM

#elif defined(__HIP__) || defined(__HIP_PLATFORM_AMD__) || defined(__HIP_PLATFORM_NVIDIA__)

#include <hip/hip_fp16.h>
#include <hip/hip_runtime.h>

__device__ inline uint16_t gpu_float_to_bf16(float value) {
    uint32_t bits = __float_as_uint(value);
    if (value != value)
        return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

#define gpuDeviceGetAttribute         hipDeviceGetAttribute
#define gpuDeviceProp                 hipDeviceProp_t
#define gpuDeviceSynchronize          hipDeviceSynchronize
#define gpuDriverGetVersion           hipDriverGetVersion
#define gpuError_t                    hipError_t
#define gpuErrorInsufficientDriver    hipErrorInsufficientDriver
#define gpuErrorInvalidDeviceFunction hipErrorInvalidDeviceFunction
#define gpuErrorMemoryAllocation      hipErrorOutOfMemory
#define gpuErrorNoDevice              hipErrorNoDevice
#define gpuFree                       hipFree
#define gpuFuncAttributes             hipFuncAttributes
#define gpuFuncGetAttributes          hipFuncGetAttributes
#define gpuGetDevice                  hipGetDevice
#define gpuGetDeviceCount             hipGetDeviceCount
#define gpuGetDeviceProperties        hipGetDeviceProperties
#define gpuGetErrorName               hipGetErrorName
#define gpuGetErrorString             hipGetErrorString
#define gpuGetLastError               hipGetLastError
#define gpuLaunchKernel               hipLaunchKernel
#define gpuMalloc                     hipMalloc
#define gpuMemcpyAsync                hipMemcpyAsync
#define gpuMemcpyDeviceToDevice       hipMemcpyDeviceToDevice
#define gpuMemcpyDeviceToHost         hipMemcpyDeviceToHost
#define gpuMemcpyHostToDevice         hipMemcpyHostToDevice
#define gpuMemcpyKind                 hipMemcpyKind
#define gpuMemsetAsync                hipMemsetAsync
#define gpuStream_t                   hipStream_t
#define gpuStreamSynchronize          hipStreamSynchronize
#define gpuSuccess                    hipSuccess

#else

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

__device__ inline uint16_t gpu_float_to_bf16(float value) {
    return __bfloat16_as_ushort(__float2bfloat16_rn(value));
}

#define gpuDeviceGetAttribute         cudaDeviceGetAttribute
#define gpuDeviceProp                 cudaDeviceProp
#define gpuDeviceSynchronize          cudaDeviceSynchronize
#define gpuDriverGetVersion           cudaDriverGetVersion
#define gpuError_t                    cudaError_t
#define gpuErrorInsufficientDriver    cudaErrorInsufficientDriver
#define gpuErrorInvalidDeviceFunction cudaErrorInvalidDeviceFunction
#define gpuErrorMemoryAllocation      cudaErrorMemoryAllocation
#define gpuErrorNoDevice              cudaErrorNoDevice
#define gpuFree                       cudaFree
#define gpuFuncAttributes             cudaFuncAttributes
#define gpuFuncGetAttributes          cudaFuncGetAttributes
#define gpuGetDevice                  cudaGetDevice
#define gpuGetDeviceCount             cudaGetDeviceCount
#define gpuGetDeviceProperties        cudaGetDeviceProperties
#define gpuGetErrorName               cudaGetErrorName
#define gpuGetErrorString             cudaGetErrorString
#define gpuGetLastError               cudaGetLastError
#define gpuLaunchKernel               cudaLaunchKernel
#define gpuMalloc                     cudaMalloc
#define gpuMemcpyAsync                cudaMemcpyAsync
#define gpuMemcpyDeviceToDevice       cudaMemcpyDeviceToDevice
#define gpuMemcpyDeviceToHost         cudaMemcpyDeviceToHost
#define gpuMemcpyHostToDevice         cudaMemcpyHostToDevice
#define gpuMemcpyKind                 cudaMemcpyKind
#define gpuMemsetAsync                cudaMemsetAsync
#define gpuStream_t                   cudaStream_t
#define gpuStreamSynchronize          cudaStreamSynchronize
#define gpuSuccess                    cudaSuccess

#endif

/* The threads of a block, and how many blocks a multiprocessor should hold: HIP for AMD counts
 * waves instead, and the compiler does better by itself. */
#if defined(__HIP_PLATFORM_AMD__)
#define GPU_LAUNCH_BOUNDS(threads, blocks) __launch_bounds__(threads)
#else
#define GPU_LAUNCH_BOUNDS(threads, blocks) __launch_bounds__(threads, blocks)
#endif

/* A kernel's argument, to be read again from where it was passed. AMD's compiler would otherwise
 * load all of a large one at the start and run out of scalar registers. */
template <class Args> __device__ inline const Args &gpu_reload(const Args &args) {
#if defined(__HIP_PLATFORM_AMD__) && defined(__HIP_DEVICE_COMPILE__)
    (void)args;
    auto *passed = __builtin_amdgcn_kernarg_segment_ptr();
    asm volatile("" : "+s"(passed));
    return *(const Args *)passed;
#else
    return args;
#endif
}

/* Of a row of a grid: HIP for AMD limits its threads, CUDA its blocks. */
#if defined(GPU_MAX_THREADS)
#elif defined(__HIP_PLATFORM_AMD__)
#define GPU_MAX_THREADS UINT32_MAX
#else
#define GPU_MAX_THREADS INT64_MAX
#endif
__host__ __device__ constexpr int64_t gpu_max_blocks(int threads) {
    return GPU_MAX_THREADS / threads < INT32_MAX ? GPU_MAX_THREADS / threads : INT32_MAX;
}

#ifndef GPU_SHIM

/* A variable in shared memory, then its type. */
#define GPU_SHARED(name, ...) __shared__ __VA_ARGS__ name

/* Starts a kernel. The status is the launch's own: an error that was pending before is neither
 * reported nor cleared. */
template <class Args>
gpuError_t gpu_start(void (*kernel)(Args), dim3 grid, int threads, gpuStream_t stream, Args args) {
    void *list[] = {&args};
    return gpuLaunchKernel((const void *)kernel, grid, dim3((unsigned)threads), list, 0, stream);
}

/* Loads the kernel, so that a later launch does nothing but launch. */
template <class Args> gpuError_t gpu_prepare(void (*kernel)(Args)) {
    gpuFuncAttributes attributes;
    return gpuFuncGetAttributes(&attributes, (const void *)kernel);
}

__device__ inline float gpu_f16_to_float(uint16_t bits) {
    return __half2float(__ushort_as_half(bits));
}

__device__ inline uint16_t gpu_float_to_f16(float value) {
    return __half_as_ushort(__float2half_rn(value));
}

#endif

/* Starts `blocks` blocks of `threads` threads. If they are more than a row of the grid can have,
 * they come in several, and the last is filled up: kernels that take so many blocks number them by
 * gpu_block_number() and have those past the end do nothing. */
template <class Args>
gpuError_t gpu_launch(void (*kernel)(Args), int64_t blocks, int threads, gpuStream_t stream,
                      Args args) {
    const int64_t most = gpu_max_blocks(threads);
    const dim3 grid{(unsigned)(blocks < most ? blocks : most), (unsigned)((blocks - 1) / most + 1),
                    1};
    return gpu_start(kernel, grid, threads, stream, args);
}

template <int THREADS> __device__ inline int64_t gpu_block_number() {
    return blockIdx.y * gpu_max_blocks(THREADS) + blockIdx.x;
}

#endif
