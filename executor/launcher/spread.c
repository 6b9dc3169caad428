#include "executor/launcher/spread.h"

#include <assert.h>
#include <pthread.h>
#include <stdbool.h>

enum { THREADS_MOST = 64, ELEMENTS_LEAST = SPREAD_LEAST / 2 };

struct spread_part {
    void (*body)(void *context, int64_t first, int64_t end);
    void *context;
    int64_t first, end;
    pthread_t thread;
    bool is_begun;
};

static void *run_part(void *argument)
{
    struct spread_part *part = argument;
    part->body(part->context, part->first, part->end);
    return NULL;
}

void spread(int64_t count, int thread_count,
            void (*body)(void *context, int64_t first, int64_t end), void *context)
{
    struct spread_part parts[THREADS_MOST];
    int64_t most = count / ELEMENTS_LEAST,
            n = thread_count < THREADS_MOST ? thread_count : THREADS_MOST;
    assert(count >= 0);
    // A thread costs more than a short range is worth.
    if (n > most) n = most;
    if (n < 1) n = 1;
    for (int64_t i = 0; i < n; i++) {
        struct spread_part *part = &parts[i];
        *part = (struct spread_part){body, context, count * i / n, count * (i + 1) / n, 0, false};
        // The last one is the caller's, who would only wait otherwise.
        bool is_last = i == n - 1;
        part->is_begun = !is_last && pthread_create(&part->thread, NULL, run_part, part) == 0;
        if (!part->is_begun) run_part(part);
    }
    for (int64_t i = 0; i < n; i++) {
        if (parts[i].is_begun) pthread_join(parts[i].thread, NULL);
    }
}
