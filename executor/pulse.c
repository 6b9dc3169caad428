#include "executor/launch_parts.h"
#include "executor/shared_memory.h"

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
    assert(SHARED_PULSES + bytes <= SHARED_TABLE);
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

void pulse_read(struct pulse_page *page, int rank, struct pulse_news *news)
{
    const struct pulse *pulse = pulse_of(page, rank);
    *news = (struct pulse_news){
        .rank = rank,
        .beat = atomic_load(&pulse->beat),
        .state = atomic_load(&pulse->state),
        .step = atomic_load(&pulse->step),
        .task = atomic_load(&pulse->task),
        .fail_event = atomic_load(&pulse->fail_event),
        .end_event = atomic_load(&pulse->end_event),
        .has_ended = atomic_load(&pulse->has_ended),
        .end_status = atomic_load(&pulse->end_status),
    };
    memcpy(news->task_name, pulse->task_name, sizeof news->task_name);
    memcpy(news->reason, pulse->reason, sizeof news->reason);
}

void pulse_write(struct pulse_page *page, const struct pulse_news *news)
{
    struct pulse *pulse = pulse_of(page, news->rank);
    memcpy(pulse->task_name, news->task_name, sizeof pulse->task_name);
    memcpy(pulse->reason, news->reason, sizeof pulse->reason);
    pulse->task_name[sizeof pulse->task_name - 1] = '\0';
    pulse->reason[sizeof pulse->reason - 1] = '\0';
    atomic_store(&pulse->step, news->step);
    atomic_store(&pulse->task, news->task);
    atomic_store(&pulse->state, news->state);
    atomic_store(&pulse->is_stopped, news->is_stopped);
    atomic_store(&pulse->beat, news->beat);
    if (news->fail_event && !atomic_load(&pulse->fail_event))
        atomic_store(&pulse->fail_event, next_event(page));
    if (news->end_event && !atomic_load(&pulse->end_event))
        atomic_store(&pulse->end_event, next_event(page));
    atomic_store(&pulse->end_status, news->end_status);
    atomic_store(&pulse->has_ended, news->has_ended);
}

void pulse_page_end_job(struct pulse_page *page)
{
    atomic_store(&page->shared->is_ending, 1);
}

bool pulse_page_is_ending(const struct pulse_page *page)
{
    return atomic_load(&page->shared->is_ending);
}
