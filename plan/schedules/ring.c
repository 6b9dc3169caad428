#include "plan/schedules/common.h"

#include <assert.h>
#include <math.h>

// How long interleaved 1F1B takes: the longest path through its tasks, found without visiting them.
//
// Stage i runs its k-th forward before its (k - w_i)-th backward, w_i = 2 (p-1-i) + (v-1) p. Let
// its step s be forward s + w_i and then backward s, and t = s - i. In this time every move of a
// path is as long as it advances (p is the ring's length, c(k) the chunk of the k-th forward or
// backward):
//   dwell  (i, t) -> (i,   t+1)   f_i + b_i   forward and backward on the same stage
//   up     (i, t) -> (i+1, t+1)   f_i + h     the forward handed to the next stage
//   down   (i, t) -> (i-1, t+1)   b_i-1 + h   the gradient handed to the stage before
// and up from the last stage is stage 0 with the next chunk, down from stage 0 the last stage with
// the chunk before. Forwards exist for 0 <= s + w_i < m v, backwards for 0 <= s < m v; a dwell
// without one of them is so much shorter. The path runs from stage 0 at s = -w_0 to stage 0 at s =
// m v.
//
// Within blocks of p steps a stage stays in one chunk and its dwells are all equal. So dwells are
// sums C_i(t), linear within blocks, and with U = V - C_i (V the longest path to (i, t)) a path
// that dwells keeps its U. Only moves between stages are left to choose, and only stages at the
// ends of runs of equal ones are worth a dwell, at a few moments in each block. Groups of p
// micro-batches repeat: once a group has made V grow by the same on every stage, it will for good.

enum {
    STOPS = 32,         // stages where a path may dwell, at most
    FEW_STAGES = 4,     // all ends of runs are stops
    MOVES = 4 * STOPS,  // in a block
    AHEAD = 4 * MOVES,  // moves that another may arrive behind: a power of two
    GROUPS = 3,         // in the tables: start, repeated, end
    GROUPS_REPEATED = 64,
    BEFORE = 3,  // blocks in the tables before the first forward
    BLOCKS = (GROUPS + 2) * RING_CHUNKS + 8,
};

static const double NEVER_S = -1e30;

struct line {
    double base_s, slope_s;
};

struct stop {
    int stage;
    int up_steps, down_steps;   // stages to the next stop and to the one before
    double group_s;             // dwelling through one group
    double end_s[RING_CHUNKS];  // of each chunk's last backward
    struct line forward[BLOCKS],
        backward[BLOCKS];                 // sum of dwells before the block, and of each step
    double up_s[BLOCKS], down_s[BLOCKS];  // moves, NEVER_S where there is none
};

// Where a stop stands in its forwards and backwards; the lines are those of block 0.
struct point {
    const struct line *forward, *backward;
    double forward_rest, backward_rest;
};

// A move that a path may choose in every block.
struct move {
    struct point start, arrival;
    const double *gain_s;  // of block 0
    int from, to;          // stops
    int next_move;         // how many moves later the first one from `to` starts after the arrival
    int offset, steps;     // of its start in the block; until its arrival
    bool up;
};

struct ring {
    const struct pipeline_times *times;
    int p, v, group_count, stop_count, move_count;
    double hop_s, gap_s;  // gap: what a blocking hop adds to a task
    struct stop stops[STOPS];
    struct move moves[MOVES];  // of one block, by (offset, from)
    double u_s[STOPS];
    double coming_s[AHEAD];  // U at the `from` of a later move
    int now, mask;           // in coming_s, of which mask + 1 (a power of two) are in use
};

static bool covers(const struct pipeline_times *times, int big, int small)
{
    for (int chunk = 0; chunk < times->shape.chunk_count; chunk++) {
        struct pair_times a = schedule_pair(times, big, chunk);
        struct pair_times b = schedule_pair(times, small, chunk);
        if (b.forward_s > a.forward_s || b.backward_s > a.backward_s) return false;
    }
    return true;
}

// First and last of every run, except those that have a slower neighbour: a path dwells there
// instead, one step away. The first and the last stage are neighbours and always stops.
static void find_stops(struct ring *ring)
{
    const struct stage_runs *runs = ring->times->runs;
    int last = ring->p - 1;
    ring->stops[ring->stop_count++].stage = 0;
    for (int i = 0; i < runs->run_count; i++) {
        struct stage_run run = runs->runs[i];
        int ends[] = {run.first, run.first + run.count - 1};
        for (int end = 0; end < (run.count > 1 ? 2 : 1); end++) {
            int stage = ends[end];
            if (stage == 0 || stage == last || ring->stop_count == STOPS - 1) continue;
            bool covered = (stage == run.first && covers(ring->times, stage - 1, stage)) ||
                           (stage == ends[1] && covers(ring->times, stage + 1, stage));
            if (covered && ring->p > FEW_STAGES) continue;
            ring->stops[ring->stop_count++].stage = stage;
        }
    }
    ring->stops[ring->stop_count++].stage = last;
}

