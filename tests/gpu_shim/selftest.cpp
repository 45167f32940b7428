/*
 * The execution shim itself: waves exchange the right values, and every fault of a kernel is
 * reported with the kernel, the block and the thread.
 */
#include "gpu_shim.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { THREADS = 72, BLOCKS = 3 }; /* the last wave is not full */

typedef int ints[THREADS];
typedef char bytes[THREADS], too_many[(64 << 10) + 1];

struct arguments {
    int *out;   /* [THREADS] */
    int offset; /* of a write */
};

/* ---- kernels without a fault ---- */

void reverse(arguments a) {
    GPU_SHARED(values, ints);
    const int thread = (int)threadIdx.x;
    values[thread] = thread + (int)blockIdx.x;
    __syncthreads();
    a.out[thread] = values[THREADS - 1 - thread];
}

void waves(arguments a) {
    const int lane = (int)threadIdx.x % warpSize, lanes = gpu_shim_lanes();
    const int wave = (int)threadIdx.x / warpSize * 100;
    int errors = __shfl(wave + lane, 3) != wave + 3;
    errors += __shfl(wave + lane, 1, 4) != wave + lane / 4 * 4 + 1;
    errors += __shfl_xor(wave + lane, 5) != wave + (lane ^ 5);
    errors += __shfl_down(wave + lane, 2, 8) != wave + (lane % 8 < 6 ? lane + 2 : lane);
    const uint64_t all = lanes == 64 ? ~(uint64_t)0 : ((uint64_t)1 << lanes) - 1;
    errors += __ballot(lane % 2) != (0xaaaaaaaaaaaaaaaa & all);
    __syncwarp();
    a.out[threadIdx.x] = errors;
}

void lacks_barrier(arguments a) {
    GPU_SHARED(values, ints);
    values[threadIdx.x] = 1;
    a.out[threadIdx.x] = values[THREADS - 1 - threadIdx.x];
}

static bool run(void (*kernel)(arguments), int *out, int blocks) {
    return gpu_start(kernel, dim3{(unsigned)blocks, 1, 1}, THREADS, 0, arguments{out, 0}) ==
           gpuSuccess;
}

static bool values_are_right() {
    int out[THREADS];
    bool ok = run(reverse, out, BLOCKS);
    for (int i = 0; i < THREADS; i++)
        ok = ok && out[i] == THREADS - 1 - i + BLOCKS - 1;
    ok = ok && run(waves, out, BLOCKS);
    for (int i = 0; i < THREADS; i++)
        ok = ok && out[i] == 0;
    return ok;
}

/* Either order of threads leaves something unwritten, but not the same. */
static bool missing_barrier_shows() {
    int one[THREADS], other[THREADS];
    return run(lacks_barrier, one, 1) && run(lacks_barrier, other, 1) && one[0] != other[0];
}

/* ---- kernels with one ---- */

void ends_early(arguments) {
    if (blockIdx.x == 1 && threadIdx.x == 5)
        return;
    __syncthreads();
}

void other_barrier(arguments) {
    if (blockIdx.x == 1 && threadIdx.x == 5)
        __syncthreads();
    else
        __syncthreads();
}

void shuffle_without_some(arguments a) {
    if (threadIdx.x != 5 || blockIdx.x != 1)
        a.out[threadIdx.x] = __shfl((int)threadIdx.x, 0);
}

void shuffle_or_barrier(arguments a) {
    if (threadIdx.x == 5 && blockIdx.x == 1)
        __syncthreads();
    else
        a.out[threadIdx.x] = __shfl((int)threadIdx.x, 0);
}

void writes_outside(arguments a) {
    GPU_SHARED(values, bytes);
    volatile char *at = values;
    if (threadIdx.x == 5 && blockIdx.x == 1)
        at[a.offset] = 1;
}

void reads_outside(arguments a) {
    GPU_SHARED(values, ints);
    const volatile int *at = values;
    if (threadIdx.x == 5 && blockIdx.x == 1)
        a.out[0] = at[a.offset];
}

void declares_too_much(arguments) {
    if (threadIdx.x == 5 && blockIdx.x == 1) {
        GPU_SHARED(values, too_many);
        values[0] = 1;
    }
}

static const struct fault {
    const char *name;
    void (*kernel)(arguments);
    int offset;
} faults[] = {
    {"ends_early", ends_early, 0},
    {"other_barrier", other_barrier, 0},
    {"shuffle_without_some", shuffle_without_some, 0},
    {"shuffle_or_barrier", shuffle_or_barrier, 0},
    {"writes_outside", writes_outside, THREADS},
    {"writes_outside", writes_outside, THREADS + 4096},
    {"writes_outside", writes_outside, -1},
    {"writes_outside", writes_outside, -(65 << 10)},
    {"reads_outside", reads_outside, THREADS},
    {"declares_too_much", declares_too_much, 0},
};

/* What a process of its own says of a launch, on standard error; its exit status. */
static int try_launch(const fault &f, char *text, size_t size) {
    int ends[2], status = 0;
    size_t length = 0;
    if (pipe(ends) != 0)
        return 0;
    const pid_t child = fork();
    if (child == 0) {
        int out[THREADS];
        (void)dup2(ends[1], STDERR_FILENO);
        const gpuError_t error =
            gpu_start(f.kernel, dim3{BLOCKS, 1, 1}, THREADS, 0, arguments{out, f.offset});
        if (error != gpuSuccess)
            (void)fprintf(stderr, "%s\n", gpuGetErrorString(error));
        _exit(error != gpuSuccess);
    }
    (void)close(ends[1]);
    for (ssize_t got; (got = read(ends[0], text + length, size - 1 - length)) > 0;)
        length += (size_t)got;
    text[length] = '\0';
    (void)close(ends[0]);
    (void)waitpid(child, &status, 0);
    return status;
}

static bool is_reported(const fault &f) {
    static char text[1 << 16];
    char kernel[80];
    const int status = try_launch(f, text, sizeof text);
    (void)snprintf(kernel, sizeof kernel, "kernel %s(arguments), block 1, thread 5: ", f.name);
    if (status != 0 && strstr(text, kernel))
        return true;
    printf("%s, offset %d: status %d, said:\n%s\n", f.name, f.offset, status, text);
    return false;
}

/* A launch that fails leaves nothing behind. */
static bool goes_on_after_a_failure() {
    int out[THREADS];
    return !run(ends_early, out, BLOCKS) && values_are_right();
}

/* A row of as many threads as it may have, and of one block more. */
static bool large_launch_is_refused() {
    int out[THREADS];
    const int most = GPU_MAX_THREADS / THREADS;
    return run(reverse, out, most) && !run(reverse, out, most + 1) &&
           strstr(gpu_shim_failure(), "14 x 1 x 1 blocks of 72 threads");
}

int main() {
    int failed = 0;
    const auto check = [&](const char *what, bool ok) {
        if (!ok)
            printf("failed: %s\n", what);
        failed += !ok;
    };
    check("values", values_are_right());
    check("a missing barrier", missing_barrier_shows());
    for (const fault &f : faults)
        check(f.name, is_reported(f));
    check("a launch too large", large_launch_is_refused());
    check("going on", goes_on_after_a_failure());
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
