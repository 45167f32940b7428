/* Backend `hip`: what is HIP's own on the host side, and the table. */
#include <stdio.h>
#include <string.h>

#include "hip_config.h"
#include "hip_internal.h"
#if defined(__HIP_PLATFORM_NVIDIA__)
#include "../gpu/gpu_nvidia.h"
#endif

const char gpu_backend_name[] = "hip";
const gpu_algo *const gpu_algos[] = {&hip_algo_fused, &gpu_algo_portable, NULL};

static const char *const algo_names[] = {"fused", "portable", NULL};

static const char *const code_for[] = {HIP_CODE}; /* architectures with a code object */

static bool has_code(const char *arch) {
    for (const char *known : code_for)
        if (strcmp(known, arch) == 0)
            return true;
    return false;
}

#if defined(__HIP_PLATFORM_NVIDIA__)

const char gpu_driver_name[] = "CUDA driver (libcuda.so.1)";

bool gpu_describe_arch(const gpuDeviceProp *device, char *arch, size_t size) {
    (void)snprintf(arch, size, "sm_%d%d", device->major, device->minor);
    return has_code(arch);
}

#else

const char gpu_driver_name[] = "AMD GPU driver (/dev/kfd)";

/* The name is followed by features, as in "gfx90a:sramecc+:xnack-"; the code objects are built for
 * any of them. */
bool gpu_describe_arch(const gpuDeviceProp *device, char *arch, size_t size) {
    (void)snprintf(arch, size, "%.*s", (int)strcspn(device->gcnArchName, ":"), device->gcnArchName);
    return has_code(arch);
}

/* Selecting a device touches neither that device nor the one before. */
gpuError_t gpu_attach(gpu_context *context) {
    (void)context;
    return gpuSuccess;
}

void gpu_detach(gpu_context *context) {
    (void)context;
}

gpuError_t gpu_enter(const gpu_context *context, int *previous) {
    gpuError_t error = hipGetDevice(previous);
    if (error == gpuSuccess && *previous != context->device)
        error = hipSetDevice(context->device);
    return error;
}

void gpu_leave(const gpu_context *context, int previous) {
    if (previous != context->device)
        (void)hipSetDevice(previous);
}

#endif

extern "C" const dsconv_backend dsconv_backend_hip;
const dsconv_backend dsconv_backend_hip = gpu_backend_table(gpu_backend_name, algo_names);