// Sums of the hops from stop `at` to the next and to the one before, for each chunk.
static void sum_moves(const struct ring *ring, int at, double *up_s, double *down_s)
{
    const struct stop *stop = &ring->stops[at];
    int above = at + 1 < ring->stop_count ? stop[1].stage : ring->p;
    int below = at > 0 ? stop[-1].stage : stop->stage;
    for (int chunk = 0; chunk < ring->v; chunk++)
        up_s[chunk] = down_s[chunk] = 0;
    for (int i = 0; i < ring->times->runs->run_count; i++) {
        struct stage_run run = ring->times->runs->runs[i];
        int end = run.first + run.count;
        int up_first = run.first > stop->stage ? run.first : stop->stage;
        int up_count = (end < above ? end : above) - up_first;
        int down_first = run.first > below ? run.first : below;
        int down_count = (end < stop->stage ? end : stop->stage) - down_first;
        if (up_count <= 0 && down_count <= 0) continue;
        for (int chunk = 0; chunk < ring->v; chunk++) {
            struct pair_times pair = schedule_pair(ring->times, run.first, chunk);
            if (up_count > 0) up_s[chunk] += up_count * (pair.forward_s + ring->hop_s);
            if (down_count > 0) down_s[chunk] += down_count * (pair.backward_s + ring->hop_s);
        }
    }
    // Round the ring: the last chunk's forwards and the first one's gradients go nowhere.
    if (at + 1 == ring->stop_count) up_s[ring->v - 1] = NEVER_S;
    if (at > 0) return;
    for (int chunk = 1; chunk < ring->v; chunk++) {
        double backward_s = schedule_pair(ring->times, ring->p - 1, chunk - 1).backward_s;
        down_s[chunk] = backward_s + ring->hop_s;
    }
    down_s[0] = NEVER_S;
}

// A row of the tables, for forwards or for backwards: `before` blocks without a task, the groups,
// and blocks without a task up to `entries`.
struct row {
    int before, entries;
    bool backward;  // from the last chunk to the first
    struct line *lines;
    double *moves_s;
};

static void fill_row(const struct ring *ring, const struct row *row, const double *slope_s,
                     const double *move_s)
{
    double sum_s = 0;
    int at = 0;
    for (; at < row->before; at++) {
        row->lines[at] = (struct line){0, 0};
        row->moves_s[at] = NEVER_S;
    }
    for (int group = 0; group < ring->group_count; group++) {
        for (int i = 0; i < ring->v; i++, at++) {
            int chunk = row->backward ? ring->v - 1 - i : i;
            row->lines[at] = (struct line){sum_s, slope_s[chunk]};
            row->moves_s[at] = move_s[chunk];
            sum_s += ring->p * slope_s[chunk];
        }
    }
    for (; at < row->entries; at++) {
        row->lines[at] = (struct line){sum_s, 0};
        row->moves_s[at] = NEVER_S;
    }
}

static void fill_stop(struct ring *ring, int at)
{
    struct stop *stop = &ring->stops[at];
    double up_s[RING_CHUNKS], down_s[RING_CHUNKS];
    double forward_s[RING_CHUNKS], backward_s[RING_CHUNKS];
    sum_moves(ring, at, up_s, down_s);
    bool is_last = at + 1 == ring->stop_count;
    stop->up_steps = is_last ? 1 : stop[1].stage - stop->stage;
    stop->down_steps = at == 0 ? 1 : stop->stage - stop[-1].stage;
    stop->group_s = 0;
    for (int chunk = 0; chunk < ring->v; chunk++) {
        struct pair_times pair = schedule_pair(ring->times, stop->stage, chunk);
        forward_s[chunk] = pair.forward_s + ring->gap_s;
        backward_s[chunk] = pair.backward_s + ring->gap_s;
        stop->group_s += ring->p * (forward_s[chunk] + backward_s[chunk]);
    }
    int entries = (ring->group_count + 1) * ring->v + BEFORE + 4;
    struct row up = {BEFORE, entries, false, stop->forward, stop->up_s};
    struct row down = {ring->v + 2, entries, true, stop->backward, stop->down_s};
    fill_row(ring, &up, forward_s, up_s);
    fill_row(ring, &down, backward_s, down_s);
}

// The block that holds `step`, and how far in; within two blocks of 0.
static int place(int step, int p, double *rest)
{
    int block = 0;
    for (; step < 0; step += p)
        block--;
    for (; step >= p; step -= p)
        block++;
    *rest = step;
    return block;
}

