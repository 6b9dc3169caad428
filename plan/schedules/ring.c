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
// m v. A hop that blocks stops a stage behind each of its tasks, h of a move down is the
// receiver's; but nothing is sent or received between a backward and a forward of the first chunk
// on the first stage, nor between a forward and a backward of the last chunk on the last one.
//
// Within p steps a stage stays in one chunk and its dwells are all equal. Only moves between stages
// are left to choose, and only stages at the ends of runs of equal ones are worth a dwell. What a
// move is worth is linear in t between the steps where a chunk begins or ends, and jumps where the
// task that it hands over is of another chunk: the best moments are the last before the jump and
// the first behind it. Forwards of stage i change chunk at t = i + 2 mod p, backwards at t = -i,
// and a gradient is handed over one step after its backward. So moves up start at t - i = 1 or 2
// and moves down at t + i = 0 or 1 (all mod p), and where they arrive the next ones start: four
// lanes go round the ring, once in a turn of p steps, each with the longest path that is on it.
// (The stages and moments left out matter where a stage's chunks are of three kinds and more, or
// hops stop stages for longer than a forward takes, up to 4.7 %: among more than FEW_STAGES these
// are walked moment by moment, ring_walk.c. Of what is left they matter
// in two random rings of a hundred, up to 2.3 % short of the longest path: tests/plan/test_ring.c.)
// Turn T has its forwards of block T, T - 1 before, and its backwards of block T - v, T - v - 1
// before. Groups of p micro-batches repeat: once a group has made the longest paths to all stages
// grow by the same, it will for good.

enum {
    STOPS = 32,      // stages where a path may dwell, at most
    FEW_STAGES = 4,  // all ends of runs are stops
    GROUPS_REPEATED = 64,
};

static const double NEVER_S = -1e30;

// One chunk at a stop; the moves are to the next stop and to the one before, NEVER_S where there is
// none.
struct cell {
    double forward_s, backward_s, up_s, down_s;
};

// Longest paths on the lanes: to where each of them arrives next.
struct ring_lanes {
    double up_s[2], down_s[2];
};

// The front of all paths.
struct front {
    struct ring_lanes lanes;
    double at_s[STOPS];
};

struct stop {
    int stage;
    double end_s[RING_CHUNKS];  // of each chunk's last backward
};

struct ring {
    const struct pipeline_times *times;
    int p, v, group_count, stop_count;
    int middle, upper;    // first stops half way round the ring, and behind that
    double hop_s, gap_s;  // gap: what a blocking hop adds to a task
    struct stop stops[STOPS];
    struct front front;
    double left_s[STOPS];                          // where this turn's first lane down left
    struct cell cells[(RING_CHUNKS + 1) * STOPS];  // [chunk * stop_count + stop]; the last has none
};

// How a stage compares with a neighbour, over all its chunks.
struct comparison {
    bool at_least, at_most;
};

static struct comparison compare(const struct pipeline_times *times, int stage, int neighbour)
{
    struct comparison found = {true, true};
    for (int chunk = 0; chunk < times->shape.chunk_count; chunk++) {
        struct pair_times own = schedule_pair(times, stage, chunk);
        struct pair_times other = schedule_pair(times, neighbour, chunk);
        if (own.forward_s < other.forward_s || own.backward_s < other.backward_s)
            found.at_least = false;
        if (own.forward_s > other.forward_s || own.backward_s > other.backward_s)
            found.at_most = false;
    }
    return found;
}

// First and last of every row of equal stages, except those that have a slower neighbour: a path
// dwells there instead, one step away. Runs next to each other may be as long in other classes.
static bool is_stop(const struct ring *ring, int stage, struct stage_run run)
{
    if (ring->p <= FEW_STAGES) return true;
    struct comparison below = {true, true}, above = {true, true};
    if (stage == run.first) below = compare(ring->times, stage, stage - 1);
    if (stage == run.first + run.count - 1) above = compare(ring->times, stage, stage + 1);
    if ((below.at_most && !below.at_least) || (above.at_most && !above.at_least)) return false;
    return !(below.at_most && above.at_most);
}

// The first and the last stage are neighbours and always stops.
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
            if (is_stop(ring, stage, run)) ring->stops[ring->stop_count++].stage = stage;
        }
    }
    ring->stops[ring->stop_count++].stage = last;
    assert(ring->stop_count >= 2 && ring->stop_count <= STOPS);
}

