#include "onednn_pair_internal.h"

#include <stdio.h>
#include <stdlib.h>

#include "onednn_threads.h"

enum { MAX_ARGS = 5 };

typedef struct binding {
    int arg;
    enum tensor tensor;
} binding;

static const binding stage_args[STAGES][MAX_ARGS] = {
    [REORDER_X] = {{DNNL_ARG_FROM, X}, {DNNL_ARG_TO, X_IN}, {DNNL_ARG_SCRATCHPAD, SCRATCH}},
    [DEPTHWISE] = {{DNNL_ARG_SRC, X_IN},
                   {DNNL_ARG_WEIGHTS, W_DW},
                   {DNNL_ARG_BIAS, BIAS_DW},
                   {DNNL_ARG_DST, MID},
                   {DNNL_ARG_SCRATCHPAD, SCRATCH}},
    [POINTWISE] = {{DNNL_ARG_SRC, MID},
                   {DNNL_ARG_WEIGHTS, W_PW},
                   {DNNL_ARG_BIAS, BIAS_PW},
                   {DNNL_ARG_DST, Y_OUT},
                   {DNNL_ARG_SCRATCHPAD, SCRATCH}},
    [REORDER_Y] = {{DNNL_ARG_FROM, Y_OUT}, {DNNL_ARG_TO, Y}, {DNNL_ARG_SCRATCHPAD, SCRATCH}},
};

dsconv_status onednn_fail(dsconv_message *message, dnnl_status_t status, const char *what) {
    snprintf(message->text, sizeof(message->text), "oneDNN %d.%d: %s: %s", dnnl_version()->major,
             dnnl_version()->minor, what,
             status == dnnl_unimplemented       ? "no kernel"
             : status == dnnl_out_of_memory     ? "out of memory"
             : status == dnnl_invalid_arguments ? "not accepted"
                                                : "failed");
    return status == dnnl_out_of_memory ? DSCONV_ERROR_OUT_OF_MEMORY
           : status == dnnl_unimplemented || status == dnnl_invalid_arguments
               ? DSCONV_ERROR_UNSUPPORTED
               : DSCONV_ERROR_DEVICE;
}

