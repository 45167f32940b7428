#include "onednn_post_ops.h"

typedef struct eltwise {
    dnnl_alg_kind_t kind; /* dnnl_alg_kind_undef ends the list */
    float alpha, beta;
} eltwise;

static const eltwise activations[][2] = {
    [DSCONV_ACT_NONE] = {{dnnl_alg_kind_undef, 0.0F, 0.0F}},
    [DSCONV_ACT_RELU] = {{dnnl_eltwise_relu, 0.0F, 0.0F}},
    [DSCONV_ACT_RELU6] = {{dnnl_eltwise_clip, 0.0F, 6.0F}},
    [DSCONV_ACT_LEAKY_RELU] = {{dnnl_eltwise_relu, 0.0F, 0.0F}},
    [DSCONV_ACT_SILU] = {{dnnl_eltwise_swish, 1.0F, 0.0F}},
    [DSCONV_ACT_HARDSWISH] = {{dnnl_eltwise_hardswish, 1.0F / 6.0F, 0.5F}},
    [DSCONV_ACT_HARDSIGMOID] = {{dnnl_eltwise_linear, 1.0F / 6.0F, 0.5F},
                                {dnnl_eltwise_clip, 0.0F, 1.0F}},
    [DSCONV_ACT_SIGMOID] = {{dnnl_eltwise_logistic, 0.0F, 0.0F}},
    [DSCONV_ACT_GELU] = {{dnnl_eltwise_gelu_erf, 0.0F, 0.0F}},
    [DSCONV_ACT_GELU_TANH] = {{dnnl_eltwise_gelu_tanh, 0.0F, 0.0F}},
};

static dnnl_status_t append_activation(dnnl_post_ops_t ops, const dsconv_activation *act) {
    dnnl_status_t status = dnnl_success;
    for (int i = 0; i < 2 && status == dnnl_success; i++) {
        const eltwise *op = &activations[act->kind][i];
        if (op->kind == dnnl_alg_kind_undef)
            break;
        float alpha = act->kind == DSCONV_ACT_LEAKY_RELU ? act->alpha : op->alpha;
        status = onednn_append_eltwise(ops, op->kind, alpha, op->beta);
    }
    return status;
}

dnnl_status_t onednn_attr_create(dnnl_primitive_attr_t *attr, const dsconv_activation *act,
                                 dsconv_residual sum) {
    dnnl_post_ops_t ops = NULL;

    dnnl_status_t status = dnnl_primitive_attr_create(attr);
    if (status == dnnl_success)
        status = dnnl_primitive_attr_set_scratchpad_mode(*attr, dnnl_scratchpad_mode_user);
    if (status == dnnl_success)
        status = dnnl_primitive_attr_set_fpmath_mode(*attr, dnnl_fpmath_mode_strict);
    if (status == dnnl_success)
        status = dnnl_post_ops_create(&ops);
    if (status == dnnl_success && sum == DSCONV_RESIDUAL_BEFORE_ACT)
        status = onednn_append_sum(ops);
    if (status == dnnl_success && act)
        status = append_activation(ops, act);
    if (status == dnnl_success && sum == DSCONV_RESIDUAL_AFTER_ACT)
        status = onednn_append_sum(ops);
    if (status == dnnl_success)
        status = dnnl_primitive_attr_set_post_ops(*attr, ops);
    dnnl_post_ops_destroy(ops);
    return status;
}
