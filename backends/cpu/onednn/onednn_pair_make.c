#include "onednn_pair_internal.h"

#include <string.h>

#include "onednn_post_ops.h"

static int is_reference(const char *kernel) {
    return strncmp(kernel, "ref", 3) == 0;
}

int onednn_skips_border(const char *kernel) {
    return strstr(kernel, "gemm") == NULL;
}

int onednn_is_steady(const char *kernel) {
    static const char *const steady[] = {"jit_dw", "brdgmm_dw", "jit_1x1", "brgconv_1x1", "ref"};
    for (size_t i = 0; i < sizeof(steady) / sizeof(steady[0]); i++)
        if (strncmp(kernel, steady[i], strlen(steady[i])) == 0)
            return 1;
    return 0;
}

static int accept_any(const char *kernel) {
    (void)kernel;
    return 1;
}

static int accept_optimised(const char *kernel) {
    return !is_reference(kernel);
}

static int accept_skipping(const char *kernel) {
    return onednn_skips_border(kernel);
}

static const dnnl_data_type_t types[] = {
    [DSCONV_F32] = dnnl_f32, [DSCONV_F16] = dnnl_f16, [DSCONV_BF16] = dnnl_bf16};

static dnnl_format_tag_t plain_tag(const dsconv_shape *shape) {
    return shape->problem.layout == DSCONV_NHWC ? dnnl_nhwc : dnnl_nchw;
}

static dnnl_format_tag_t wanted_tag(const dsconv_shape *shape, onednn_format format) {
    if (format == ONEDNN_PLAIN)
        return plain_tag(shape);
    if (format == ONEDNN_ANY)
        return dnnl_format_tag_any;
    return (dnnl_get_effective_cpu_isa() & dnnl_cpu_isa_avx512_core) == dnnl_cpu_isa_avx512_core
               ? dnnl_nChw16c
               : dnnl_nChw8c;
}

/* Describes the caller's tensors. */
static dnnl_status_t describe(onednn_pair *pair, const dsconv_shape *shape,
                              const onednn_pair_options *options) {
    const dsconv_problem *p = &shape->problem;
    const dnnl_data_type_t type = types[options->dtype];
    const int64_t images = options->images, mid = shape->mid_channels;
    const struct {
        enum tensor tensor;
        int rank;
        dnnl_dims_t dims;
        dnnl_data_type_t type;
        dnnl_format_tag_t tag;
    } tensors[] = {
        {X, 4, {images, p->c, p->h, p->w}, type, plain_tag(shape)},
        {MID, 4, {images, mid, shape->p, shape->q}, type, plain_tag(shape)},
        {Y, 4, {images, p->k, shape->p, shape->q}, type, plain_tag(shape)},
        {W_DW, 5, {p->c, p->multiplier, 1, p->r, p->s}, dnnl_f32, dnnl_goihw},
        {W_PW, 4, {p->k, mid, 1, 1}, dnnl_f32, dnnl_oihw},
        {BIAS_DW, 1, {mid}, dnnl_f32, dnnl_a},
        {BIAS_PW, 1, {p->k}, dnnl_f32, dnnl_a},
    };
    dnnl_status_t status = dnnl_success;
    for (size_t i = 0; i < sizeof(tensors) / sizeof(tensors[0]) && status == dnnl_success; i++)
        status = onednn_md_create(&pair->plain[tensors[i].tensor], tensors[i].rank, tensors[i].dims,
                                  tensors[i].type, tensors[i].tag);
    pair->md[BIAS_DW] = p->bias & DSCONV_BIAS_DW ? pair->plain[BIAS_DW] : NULL;
    pair->md[BIAS_PW] = p->bias & DSCONV_BIAS_PW ? pair->plain[BIAS_PW] : NULL;
    return status;
}

static dnnl_status_t make_depthwise(onednn_pair *pair, const dsconv_shape *shape,
                                    const onednn_pair_options *options) {
    const dsconv_problem *p = &shape->problem;
    const dnnl_data_type_t type = types[options->dtype];
    const dnnl_format_tag_t tag = wanted_tag(shape, options->format);
    onednn_conv conv = {.bias = pair->md[BIAS_DW],
                        .stride = {p->stride_h, p->stride_w},
                        .dilation = {p->dil_h - 1, p->dil_w - 1},
                        .pad_begin = {p->pad_top, p->pad_left},
                        .pad_end = {p->pad_bottom, p->pad_right}};
    dnnl_primitive_attr_t attr = NULL;

    dnnl_status_t status =
        onednn_attr_create(&attr, options->post_ops ? &p->act_mid : NULL, DSCONV_RESIDUAL_NONE);
    if (status == dnnl_success)
        status = onednn_md_create(&conv.x, 4, (dnnl_dims_t){options->images, p->c, p->h, p->w},
                                  type, tag);
    if (status == dnnl_success)
        status =
            onednn_md_create(&conv.weights, 5, (dnnl_dims_t){p->c, p->multiplier, 1, p->r, p->s},
                             type, dnnl_format_tag_any);
    if (status == dnnl_success)
        status = onednn_md_create(
            &conv.y, 4, (dnnl_dims_t){options->images, shape->mid_channels, shape->p, shape->q},
            type, tag);
    if (status == dnnl_success)
        status = onednn_conv_create(&pair->desc[DEPTHWISE], pair->engine, &conv, attr,
                                    options->skip_border ? accept_skipping
                                    : options->reference ? accept_any
                                                         : accept_optimised);
    if (status == dnnl_success) {
        const_dnnl_primitive_desc_t desc = pair->desc[DEPTHWISE];
        pair->md[X_IN] = dnnl_primitive_desc_query_md(desc, dnnl_query_src_md, 0);
        pair->md[W_DW] = dnnl_primitive_desc_query_md(desc, dnnl_query_weights_md, 0);
        pair->md[MID] = dnnl_primitive_desc_query_md(desc, dnnl_query_dst_md, 0);
    }
    onednn_md_destroy(conv.x);
    onednn_md_destroy(conv.weights);
    onednn_md_destroy(conv.y);
    dnnl_primitive_attr_destroy(attr);
    return status;
}

