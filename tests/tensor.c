#include "tensor.h"

#include <math.h>
#include <string.h>

/* Significant bits, exponent of the smallest subnormal, first value that rounds to infinity. */
typedef struct format {
    size_t size;
    int precision, lowest;
    double overflow;
} format;

static const format formats[] = {
    [DSCONV_F32] = {4, 24, -149, 0x1.ffffffp127},
    [DSCONV_F16] = {2, 11, -24, 65520.0},
    [DSCONV_BF16] = {2, 8, -133, 0x1.ffp127},
    [DSCONV_I8] = {1, 7, 0, 127.5},
};

size_t dtype_size(dsconv_dtype dtype) {
    return formats[dtype].size;
}

double dtype_round(dsconv_dtype dtype, double value) {
    const format *f = &formats[dtype];
    if (value == 0.0 || !isfinite(value))
        return value;
    if (fabs(value) >= f->overflow)
        return copysign(INFINITY, value);
    const int exponent = ilogb(value) + 1 - f->precision;
    const double unit = ldexp(1.0, exponent > f->lowest ? exponent : f->lowest);
    return copysign(nearbyint(value / unit) * unit, value);
}

/* A 16-bit float is `exponent_bits` above `fraction_bits`; the rest follows from the two. */
static double decode16(uint16_t bits, int fraction_bits) {
    const int bias = (1 << (14 - fraction_bits)) - 1;
    const int exponent = (bits & 0x7fff) >> fraction_bits;
    const int fraction = bits & ((1 << fraction_bits) - 1);
    double value;
    if (exponent == 2 * bias + 1)
        value = fraction != 0 ? (double)NAN : (double)INFINITY;
    else if (exponent == 0)
        value = ldexp(fraction, 1 - bias - fraction_bits);
    else
        value = ldexp(fraction + (1 << fraction_bits), exponent - bias - fraction_bits);
    return (bits & 0x8000) != 0 ? -value : value;
}

/* `value` is representable: already rounded. */
static uint16_t encode16(double value, int fraction_bits) {
    const int bias = (1 << (14 - fraction_bits)) - 1;
    const int top = 2 * bias + 1;
    const double magnitude = fabs(value);
    int bits;
    if (isnan(value))
        bits = top << fraction_bits | 1 << (fraction_bits - 1);
    else if (isinf(value))
        bits = top << fraction_bits;
    else if (magnitude < ldexp(1.0, 1 - bias))
        bits = (int)ldexp(magnitude, bias - 1 + fraction_bits);
    else {
        const int exponent = ilogb(magnitude);
        bits = ((exponent + bias - 1) << fraction_bits) +
               (int)ldexp(magnitude, fraction_bits - exponent);
    }
    return (uint16_t)(bits | (signbit(value) ? 0x8000 : 0));
}

double element_get(const void *data, dsconv_dtype dtype, int64_t index) {
    if (dtype == DSCONV_F32)
        return (double)((const float *)data)[index];
    return decode16(((const uint16_t *)data)[index], dtype == DSCONV_F16 ? 10 : 7);
}

void element_set(void *data, dsconv_dtype dtype, int64_t index, double value) {
    if (dtype == DSCONV_F32)
        ((float *)data)[index] = (float)value;
    else
        ((uint16_t *)data)[index] =
            encode16(dtype_round(dtype, value), dtype == DSCONV_F16 ? 10 : 7);
}

static void dense_strides(dsconv_layout layout, const int64_t dims[4], int64_t strides[4]) {
    static const int orders[2][4] = {[DSCONV_NCHW] = {3, 2, 1, 0}, [DSCONV_NHWC] = {1, 3, 2, 0}};
    int64_t stride = 1;
    for (int i = 0; i < 4; i++) {
        strides[orders[layout][i]] = stride;
        stride *= dims[orders[layout][i]];
    }
}

tensor tensor_view(dsconv_dtype dtype, dsconv_layout layout, const int64_t dims[4],
                   const int64_t *strides) {
    tensor t = {.dtype = dtype};
    memcpy(t.dims, dims, sizeof t.dims);
    dense_strides(layout, dims, t.strides);
    if (strides != NULL && (strides[0] | strides[1] | strides[2] | strides[3]) != 0)
        memcpy(t.strides, strides, sizeof t.strides);
    return t;
}

