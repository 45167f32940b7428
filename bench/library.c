#include "library.h"

#include <stdio.h>
#include <string.h>

static const bool is_output[TENSORS] = {[Y] = true, [MID] = true};

static dsconv_status say(dsconv_status status, dsconv_message *message) {
    if (status != DSCONV_OK)
        (void)snprintf(message->text, sizeof message->text, "%s", dsconv_last_message());
    return status;
}

static bool is_host(const char *backend) {
    return strcmp(backend, "cpu") == 0 || strcmp(backend, "ref") == 0;
}

/* Host backends work on the caller's tensors themselves. */
static dsconv_status place_tensors(bench_library *l) {
    for (int i = 0; i < TENSORS; i++) {
        if (l->host || !l->tensors->data[i]) {
            l->data[i] = l->tensors->data[i];
            continue;
        }
        dsconv_status status = dsconv_alloc(l->context, l->tensors->size[i], &l->data[i]);
        if (status == DSCONV_OK && !is_output[i] && l->tensors->size[i] > 0)
            status = dsconv_copy(l->context, l->data[i], l->tensors->data[i], l->tensors->size[i],
                                 DSCONV_HOST_TO_DEVICE, NULL);
        if (status != DSCONV_OK)
            return status;
    }
    return DSCONV_OK;
}

static dsconv_status set_weights(bench_library *l) {
    dsconv_weights weights = DSCONV_WEIGHTS_INIT;
    weights.w_dw = l->tensors->data[W_DW];
    weights.w_pw = l->tensors->data[W_PW];
    weights.bias_dw = l->tensors->data[BIAS_DW];
    weights.bias_pw = l->tensors->data[BIAS_PW];
    return dsconv_plan_set_weights(l->plan, &weights);
}

dsconv_status library_open(bench_library *l, const bench_options *options, const char *backend,
                           const bench_tensors *tensors, dsconv_message *message) {
    dsconv_context_params context = DSCONV_CONTEXT_PARAMS_INIT;
    dsconv_plan_params plan = DSCONV_PLAN_PARAMS_INIT;
    *l = (bench_library){
        .tensors = tensors, .info = DSCONV_PLAN_INFO_INIT, .device = DSCONV_DEVICE_INFO_INIT};
    context.backend = backend;
    context.device = options->device;
    context.threads = options->threads;
    plan.algo = options->algo;
    dsconv_status status = dsconv_context_create(&context, &l->context);
    if (status == DSCONV_OK)
        status = dsconv_context_device(l->context, &l->device);
    if (status == DSCONV_OK)
        status = dsconv_plan_create(l->context, &tensors->job->problem, &plan, &l->plan);
    if (status == DSCONV_OK)
        status = dsconv_plan_query(l->plan, &l->info);
    if (status == DSCONV_OK)
        status = set_weights(l);
    if (status == DSCONV_OK) {
        l->host = is_host(l->info.backend);
        status = place_tensors(l);
    }
    if (status == DSCONV_OK && l->info.workspace_size > 0)
        status = dsconv_alloc(l->context, l->info.workspace_size, &l->workspace);
    return say(status, message);
}

void library_close(bench_library *l) {
    if (!l->context)
        return;
    for (int i = 0; i < TENSORS && !l->host; i++)
        dsconv_free(l->context, l->data[i]);
    dsconv_free(l->context, l->workspace);
    dsconv_plan_destroy(l->plan);
    dsconv_context_destroy(l->context);
    l->context = NULL;
}

dsconv_status library_run(void *self, dsconv_message *message) {
    const bench_library *l = self;
    dsconv_run_params params = DSCONV_RUN_PARAMS_INIT;
    params.x = l->data[X];
    params.y = l->data[Y];
    params.residual = l->data[RESIDUAL];
    params.mid = l->data[MID];
    params.workspace = l->workspace;
    params.workspace_size = l->info.workspace_size;
    return say(dsconv_run(l->plan, &params), message);
}

dsconv_status library_fetch(const bench_library *l, dsconv_message *message) {
    dsconv_status status = say(dsconv_synchronize(l->context, NULL), message);
    for (int i = 0; i < TENSORS && status == DSCONV_OK && !l->host; i++)
        if (is_output[i] && l->tensors->size[i] > 0)
            status = say(dsconv_copy(l->context, l->tensors->data[i], l->data[i],
                                     l->tensors->size[i], DSCONV_DEVICE_TO_HOST, NULL),
                         message);
    return status;
}

dsconv_status library_run_checked(bench_library *l, dsconv_message *message) {
    dsconv_status status = DSCONV_OK;
    for (int i = 0; i < TENSORS && status == DSCONV_OK; i++) {
        if (!is_output[i] || l->tensors->size[i] == 0)
            continue;
        memset(l->tensors->data[i], 0xff, l->tensors->size[i]);
        if (!l->host)
            status = dsconv_copy(l->context, l->data[i], l->tensors->data[i], l->tensors->size[i],
                                 DSCONV_HOST_TO_DEVICE, NULL);
    }
    if (say(status, message) == DSCONV_OK)
        status = library_run(l, message);
    return status == DSCONV_OK ? library_fetch(l, message) : status;
}

bench_traffic library_traffic(const bench_library *l) {
    static const tensor_name moved[] = {X, RESIDUAL, Y, MID};
    bench_traffic traffic = {0};
    for (int i = 0; i < 4; i++) {
        if (!l->data[moved[i]])
            continue;
        traffic.tensor[traffic.count].data = l->data[moved[i]];
        traffic.tensor[traffic.count].size = l->tensors->size[moved[i]];
        traffic.tensor[traffic.count++].write = is_output[moved[i]];
    }
    return traffic;
}
