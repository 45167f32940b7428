#include "onednn_module.h"

DSCONV_API const onednn_module *dsconv_onednn_entry(void);

DSCONV_API const onednn_module *dsconv_onednn_entry(void) {
    static const onednn_module module = {
        .abi = ONEDNN_MODULE_ABI,
        .pair_create = onednn_pair_create,
        .pair_destroy = onednn_pair_destroy,
        .pair_set_weights = onednn_pair_set_weights,
        .pair_depthwise = onednn_pair_depthwise,
        .pair_pointwise = onednn_pair_pointwise,
    };
    return &module;
}
