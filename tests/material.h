/*
 * A problem with data for it: x, residual and weights in host memory, made from a seed.
 */
#ifndef DSCONV_TESTS_MATERIAL_H
#define DSCONV_TESTS_MATERIAL_H

#include "reference.h"

typedef enum material_kind {
    MATERIAL_EXACT,    /* integers so small that every fp32 sum, in any order, is exact */
    MATERIAL_UNIFORM,  /* all in [-1, 1) */
    MATERIAL_SPECIALS, /* NaN, infinities, -0 and subnormals in x and residual */
    MATERIAL_WEIGHTS,  /* the same in weights and biases */
    MATERIAL_LARGE,    /* mid far beyond the range of f16, y within it */
    MATERIAL_TINY,     /* x subnormal in its type */
    MATERIAL_KINDS
} material_kind;

typedef struct material {
    dsconv_problem problem;
    material_kind kind;
    uint64_t seed;
    inputs in; /* x and residual dense in the problem's layout */
    void *memory[6];
} material;

/** False when memory is short. An exact problem has only activations made of comparisons, with a
 *  power of two as slope. */
bool material_make(material *m, const dsconv_problem *problem, material_kind kind, uint64_t seed);
void material_free(material *m);

/** Kind by name ("exact", ...); MATERIAL_KINDS when there is none. */
material_kind material_find(const char *name);
const char *material_name(material_kind kind);

#endif
