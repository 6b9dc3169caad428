#include "planner/strategy/meet.h"

#include <assert.h>
#include <math.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>

struct meeting {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int count, waiting;
    int64_t turn;  // times that all have come
    int room;
    size_t choice_bytes;
    double *costs;  // [room]; INFINITY: none
    int **choices;  // [room][node_count]
};

struct meeting *meeting_new(struct arena *arena, int count, int node_count)
{
    assert(count >= 1);
    struct meeting *meeting = ARENA_NEW(arena, struct meeting, 1);
    meeting->count = meeting->room = count;
    meeting->choice_bytes = (size_t)node_count * sizeof(int);
    meeting->costs = ARENA_NEW(arena, double, count);
    meeting->choices = ARENA_NEW(arena, int *, count);
    for (int i = 0; i < count; i++) {
        meeting->costs[i] = INFINITY;
        meeting->choices[i] = ARENA_NEW(arena, int, node_count);
    }
    pthread_mutex_init(&meeting->lock, NULL);
    pthread_cond_init(&meeting->changed, NULL);
    return meeting;
}

void meeting_end(struct meeting *meeting)
{
    pthread_cond_destroy(&meeting->changed);
    pthread_mutex_destroy(&meeting->lock);
}

static void all_have_come(struct meeting *meeting)
{
    meeting->waiting = 0;
    meeting->turn++;
    pthread_cond_broadcast(&meeting->changed);
}

void meeting_leave(struct meeting *meeting)
{
    pthread_mutex_lock(&meeting->lock);
    meeting->count--;
    if (meeting->count > 0 && meeting->waiting == meeting->count) all_have_come(meeting);
    pthread_mutex_unlock(&meeting->lock);
}

static void wait_for_all(struct meeting *meeting)
{
    pthread_mutex_lock(&meeting->lock);
    int64_t turn = meeting->turn;
    if (++meeting->waiting == meeting->count) all_have_come(meeting);
    while (turn == meeting->turn)
        pthread_cond_wait(&meeting->changed, &meeting->lock);
    pthread_mutex_unlock(&meeting->lock);
}

double meeting_best(struct meeting *meeting, int who, double cost, int *choice)
{
    assert(who >= 0 && who < meeting->room);
    meeting->costs[who] = cost;
    memcpy(meeting->choices[who], choice, meeting->choice_bytes);
    wait_for_all(meeting);
    int best = 0;
    for (int i = 1; i < meeting->room; i++)
        if (meeting->costs[i] < meeting->costs[best]) best = i;
    double least = meeting->costs[best];
    if (best != who) memcpy(choice, meeting->choices[best], meeting->choice_bytes);
    // Nobody brings anything new before all have seen this.
    wait_for_all(meeting);
    return least;
}
