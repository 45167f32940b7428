/*
 * Shared memory. Each declaration of a kernel has pages of its own between pages that cannot be
 * touched; it ends where they end, but for its alignment. What is left of its pages is a guard
 * zone, checked after each block.
 */
#include "gpu_shim_block.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "gpu_shim_asan.h"

namespace {

enum { DECLARATIONS = 8, CAPACITY = 64 << 10, FENCE = 1 << 20 };
enum { NEAR = 64 };
const size_t LEAST_ALIGNMENT = 16;
enum { FILL = 0xff }; /* NaNs of every type */

/* [fence] pages of the declaration [fence] */
struct place {
    char *pages;
    size_t size, alignment; /* as declared; 0: not in this block */
};

place places[DECLARATIONS];
int declared[GPU_SHIM_MAX_THREADS]; /* by each thread of the block so far */
struct sigaction previous;

char *begin(const place &p) {
    return p.pages + (CAPACITY - p.size) / p.alignment * p.alignment;
}

void reserve(place *p) {
    void *area = mmap(NULL, FENCE + CAPACITY + FENCE, PROT_NONE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (area == MAP_FAILED || mprotect((char *)area + FENCE, CAPACITY, PROT_READ | PROT_WRITE)) {
        gpu_shim_fail("no memory for shared memory");
        gpu_shim_abandon();
    }
    p->pages = (char *)area + FENCE;
}

void lay_out(place *p, size_t size, size_t alignment) {
    if (!p->pages)
        reserve(p);
    p->size = size;
    p->alignment = alignment > LEAST_ALIGNMENT ? alignment : LEAST_ALIGNMENT;
    memset(p->pages, FILL, CAPACITY);
    gpu_shim_poison(p->pages, CAPACITY);
    gpu_shim_unpoison(begin(*p), size);
}

bool untouched(const char *from, const char *to) {
    while (from < to && (unsigned char)*from == FILL)
        from++;
    return from == to;
}

/* Looks at all that lies between the fences, or at `below` bytes and what lies above. */
void check(const place &p, size_t below) {
    const size_t room = (size_t)(begin(p) - p.pages);
    if (!untouched(begin(p) - (below < room ? below : room), begin(p)) ||
        !untouched(begin(p) + p.size, p.pages + CAPACITY))
        gpu_shim_fail("wrote beside shared memory of %zu bytes", p.size);
}

/* The fault's own place in the code would be told by a debugger; here, where the thread was. */
void on_fault(int number, siginfo_t *info, void *) {
    char at[640], text[800];
    gpu_shim_describe(at, sizeof at);
    const char *address = (const char *)info->si_addr;
    int length = snprintf(text, sizeof text, "gpu_shim: %s: %s at %p", at,
                          number == SIGSEGV ? "no access" : "bus error", (const void *)address);
    for (const place &p : places)
        if (p.size && address >= p.pages - FENCE && address < p.pages + CAPACITY + FENCE)
            length +=
                snprintf(text + length, sizeof text - (size_t)length,
                         ", byte %td of shared memory of %zu bytes", address - begin(p), p.size);
    text[length] = '\n';
    (void)!write(STDERR_FILENO, text, (size_t)length + 1);
    (void)sigaction(SIGSEGV, &previous, NULL); /* faults again, and ends as it would have */
}

void on_report(const char *) {
    char at[640];
    gpu_shim_describe(at, sizeof at);
    (void)fprintf(stderr, "gpu_shim: %s: as reported\n", at);
}

} // namespace

void *gpu_shim_shared(size_t size, size_t alignment) {
    int *index = &declared[gpu_shim_at.thread.x];
    if (*index == DECLARATIONS || size > CAPACITY) {
        gpu_shim_fail("shared memory of %zu bytes, declaration %d", size, *index);
        gpu_shim_abandon();
    }
    place *p = &places[(*index)++];
    if (p->size == 0)
        lay_out(p, size, alignment);
    if (p->size != size) {
        gpu_shim_fail("threads declare different shared memory");
        gpu_shim_abandon();
    }
    return begin(*p);
}

void gpu_shim_shared_enter() {
    struct sigaction action = {};
    action.sa_sigaction = on_fault;
    action.sa_flags = SA_SIGINFO;
    (void)sigaction(SIGSEGV, &action, &previous);
    gpu_shim_on_report(on_report);
}

void gpu_shim_shared_leave() {
    (void)sigaction(SIGSEGV, &previous, NULL);
    gpu_shim_on_report(NULL);
}

void gpu_shim_shared_begin_block() {
    memset(declared, 0, sizeof declared);
}

void gpu_shim_shared_check() {
    for (const place &p : places)
        if (p.size && !GPU_SHIM_ASAN)
            check(p, NEAR);
}

void gpu_shim_shared_end_block() {
    for (place &p : places)
        if (p.size) {
            gpu_shim_unpoison(p.pages, CAPACITY);
            check(p, CAPACITY);
            p.size = 0;
        }
}
