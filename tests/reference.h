/*
 * The value of any output in double, straight from the definition in dsconv.h, with the error that
 * an fp32 implementation may have there. Written apart from every backend, `ref` included.
 *
 * The bound. Let u = 2^-24 and gamma(m) = m u / (1 - m u): a sum of m fp32 operations, in any order
 * and with or without fused multiply-adds, is within gamma(m) * sum |terms| of the exact one
 * (Higham 2002, Accuracy and Stability of Numerical Algorithms, section 3.1).
 *   depthwise sum   D = gamma(R S + 2) (|bias| + sum |x w|)          + R S t
 *   mid             E = L D + A
 *   pointwise sum   F = gamma(CM + 3) (|bias| + |residual| + sum |mid w|)
 *                       + sum E |w| (1 + gamma(CM + 3))              + CM t
 *   y               L F + A, and u (|act| + |residual|) more for a residual added afterwards
 * with L the largest slope of the activation, A = 8 u g the error of evaluating it in fp32 (g = |v|
 * for those of the form v * gate, 1 for the sigmoids, 0 for those made of comparisons), and
 * t = 2^-149 per operation for what underflows. Where TF32 is used, both pointwise operands are off
 * by up to 2^-10 of themselves more, so F grows by (2^-9 + 2^-20) sum |mid w|.
 * An output passes when it lies in round(value - bound) .. round(value + bound), rounded to the
 * storage type: rounding is monotonic, so no more tolerance is needed for it.
 */
#ifndef DSCONV_TESTS_REFERENCE_H
#define DSCONV_TESTS_REFERENCE_H

#include "tensor.h"

/** What goes into a problem, in host memory; absent ones are NULL. */
typedef struct inputs {
    tensor x, residual;
    const void *w_dw, *w_pw, *bias_dw, *bias_pw;
} inputs;

/** An expected value before rounding to the storage type. */
typedef struct point {
    double value;
    double bound; /* largest error allowed */
    double slack; /* part of it that comes from evaluating activations, as a typical error */
    float chain;  /* what a chain of fp32 fused multiply-adds gives */
} point;

typedef struct reference reference;

/** Views of a problem's tensors (data NULL), as its layout and strides say. */
tensor problem_x(const dsconv_problem *problem);
tensor problem_y(const dsconv_problem *problem);
tensor problem_residual(const dsconv_problem *problem);
tensor problem_mid(const dsconv_problem *problem);
int64_t problem_mid_channels(const dsconv_problem *problem);

/** Copies the weights; x and residual must stay. NULL when out of memory. */
reference *reference_create(const dsconv_problem *problem, const inputs *in, bool tf32);
void reference_destroy(reference *ref);

/** Expected mid of every channel at one pixel; mid is [mid_channels]. */
void reference_mid(const reference *ref, int64_t n, int64_t p, int64_t q, point *mid);

/** Expected y of channel k at the pixel whose mid is given. */
point reference_y(const reference *ref, int64_t n, int64_t k, int64_t p, int64_t q,
                  const point *mid);

#endif
