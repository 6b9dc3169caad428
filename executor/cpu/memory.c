#include "executor/cpu/cpu.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

// A rank's device is a part of the host's memory: arrays that were asked for are counted, and where
// a limit is set no more of them is given, as a device would. What the host rounds up to whole
// pages is its own affair, and what it has of libraries, code, rooms of kernels and the host's side
// of a plan is no memory of a plan's (`reserve_bytes` of a stack). While a limit is tried more is
// given, so that it is known how much a step takes.

enum { CACHE_LINE = 64 };

struct cpu_block {
    struct cpu_block *next;
    void *memory;
    int64_t bytes;
};

static struct cpu_device *own_of(struct device *device)
{
    return (struct cpu_device *)(void *)device;
}

static double mib(int64_t bytes)
{
    return (double)bytes / (1 << 20);
}

// Half of what is free: who tries should not be ended for it.
static int64_t spare_bytes(void)
{
    return (int64_t)sysconf(_SC_AVPHYS_PAGES) * sysconf(_SC_PAGESIZE) / 2;
}

static const char *take(struct cpu_device *device, int64_t bytes)
{
    int64_t taken = device->taken_bytes + bytes, limit = device->limit_bytes;
    bool is_past = bytes > 0 && limit > 0 && taken > limit;
    if (is_past && (!device->is_trial || bytes > spare_bytes())) {
        snprintf(device->fault, sizeof device->fault,
                 "%lld bytes more do not fit into the %lld bytes of device memory, of which %lld "
                 "are taken: %lld are the least",
                 (long long)bytes, (long long)limit, (long long)device->taken_bytes,
                 (long long)taken);
        return device->fault;
    }
    device->taken_bytes = taken;
    if (taken > device->peak_bytes) device->peak_bytes = taken;
    return NULL;
}

const char *cpu_no_memory(const struct cpu_device *device)
{
    return device->fault[0] ? device->fault : CPU_NO_MEMORY;
}

const char *cpu_limit(struct device *device, int64_t bytes, bool is_trial)
{
    struct cpu_device *own = own_of(device);
    own->limit_bytes = bytes;
    own->is_trial = is_trial;
    if (own->taken_bytes <= bytes || is_trial) return NULL;
    snprintf(own->fault, sizeof own->fault, "%.2f MiB of device memory are less than is taken",
             mib(bytes));
    return own->fault;
}

int64_t cpu_peak_bytes(struct device *device)
{
    return own_of(device)->peak_bytes;
}

// Whole pages, so that what poisons or checks an arena may protect it, and large ones for large
// arrays: a step goes through gigabytes, and the table of small pages does not fit any cache.
const char *cpu_allocate(struct device *device, int64_t bytes, void **memory)
{
    assert(bytes >= 0);
    enum { SMALL_PAGE = 4096, LARGE_PAGE = 2 << 20 };
    struct cpu_device *own = own_of(device);
    const char *fault = take(own, bytes);
    if (fault) return fault;
    size_t page = bytes < 4 * LARGE_PAGE ? SMALL_PAGE : LARGE_PAGE;
    size_t rounded = ((size_t)bytes / page + 1) * page;
    struct cpu_block *block = malloc(sizeof *block);
    *memory = block ? aligned_alloc(page, rounded) : NULL;
    if (!*memory) {
        free(block);
        own->taken_bytes -= bytes;
        return CPU_NO_MEMORY;
    }
#ifdef MADV_HUGEPAGE
    // A wish: a kernel without large pages may refuse it.
    if (page == LARGE_PAGE) madvise(*memory, rounded, MADV_HUGEPAGE);
#endif
    *block = (struct cpu_block){own->blocks, *memory, bytes};
    own->blocks = block;
    return NULL;
}

void cpu_release(struct device *device, void *memory)
{
    struct cpu_device *own = own_of(device);
    struct cpu_block **at = &own->blocks;
    while (*at && (*at)->memory != memory)
        at = &(*at)->next;
    struct cpu_block *block = *at;
    if (block) {
        own->taken_bytes -= block->bytes;
        assert(own->taken_bytes >= 0 && "no more is given back than was taken");
        *at = block->next;
        free(block);
    }
    free(memory);
}

void *cpu_scratch(struct cpu_device *device, enum scratch scratch, int64_t bytes)
{
    assert(bytes >= 0 && scratch < SCRATCH_COUNT);
    int64_t held = device->scratch_bytes[scratch];
    if (bytes <= held && device->scratch[scratch]) return device->scratch[scratch];
    size_t rounded = ((size_t)bytes / CACHE_LINE + 1) * CACHE_LINE;
    // What it held goes first, so that the two are never there together.
    free(device->scratch[scratch]);
    device->scratch[scratch] = aligned_alloc(CACHE_LINE, rounded);
    device->scratch_bytes[scratch] = device->scratch[scratch] ? (int64_t)rounded : 0;
    return device->scratch[scratch];
}

void cpu_memory_close(struct cpu_device *device)
{
    for (int i = 0; i < SCRATCH_COUNT; i++)
        free(device->scratch[i]);
    while (device->blocks) {
        struct cpu_block *next = device->blocks->next;
        free(device->blocks);
        device->blocks = next;
    }
}
