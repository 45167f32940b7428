/*
 * The table by which the CPU backend reaches oneDNN.
 *
 * It lies in a module of its own, so that the core needs no oneDNN, and a host with another oneDNN
 * keeps it: the module binds to the one it was built with.
 */
#ifndef DSCONV_ONEDNN_MODULE_H
#define DSCONV_ONEDNN_MODULE_H

#include "onednn_pair.h"

/* Grows with every change of onednn_pair.h. */
#define ONEDNN_MODULE_ABI 1

/* The module's name, and the one symbol that it exports. */
#define ONEDNN_MODULE_NAME  "onednn"
#define ONEDNN_MODULE_ENTRY "dsconv_onednn_entry"

typedef struct onednn_module {
    uint32_t abi; /* ONEDNN_MODULE_ABI */
    dsconv_status (*pair_create)(const dsconv_shape *shape, const onednn_pair_options *options,
                                 onednn_pair **pair, onednn_pair_info *info,
                                 dsconv_message *message);
    void (*pair_destroy)(onednn_pair *pair);
    dsconv_status (*pair_set_weights)(onednn_pair *pair, int32_t threads, const float *w_dw,
                                      const float *w_pw, const float *bias_dw, const float *bias_pw,
                                      dsconv_message *message);
    dsconv_status (*pair_depthwise)(onednn_pair *pair, int32_t threads, const void *x, void *mid,
                                    void *workspace, dsconv_message *message);
    dsconv_status (*pair_pointwise)(onednn_pair *pair, int32_t threads, const void *mid, void *y,
                                    void *workspace, dsconv_message *message);
} onednn_module;

typedef const onednn_module *(*onednn_module_entry_fn)(void);

#endif
