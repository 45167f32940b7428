/* Attributes of a primitive: strict arithmetic, the caller's scratchpad, activation as post-op. */
#ifndef DSCONV_ONEDNN_POST_OPS_H
#define DSCONV_ONEDNN_POST_OPS_H

#include "onednn_compat.h"
#include <dsconv/dsconv.h>

/* act may be NULL; sum: whether and where the destination's old content is added. The caller
 * destroys *attr with dnnl_primitive_attr_destroy, also after a failure. */
dnnl_status_t onednn_attr_create(dnnl_primitive_attr_t *attr, const dsconv_activation *act,
                                 dsconv_residual sum);

#endif
