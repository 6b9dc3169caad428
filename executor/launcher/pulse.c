#include "executor/launcher/launch.h"
#include "executor/launcher/shared_memory.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

struct shared_page {
    _Atomic int event_count, is_ending;
    struct pulse pulses[];
};

struct pulse_page {
    struct shared_memory memory;  // of the one that created it
    struct shared_page *shared;
    int64_t bytes;
    int rank_count;
};

static struct pulse_page *map_page(const char *name, int rank_count, struct err *err)
{
    int64_t bytes =
        (int64_t)sizeof(struct shared_page) + rank_count * (int64_t)sizeof(struct pulse);
    assert(SHARED_PULSES + bytes <= SHARED_TRANSPORT);
    void *shared = shared_memory_map(name, SHARED_PULSES, bytes, err);
    if (!shared) return NULL;
    struct pulse_page *page = memory_get(sizeof *page);
    *page = (struct pulse_page){
        .memory = {.file = -1}, .shared = shared, .bytes = bytes, .rank_count = rank_count};
    return page;
}

struct pulse_page *pulse_page_create(int rank_count, struct err *err)
{
    struct shared_memory memory;
    if (!shared_memory_create(&memory, err)) return NULL;
    struct pulse_page *page = map_page(memory.name, rank_count, err);
    if (page)
        page->memory = memory;
    else
        shared_memory_close(&memory);
    return page;
}

struct pulse_page *pulse_page_open(const char *name, int rank_count, struct err *err)
{
    return map_page(name, rank_count, err);
}

const char *pulse_page_name(const struct pulse_page *page)
{
    return page->memory.name;
}

struct pulse *pulse_of(struct pulse_page *page, int rank)
{
    assert(rank >= 0 && rank < page->rank_count);
    return &page->shared->pulses[rank];
}

void pulse_page_close(struct pulse_page *page)
{
    if (!page) return;
    shared_memory_unmap(page->shared, page->bytes);
    shared_memory_close(&page->memory);
    free(page);
}

static int next_event(struct pulse_page *page)
{
    return atomic_fetch_add(&page->shared->event_count, 1) + 1;
}

void pulse_fail(struct pulse_page *page, int rank, const char *reason)
{
    struct pulse *pulse = pulse_of(page, rank);
    if (atomic_load(&pulse->fail_event)) return;
    snprintf(pulse->reason, sizeof pulse->reason, "%s", reason);
    atomic_store(&pulse->state, PULSE_FAILED);
    atomic_store(&pulse->fail_event, next_event(page));
}

void pulse_end(struct pulse_page *page, int rank, int status, bool was_told)
{
    struct pulse *pulse = pulse_of(page, rank);
    bool is_well = WIFEXITED(status) && atomic_load(&pulse->state) == PULSE_DONE;
    if (!is_well && !was_told) atomic_store(&pulse->end_event, next_event(page));
    atomic_store(&pulse->end_status, status);
    atomic_store(&pulse->has_ended, 1);
}

void pulse_page_end_job(struct pulse_page *page)
{
    atomic_store(&page->shared->is_ending, 1);
}

bool pulse_page_is_ending(const struct pulse_page *page)
{
    return atomic_load(&page->shared->is_ending);
}