// Blocks are counted from t = -(v+1) p on, when stage 0 is about to start.
static struct point point_of(const struct ring *ring, int offset, const struct stop *stop)
{
    struct point point;
    point.forward =
        stop->forward + BEFORE + place(offset - 2 - stop->stage, ring->p, &point.forward_rest);
    point.backward =
        stop->backward + 1 + place(offset + stop->stage, ring->p, &point.backward_rest);
    return point;
}

static double dwelt_s(const struct point *point, int block)
{
    const struct line *forward = &point->forward[block], *backward = &point->backward[block];
    return forward->base_s + point->forward_rest * forward->slope_s + backward->base_s +
           point->backward_rest * backward->slope_s;
}

// Keeps the moves sorted, without doubles.
static void add_move(struct ring *ring, int from, bool up, int offset)
{
    const struct stop *stop = &ring->stops[from];
    struct move move = {.from = from, .up = up};
    move.offset = (offset + ring->p) % ring->p;
    move.to = (from + (up ? 1 : ring->stop_count - 1)) % ring->stop_count;
    move.steps = up ? stop->up_steps : stop->down_steps;
    int at = ring->move_count;
    for (; at > 0; at--) {
        const struct move *before = &ring->moves[at - 1];
        bool same = before->offset == move.offset && before->from == from;
        if (same && before->up == up) return;
        if (before->offset < move.offset) break;
        if (before->offset == move.offset && before->from < from) break;
    }
    for (int i = ring->move_count; i > at; i--)
        ring->moves[i] = ring->moves[i - 1];
    ring->moves[at] = move;
    ring->move_count++;
}

// What a move is worth is linear in t between the steps where a chunk begins or ends, and jumps
// where the task that it hands over is of another chunk: the best moments are the last before the
// jump and the first behind it. Forwards of stage i change chunk at t = i + 2 mod p, backwards at t
// = -i, and a gradient is handed over one step after its backward. (Trying the other four kinds of
// steps as well changes nothing that the test can see.)
static void find_moves(struct ring *ring)
{
    for (int from = 0; from < ring->stop_count; from++) {
        int stage = ring->stops[from].stage;
        add_move(ring, from, true, stage + 1);
        add_move(ring, from, true, stage + 2);
        add_move(ring, from, false, -stage);
        add_move(ring, from, false, 1 - stage);
    }
}

static void fill_moves(struct ring *ring)
{
    for (int i = 0; i < ring->move_count; i++) {
        struct move *move = &ring->moves[i];
        const struct stop *from = &ring->stops[move->from];
        int arrival = move->offset + move->steps;
        move->start = point_of(ring, move->offset, from);
        move->arrival = point_of(ring, arrival, &ring->stops[move->to]);
        // Up goes the forward that would come next, down the gradient of the backward before.
        bool new_block = move->start.backward_rest < 1;
        move->gain_s = move->up
                           ? from->up_s + (move->start.forward - from->forward)
                           : from->down_s + (move->start.backward - from->backward) - new_block;
        int next = i, base = 0;
        do {
            move->next_move++;
            if (++next == ring->move_count) next = 0, base += ring->p;
        } while (ring->moves[next].from != move->to || base + ring->moves[next].offset < arrival);
        if (move->next_move > ring->mask) ring->mask = move->next_move;
    }
    int used = 1;
    while (used <= ring->mask)
        used *= 2;
    assert(used <= AHEAD);
    ring->mask = used - 1;
    for (int i = 0; i < used; i++)
        ring->coming_s[i] = NEVER_S;
}

static void keep_longer(double *kept_s, double found_s)
{
    if (found_s > *kept_s) *kept_s = found_s;
}

static inline void pass_move(struct ring *ring, int now, int block, const struct move *move)
{
    double u_s = ring->u_s[move->from], *coming_s = &ring->coming_s[now];
    double gain_s = move->gain_s[block];
    if (*coming_s > u_s) ring->u_s[move->from] = u_s = *coming_s;
    *coming_s = NEVER_S;
    if (gain_s < 0) return;
    u_s += dwelt_s(&move->start, block) + gain_s - dwelt_s(&move->arrival, block);
    keep_longer(&ring->coming_s[(now + move->next_move) & ring->mask], u_s);
}

static void pass_blocks(struct ring *ring, int first, int end)
{
    int now = ring->now, move_count = ring->move_count, mask = ring->mask;
    for (int block = first; block < end; block++) {
        for (int i = 0; i < move_count; i++, now = (now + 1) & mask)
            pass_move(ring, now, block, &ring->moves[i]);
    }
    ring->now = now;
}

static void shift(struct ring *ring, const double *by_s)
{
    for (int at = 0; at < ring->stop_count; at++)
        ring->u_s[at] += by_s[at];
    for (int i = 0, move = 0; i <= ring->mask; i++) {
        ring->coming_s[(ring->now + i) & ring->mask] += by_s[ring->moves[move].from];
        if (++move == ring->move_count) move = 0;
    }
}

