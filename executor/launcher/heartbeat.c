#include "executor/launcher/launch.h"
#include "executor/launcher/shared_memory.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

struct shared_page {
    _Atomic int event_count, is_ending, is_moving;
    _Atomic int slow_count;  // odd while the first rank writes
    struct launch_slow slow;
    struct heartbeat heartbeats[];
};

struct heartbeat_page {
    struct shared_memory memory;  // of the one that created it
    struct shared_page *shared;
    int64_t bytes;
    int rank_count;
};

static struct heartbeat_page *map_page(const char *name, int rank_count, struct err *err)
{
    int64_t bytes =
        (int64_t)sizeof(struct shared_page) + rank_count * (int64_t)sizeof(struct heartbeat);
    assert(SHARED_HEARTBEATS + bytes <= SHARED_TRANSPORT);
    void *shared = shared_memory_map(name, SHARED_HEARTBEATS, bytes, err);
    if (!shared) return NULL;
    struct heartbeat_page *page = memory_get(sizeof *page);
    *page = (struct heartbeat_page){
        .memory = {.file = -1}, .shared = shared, .bytes = bytes, .rank_count = rank_count};
    return page;
}

struct heartbeat_page *heartbeat_page_create(int rank_count, struct err *err)
{
    struct shared_memory memory;
    if (!shared_memory_create(&memory, err)) return NULL;
    struct heartbeat_page *page = map_page(memory.name, rank_count, err);
    if (page)
        page->memory = memory;
    else
        shared_memory_close(&memory);
    return page;
}

struct heartbeat_page *heartbeat_page_open(const char *name, int rank_count, struct err *err)
{
    return map_page(name, rank_count, err);
}

const char *heartbeat_page_name(const struct heartbeat_page *page)
{
    return page->memory.name;
}

struct heartbeat *heartbeat_of(struct heartbeat_page *page, int rank)
{
    assert(rank >= 0 && rank < page->rank_count);
    return &page->shared->heartbeats[rank];
}

void heartbeat_page_close(struct heartbeat_page *page)
{
    if (!page) return;
    shared_memory_unmap(page->shared, page->bytes);
    shared_memory_close(&page->memory);
    free(page);
}

static int next_event(struct heartbeat_page *page)
{
    return atomic_fetch_add(&page->shared->event_count, 1) + 1;
}

void heartbeat_fail(struct heartbeat_page *page, int rank, const char *reason)
{
    struct heartbeat *heartbeat = heartbeat_of(page, rank);
    if (atomic_load(&heartbeat->fail_event)) return;
    // The first reason stays: what fails afterwards is mostly a consequence of it.
    snprintf(heartbeat->reason, sizeof heartbeat->reason, "%s", reason);
    atomic_store(&heartbeat->state, HEARTBEAT_FAILED);
    // Last: whoever sees the event finds the reason complete.
    atomic_store(&heartbeat->fail_event, next_event(page));
}

void heartbeat_end(struct heartbeat_page *page, int rank, int status, bool was_told)
{
    struct heartbeat *heartbeat = heartbeat_of(page, rank);
    bool is_well = WIFEXITED(status) && atomic_load(&heartbeat->state) == HEARTBEAT_DONE;
    // One that was killed because the job ends is no event: it would hide the one that ended the
    // job.
    assert(!atomic_load(&heartbeat->has_ended));  // a process ends once
    // The status first: whoever sees the event finds it.
    atomic_store(&heartbeat->end_status, status);
    if (!is_well && !was_told) atomic_store(&heartbeat->end_event, next_event(page));
    atomic_store(&heartbeat->has_ended, 1);
}

void heartbeat_page_end_job(struct heartbeat_page *page)
{
    atomic_store(&page->shared->is_ending, 1);
}

void heartbeat_tell_slow(struct heartbeat_page *page, const struct launch_slow *slow)
{
    atomic_fetch_add(&page->shared->slow_count, 1);
    page->shared->slow = *slow;
    atomic_fetch_add(&page->shared->slow_count, 1);
}

bool heartbeat_slow(struct heartbeat_page *page, int *known, struct launch_slow *slow)
{
    int before = atomic_load(&page->shared->slow_count);
    if (before == *known || before % 2) return false;
    *slow = page->shared->slow;
    if (atomic_load(&page->shared->slow_count) != before) return false;
    *known = before;
    return true;
}

void heartbeat_page_move(struct heartbeat_page *page, bool moves)
{
    atomic_store(&page->shared->is_moving, moves);
}

bool heartbeat_page_is_moving(const struct heartbeat_page *page)
{
    return atomic_load(&page->shared->is_moving);
}

bool heartbeat_page_is_ending(const struct heartbeat_page *page)
{
    return atomic_load(&page->shared->is_ending);
}
