/* The host's side: one device, whose memory is the host's and whose streams are always done. */
#include "gpu_shim.h"

#include <stdlib.h>

namespace {

enum { ALIGNMENT = 256 };
const size_t MEMORY = (size_t)1 << 30;

const char *const error_names[] = {
    "gpuSuccess",       "gpuErrorInvalidValue",       "gpuErrorMemoryAllocation",
    "gpuErrorNoDevice", "gpuErrorInsufficientDriver", "gpuErrorLaunchFailure",
};

} // namespace

gpuError_t gpuDeviceSynchronize(void) {
    return gpuSuccess;
}

gpuError_t gpuDriverGetVersion(int *version) {
    *version = 1;
    return gpuSuccess;
}

gpuError_t gpuFree(void *pointer) {
    free(pointer);
    return gpuSuccess;
}

gpuError_t gpuGetDevice(int *device) {
    *device = 0;
    return gpuSuccess;
}

gpuError_t gpuGetDeviceCount(int *count) {
    *count = 1;
    return gpuSuccess;
}

/* One compute unit, so that small problems fill large tiles, too. */
gpuError_t gpuGetDeviceProperties(gpuDeviceProp *properties, int device) {
    if (device != 0)
        return gpuErrorInvalidValue;
    *properties = {"execution shim", GPU_SHIM_ARCH, 0, 0, 1, MEMORY};
    return gpuSuccess;
}

const char *gpuGetErrorName(gpuError_t error) {
    return error_names[error];
}

const char *gpuGetErrorString(gpuError_t error) {
    return error == gpuErrorLaunchFailure ? gpu_shim_failure() : "execution shim";
}

gpuError_t gpuGetLastError(void) {
    return gpuSuccess;
}

/* Filled with NaNs: what was never written is seen. */
gpuError_t gpuMalloc(void **pointer, size_t size) {
    *pointer = NULL;
    if (size > MEMORY || posix_memalign(pointer, ALIGNMENT, size) != 0)
        return gpuErrorMemoryAllocation;
    memset(*pointer, 0xff, size);
    return gpuSuccess;
}

gpuError_t gpuMemcpyAsync(void *to, const void *from, size_t size, gpuMemcpyKind, gpuStream_t) {
    memmove(to, from, size);
    return gpuSuccess;
}

gpuError_t gpuMemsetAsync(void *pointer, int value, size_t size, gpuStream_t) {
    memset(pointer, value, size);
    return gpuSuccess;
}

gpuError_t gpuSetDevice(int device) {
    return device == 0 ? gpuSuccess : gpuErrorInvalidValue;
}

gpuError_t gpuStreamSynchronize(gpuStream_t) {
    return gpuSuccess;
}
