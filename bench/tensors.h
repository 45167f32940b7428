/* The tensors of one problem in host memory, filled from a seed. */
#ifndef DSCONV_BENCH_TENSORS_H
#define DSCONV_BENCH_TENSORS_H

#include "../tests/reference.h"
#include "jobs.h"

typedef enum tensor_name { X, RESIDUAL, W_DW, W_PW, BIAS_DW, BIAS_PW, Y, MID, TENSORS } tensor_name;

typedef struct bench_tensors {
    const bench_job *job;
    void *data[TENSORS]; /* NULL for what the problem lacks */
    size_t size[TENSORS];
} bench_tensors;

/* x is uniform in [0, 1), weights and biases are as PyTorch initializes them, uniform within
 * 1/sqrt(fan-in), the residual is uniform in [-1, 1). False when out of memory. The caller frees
 * the tensors whatever the result. */
bool tensors_make(bench_tensors *tensors, const bench_job *job, uint64_t seed);
void tensors_free(bench_tensors *tensors);

/* The inputs as the reference takes them. */
inputs tensors_inputs(const bench_tensors *tensors);

/* A copy of a weight or bias in fp32, for the caller to free; NULL when absent or out of memory. */
float *tensors_as_float(const bench_tensors *tensors, tensor_name name);

#endif
