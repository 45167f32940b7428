#include "peers.h"

#include <stdio.h>
#include <string.h>

#include "memory.h"

dsconv_status peers_open(bench_peers *peers, const bench_library *library, int32_t threads,
                         dsconv_message *message) {
    *peers = (bench_peers){.library = library};
    dsconv_status status = DSCONV_OK;
    if (library->host)
        status = peers_open_onednn(peers, threads, message);
    else if (strcmp(library->info.backend, "cuda") == 0)
        status = peers_open_cudnn(peers, message);
    if (status == DSCONV_ERROR_OUT_OF_MEMORY)
        (void)snprintf(message->text, sizeof message->text, "out of memory for the baseline");
    return status;
}

void peers_close(bench_peers *peers) {
    for (size_t i = 0; i < peers->count; i++)
        peers->item[i].destroy(&peers->item[i]);
    memory_unmap(peers->scratch, peers->scratch_size);
    *peers = (bench_peers){0};
}