// One stop's moves up are the next one's moves down: both pass the stages from the one up to the
// other. `run` is that of the first, and becomes that of the second.
static void fill_moves(struct ring *ring, int at, const struct stage_run **run)
{
    int stage = ring->stops[at].stage, above = ring->stops[at + 1].stage;
    while (stage < above) {
        int end = (*run)->first + (*run)->count;
        int count = (end < above ? end : above) - stage;
        struct cell *cell = &ring->cells[at];
        for (int chunk = 0; chunk < ring->v; chunk++, cell += ring->stop_count) {
            struct pair_times pair = schedule_pair(ring->times, stage, chunk);
            cell[0].up_s += count * (pair.forward_s + ring->hop_s);
            cell[1].down_s += count * (pair.backward_s + ring->hop_s);
        }
        stage += count;
        if (stage == end) (*run)++;
    }
}

static void fill_cells(struct ring *ring)
{
    int count = ring->stop_count, v = ring->v;
    struct cell *cell = ring->cells;
    for (int chunk = 0; chunk < v; chunk++) {
        for (int at = 0; at < count; at++, cell++) {
            struct pair_times pair = schedule_pair(ring->times, ring->stops[at].stage, chunk);
            *cell =
                (struct cell){pair.forward_s + ring->gap_s, pair.backward_s + ring->gap_s, 0, 0};
        }
    }
    for (int at = 0; at < count; at++)
        *cell++ = (struct cell){0, 0, NEVER_S, NEVER_S};
    const struct stage_run *run = ring->times->runs->runs;
    for (int at = 0; at + 1 < count; at++)
        fill_moves(ring, at, &run);
    // Round the ring: the last chunk's forwards and the first one's gradients go nowhere.
    for (int chunk = 0; chunk < v; chunk++) {
        struct cell *first = &ring->cells[chunk * count], *last = first + count - 1;
        struct pair_times pair = schedule_pair(ring->times, ring->p - 1, chunk);
        last->up_s = chunk + 1 < v ? pair.forward_s + ring->hop_s : NEVER_S;
        if (chunk == 0) first->down_s = NEVER_S;
        if (chunk + 1 < v) first[count].down_s = pair.backward_s + ring->hop_s;
    }
}

// The cells of a turn: [stop]; and what its steps on the first and on the last stage are shorter
// by, because there is nothing to send or to receive: between a backward and a forward of the first
// chunk on the first stage, between a forward and a backward of the last chunk on the last one.
struct turn {
    const struct cell *forward_before, *forward, *backward_before, *backward;
    double first_less_s, last_less_s;
};

static inline double longer(double a_s, double b_s)
{
    return a_s > b_s ? a_s : b_s;
}

// A lane arrives where a path has dwelt: the longer of them goes on in both ways.
static inline double join(double dwelt_s, double *lane_s, double move_s)
{
    double at_s = longer(*lane_s, dwelt_s);
    *lane_s = at_s + move_s;
    return at_s;
}

static inline double join_both(double dwelt_s, double *up_s, double up_move_s, double *down_s,
                               double down_move_s)
{
    double at_s = longer(longer(*up_s, *down_s), dwelt_s);
    *up_s = at_s + up_move_s;
    *down_s = at_s + down_move_s;
    return at_s;
}

// The lanes up pass a stop, `steps` after the last lane down.
static inline void pass_up(struct ring *ring, int at, int steps, const struct turn *turn,
                           const struct cell *backward, struct ring_lanes *lanes)
{
    const struct cell *before = &turn->forward_before[at];
    double step_s = before->forward_s + backward[at].backward_s;
    double dwelt_s = ring->front.at_s[at] + steps * step_s;
    double at_s = join(dwelt_s, &lanes->up_s[0], before->up_s) + step_s;
    ring->front.at_s[at] = join(at_s, &lanes->up_s[1], turn->forward[at].up_s);
}

static inline void pass_down(struct ring *ring, int at, int steps, const struct turn *turn,
                             const struct cell *forward, struct ring_lanes *lanes)
{
    const struct cell *before = &turn->backward_before[at], *now = &turn->backward[at];
    double forward_s = forward[at].forward_s;
    double dwelt_s = ring->front.at_s[at] + steps * (forward_s + before->backward_s);
    double at_s = join(dwelt_s, &lanes->down_s[0], before->down_s);
    ring->left_s[at] = at_s;
    at_s += forward_s + now->backward_s;
    ring->front.at_s[at] = join(at_s, &lanes->down_s[1], now->down_s);
}

