#include "onednn_compat.h"

#include <stdlib.h>

const char *onednn_kernel_name(const_dnnl_primitive_desc_t pd) {
    const char *name = NULL;
    dnnl_primitive_desc_query(pd, dnnl_query_impl_info_str, 0, (void *)&name);
    return name ? name : "";
}

#if DNNL_VERSION_MAJOR >= 3

dnnl_status_t onednn_md_create(onednn_md *md, int rank, const dnnl_dims_t dims,
                               dnnl_data_type_t type, dnnl_format_tag_t tag) {
    dnnl_memory_desc_t made = NULL;
    dnnl_status_t status = dnnl_memory_desc_create_with_tag(&made, rank, dims, type, tag);
    *md = made;
    return status;
}

void onednn_md_destroy(onednn_md md) {
    dnnl_memory_desc_destroy(onednn_unconst(md));
}

dnnl_status_t onednn_conv_create(dnnl_primitive_desc_t *pd, dnnl_engine_t engine,
                                 const onednn_conv *conv, const_dnnl_primitive_attr_t attr,
                                 int (*accept)(const char *kernel)) {
    dnnl_status_t status = dnnl_convolution_forward_primitive_desc_create(
        pd, engine, dnnl_forward_inference, dnnl_convolution_direct, conv->x, conv->weights,
        conv->bias, conv->y, conv->stride, conv->dilation, conv->pad_begin, conv->pad_end, attr);
    if (status != dnnl_success) {
        *pd = NULL;
        return status;
    }
    while (status == dnnl_success && !accept(onednn_kernel_name(*pd)))
        status = dnnl_primitive_desc_next_impl(*pd);
    if (status != dnnl_success) {
        dnnl_primitive_desc_destroy(*pd);
        *pd = NULL;
        return dnnl_unimplemented;
    }
    return dnnl_success;
}

dnnl_status_t onednn_append_eltwise(dnnl_post_ops_t ops, dnnl_alg_kind_t kind, float alpha,
                                    float beta) {
    return dnnl_post_ops_append_eltwise(ops, kind, alpha, beta);
}

dnnl_status_t onednn_append_sum(dnnl_post_ops_t ops) {
    return dnnl_post_ops_append_sum(ops, 1.0F, 0, dnnl_data_type_undef);
}

#else

dnnl_status_t onednn_md_create(onednn_md *md, int rank, const dnnl_dims_t dims,
                               dnnl_data_type_t type, dnnl_format_tag_t tag) {
    dnnl_memory_desc_t *made = malloc(sizeof(*made));
    *md = made;
    if (!made)
        return dnnl_out_of_memory;
    return dnnl_memory_desc_init_by_tag(made, rank, dims, type, tag);
}

void onednn_md_destroy(onednn_md md) {
    free(onednn_unconst(md));
}

dnnl_status_t onednn_conv_create(dnnl_primitive_desc_t *pd, dnnl_engine_t engine,
                                 const onednn_conv *conv, const_dnnl_primitive_attr_t attr,
                                 int (*accept)(const char *kernel)) {
    dnnl_convolution_desc_t desc;
    dnnl_primitive_desc_iterator_t next = NULL;

    *pd = NULL;
    dnnl_status_t status = dnnl_dilated_convolution_forward_desc_init(
        &desc, dnnl_forward_inference, dnnl_convolution_direct, conv->x, conv->weights, conv->bias,
        conv->y, conv->stride, conv->dilation, conv->pad_begin, conv->pad_end);
    if (status == dnnl_success)
        status = dnnl_primitive_desc_iterator_create(&next, &desc, attr, engine, NULL);
    while (status == dnnl_success) {
        *pd = dnnl_primitive_desc_iterator_fetch(next);
        if (!*pd || accept(onednn_kernel_name(*pd)))
            break;
        dnnl_primitive_desc_destroy(*pd);
        *pd = NULL;
        status = dnnl_primitive_desc_iterator_next(next);
    }
    dnnl_primitive_desc_iterator_destroy(next);
    if (status == dnnl_success)
        return *pd ? dnnl_success : dnnl_out_of_memory;
    return status == dnnl_iterator_ends ? dnnl_unimplemented : status;
}

dnnl_status_t onednn_append_eltwise(dnnl_post_ops_t ops, dnnl_alg_kind_t kind, float alpha,
                                    float beta) {
    return dnnl_post_ops_append_eltwise(ops, 1.0F, kind, alpha, beta);
}

dnnl_status_t onednn_append_sum(dnnl_post_ops_t ops) {
    return dnnl_post_ops_append_sum(ops, 1.0F);
}

#endif
