/* The peers on a CPU: two oneDNN primitives. */
#include <stdio.h>
#include <stdlib.h>

#include "memory.h"
#include "peers.h"

#ifdef BENCH_ONEDNN

#include "baseline_onednn.h"

static dsconv_status run(void *self, dsconv_message *message) {
    const bench_peer *peer = self;
    const bench_peers *owner = peer->owner;
    return baseline_onednn_run(peer->handle, owner->library->data[X], owner->library->data[Y],
                               owner->scratch, message);
}

static void destroy(bench_peer *peer) {
    baseline_onednn_destroy(peer->handle);
}

static void add(bench_peers *peers, size_t variant, baseline_onednn *handle) {
    bench_peer *peer = &peers->item[peers->count++];
    *peer = (bench_peer){.name = baseline_onednn_name(variant),
                         .comparable = baseline_onednn_takes_layout(variant) != 0,
                         .checkable = baseline_onednn_takes_layout(variant) != 0,
                         .call = {run, peer},
                         .handle = handle,
                         .destroy = destroy,
                         .owner = peers};
    (void)snprintf(peer->kernel, sizeof peer->kernel, "%s", baseline_onednn_kernel(handle));
    const size_t size = baseline_onednn_scratch_size(handle);
    peers->scratch_size = size > peers->scratch_size ? size : peers->scratch_size;
}

dsconv_status peers_open_onednn(bench_peers *peers, int32_t threads, dsconv_message *message) {
    static const tensor_name names[] = {W_DW, W_PW, BIAS_DW, BIAS_PW};
    const bench_tensors *tensors = peers->library->tensors;
    dsconv_status status = DSCONV_OK;
    float *weights[4] = {NULL};
    for (int i = 0; i < 4 && status == DSCONV_OK; i++) {
        weights[i] = tensors_as_float(tensors, names[i]);
        if (tensors->data[names[i]] && !weights[i])
            status = DSCONV_ERROR_OUT_OF_MEMORY;
    }
    for (size_t i = 0; i < baseline_onednn_count() && status == DSCONV_OK; i++) {
        baseline_onednn *handle = NULL;
        status = baseline_onednn_create(i, &tensors->job->problem, threads, weights[0], weights[1],
                                        weights[2], weights[3], &handle, message);
        if (status == DSCONV_OK)
            add(peers, i, handle);
        else if (status == DSCONV_ERROR_UNSUPPORTED)
            status = DSCONV_OK;
    }
    if (status == DSCONV_OK && peers->count > 0) {
        peers->scratch = memory_map(peers->scratch_size);
        status = peers->scratch ? DSCONV_OK : DSCONV_ERROR_OUT_OF_MEMORY;
    }
    for (int i = 0; i < 4; i++)
        free(weights[i]);
    return status;
}

#else

dsconv_status peers_open_onednn(bench_peers *peers, int32_t threads, dsconv_message *message) {
    (void)peers, (void)threads, (void)message;
    return DSCONV_OK;
}

#endif
