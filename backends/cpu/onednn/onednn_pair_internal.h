/* What the making and the running of a pair share. */
#ifndef DSCONV_ONEDNN_PAIR_INTERNAL_H
#define DSCONV_ONEDNN_PAIR_INTERNAL_H

#include <stdatomic.h>

#include "onednn_compat.h"
#include "onednn_pair.h"

enum tensor { X, X_IN, MID, Y_OUT, Y, W_DW, BIAS_DW, W_PW, BIAS_PW, SCRATCH, TENSORS };
enum stage { REORDER_X, DEPTHWISE, POINTWISE, REORDER_Y, STAGES };
enum { MAX_LANES = 16, ALIGNMENT = 64 };

/* What one run at a time needs: oneDNN binds buffers to memory objects, not to a call. */
typedef struct lane {
    dnnl_stream_t stream;
    dnnl_memory_t memory[TENSORS];
    dnnl_memory_t scratch[STAGES];
} lane;

struct onednn_pair {
    dnnl_engine_t engine;
    dnnl_primitive_desc_t desc[STAGES]; /* NULL: no such stage */
    dnnl_primitive_t primitive[STAGES];
    onednn_md plain[TENSORS]; /* as the caller has them; owned */
    onednn_md md[TENSORS];    /* as the primitives have them; borrowed */
    dnnl_memory_t weights[TENSORS];
    int32_t flush_denormals;
    _Atomic(lane *) idle[MAX_LANES];
    size_t in_size, out_size; /* bytes of the reordered x and y in the workspace */
};

/* Fills the message and translates oneDNN's status. */
dsconv_status onednn_fail(dsconv_message *message, dnnl_status_t status, const char *what);

/* Makes the four primitives and the descriptors of their tensors. On failure the caller destroys
 * what exists. */
dnnl_status_t onednn_pair_make(onednn_pair *pair, const dsconv_shape *shape,
                               const onednn_pair_options *options, const char **what);

/* Whether a depthwise kernel leaves out taps outside the image, so that a weight of Inf or NaN
 * there does no harm. */
int onednn_skips_border(const char *kernel);

/* Whether a kernel sums every output as one chain; others split it by batch and threads. */
int onednn_is_steady(const char *kernel);

#endif
