/* The table of one instruction set. */
#include "cpu_kernels.h"

#include "nhwc.h"
#include "nchw_pointwise.h"
#include "vec.h"

static void to_float(float *destination, const void *source, int64_t count, dsconv_dtype type) {
    const char *from = source;
    for (int64_t i = 0; i < count; i += VL)
        vf_store_n(destination + i,
                   vf_load_as(from + (size_t)i * dtype_size(type), type, count - i), count - i);
}

static void from_float(void *destination, const float *source, int64_t count, dsconv_dtype type) {
    char *to = destination;
    for (int64_t i = 0; i < count; i += VL)
        vf_store_as(to + (size_t)i * dtype_size(type), vf_load_n(source + i, count - i), type,
                    count - i);
}

const cpu_kernels CPU_NAME(cpu_kernels) = {
    .isa = CPU_STR(CPU_ISA),
    .vector_length = VL,
    .to_float = to_float,
    .from_float = from_float,
    .nhwc = &CPU_NAME(nhwc_kernels),
    .planes_name = "planes_" CPU_STR(CPU_ISA),
    .planes_in = CPU_NAME(planes_in),
    .planes_out = CPU_NAME(planes_out),
    .nchw_name = "nchw_" CPU_STR(CPU_ISA),
    .nchw_pw_rows = PW_ROWS,
    .nchw_work = CPU_NAME(nchw_work),
};