// The stage half way where p is odd: the lanes of both ways arrive together.
static inline void pass_crossing(struct ring *ring, int at, const struct turn *turn,
                                 struct ring_lanes *lanes)
{
    const struct cell *up = &turn->forward_before[at], *down = &turn->backward_before[at];
    double dwelt_s = ring->front.at_s[at] + (ring->p - 1) * (up->forward_s + down->backward_s);
    double at_s = join_both(dwelt_s, &lanes->up_s[0], up->up_s, &lanes->down_s[0], down->down_s);
    ring->left_s[at] = at_s;
    at_s += up->forward_s + turn->backward[at].backward_s;
    ring->front.at_s[at] = join_both(at_s, &lanes->up_s[1], turn->forward[at].up_s,
                                     &lanes->down_s[1], turn->backward[at].down_s);
}

// The stages below and above half way where p is even: at the same moment the second lane up meets
// the first one down on the one, and the first one up the second one down on the other.
static inline void pass_crossings(struct ring *ring, const struct turn *turn,
                                  struct ring_lanes *lanes)
{
    const struct cell *up0 = turn->forward_before, *up1 = turn->forward;
    const struct cell *down0 = turn->backward_before, *down1 = turn->backward;
    int half = ring->p / 2, below = ring->middle, above = ring->upper - 1;
    bool is_below = ring->stops[below].stage == half - 1,
         is_above = ring->stops[above].stage == half;
    double below_s = 0, above_s = 0;
    if (is_below) {
        double step_s = up0[below].forward_s + down0[below].backward_s;
        below_s = ring->front.at_s[below] + (ring->p - 2) * step_s;
        below_s = join(below_s, &lanes->up_s[0], up0[below].up_s) + step_s;
    }
    if (is_above) {
        double step_s = up0[above].forward_s + down0[above].backward_s;
        above_s = ring->front.at_s[above] + (ring->p - 2) * step_s;
        above_s = join(above_s, &lanes->down_s[0], down0[above].down_s);
        ring->left_s[above] = above_s;
        above_s += up0[above].forward_s + down1[above].backward_s;
    }
    if (is_below) {
        below_s = join_both(below_s, &lanes->up_s[1], up1[below].up_s, &lanes->down_s[0],
                            down0[below].down_s);
        ring->left_s[below] = below_s;
        below_s += up1[below].forward_s + down1[below].backward_s;
    }
    if (is_above) {
        above_s = join_both(above_s, &lanes->up_s[0], up0[above].up_s, &lanes->down_s[1],
                            down1[above].down_s);
        above_s += up0[above].forward_s + down1[above].backward_s;
        ring->front.at_s[above] = join(above_s, &lanes->up_s[1], up1[above].up_s);
    }
    if (is_below) ring->front.at_s[below] = join(below_s, &lanes->down_s[1], down1[below].down_s);
}

// The stops between the ends. The lanes up come to the lower half before the lanes down do.
static inline void pass_inner(struct ring *ring, const struct turn *turn, struct ring_lanes *lanes)
{
    const struct stop *stops = ring->stops;
    int p = ring->p, last = ring->stop_count - 1, middle = ring->middle, upper = ring->upper;
    for (int at = 1; at < middle; at++)
        pass_up(ring, at, 2 * stops[at].stage, turn, turn->backward_before, lanes);
    for (int at = last - 1; at >= upper; at--)
        pass_down(ring, at, 2 * (p - 1 - stops[at].stage), turn, turn->forward_before, lanes);
    if (middle < upper && p % 2) pass_crossing(ring, middle, turn, lanes);
    if (middle < upper && p % 2 == 0) pass_crossings(ring, turn, lanes);
    for (int at = upper; at < last; at++)
        pass_up(ring, at, 2 * stops[at].stage - p, turn, turn->backward, lanes);
    for (int at = middle - 1; at > 0; at--)
        pass_down(ring, at, p - 2 - 2 * stops[at].stage, turn, turn->forward, lanes);
}

