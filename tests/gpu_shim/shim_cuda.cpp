/* Backend `cuda` in the execution shim: the portable kernels. */
#include <stdio.h>

#include "../../backends/gpu/gpu_internal.h"

const char gpu_backend_name[] = "cuda";
const char gpu_driver_name[] = "execution shim";
const gpu_algo *const gpu_algos[] = {&gpu_algo_portable, NULL};

static const char *const algo_names[] = {"portable", NULL};

bool gpu_describe_arch(const gpuDeviceProp *device, char *arch, size_t size) {
    (void)snprintf(arch, size, "%s", device->gcnArchName);
    return true;
}

gpuError_t gpu_attach(gpu_context *) {
    return gpuSuccess;
}

void gpu_detach(gpu_context *) {
}

gpuError_t gpu_enter(const gpu_context *, int *previous) {
    return gpuGetDevice(previous);
}

void gpu_leave(const gpu_context *, int) {
}

extern "C" const dsconv_backend dsconv_backend_cuda;
const dsconv_backend dsconv_backend_cuda = gpu_backend_table(gpu_backend_name, algo_names);
