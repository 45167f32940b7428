/*
 * Verdict over many outputs: every one within its own bound, and all together no further from the
 * truth than twice an fp32 chain (relative L2).
 *
 *   ||got - value|| <= 2 ||chain - value|| + u ||value|| + ||slack||
 *
 * with chain rounded to the storage type and u its unit roundoff: one rounding of each output, for
 * problems so small that the chain happens to be exact. Where TF32 is used the right side is
 * ||bound|| + u ||value||.
 */
#ifndef DSCONV_TESTS_VERIFY_H
#define DSCONV_TESTS_VERIFY_H

#include "reference.h"

typedef struct verdict {
    dsconv_dtype dtype;
    bool exact; /* outputs must equal the rounded value */
    bool tf32;
    int64_t count, wrong;
    int64_t at[4]; /* n, channel, p, q of the first wrong output */
    double got;
    point expected;
    double max_abs, max_ulp; /* distance from the unrounded value; in units of its last place */
    double error2, chain2, value2, slack2, bound2; /* sums of squares over finite outputs */
} verdict;

void verdict_add(verdict *v, int64_t n, int64_t channel, int64_t p, int64_t q, point expected,
                 double got);
double verdict_rel_l2(const verdict *v);
double verdict_rel_l2_limit(const verdict *v);
bool verdict_pass(const verdict *v);

/** One or two lines on why a verdict does not pass; `what` names the output, such as "y". */
void verdict_print(const verdict *v, const char *what);

#endif
