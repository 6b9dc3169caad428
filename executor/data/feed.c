#include "executor/data/feed.h"

#include "core/progress.h"

#include <assert.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>

enum { BUFFERS = 2 };

struct feed {
    const struct corpus *corpus;
    int64_t batch;
    const bool *is_wanted;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    // Behind the lock: which step is to be read into which of the buffers, and whether it is.
    int64_t step;
    int buffer;
    bool is_asked, is_there, ends;
    struct err err;  // of the reading
    int64_t *rows[BUFFERS], *held_out;
    struct feed_read read[BUFFERS], of_step;
    struct corpus_walk walk, held_out_walk;  // the former is the thread's
};

static bool read_rows(const struct feed *feed, struct corpus_walk *walk, int64_t first,
                      int64_t *rows, struct feed_read *read, struct err *err)
{
    const struct corpus *corpus = feed->corpus;
    double began_s = clock_s();
    *read = (struct feed_read){0};
    for (int64_t i = 0; i < feed->batch; i++) {
        struct corpus_place place = corpus_walk_to(corpus, walk, first + i);
        // Walked over all the same: which sample the next one is depends on all before it.
        if (!feed->is_wanted[i]) continue;
        if (!corpus_read(corpus, &place, rows + i * corpus->row_stride, err)) return false;
        read->bytes += corpus->row_length * corpus->sources[place.source].tokens.id_bytes;
    }
    read->s = clock_s() - began_s;
    return true;
}

static void *work(void *of)
{
    struct feed *feed = of;
    pthread_mutex_lock(&feed->lock);
    for (;;) {
        while (!feed->ends && (!feed->is_asked || feed->is_there))
            pthread_cond_wait(&feed->changed, &feed->lock);
        if (feed->ends) break;
        int64_t step = feed->step;
        int64_t *rows = feed->rows[feed->buffer];
        pthread_mutex_unlock(&feed->lock);
        struct err err = {0};
        struct feed_read read;
        (void)read_rows(feed, &feed->walk, step * feed->batch, rows, &read, &err);
        pthread_mutex_lock(&feed->lock);
        assert(feed->step == step && !feed->is_there && "nobody asks while rows are read");
        feed->read[feed->buffer] = read;
        feed->err = err;
        feed->is_there = true;
        pthread_cond_broadcast(&feed->changed);
    }
    pthread_mutex_unlock(&feed->lock);
    return NULL;
}

// Signals are for the thread that waits for them.
static int start(struct feed *feed)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    int fault = pthread_create(&feed->thread, NULL, work, feed);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return fault;
}

struct feed *feed_open(struct arena *arena, const struct corpus *corpus, int64_t batch,
                       const bool *is_wanted, struct err *err)
{
    assert(batch > 0);
    struct feed *feed = ARENA_NEW(arena, struct feed, 1);
    *feed = (struct feed){.corpus = corpus, .batch = batch, .is_wanted = is_wanted};
    for (int i = 0; i < BUFFERS; i++)
        feed->rows[i] = ARENA_NEW(arena, int64_t, batch * corpus->row_stride);
    feed->held_out = ARENA_NEW(arena, int64_t, batch * corpus->row_stride);
    feed->walk = corpus_walk_start(arena, corpus, CORPUS_TRAIN);
    feed->held_out_walk = corpus_walk_start(arena, corpus, CORPUS_HELD_OUT);
    pthread_mutex_init(&feed->lock, NULL);
    pthread_cond_init(&feed->changed, NULL);
    int fault = start(feed);
    if (!fault) return feed;
    err_set(err, ERR_SYSTEM, "starting a thread: %s", strerror(fault));
    return NULL;
}

// A read that is under way is waited for: its rows are in the caller's arena.
void feed_close(struct feed *feed)
{
    pthread_mutex_lock(&feed->lock);
    feed->ends = true;
    pthread_cond_broadcast(&feed->changed);
    pthread_mutex_unlock(&feed->lock);
    pthread_join(feed->thread, NULL);
    pthread_cond_destroy(&feed->changed);
    pthread_mutex_destroy(&feed->lock);
}

// With the lock held.
static void ask(struct feed *feed, int64_t step, int buffer)
{
    feed->step = step;
    feed->buffer = buffer;
    feed->is_asked = true;
    feed->is_there = false;
    pthread_cond_broadcast(&feed->changed);
}

static void wait_for_rows(struct feed *feed)
{
    while (feed->is_asked && !feed->is_there)
        pthread_cond_wait(&feed->changed, &feed->lock);
}

const int64_t *feed_step(struct feed *feed, int64_t step, double *waited_s, struct err *err)
{
    assert(step >= 0);
    double began_s = clock_s();
    pthread_mutex_lock(&feed->lock);
    wait_for_rows(feed);
    // The first step of a run, or one that goes on elsewhere: nobody knew that it comes.
    if (!feed->is_asked || feed->step != step) {
        ask(feed, step, 0);
        wait_for_rows(feed);
    }
    const int64_t *rows = feed->rows[feed->buffer];
    feed->of_step = feed->read[feed->buffer];
    if (feed->err.kind) {
        *err = feed->err;
        rows = NULL;
    } else {
        ask(feed, step + 1, !feed->buffer);
    }
    pthread_mutex_unlock(&feed->lock);
    *waited_s = clock_s() - began_s;
    return rows;
}

struct feed_read feed_read_of_step(struct feed *feed)
{
    return feed->of_step;
}

// In the caller's thread: it comes seldom, and has a walk of its own.
const int64_t *feed_held_out(struct feed *feed, int64_t batch, struct err *err)
{
    struct feed_read read;
    bool done =
        read_rows(feed, &feed->held_out_walk, batch * feed->batch, feed->held_out, &read, err);
    return done ? feed->held_out : NULL;
}
