/* Compiled at configuration: whether a compiler has headers and code for all architectures. */
#include <hip/hip_fp16.h>
#include <hip/hip_runtime.h>

__global__ void probe(float *values) {
    values[threadIdx.x] = erfcf(values[threadIdx.x]);
}