// The first and the last stage are neighbours: both are passed first, where a lane of this turn and
// one of the turn before arrive together, and last.
static void pass_turn(struct ring *ring, const struct turn *turn, struct ring_lanes *lanes)
{
    int last = ring->stop_count - 1, p = ring->p;
    const struct cell *up0 = turn->forward_before, *up1 = turn->forward;
    const struct cell *down0 = turn->backward_before, *down1 = turn->backward;
    double first_step_s = up0->forward_s + down0->backward_s;
    double last_step_s = up0[last].forward_s + down1[last].backward_s - turn->last_less_s;
    double first_s = ring->front.at_s[0] + first_step_s, last_s = ring->front.at_s[last];
    first_s = join_both(first_s, &lanes->up_s[0], up0->up_s, &lanes->down_s[1], down0->down_s);
    last_s =
        join_both(last_s, &lanes->up_s[1], up0[last].up_s, &lanes->down_s[0], down0[last].down_s);
    ring->left_s[last] = last_s;
    // Behind its first backward the first stage still goes on with the chunk before.
    first_s += first_step_s - turn->first_less_s;
    last_s += last_step_s;
    lanes->down_s[0] -= p == 2 ? turn->first_less_s : 0;
    if (p == 2) {
        first_s = join_both(first_s, &lanes->up_s[1], up1->up_s, &lanes->down_s[0], down0->down_s);
        last_s = join_both(last_s, &lanes->up_s[0], up0[last].up_s, &lanes->down_s[1],
                           down1[last].down_s);
    } else {
        first_s = join(first_s, &lanes->up_s[1], up1->up_s);
        last_s = join(last_s, &lanes->down_s[1], down1[last].down_s);
        if (last > 1) pass_inner(ring, turn, lanes);
        first_s += (p - 2) * (up1->forward_s + down0->backward_s - turn->first_less_s);
        last_s += (p - 2) * last_step_s;
        last_s = join(last_s, &lanes->up_s[0], up0[last].up_s);
        lanes->down_s[0] -= turn->first_less_s;
        first_s = join(first_s, &lanes->down_s[0], down0->down_s);
    }
    ring->left_s[0] = ring->front.at_s[0] = first_s;
    // Until the first moment of the next turn.
    ring->front.at_s[last] = last_s + last_step_s;
}

static void pass_turns(struct ring *ring, int first, int end)
{
    struct ring_lanes lanes = ring->front.lanes;
    struct turn turn = {ring->cells, ring->cells, ring->cells, ring->cells, 0, 0};
    int v = ring->v, count = ring->stop_count, block_count = ring->group_count * v;
    int within = (first + v - 1) % v;  // the group, of the turn before
    for (int now = first - 1; now < end; now++) {
        int forward = now >= 0 && now < block_count ? within : v;
        int backward = now >= v && now < block_count + v ? v - 1 - within : v;
        turn.forward_before = turn.forward;
        turn.backward_before = turn.backward;
        turn.forward = &ring->cells[forward * count];
        turn.backward = &ring->cells[backward * count];
        const struct cell *lowest = ring->cells, *highest = lowest + (v - 1) * count;
        bool turns_first = turn.forward == lowest && turn.backward_before == lowest;
        bool turns_last = turn.forward_before == highest && turn.backward == highest;
        turn.first_less_s = turns_first ? ring->gap_s : 0;
        turn.last_less_s = turns_last ? ring->gap_s : 0;
        if (now >= first) pass_turn(ring, &turn, &lanes);
        if (++within == v) within = 0;
    }
    ring->front.lanes = lanes;
}

static void copy_front(struct front *to, const struct front *from, int stop_count, double later_s)
{
    for (int i = 0; i < 2; i++) {
        to->lanes.up_s[i] = from->lanes.up_s[i] + later_s;
        to->lanes.down_s[i] = from->lanes.down_s[i] + later_s;
    }
    for (int at = 0; at < stop_count; at++)
        to->at_s[at] = from->at_s[at] + later_s;
}

// Passes the turns in which all stages run forwards and backwards, group by group, up to the last
// but one turn, at which forwards end. Once paths grow alike on all stages the groups that are left
// are not passed.
static void pass_groups(struct ring *ring)
{
    int count = ring->stop_count, v = ring->v;
    int last = ring->group_count * v;
    struct front before, within;
    for (int now = v + 1, group = 0;; now += v, group++) {
        copy_front(&before, &ring->front, count, 0);
        pass_turns(ring, now, now + v - 1);
        if (now + v - 1 == last) return;
        copy_front(&within, &ring->front, count, 0);
        pass_turns(ring, now + v - 1, now + v);
        double least_s = INFINITY, most_s = 0;
        for (int at = 0; at < count; at++) {
            double grown_s = ring->front.at_s[at] - before.at_s[at];
            if (grown_s < least_s) least_s = grown_s;
            if (grown_s > most_s) most_s = grown_s;
        }
        int left = (last - (now + v - 1)) / v;
        if (most_s - least_s >= 1e-9 * most_s && group < GROUPS_REPEATED) continue;
        copy_front(&ring->front, &within, count, left * most_s);
        return;
    }
}

