#include "plan/schedules/common.h"

#include <assert.h>

// The order of plan/schedules/zero_bubble.c, played round by round: in round j forwards go up the
// stages, stage i's is that of micro-batch j + w_i, then backward j goes down them, and behind it
// on each stage the weight gradient of micro-batch j - d_i. What a task waits for is of this round
// or, as w_i falls by at most STEPS - 1 from stage to stage, of one of the few before. The rules
// are those of simulator/walk.h.

enum { STEPS = 4, FEW_STAGES = 64, TRIES = 3 };
static const double ALIKE = 1e-4;  // of a round

struct stage_round {
    struct chunk_times times;
    int warm_up, delay;
    double now_s, busy_s;
    double arrive_s[STEPS];  // of what its forwards send to the stage above, by micro-batch
    double link_s[2];        // until when its links up and down are taken
    bool sends;              // the last task did, and blocks
    double before_s;         // at the beginning of the window
};

struct play {
    struct stage_round *stages;
    int p, m;
    double hop_s;
    bool blocks;
};

// A task behind the stage's last one, not before its input arrives.
static inline void run(struct stage_round *own, const struct play *play, bool received,
                       double arrive_s, double length_s)
{
    if (own->sends || (received && play->blocks)) own->now_s += play->hop_s;
    if (received && arrive_s > own->now_s) own->now_s = arrive_s;
    own->now_s += length_s;
    own->busy_s += length_s;
    own->sends = false;
}

// When it arrives.
static inline double send(struct stage_round *own, const struct play *play, int way)
{
    double start_s = own->now_s;
    if (play->blocks) {
        own->sends = true;
        return start_s + play->hop_s;
    }
    if (own->link_s[way] > start_s) start_s = own->link_s[way];
    return own->link_s[way] = start_s + play->hop_s;
}

static void go_up(const struct play *play, int round)
{
    for (int stage = 0; stage < play->p; stage++) {
        struct stage_round *own = &play->stages[stage];
        int forward = round + own->warm_up;
        if (forward < 0) return;
        if (forward >= play->m) continue;
        double arrive_s = stage > 0 ? own[-1].arrive_s[forward % STEPS] : 0;
        run(own, play, stage > 0, arrive_s, own->times.forward_s);
        if (stage + 1 < play->p) own->arrive_s[forward % STEPS] = send(own, play, 0);
    }
}

static void go_down(const struct play *play, int round)
{
    double arrive_s = 0;
    for (int stage = play->p - 1; stage >= 0; stage--) {
        struct stage_round *own = &play->stages[stage];
        run(own, play, stage + 1 < play->p, arrive_s, own->times.backward_s);
        if (stage > 0) arrive_s = send(own, play, 1);
        if (round >= own->delay) run(own, play, false, 0, own->times.weight_s);
    }
}

static void pass_rounds(const struct play *play, int first, int end)
{
    for (int round = first; round < end; round++) {
        go_up(play, round);
        if (round >= 0) go_down(play, round);
    }
}

static void shift(const struct play *play, int rounds, int window)
{
    assert(rounds >= 0 && window > 0);
    for (int stage = 0; stage < play->p; stage++) {
        struct stage_round *own = &play->stages[stage];
        double by_s = (own->now_s - own->before_s) / window * rounds;
        own->now_s += by_s;
        own->busy_s +=
            rounds * (own->times.forward_s + own->times.backward_s + own->times.weight_s);
        own->link_s[0] += by_s;
        own->link_s[1] += by_s;
        for (int i = 0; i < STEPS; i++)
            own->arrive_s[i] += by_s;
    }
}

static bool grew_alike(const struct play *play)
{
    double least_s = play->stages[0].now_s - play->stages[0].before_s, most_s = least_s;
    for (int stage = 1; stage < play->p; stage++) {
        double grown_s = play->stages[stage].now_s - play->stages[stage].before_s;
        if (grown_s < least_s) least_s = grown_s;
        if (grown_s > most_s) most_s = grown_s;
    }
    return most_s - least_s <= ALIKE * most_s;
}

// From round `first` to `end` every stage runs all of its three tasks. Plays windows of them until
// all stages take equally long, and leaves the rest out; after a few windows each stage takes as
// long as before. Returns the first round that is left: a window for what is not alike to meet.
static int pass_full_rounds(const struct play *play, int first, int end)
{
    assert(first <= end);
    int window = play->p / 2 + 3;
    for (int tries = 0; end - first > 2 * window; tries++) {
        for (int stage = 0; stage < play->p; stage++)
            play->stages[stage].before_s = play->stages[stage].now_s;
        pass_rounds(play, first, first + window);
        first += window;
        bool alike = grew_alike(play);
        if (!alike && tries < TRIES) continue;
        int kept = alike ? 0 : window;
        if (end - first <= kept) break;
        shift(play, end - kept - first, window);
        return end - kept;
    }
    return first;
}

static void fill_ends(const struct play *play, const struct pipeline_times *times, double *end_s)
{
    const struct stage_runs *runs = times->runs;
    for (int i = 0; i <= runs->run_count; i++) {
        int stage = i < runs->run_count ? runs->runs[i].first : play->p - 1;
        end_s[i] = play->stages[stage].now_s;
        if (times->idle_s) times->idle_s[i] = end_s[i] - play->stages[stage].busy_s;
    }
}

static void start(const struct play *play, const struct pipeline_times *times,
                  rounds_of_stage *rounds_of, int cap)
{
    assert(play->p > 0);
    for (int stage = 0; stage < play->p; stage++) {
        struct stage_round *own = &play->stages[stage];
        *own = (struct stage_round){.times = times->classes[times->class_of[stage]]};
        rounds_of(&times->shape, stage, cap, &own->warm_up, &own->delay);
        assert(stage == 0 ||
               (own[-1].warm_up >= own->warm_up && own[-1].warm_up - own->warm_up < STEPS));
    }
}

void rounds_ends(const struct pipeline_times *times, rounds_of_stage *rounds_of, int cap,
                 double *end_s)
{
    struct arena spare = {0};
    struct stage_round few[FEW_STAGES];
    struct play play = {few, times->shape.stage_count, times->shape.micro_batch_count,
                        schedule_hop(times), !times->hop_overlapped};
    if (play.p > FEW_STAGES) play.stages = ARENA_NEW(&spare, struct stage_round, play.p);
    start(&play, times, rounds_of, cap);
    int delay = play.stages[play.p - 1].delay, warm_up = play.stages[0].warm_up;
    assert(warm_up >= 0 && delay >= 0);
    int full = play.m - warm_up;
    int next = -warm_up;
    if (full > delay) {
        pass_rounds(&play, next, delay);
        next = pass_full_rounds(&play, delay, full);
    }
    pass_rounds(&play, next, play.m);
    for (int stage = 0; stage < play.p; stage++) {
        struct stage_round *own = &play.stages[stage];
        int left = own->delay < play.m ? own->delay : play.m;
        for (int i = 0; i < left; i++)
            run(own, &play, false, 0, own->times.weight_s);
    }
    fill_ends(&play, times, end_s);
    if (spare.last) arena_free(&spare);
}
