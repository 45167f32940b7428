#include "epilogue.h"

#include "activations.h"

typedef vf act_fn(vf v, vf alpha);

CPU_INLINE void epilogue_vector(const epilogue *e, act_fn *act, vf alpha, const float *sum,
                                const char *residual, char *y, ptrdiff_t n) {
    vf v = n >= VL ? vf_load(sum) : vf_load_n(sum, n);
    vf r = e->residual ? vf_load_as(residual, e->dtype, n) : vf_zero();
    if (e->residual == DSCONV_RESIDUAL_BEFORE_ACT)
        v = vf_add(v, r);
    v = act(v, alpha);
    if (e->residual == DSCONV_RESIDUAL_AFTER_ACT)
        v = vf_add(v, r);
    vf_store_as(y, v, e->dtype, n);
}

CPU_INLINE void epilogue_row_with(const epilogue *e, act_fn *act, const float *sum,
                                  const void *residual, void *y, int64_t n) {
    const vf alpha = vf_set1(e->act.alpha);
    const int64_t size = (int64_t)dtype_size(e->dtype);
    const char *from = residual;
    char *to = y;
    int64_t i = 0;
    for (; i + VL <= n; i += VL)
        epilogue_vector(e, act, alpha, sum + i, from ? from + i * size : NULL, to + i * size, VL);
    if (i < n)
        epilogue_vector(e, act, alpha, sum + i, from ? from + i * size : NULL, to + i * size,
                        n - i);
}

void CPU_NAME(epilogue_row)(const epilogue *e, const float *sum, const void *residual, void *y,
                            int64_t n) {
    switch (e->act.kind) {
    case DSCONV_ACT_NONE:
        epilogue_row_with(e, act_none, sum, residual, y, n);
        break;
    case DSCONV_ACT_RELU:
        epilogue_row_with(e, act_relu, sum, residual, y, n);
        break;
    case DSCONV_ACT_RELU6:
        epilogue_row_with(e, act_relu6, sum, residual, y, n);
        break;
    case DSCONV_ACT_LEAKY_RELU:
        epilogue_row_with(e, act_leaky_relu, sum, residual, y, n);
        break;
    case DSCONV_ACT_SILU:
        epilogue_row_with(e, act_silu, sum, residual, y, n);
        break;
    case DSCONV_ACT_HARDSWISH:
        epilogue_row_with(e, act_hardswish, sum, residual, y, n);
        break;
    case DSCONV_ACT_HARDSIGMOID:
        epilogue_row_with(e, act_hardsigmoid, sum, residual, y, n);
        break;
    case DSCONV_ACT_SIGMOID:
        epilogue_row_with(e, act_sigmoid, sum, residual, y, n);
        break;
    case DSCONV_ACT_GELU:
        epilogue_row_with(e, act_gelu, sum, residual, y, n);
        break;
    case DSCONV_ACT_GELU_TANH:
        epilogue_row_with(e, act_gelu_tanh, sum, residual, y, n);
        break;
    }
}
