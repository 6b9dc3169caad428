#include "executor/cpu/cpu.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

// The table that the plug-in exports, and what needs no kernel.

const struct backend *meshwright_backend(void);
const struct backend *meshwright_backend_half(void);  // of exec_cpu.so alone
char *openblas_get_config(void);

const char CPU_NO_MEMORY[] = "no memory left on this host";

struct event {
    struct timespec time;
};

// The model of the first processor, as the kernel names it.
static void read_name(char *name, size_t size)
{
    char line[256];
    FILE *file = fopen("/proc/cpuinfo", "r");
    snprintf(name, size, "CPU (1 core)");
    while (file && fgets(line, sizeof line, file)) {
        char *colon = strchr(line, ':');
        if (strncmp(line, "model name", 10) != 0 || !colon) continue;
        colon[strcspn(colon, "\n")] = '\0';
        snprintf(name, size, "%.100s (1 core)", colon + 2);
        break;
    }
    if (file) fclose(file);
}

static const char *probe(struct backend_device_facts *facts)
{
    read_name(facts->name, sizeof facts->name);
    snprintf(facts->libraries, sizeof facts->libraries, "%.100s, kernels of %.60s",
             openblas_get_config(), openblas_get_corename());
    facts->memory_bytes = (int64_t)sysconf(_SC_PHYS_PAGES) * (int64_t)sysconf(_SC_PAGESIZE);
    return NULL;
}

// Every rank of a host has a device of its own on the same processor.
static const char *open_device(int ordinal, struct device **device)
{
    (void)ordinal;
    struct cpu_device *own = calloc(1, sizeof *own);
    *device = (struct device *)(void *)own;
    return own && cpu_reserve_products() ? NULL : CPU_NO_MEMORY;
}

static void close_device(struct device *device)
{
    struct cpu_device *own = (struct cpu_device *)(void *)device;
    cpu_memory_close(own);
    for (int i = 0; i < ROTATION_MAX; i++)
        free(own->rotations[i].table);
    free(own);
}

static const char *copy(struct device *device, enum stream stream, enum copy_kind kind, void *to,
                        const void *from, int64_t bytes)
{
    assert(bytes >= 0);
    (void)device;
    (void)stream;
    (void)kind;
    if (bytes > 0) memmove(to, from, (size_t)bytes);
    return NULL;
}

static const char *fill(struct device *device, enum stream stream, void *memory, int byte,
                        int64_t bytes)
{
    assert(bytes >= 0);
    (void)device;
    (void)stream;
    if (bytes > 0) memset(memory, byte, (size_t)bytes);
    return NULL;
}

// Everything has run by the time its call returns.
static const char *synchronize(struct device *device, enum stream stream)
{
    (void)device;
    (void)stream;
    return NULL;
}

// Marks are moments: nothing runs beside the host.
static struct event *event_new(struct device *device)
{
    (void)device;
    return calloc(1, sizeof(struct event));
}

static void event_free(struct device *device, struct event *event)
{
    (void)device;
    free(event);
}

static const char *event_record(struct device *device, enum stream stream, struct event *event)
{
    (void)device;
    (void)stream;
    clock_gettime(CLOCK_MONOTONIC, &event->time);
    return NULL;
}

static const char *event_wait(struct device *device, enum stream stream, struct event *event)
{
    (void)device;
    (void)stream;
    (void)event;
    return NULL;
}

static double event_seconds(struct device *device, struct event *from, struct event *to)
{
    (void)device;
    return (double)(to->time.tv_sec - from->time.tv_sec) +
           1e-9 * (double)(to->time.tv_nsec - from->time.tv_nsec);
}

static const char *open_bf16(int ordinal, struct device **device)
{
    const char *fault = open_device(ordinal, device);
    if (!fault) ((struct cpu_device *)(void *)*device)->compute = PRECISION_BF16;
    return fault;
}

static const char *open_fp16(int ordinal, struct device **device)
{
    const char *fault = open_device(ordinal, device);
    if (!fault) ((struct cpu_device *)(void *)*device)->compute = PRECISION_FP16;
    return fault;
}

// What tables with one width of numbers and with two share.
#define COMMON                                                                                   \
    .version = BACKEND_VERSION, .is_host = true, .masks_documents = true, .walks_scans = true,   \
    .real_bytes = sizeof(REAL), .probe = probe, .close = close_device, .allocate = cpu_allocate, \
    .release = cpu_release, .limit = cpu_limit, .peak_bytes = cpu_peak_bytes, .copy = copy,      \
    .fill = fill,                                                                                \
    .joins = 1u << JOIN_SUM | 1u << JOIN_ROWS | 1u << JOIN_MERGED | 1u << JOIN_HALVES,           \
    .can_run = cpu_can_run, .scale = cpu_scale, .sum_squares = cpu_sum_squares,                  \
    .synchronize = synchronize, .event_new = event_new, .event_free = event_free,                \
    .event_record = event_record, .event_wait = event_wait, .event_seconds = event_seconds

#define HALF(precision, opens)                                                                 \
    {                                                                                          \
        COMMON, .name = "cpu-half", .compute_bytes = 2, .compute = (precision), .at = half_at, \
                .open = (opens), .box = cpu_half_box, .run = cpu_half_run,                     \
                .run_joined = cpu_half_run_joined, .update = cpu_half_update,                  \
                .round = cpu_half_round, .widen = cpu_half_widen                               \
    }

__attribute__((visibility("default"))) const struct backend *meshwright_backend(void)
{
    static const struct backend BACKEND = {COMMON,
                                           .name = sizeof(REAL) == 4 ? "cpu" : "cpu-fp64",
                                           .compute_bytes = sizeof(REAL),
                                           .open = open_device,
                                           .box = cpu_box,
                                           .run = cpu_run,
                                           .run_joined = cpu_run_joined,
                                           .update = cpu_update};
    return &BACKEND;
}

static const struct backend *half_at(enum precision precision)
{
    static const struct backend AT_BF16 = HALF(PRECISION_BF16, open_bf16);
    static const struct backend AT_FP16 = HALF(PRECISION_FP16, open_fp16);
    switch (precision) {
    case PRECISION_FP32:
        return meshwright_backend();
    case PRECISION_BF16:
        return &AT_BF16;
    case PRECISION_FP16:
        return &AT_FP16;
    default:
        return NULL;
    }
}

__attribute__((visibility("default"))) const struct backend *meshwright_backend_half(void)
{
    return half_at(PRECISION_BF16);
}
