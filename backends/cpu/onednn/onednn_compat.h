/* The few calls whose form differs between oneDNN 2.x and 3.x; all others are used directly. */
#ifndef DSCONV_ONEDNN_COMPAT_H
#define DSCONV_ONEDNN_COMPAT_H

#include <dnnl.h>

/* A memory descriptor; a pointer in both versions. */
#if DNNL_VERSION_MAJOR >= 3
typedef const_dnnl_memory_desc_t onednn_md;
#else
typedef const dnnl_memory_desc_t *onednn_md;
#endif

/* oneDNN takes buffers that it only reads as `void *` too. */
static inline void *onednn_unconst(const void *pointer) {
    const union {
        const void *in;
        void *out;
    } both = {pointer};
    return both.out;
}

/* Makes a descriptor that the caller owns; those that a primitive descriptor hands out are not. */
dnnl_status_t onednn_md_create(onednn_md *md, int rank, const dnnl_dims_t dims,
                               dnnl_data_type_t type, dnnl_format_tag_t tag);
void onednn_md_destroy(onednn_md md); /* NULL is fine */

typedef struct onednn_conv {
    onednn_md x, weights, bias, y;                    /* bias may be NULL */
    dnnl_dims_t stride, dilation, pad_begin, pad_end; /* dilation 0 is dense */
} onednn_conv;

/* Makes the first forward convolution whose kernel's name `accept` likes; dnnl_unimplemented when
 * there is none. */
dnnl_status_t onednn_conv_create(dnnl_primitive_desc_t *pd, dnnl_engine_t engine,
                                 const onednn_conv *conv, const_dnnl_primitive_attr_t attr,
                                 int (*accept)(const char *kernel));

dnnl_status_t onednn_append_eltwise(dnnl_post_ops_t ops, dnnl_alg_kind_t kind, float alpha,
                                    float beta);

dnnl_status_t onednn_append_sum(dnnl_post_ops_t ops);

/* Name of the kernel behind a primitive descriptor; lives as long as that. */
const char *onednn_kernel_name(const_dnnl_primitive_desc_t pd);

#endif