// Passes the tables' second group over and over for all `more` groups that they leave out. Returns
// how many groups of the tables are passed: 2, or 3 once V grows alike on all stages.
static int repeat_group(struct ring *ring, int more)
{
    int first = ring->v + 1, count = ring->stop_count;
    double before_s[STOPS];
    for (int repeated = 0;; repeated++) {
        for (int at = 0; at < count; at++)
            before_s[at] = ring->u_s[at];
        pass_blocks(ring, first, first + ring->v);
        double least_s = INFINITY, most_s = 0;
        for (int at = 0; at < count; at++) {
            double grown_s = ring->u_s[at] - before_s[at] + ring->stops[at].group_s;
            if (grown_s < least_s) least_s = grown_s;
            if (grown_s > most_s) most_s = grown_s;
        }
        bool alike = most_s - least_s < 1e-4 * most_s || repeated == GROUPS_REPEATED;
        if (!alike && repeated == more) return 2;
        double kept_s[STOPS] = {0};
        for (int at = 0; at < count; at++) {
            kept_s[at] = alike ? (more - repeated + 1) * most_s - ring->stops[at].group_s
                               : ring->stops[at].group_s;
        }
        shift(ring, kept_s);
        if (alike) return 3;
    }
}

static void start(struct ring *ring, const struct pipeline_times *times, int groups)
{
    ring->times = times;
    ring->p = times->shape.stage_count;
    ring->v = times->shape.chunk_count;
    ring->hop_s = times->hop_s;
    ring->gap_s = times->hop_overlapped ? 0 : times->hop_s;
    ring->group_count = groups;
    ring->stop_count = ring->move_count = ring->now = ring->mask = 0;
    find_stops(ring);
    for (int at = 0; at < ring->stop_count; at++) {
        fill_stop(ring, at);
        ring->u_s[at] = NEVER_S;
    }
    find_moves(ring);
    fill_moves(ring);
    ring->u_s[0] = 0;
}

// The last backward of chunk c on stage i ends at t = m v - c p - i, in the block that is c + 1
// from the end, and there its gradient may leave: a move.
static void pass_end_block(struct ring *ring, int block, int chunk)
{
    for (int i = 0; i < ring->move_count; i++) {
        const struct move *move = &ring->moves[i];
        struct stop *stop = &ring->stops[move->from];
        pass_move(ring, ring->now, block, move);
        ring->now = (ring->now + 1) & ring->mask;
        if (!move->up && move->offset == ring->p - stop->stage)
            stop->end_s[chunk] = ring->u_s[move->from] + dwelt_s(&move->start, block) - ring->gap_s;
    }
}

// A run whose first stage is no stop has its slower neighbour before it, to which its gradient
// goes.
static void fill_ends(const struct ring *ring, double *end_s)
{
    const struct pipeline_times *times = ring->times;
    const struct stage_runs *runs = times->runs;
    const struct stop *stop = ring->stops, *last = &ring->stops[ring->stop_count - 1];
    double at_s[RING_CHUNKS];
    for (int i = 0; i < runs->run_count; i++, end_s += ring->v) {
        struct stage_run run = runs->runs[i];
        while (stop < last && stop->stage < run.first)
            stop++;
        for (int chunk = 0; chunk < ring->v; chunk++) {
            if (stop->stage == run.first) at_s[chunk] = stop->end_s[chunk];
            double backward_s = schedule_pair(times, run.first, chunk).backward_s;
            end_s[chunk] = at_s[chunk];
            at_s[chunk] -= run.count * (backward_s + ring->hop_s);
        }
    }
    for (int chunk = 0; chunk < ring->v; chunk++)
        end_s[chunk] = last->end_s[chunk];
}

double ring_duration(const struct pipeline_times *times, double *end_s)
{
    struct ring ring;  // large, used only as far as there are stops
    int groups = times->shape.micro_batch_count / times->shape.stage_count;
    int kept = groups < GROUPS ? groups : GROUPS;
    start(&ring, times, kept);
    int blocks = (kept + 1) * ring.v + 1, next = 0;
    if (groups >= GROUPS) {
        pass_blocks(&ring, 0, ring.v + 1);
        next = repeat_group(&ring, groups - GROUPS) * ring.v + 1;
    }
    pass_blocks(&ring, next, blocks - ring.v);
    struct stop *first = &ring.stops[0];
    for (int chunk = ring.v - 1; chunk >= 0; chunk--) {
        pass_end_block(&ring, blocks - 1 - chunk, chunk);
        keep_longer(&ring.u_s[0], ring.coming_s[ring.now]);
        first->end_s[chunk] =
            ring.u_s[0] + dwelt_s(&ring.moves[0].start, blocks - chunk) - ring.gap_s;
    }
    if (end_s) fill_ends(&ring, end_s);
    return first->end_s[0];
}
