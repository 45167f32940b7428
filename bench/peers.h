/* Peers: what a user would call without this library. */
#ifndef DSCONV_BENCH_PEERS_H
#define DSCONV_BENCH_PEERS_H

#include "library.h"
#include "timer.h"

enum { PEERS_MAX = 8 };

typedef struct bench_peer {
    const char *name;
    char kernel[160];
    bool comparable; /* may become the baseline */
    bool checkable;  /* y is the problem's, in the caller's layout */
    bench_call call; /* reads and writes the library's tensors */
    void *handle;
    void (*destroy)(struct bench_peer *self);
    const struct bench_peers *owner;
} bench_peer;

typedef struct bench_peers {
    bench_peer item[PEERS_MAX];
    size_t count;
    const bench_library *library;
    void *scratch; /* host memory that the peers share */
    size_t scratch_size;
} bench_peers;

/* Makes the peers of the library's backend for its problem; those that cannot do the problem are
 * left out. `peers` must not move afterwards. The caller closes them whatever the status. */
dsconv_status peers_open(bench_peers *peers, const bench_library *library, int32_t threads,
                         dsconv_message *message);
void peers_close(bench_peers *peers);

/* The parts of peers_open for each kind of device. */
dsconv_status peers_open_onednn(bench_peers *peers, int32_t threads, dsconv_message *message);
dsconv_status peers_open_cudnn(bench_peers *peers, dsconv_message *message);

#endif
