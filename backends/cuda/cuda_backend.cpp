/* Backend `cuda`: what is CUDA's own on the host side, and the table. */
#include <stdio.h>

#include "../gpu/gpu_nvidia.h"
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

extern "C" const dsconv_backend dsconv_backend_cuda;
const dsconv_backend dsconv_backend_cuda = gpu_backend_table(gpu_backend_name, algo_names);
