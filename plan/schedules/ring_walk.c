#include "plan/schedules/common.h"

#include <assert.h>
#include <string.h>

// Interleaved 1F1B as in ring.c, every moment of every stage: exact where the chunks of a stage
// differ, as there the moments at which a path may move are not those at which a chunk begins or
// ends alone. A group of p micro-batches passes in p v moments, and once all stages have grown by
// the same in a group they will for good, so that the groups that are left are not walked.

enum { GROUPS_WALKED = 64 };

static const double NEVER_S = -1e30;

// Of one moment, chunks by stage: one below stage `turn` and another from it on. -1: no task.
struct chunks {
    int turn, below, above;
};

struct ring_walker {
    const struct pipeline_times *times;
    int p, v, block_count;
    double hop_s, gap_s;
    // [chunk * p + stage], each with its gap; behind the last chunk the tasks that are none.
    double forward_s[RING_CELLS], backward_s[RING_CELLS];
    double end_s[RING_CELLS];    // of each chunk's last backward
    double at_s[2][RING_CELLS];  // by stage: now and next
};

static int chunk_of(const struct ring_walker *walk, int block)
{
    return block < 0 || block >= walk->block_count ? -1 : block % walk->v;
}

// Of the forwards at place `at` on stage 0, at - 1 on stage 1 and so on.
static struct chunks forwards(const struct ring_walker *walk, int at)
{
    int block = (at + walk->p) / walk->p - 1;
    assert(at >= -walk->p);
    return (struct chunks){at - block * walk->p + 1, chunk_of(walk, block),
                           chunk_of(walk, block - 1)};
}

// Of the backwards at place `at` on stage 0, at + 1 on stage 1 and so on.
static struct chunks backwards(const struct ring_walker *walk, int at)
{
    int ahead = (walk->v + 2) * walk->p, top = walk->v - 1;
    int block = (at + ahead) / walk->p - (walk->v + 2);
    int below = chunk_of(walk, block), above = chunk_of(walk, block + 1);
    return (struct chunks){(block + 1) * walk->p - at, below < 0 ? -1 : top - below,
                           above < 0 ? -1 : top - above};
}

static inline int on(const struct chunks *chunks, int stage)
{
    return stage < chunks->turn ? chunks->below : chunks->above;
}

static inline double longer(double a_s, double b_s)
{
    return a_s > b_s ? a_s : b_s;
}

// Nothing is sent or received between a backward and a forward of the first chunk on the first
// stage, nor between a forward and a backward of the last chunk on the last one.
static double gap_less_s(const struct ring_walker *walk, int stage, int forward, int backward,
                         int next)
{
    double less_s = stage == 0 && backward == 0 && next == 0 ? walk->gap_s : 0;
    int top = walk->v - 1;
    bool is_still = stage == walk->p - 1 && forward == top && backward == top;
    return is_still ? less_s + walk->gap_s : less_s;
}

// A row of a table, and what a move of its tasks takes beside them; of no task, for ever.
struct task_row {
    const double *s;
    double move_s;
};

static struct task_row row_of(const struct ring_walker *walk, const double *table, int chunk)
{
    assert(chunk < walk->v);
    double move_s = chunk < 0 ? NEVER_S : walk->hop_s - walk->gap_s;
    return (struct task_row){table + (chunk < 0 ? walk->v : chunk) * walk->p, move_s};
}

// The tasks of one moment, and the forwards of the next.
struct moment {
    struct chunks forward, next, backward, sent;
    const double *from_s;
    double *to_s;
};

// The first or the last stage, to which paths come round the ring.
static void pass_end(const struct ring_walker *walk, const struct moment *moment, int stage)
{
    int p = walk->p, below = stage > 0 ? stage - 1 : p - 1, above = stage + 1 < p ? stage + 1 : 0;
    int forward = on(&moment->forward, stage), backward = on(&moment->backward, stage);
    int up = on(&moment->forward, below), down = on(&moment->sent, above) - (above == 0);
    int next = on(&moment->next, stage);
    if (stage == 0 && up + 1 == walk->v) up = -1;
    if (down < 0) down = -1;
    struct task_row ahead = row_of(walk, walk->forward_s, forward);
    struct task_row back = row_of(walk, walk->backward_s, backward);
    struct task_row rises = row_of(walk, walk->forward_s, up);
    struct task_row falls = row_of(walk, walk->backward_s, down);
    double stays_s = ahead.s[stage] + back.s[stage];
    double falls_s = falls.s[stage] + falls.move_s;
    if (down >= 0) falls_s -= gap_less_s(walk, stage, -1, down, next);
    double s = moment->from_s[stage] + stays_s - gap_less_s(walk, stage, forward, backward, next);
    s = longer(s, moment->from_s[below] + rises.s[below] + rises.move_s);
    moment->to_s[stage] = longer(s, moment->from_s[above] + falls_s);
}

