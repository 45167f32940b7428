/*
 * One problem on one backend and algorithm: run several ways and compared with the reference.
 */
#ifndef DSCONV_TESTS_TRIAL_H
#define DSCONV_TESTS_TRIAL_H

#include "material.h"
#include "target.h"

typedef enum outcome { OUTCOME_PASS, OUTCOME_FAIL, OUTCOME_UNSUPPORTED } outcome;

/** Host copies of what a run gave, dense in the problem's layout; free the data. */
typedef struct outputs {
    tensor y, mid;
    bool tf32;
} outputs;

void outputs_free(outputs *out);

/** One run: with 1 + variant threads, and guarded memory at another place for each variant. */
outcome trial_execute(const target *t, const material *m, int variant, outputs *out);

/** Values to expect instead of the reference's, dense in the problem's layout. */
typedef struct expectation {
    const double *y, *mid;
} expectation;

/** Compares with the reference, or with `given` where that is not NULL; prints what is wrong. */
bool trial_verify(const target *t, const material *m, const outputs *out, const expectation *given);

/**
 * Runs the problem with 1, 2 and 3 threads and its last image alone, which all must agree bit for
 * bit, and with its residual in y; verifies the results. Prints every failure with a line to repeat
 * it.
 */
outcome trial_run(const target *t, const material *m);

/** Prints a failure: what, the target, and the line to repeat it. */
void trial_complain(const target *t, const material *m, const char *what);

/** Makes a crash print which trial it was. */
void trial_watch_crashes(void);

#endif