/* Where y is reordered at the end, its old content is added there: after the activation. */
static int reorder_adds(const dsconv_shape *shape, const onednn_pair_options *options) {
    return options->post_ops && options->reorder && options->format != ONEDNN_PLAIN &&
           shape->problem.residual != DSCONV_RESIDUAL_NONE;
}

static dnnl_status_t make_pointwise(onednn_pair *pair, const dsconv_shape *shape,
                                    const onednn_pair_options *options) {
    const dsconv_problem *p = &shape->problem;
    const dnnl_data_type_t type = types[options->dtype];
    onednn_conv conv = {.x = pair->md[MID], .bias = pair->md[BIAS_PW], .stride = {1, 1}};
    dnnl_primitive_attr_t attr = NULL;

    dnnl_status_t status = onednn_attr_create(
        &attr, options->post_ops ? &p->act_out : NULL,
        options->post_ops && !reorder_adds(shape, options) ? p->residual : DSCONV_RESIDUAL_NONE);
    if (status == dnnl_success)
        status = onednn_md_create(&conv.weights, 4, (dnnl_dims_t){p->k, shape->mid_channels, 1, 1},
                                  type, dnnl_format_tag_any);
    if (status == dnnl_success)
        status =
            onednn_md_create(&conv.y, 4, (dnnl_dims_t){options->images, p->k, shape->p, shape->q},
                             type, wanted_tag(shape, options->format));
    if (status == dnnl_success)
        status = onednn_conv_create(&pair->desc[POINTWISE], pair->engine, &conv, attr,
                                    options->reference ? accept_any : accept_optimised);
    if (status == dnnl_success) {
        const_dnnl_primitive_desc_t desc = pair->desc[POINTWISE];
        pair->md[W_PW] = dnnl_primitive_desc_query_md(desc, dnnl_query_weights_md, 0);
        pair->md[Y_OUT] = dnnl_primitive_desc_query_md(desc, dnnl_query_dst_md, 0);
    }
    onednn_md_destroy(conv.weights);
    onednn_md_destroy(conv.y);
    dnnl_primitive_attr_destroy(attr);
    return status;
}

/* Makes a stage that brings `from` into the format of `to`, where the two differ. */
static dnnl_status_t make_reorder(onednn_pair *pair, enum stage stage, onednn_md from, onednn_md to,
                                  dsconv_residual sum) {
    dnnl_primitive_attr_t attr = NULL;

    if (dnnl_memory_desc_equal(from, to))
        return dnnl_success;
    dnnl_status_t status = onednn_attr_create(&attr, NULL, sum);
    if (status == dnnl_success)
        status = dnnl_reorder_primitive_desc_create(&pair->desc[stage], from, pair->engine, to,
                                                    pair->engine, attr);
    dnnl_primitive_attr_destroy(attr);
    return status;
}

dnnl_status_t onednn_pair_make(onednn_pair *pair, const dsconv_shape *shape,
                               const onednn_pair_options *options, const char **what) {
    const int adds = reorder_adds(shape, options);

    *what = "residual before an activation and a reorder";
    if (adds && shape->problem.residual == DSCONV_RESIDUAL_BEFORE_ACT &&
        shape->problem.act_out.kind != DSCONV_ACT_NONE)
        return dnnl_unimplemented;
    *what = "tensors";
    dnnl_status_t status = describe(pair, shape, options);
    if (status == dnnl_success) {
        *what = "depthwise convolution";
        status = make_depthwise(pair, shape, options);
    }
    if (status == dnnl_success) {
        *what = "pointwise convolution";
        status = make_pointwise(pair, shape, options);
    }
    if (status == dnnl_success && options->reorder) {
        *what = "reorder";
        status =
            make_reorder(pair, REORDER_X, pair->plain[X], pair->md[X_IN], DSCONV_RESIDUAL_NONE);
        if (status == dnnl_success)
            status = make_reorder(pair, REORDER_Y, pair->md[Y_OUT], pair->plain[Y],
                                  adds ? DSCONV_RESIDUAL_AFTER_ACT : DSCONV_RESIDUAL_NONE);
    }
    for (int i = 0; i < STAGES && status == dnnl_success; i++)
        if (pair->desc[i])
            status = dnnl_primitive_create(&pair->primitive[i], pair->desc[i]);
    return status;
}