static void pass_inner(const struct ring_walker *walk, const struct moment *moment)
{
    const double *from_s = moment->from_s;
    const struct chunks *forward = &moment->forward, *backward = &moment->backward,
                        *sent = &moment->sent;
    const struct task_row ahead[] = {row_of(walk, walk->forward_s, forward->above),
                                     row_of(walk, walk->forward_s, forward->below)};
    const struct task_row back[] = {row_of(walk, walk->backward_s, backward->above),
                                    row_of(walk, walk->backward_s, backward->below)};
    const struct task_row falls[] = {row_of(walk, walk->backward_s, sent->above),
                                     row_of(walk, walk->backward_s, sent->below)};
    for (int i = 1; i + 1 < walk->p; i++) {
        const struct task_row *rises = &ahead[i - 1 < forward->turn];
        const struct task_row *fall = &falls[i + 1 < sent->turn];
        double s = from_s[i] + ahead[i < forward->turn].s[i] + back[i < backward->turn].s[i];
        s = longer(s, from_s[i - 1] + rises->s[i - 1] + rises->move_s);
        moment->to_s[i] = longer(s, from_s[i + 1] + fall->s[i] + fall->move_s);
    }
}

static void pass_moment(struct ring_walker *walk, int now)
{
    int behind = now - (walk->v + 1) * walk->p;
    struct moment moment = {forwards(walk, now - 2), forwards(walk, now - 1),
                            backwards(walk, behind), backwards(walk, behind - 1),
                            walk->at_s[now % 2],     walk->at_s[(now + 1) % 2]};
    pass_end(walk, &moment, 0);
    pass_inner(walk, &moment);
    pass_end(walk, &moment, walk->p - 1);
}

// The chunk whose last backward ends here, on the one stage where one does.
static void note_end(struct ring_walker *walk, int moment)
{
    int left = (walk->block_count + walk->v + 1) * walk->p - moment;
    assert(left >= 0 && "all backwards have ended");
    int chunk = left / walk->p, stage = left % walk->p;
    if (chunk >= walk->v) return;
    walk->end_s[chunk * walk->p + stage] = walk->at_s[moment % 2][stage] - walk->gap_s;
}

// How much all stages have grown since; -1: not alike.
static double grown_s(const struct ring_walker *walk, const double *at_s, const double *before_s)
{
    double least_s = at_s[0] - before_s[0], most_s = least_s;
    for (int i = 1; i < walk->p; i++) {
        double s = at_s[i] - before_s[i];
        if (s < least_s) least_s = s;
        if (s > most_s) most_s = s;
    }
    return most_s - least_s < 1e-12 * at_s[0] ? most_s : -1;
}

// Moments at which all stages run forwards and backwards, a group at a time; where the rest begins.
static int pass_groups(struct ring_walker *walk, int moment)
{
    int period = walk->p * walk->v, last = walk->block_count * walk->p;
    size_t bytes = (size_t)walk->p * sizeof *walk->at_s[0];
    double before_s[RING_CELLS];
    for (int group = 0; group < GROUPS_WALKED && moment + period <= last; group++) {
        memcpy(before_s, walk->at_s[moment % 2], bytes);
        for (int end = moment + period; moment < end; moment++)
            pass_moment(walk, moment);
        const double *at_s = walk->at_s[moment % 2];
        double growth_s = grown_s(walk, at_s, before_s);
        int left = (last - moment) / period;
        if (growth_s < 0 || left == 0) continue;
        memcpy(before_s, at_s, bytes);
        moment += left * period;
        for (int i = 0; i < walk->p; i++)
            walk->at_s[moment % 2][i] = before_s[i] + left * growth_s;
        return moment;
    }
    return moment;
}

static void start(struct ring_walker *walk, const struct pipeline_times *times)
{
    walk->times = times;
    walk->p = times->shape.stage_count;
    walk->v = times->shape.chunk_count;
    walk->block_count = walk->v * (times->shape.micro_batch_count / walk->p);
    assert(walk->p > 1 && walk->p * (walk->v + 1) <= RING_CELLS && walk->block_count > 0);
    walk->hop_s = times->hop_s;
    walk->gap_s = times->hop_overlapped ? 0 : times->hop_s;
    for (int stage = 0; stage < walk->p; stage++) {
        for (int chunk = 0; chunk < walk->v; chunk++) {
            struct pair_times pair = schedule_pair(times, stage, chunk);
            walk->forward_s[chunk * walk->p + stage] = pair.forward_s + walk->gap_s;
            walk->backward_s[chunk * walk->p + stage] = pair.backward_s + walk->gap_s;
        }
        walk->forward_s[walk->v * walk->p + stage] = 0;
        walk->backward_s[walk->v * walk->p + stage] = 0;
        walk->at_s[0][stage] = stage == 0 ? 0 : NEVER_S;
    }
}

static void fill_ends(const struct ring_walker *walk, double *end_s)
{
    const struct stage_runs *runs = walk->times->runs;
    for (int i = 0; i <= runs->run_count; i++) {
        int stage = i < runs->run_count ? runs->runs[i].first : walk->p - 1;
        for (int chunk = 0; chunk < walk->v; chunk++)
            *end_s++ = walk->end_s[chunk * walk->p + stage];
    }
}

void ring_walk(const struct pipeline_times *times, double *end_s)
{
    struct ring_walker walk;  // large, used only as far as there are stages and chunks
    start(&walk, times);
    int full = (walk.v + 1) * walk.p + 1, moment = 0;
    int end = (walk.block_count + walk.v + 1) * walk.p;
    for (; moment < full; moment++) {
        note_end(&walk, moment);
        pass_moment(&walk, moment);
    }
    if (moment < walk.block_count * walk.p) moment = pass_groups(&walk, moment);
    for (; moment <= end; moment++) {
        note_end(&walk, moment);
        pass_moment(&walk, moment);
    }
    fill_ends(&walk, end_s);
}
