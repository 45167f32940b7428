/*
 * Tensors of the tests: storage types, a strided 4-D view in the order n, c, h, w, seeded random
 * numbers, and fills. Shares no code with any backend.
 */
#ifndef DSCONV_TESTS_TENSOR_H
#define DSCONV_TESTS_TENSOR_H

#include <stdbool.h>

#include <dsconv/dsconv.h>

typedef struct tensor {
    void *data;
    dsconv_dtype dtype;
    int64_t dims[4], strides[4]; /* n, c, h, w whatever the layout; strides in elements */
} tensor;

size_t dtype_size(dsconv_dtype dtype);

/** Rounds to the storage type, ties to even; what is out of range becomes infinite. */
double dtype_round(dsconv_dtype dtype, double value);

double element_get(const void *data, dsconv_dtype dtype, int64_t index);
void element_set(void *data, dsconv_dtype dtype, int64_t index, double value);

/** A view on no data yet. `strides` all zero (or NULL): dense in `layout`. */
tensor tensor_view(dsconv_dtype dtype, dsconv_layout layout, const int64_t dims[4],
                   const int64_t *strides);
/** Elements from the first to the last, + 1; 0 when a dimension is 0. */
int64_t tensor_span(const tensor *t);
int64_t tensor_count(const tensor *t);
int64_t tensor_offset(const tensor *t, int64_t n, int64_t c, int64_t h, int64_t w);
double tensor_get(const tensor *t, int64_t n, int64_t c, int64_t h, int64_t w);
void tensor_set(const tensor *t, int64_t n, int64_t c, int64_t h, int64_t w, double value);

/** Copies elements bit for bit; both views have the same dimensions and type. */
void tensor_copy(const tensor *to, const tensor *from);
/** Whether all elements are bitwise equal, or both NaN. */
bool tensor_same(const tensor *a, const tensor *b);

typedef struct rng {
    uint64_t state;
} rng;

uint64_t rng_next(rng *r);
/** Uniform in low .. high, both included. */
int64_t rng_range(rng *r, int64_t low, int64_t high);
/** Uniform in [0, 1). */
double rng_unit(rng *r);

/** What a value is drawn from. */
typedef enum fill_kind {
    FILL_UNIFORM,  /* uniform in [-amplitude, amplitude) */
    FILL_INTEGERS, /* integers in -amplitude .. amplitude */
    FILL_SPECIALS  /* uniform, with 1 in 256 (and at least one) NaN, infinite, -0 or subnormal */
} fill_kind;

typedef struct fill {
    fill_kind kind;
    double amplitude;
} fill;

/** Fills every element in the order n, c, h, w, so a tensor's values do not depend on strides. */
void tensor_fill(const tensor *t, fill f, rng *r);

#endif