int64_t tensor_count(const tensor *t) {
    return t->dims[0] * t->dims[1] * t->dims[2] * t->dims[3];
}

int64_t tensor_span(const tensor *t) {
    if (tensor_count(t) == 0)
        return 0;
    return 1 + tensor_offset(t, t->dims[0] - 1, t->dims[1] - 1, t->dims[2] - 1, t->dims[3] - 1);
}

int64_t tensor_offset(const tensor *t, int64_t n, int64_t c, int64_t h, int64_t w) {
    return n * t->strides[0] + c * t->strides[1] + h * t->strides[2] + w * t->strides[3];
}

double tensor_get(const tensor *t, int64_t n, int64_t c, int64_t h, int64_t w) {
    return element_get(t->data, t->dtype, tensor_offset(t, n, c, h, w));
}

void tensor_set(const tensor *t, int64_t n, int64_t c, int64_t h, int64_t w, double value) {
    element_set(t->data, t->dtype, tensor_offset(t, n, c, h, w), value);
}

static void *element_address(const tensor *t, const int64_t at[4]) {
    return (char *)t->data +
           (size_t)tensor_offset(t, at[0], at[1], at[2], at[3]) * dtype_size(t->dtype);
}

/* The next index in the order n, c, h, w; false after the last. */
static bool next_index(const tensor *t, int64_t at[4]) {
    for (int i = 3; i >= 0; i--) {
        if (++at[i] < t->dims[i])
            return true;
        at[i] = 0;
    }
    return false;
}

void tensor_copy(const tensor *to, const tensor *from) {
    int64_t at[4] = {0};
    if (tensor_count(to) == 0)
        return;
    do
        memcpy(element_address(to, at), element_address(from, at), dtype_size(to->dtype));
    while (next_index(to, at));
}

bool tensor_same(const tensor *a, const tensor *b) {
    int64_t at[4] = {0};
    if (tensor_count(a) == 0)
        return true;
    do {
        const void *left = element_address(a, at), *right = element_address(b, at);
        if (memcmp(left, right, dtype_size(a->dtype)) != 0 &&
            !(isnan(element_get(left, a->dtype, 0)) && isnan(element_get(right, b->dtype, 0))))
            return false;
    } while (next_index(a, at));
    return true;
}

/* splitmix64: Steele, Lea, Flood 2014, "Fast splittable pseudorandom number generators". */
uint64_t rng_next(rng *r) {
    uint64_t z = r->state += 0x9e3779b97f4a7c15U;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
    return z ^ (z >> 31);
}

int64_t rng_range(rng *r, int64_t low, int64_t high) {
    return low + (int64_t)(rng_next(r) % (uint64_t)(high - low + 1));
}

double rng_unit(rng *r) {
    return (double)(rng_next(r) >> 11) * 0x1p-53;
}

static double special_value(dsconv_dtype dtype, rng *r) {
    switch (rng_range(r, 0, 5)) {
    case 0:
        return NAN;
    case 1:
        return INFINITY;
    case 2:
        return -INFINITY;
    case 3:
        return -0.0;
    default: /* a subnormal of the type */
        return ldexp((double)rng_range(r, -31, 31), formats[dtype].lowest);
    }
}

static double plain_value(fill f, rng *r) {
    if (f.kind == FILL_INTEGERS)
        return (double)rng_range(r, (int64_t)-f.amplitude, (int64_t)f.amplitude);
    return f.amplitude * (2.0 * rng_unit(r) - 1.0);
}

void tensor_fill(const tensor *t, fill f, rng *r) {
    for (int64_t n = 0; n < t->dims[0]; n++)
        for (int64_t c = 0; c < t->dims[1]; c++)
            for (int64_t h = 0; h < t->dims[2]; h++)
                for (int64_t w = 0; w < t->dims[3]; w++)
                    tensor_set(t, n, c, h, w, plain_value(f, r));
    if (f.kind != FILL_SPECIALS || tensor_count(t) == 0)
        return;
    for (int64_t i = 0; i <= tensor_count(t) / 256; i++)
        tensor_set(t, rng_range(r, 0, t->dims[0] - 1), rng_range(r, 0, t->dims[1] - 1),
                   rng_range(r, 0, t->dims[2] - 1), rng_range(r, 0, t->dims[3] - 1),
                   special_value(t->dtype, r));
}
