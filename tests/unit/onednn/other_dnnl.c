/* Stands for another major of oneDNN: the same names, and any call to one is fatal. */
#include <stdlib.h>

#define OTHER(name)                                                                                \
    void name(void);                                                                               \
    void name(void) {                                                                              \
        abort();                                                                                   \
    }

OTHER(dnnl_version)
OTHER(dnnl_engine_create)
OTHER(dnnl_engine_destroy)
OTHER(dnnl_stream_create)
OTHER(dnnl_stream_destroy)
OTHER(dnnl_stream_wait)
OTHER(dnnl_memory_create)
OTHER(dnnl_memory_destroy)
OTHER(dnnl_memory_set_data_handle)
OTHER(dnnl_memory_get_data_handle)
OTHER(dnnl_memory_desc_init_by_tag)
OTHER(dnnl_memory_desc_create_with_tag)
OTHER(dnnl_memory_desc_destroy)
OTHER(dnnl_memory_desc_equal)
OTHER(dnnl_memory_desc_get_size)
OTHER(dnnl_dilated_convolution_forward_desc_init)
OTHER(dnnl_convolution_forward_primitive_desc_create)
OTHER(dnnl_reorder_primitive_desc_create)
OTHER(dnnl_primitive_desc_create)
OTHER(dnnl_primitive_desc_destroy)
OTHER(dnnl_primitive_desc_query)
OTHER(dnnl_primitive_desc_query_md)
OTHER(dnnl_primitive_desc_iterator_create)
OTHER(dnnl_primitive_desc_iterator_fetch)
OTHER(dnnl_primitive_desc_iterator_next)
OTHER(dnnl_primitive_desc_iterator_destroy)
OTHER(dnnl_primitive_desc_next_impl)
OTHER(dnnl_primitive_create)
OTHER(dnnl_primitive_destroy)
OTHER(dnnl_primitive_execute)
OTHER(dnnl_primitive_attr_create)
OTHER(dnnl_primitive_attr_destroy)
OTHER(dnnl_primitive_attr_set_scratchpad_mode)
OTHER(dnnl_primitive_attr_set_fpmath_mode)
OTHER(dnnl_primitive_attr_set_post_ops)
OTHER(dnnl_post_ops_create)
OTHER(dnnl_post_ops_destroy)
OTHER(dnnl_post_ops_append_eltwise)
OTHER(dnnl_post_ops_append_sum)
OTHER(dnnl_get_effective_cpu_isa)