static size_t rounded_size(onednn_md md) {
    return (dnnl_memory_desc_get_size(md) + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

static onednn_md scratch_md(const onednn_pair *pair, enum stage stage) {
    return dnnl_primitive_desc_query_md(pair->desc[stage], dnnl_query_scratchpad_md, 0);
}

static size_t scratch_size(const onednn_pair *pair, enum stage stage) {
    return pair->desc[stage] ? rounded_size(scratch_md(pair, stage)) : 0;
}

static size_t larger(size_t a, size_t b) {
    return a > b ? a : b;
}

static void lane_destroy(lane *one) {
    if (!one)
        return;
    for (int i = 0; i < TENSORS; i++)
        dnnl_memory_destroy(one->memory[i]);
    for (int i = 0; i < STAGES; i++)
        dnnl_memory_destroy(one->scratch[i]);
    dnnl_stream_destroy(one->stream);
    free(one);
}

static dnnl_status_t lane_create(const onednn_pair *pair, lane **out) {
    lane *one = calloc(1, sizeof(*one));
    *out = NULL;
    if (!one)
        return dnnl_out_of_memory;
    const onednn_md md[] = {[X] = pair->plain[X],
                            [X_IN] = pair->md[X_IN],
                            [MID] = pair->md[MID],
                            [Y_OUT] = pair->md[Y_OUT],
                            [Y] = pair->plain[Y]};
    dnnl_status_t status =
        dnnl_stream_create(&one->stream, pair->engine, dnnl_stream_default_flags);
    for (size_t i = 0; i < sizeof(md) / sizeof(md[0]) && status == dnnl_success; i++)
        status = dnnl_memory_create(&one->memory[i], md[i], pair->engine, DNNL_MEMORY_NONE);
    for (int i = 0; i < STAGES && status == dnnl_success; i++)
        if (pair->desc[i])
            status = dnnl_memory_create(&one->scratch[i], scratch_md(pair, (enum stage)i),
                                        pair->engine, DNNL_MEMORY_NONE);
    if (status == dnnl_success)
        *out = one;
    else
        lane_destroy(one);
    return status;
}

static dnnl_status_t lane_acquire(onednn_pair *pair, lane **out) {
    for (int i = 0; i < MAX_LANES; i++)
        if ((*out = atomic_exchange(&pair->idle[i], NULL)))
            return dnnl_success;
    return lane_create(pair, out);
}

static void lane_release(onednn_pair *pair, lane *one) {
    for (int i = 0; i < MAX_LANES; i++) {
        lane *none = NULL;
        if (atomic_compare_exchange_strong(&pair->idle[i], &none, one))
            return;
    }
    lane_destroy(one);
}

void onednn_pair_destroy(onednn_pair *pair) {
    if (!pair)
        return;
    for (int i = 0; i < MAX_LANES; i++)
        lane_destroy(atomic_load(&pair->idle[i]));
    for (int i = 0; i < STAGES; i++) {
        dnnl_primitive_destroy(pair->primitive[i]);
        dnnl_primitive_desc_destroy(pair->desc[i]);
    }
    for (int i = 0; i < TENSORS; i++) {
        dnnl_memory_destroy(pair->weights[i]);
        onednn_md_destroy(pair->plain[i]);
    }
    dnnl_engine_destroy(pair->engine);
    free(pair);
}

dsconv_status onednn_pair_create(const dsconv_shape *shape, const onednn_pair_options *options,
                                 onednn_pair **out, onednn_pair_info *info,
                                 dsconv_message *message) {
    const char *what = "engine";
    lane *first = NULL;

    *out = NULL;
    onednn_pair *pair = calloc(1, sizeof(*pair));
    if (!pair)
        return onednn_fail(message, dnnl_out_of_memory, "pair");
    onednn_threads before = onednn_threads_enter(options->threads, 0);
    dnnl_status_t status = dnnl_engine_create(&pair->engine, dnnl_cpu, 0);
    if (status == dnnl_success)
        status = onednn_pair_make(pair, shape, options, &what);
    if (status == dnnl_success)
        status = lane_create(pair, &first);
    onednn_threads_leave(&before);
    if (status != dnnl_success) {
        onednn_pair_destroy(pair);
        return onednn_fail(message, status, what);
    }
    atomic_store(&pair->idle[0], first);
    pair->flush_denormals = options->flush_denormals;
    pair->in_size = pair->desc[REORDER_X] ? rounded_size(pair->md[X_IN]) : 0;
    pair->out_size = pair->desc[REORDER_Y] ? rounded_size(pair->md[Y_OUT]) : 0;
    info->kernel_dw = onednn_kernel_name(pair->desc[DEPTHWISE]);
    info->kernel_pw = onednn_kernel_name(pair->desc[POINTWISE]);
    info->x_size = dnnl_memory_desc_get_size(options->reorder ? pair->plain[X] : pair->md[X_IN]);
    info->mid_size = dnnl_memory_desc_get_size(pair->md[MID]);
    info->y_size = dnnl_memory_desc_get_size(options->reorder ? pair->plain[Y] : pair->md[Y_OUT]);
    info->workspace_size = larger(
        pair->in_size + larger(scratch_size(pair, REORDER_X), scratch_size(pair, DEPTHWISE)),
        pair->out_size + larger(scratch_size(pair, POINTWISE), scratch_size(pair, REORDER_Y)));
    info->is_steady = onednn_is_steady(info->kernel_dw) && onednn_is_steady(info->kernel_pw);
    info->skips_border = onednn_skips_border(info->kernel_dw);
    info->all_plain = dnnl_memory_desc_equal(pair->md[X_IN], pair->plain[X]) &&
                      dnnl_memory_desc_equal(pair->md[MID], pair->plain[MID]) &&
                      dnnl_memory_desc_equal(pair->md[Y_OUT], pair->plain[Y]);
    *out = pair;
    return DSCONV_OK;
}

/* Copies one array of the caller into memory of oneDNN's, in the format of the primitives. */
static dnnl_status_t pack(onednn_pair *pair, enum tensor tensor, const float *values) {
    dnnl_primitive_desc_t desc = NULL;
    dnnl_primitive_t reorder = NULL;
    dnnl_memory_t from = NULL;
    dnnl_stream_t stream = NULL;

    if (!pair->md[tensor])
        return dnnl_success;
    dnnl_status_t status = dnnl_memory_create(&pair->weights[tensor], pair->md[tensor],
                                              pair->engine, DNNL_MEMORY_ALLOCATE);
    if (status == dnnl_success)
        status =
            dnnl_memory_create(&from, pair->plain[tensor], pair->engine, onednn_unconst(values));
    if (status == dnnl_success)
        status = dnnl_reorder_primitive_desc_create(&desc, pair->plain[tensor], pair->engine,
                                                    pair->md[tensor], pair->engine, NULL);
    if (status == dnnl_success)
        status = dnnl_primitive_create(&reorder, desc);
    if (status == dnnl_success)
        status = dnnl_stream_create(&stream, pair->engine, dnnl_stream_default_flags);
    if (status == dnnl_success)
        status = dnnl_primitive_execute(
            reorder, stream, 2,
            (dnnl_exec_arg_t[]){{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, pair->weights[tensor]}});
    if (status == dnnl_success)
        status = dnnl_stream_wait(stream);
    dnnl_stream_destroy(stream);
    dnnl_primitive_destroy(reorder);
    dnnl_primitive_desc_destroy(desc);
    dnnl_memory_destroy(from);
    return status;
}

dsconv_status onednn_pair_set_weights(onednn_pair *pair, int32_t threads, const float *w_dw,
                                      const float *w_pw, const float *bias_dw, const float *bias_pw,
                                      dsconv_message *message) {
    onednn_threads before = onednn_threads_enter(threads, 0);
    dnnl_status_t status = pack(pair, W_DW, w_dw);
    if (status == dnnl_success)
        status = pack(pair, W_PW, w_pw);
    if (status == dnnl_success)
        status = pack(pair, BIAS_DW, bias_dw);
    if (status == dnnl_success)
        status = pack(pair, BIAS_PW, bias_pw);
    onednn_threads_leave(&before);
    return status == dnnl_success ? DSCONV_OK : onednn_fail(message, status, "weights");
}

static dnnl_status_t bind(dnnl_memory_t memory, const void *buffer) {
    void *bound = NULL;
    dnnl_status_t status = dnnl_memory_get_data_handle(memory, &bound);
    if (status != dnnl_success || bound == buffer)
        return status;
    return dnnl_memory_set_data_handle(memory, onednn_unconst(buffer));
}

static dnnl_status_t execute(const onednn_pair *pair, const lane *one, enum stage stage,
                             void *scratch) {
    dnnl_exec_arg_t args[MAX_ARGS];
    int count = 0;

    if (!pair->primitive[stage])
        return dnnl_success;
    dnnl_status_t status = bind(one->scratch[stage], scratch);
    for (int i = 0; i < MAX_ARGS && stage_args[stage][i].arg; i++) {
        const binding *b = &stage_args[stage][i];
        dnnl_memory_t memory = b->tensor == SCRATCH       ? one->scratch[stage]
                               : pair->weights[b->tensor] ? pair->weights[b->tensor]
                                                          : one->memory[b->tensor];
        if (memory)
            args[count++] = (dnnl_exec_arg_t){b->arg, memory};
    }
    if (status == dnnl_success)
        status = dnnl_primitive_execute(pair->primitive[stage], one->stream, count, args);
    return status == dnnl_success ? dnnl_stream_wait(one->stream) : status;
}

dsconv_status onednn_pair_depthwise(onednn_pair *pair, int32_t threads, const void *x, void *mid,
                                    void *workspace, dsconv_message *message) {
    char *scratch = (char *)workspace + pair->in_size;
    lane *one = NULL;

    onednn_threads before = onednn_threads_enter(threads, pair->flush_denormals);
    dnnl_status_t status = lane_acquire(pair, &one);
    if (status == dnnl_success)
        status = bind(one->memory[X], x);
    if (status == dnnl_success)
        status = bind(one->memory[X_IN], pair->primitive[REORDER_X] ? workspace : x);
    if (status == dnnl_success)
        status = bind(one->memory[MID], mid);
    if (status == dnnl_success)
        status = execute(pair, one, REORDER_X, scratch);
    if (status == dnnl_success)
        status = execute(pair, one, DEPTHWISE, scratch);
    if (one)
        lane_release(pair, one);
    onednn_threads_leave(&before);
    return status == dnnl_success ? DSCONV_OK : onednn_fail(message, status, "depthwise run");
}

dsconv_status onednn_pair_pointwise(onednn_pair *pair, int32_t threads, const void *mid, void *y,
                                    void *workspace, dsconv_message *message) {
    char *scratch = (char *)workspace + pair->out_size;
    lane *one = NULL;

    onednn_threads before = onednn_threads_enter(threads, pair->flush_denormals);
    dnnl_status_t status = lane_acquire(pair, &one);
    if (status == dnnl_success)
        status = bind(one->memory[MID], mid);
    if (status == dnnl_success)
        status = bind(one->memory[Y_OUT], pair->primitive[REORDER_Y] ? workspace : y);
    if (status == dnnl_success)
        status = bind(one->memory[Y], y);
    if (status == dnnl_success)
        status = execute(pair, one, POINTWISE, scratch);
    if (status == dnnl_success)
        status = execute(pair, one, REORDER_Y, scratch);
    if (one)
        lane_release(pair, one);
    onednn_threads_leave(&before);
    return status == dnnl_success ? DSCONV_OK : onednn_fail(message, status, "pointwise run");
}
