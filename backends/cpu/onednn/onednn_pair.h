/*
 * A depthwise and a pointwise convolution as two oneDNN primitives.
 *
 * Made once, then run by any number of threads at once on memory of the caller. The two halves run
 * separately, so that the caller may work on the intermediate between them. Activations and the
 * residual are left to the caller unless post_ops asks for oneDNN's own, which lose a NaN.
 */
#ifndef DSCONV_ONEDNN_PAIR_H
#define DSCONV_ONEDNN_PAIR_H

#include <dsconv/backend.h>

typedef enum onednn_format {
    ONEDNN_PLAIN = 0,  /* the caller's layout throughout */
    ONEDNN_ANY = 1,    /* what oneDNN asks for */
    ONEDNN_BLOCKED = 2 /* blocks of as many channels as a vector holds */
} onednn_format;

typedef struct onednn_pair_options {
    int64_t images; /* batch of one run; the shape's n is not looked at */
    onednn_format format;
    dsconv_dtype dtype;      /* of x, weights, mid and y; the shape's is not looked at */
    int32_t threads;         /* at least 1 */
    int32_t reorder;         /* x and y are in the shape's layout; 0: already in oneDNN's */
    int32_t reference;       /* accept oneDNN's unoptimised kernels */
    int32_t skip_border;     /* only depthwise kernels that skip taps outside the image */
    int32_t flush_denormals; /* subnormal numbers count as zero */
    int32_t post_ops;        /* oneDNN applies activations and adds y's old content as residual */
} onednn_pair_options;

typedef struct onednn_pair_info {
    const char *kernel_dw, *kernel_pw; /* oneDNN's names; live as long as the pair */
    size_t x_size, mid_size, y_size;   /* bytes of one run's tensors */
    size_t workspace_size;             /* bytes besides mid */
    int32_t is_steady;                 /* bits depend on neither images nor threads */
    int32_t skips_border;              /* as in the options */
    int32_t all_plain;                 /* x, mid and y are dense in the shape's layout inside too */
} onednn_pair_info;

typedef struct onednn_pair onednn_pair;

/* Makes a pair for dense tensors. UNSUPPORTED where oneDNN has no such kernel. */
dsconv_status onednn_pair_create(const dsconv_shape *shape, const onednn_pair_options *options,
                                 onednn_pair **pair, onednn_pair_info *info,
                                 dsconv_message *message);
void onednn_pair_destroy(onednn_pair *pair); /* NULL is fine */

/* Takes fp32 weights and biases as in dsconv_weights, whatever the pair's dtype, and copies them
 * into oneDNN's formats. Once per pair. */
dsconv_status onednn_pair_set_weights(onednn_pair *pair, int32_t threads, const float *w_dw,
                                      const float *w_pw, const float *bias_dw, const float *bias_pw,
                                      dsconv_message *message);

/* Each half, after set_weights. threads: at most as in the options; 1 starts no thread, which is
 * what a forked child needs. workspace (aligned to 64 bytes) holds nothing from one half to the
 * next. oneDNN itself allocates some hundred bytes per call for its argument list; beyond that
 * a run allocates only when more than 16 run at once on a pair. */
dsconv_status onednn_pair_depthwise(onednn_pair *pair, int32_t threads, const void *x, void *mid,
                                    void *workspace, dsconv_message *message);
dsconv_status onednn_pair_pointwise(onednn_pair *pair, int32_t threads, const void *mid, void *y,
                                    void *workspace, dsconv_message *message);

#endif