static void start(struct ring *ring, const struct pipeline_times *times)
{
    ring->times = times;
    ring->p = times->shape.stage_count;
    ring->v = times->shape.chunk_count;
    ring->group_count = times->shape.micro_batch_count / ring->p;
    assert(ring->p > 1 && ring->v > 0 && ring->v <= RING_CHUNKS && ring->group_count > 0);
    ring->hop_s = times->hop_s;
    ring->gap_s = times->hop_overlapped ? 0 : times->hop_s;
    ring->stop_count = 0;
    find_stops(ring);
    int last = ring->stop_count - 1;
    for (ring->middle = 1; ring->middle < last; ring->middle++)
        if (2 * ring->stops[ring->middle].stage + 2 >= ring->p) break;
    for (ring->upper = ring->middle; ring->upper < last; ring->upper++)
        if (2 * ring->stops[ring->upper].stage > ring->p) break;
    fill_cells(ring);
    ring->front.lanes = (struct ring_lanes){{NEVER_S, NEVER_S}, {NEVER_S, NEVER_S}};
    for (int at = 0; at <= last; at++)
        ring->front.at_s[at] = NEVER_S;
    ring->front.at_s[0] = 0;
}

// A run whose first stage is no stop has its slower neighbour before it, to which its gradient
// goes.
static void fill_ends(const struct ring *ring, double *end_s)
{
    const struct pipeline_times *times = ring->times;
    const struct stage_runs *runs = times->runs;
    const struct stop *stop = ring->stops, *last = &ring->stops[ring->stop_count - 1];
    double at_s[RING_CHUNKS] = {0};  // run 0 has a stop
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

// Whether chunks are of more than two classes, but for the first of all, behind the embedding, and
// the last, before the head: two are those that have a layer more and those that have not, among
// which paths keep to the lanes.
static bool is_uneven(const struct pipeline_times *times)
{
    const struct stage_runs *runs = times->runs;
    int v = times->shape.chunk_count, p = times->shape.stage_count;
    int classes[2] = {-1, -1}, count = 0;
    struct pair_times pairs[2];
    for (int i = 0; i < runs->run_count; i++) {
        struct stage_run run = runs->runs[i];
        int first = run.first == 0 && run.count == 1, end = run.first == p - 1 ? v - 1 : v;
        for (int chunk = first; chunk < end; chunk++) {
            int class = times->class_of[run.first * v + chunk];
            if (class == classes[0] || class == classes[1]) continue;
            struct pair_times pair = schedule_pair(times, run.first, chunk);
            bool is_known = false;
            for (int k = 0; k < count; k++)
                is_known |=
                    pairs[k].forward_s == pair.forward_s && pairs[k].backward_s == pair.backward_s;
            if (is_known) continue;
            if (count == 2) return true;
            classes[count] = class;
            pairs[count++] = pair;
        }
    }
    return false;
}

// Whether hops stop stages for longer than some forward takes: the ends lack some of them.
static bool is_stopped(const struct pipeline_times *times)
{
    double least_s = INFINITY;
    for (int i = 0; i < times->class_count; i++)
        least_s = fmin(least_s, times->classes[i].forward_s);
    return !times->hop_overlapped && times->hop_s > least_s;
}

void ring_ends(const struct pipeline_times *times, double *end_s)
{
    struct ring ring;  // large, used only as far as there are stops
    int p = times->shape.stage_count, v = times->shape.chunk_count;
    bool may_walk = p > FEW_STAGES && p * (v + 1) <= RING_CELLS;
    if (may_walk && (is_uneven(times) || is_stopped(times))) return ring_walk(times, end_s);
    start(&ring, times);
    int last = ring.group_count * v, now = 0;
    if (ring.group_count >= 3) {
        pass_turns(&ring, 0, v + 1);
        pass_groups(&ring);
        now = last;
    }
    pass_turns(&ring, now, last + 1);
    // The last backward of chunk c ends where the first lane down leaves in the turn that is c + 1
    // from the end.
    for (int chunk = v - 1; chunk >= 0; chunk--) {
        now = last + v - chunk;
        pass_turns(&ring, now, now + 1);
        for (int at = 0; at < ring.stop_count; at++)
            ring.stops[at].end_s[chunk] = ring.left_s[at] - ring.gap_s;
    }
    fill_ends(&ring, end_s);
}
