/*
 * The peer on a CPU: two oneDNN primitives as a user would call them, in several variants.
 *
 * Activations and the residual are oneDNN's post-ops, so the peer does the same work. Its buffers
 * besides x and y are the caller's, so that variants run in turn can share them.
 */
#ifndef DSCONV_BASELINE_ONEDNN_H
#define DSCONV_BASELINE_ONEDNN_H

#include <dsconv/backend.h>

typedef struct baseline_onednn baseline_onednn;

size_t baseline_onednn_count(void);

/* Name of a variant, such as "onednn blocked+reorders". */
const char *baseline_onednn_name(size_t variant);

/* Whether a variant reads x and writes y of run in the caller's layout; the others work on tensors
 * of their own in oneDNN's layout, as if the caller had them so. */
int baseline_onednn_takes_layout(size_t variant);

/* Prepares a variant. Weights and biases are fp32 whatever the problem's type, and only needed
 * during the call. UNSUPPORTED where oneDNN cannot, where tensors are strided or mid is wanted,
 * and where the variant would be the same as an earlier one. */
dsconv_status baseline_onednn_create(size_t variant, const dsconv_problem *problem, int32_t threads,
                                     const float *w_dw, const float *w_pw, const float *bias_dw,
                                     const float *bias_pw, baseline_onednn **baseline,
                                     dsconv_message *message);

/* oneDNN's kernels for the two halves. */
const char *baseline_onednn_kernel(const baseline_onednn *baseline);

/* Bytes of scratch that run needs, for what lies between x and y. */
size_t baseline_onednn_scratch_size(const baseline_onednn *baseline);

/* scratch is aligned to 64 bytes, and touched beforehand where the time matters.
 * A problem with a residual takes y's old content for it, so y grows from run to run. */
dsconv_status baseline_onednn_run(baseline_onednn *baseline, const void *x, void *y, void *scratch,
                                  dsconv_message *message);

void baseline_onednn_destroy(baseline_onednn *baseline); /* NULL is fine */

#endif
