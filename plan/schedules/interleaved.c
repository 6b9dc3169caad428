#include "plan/schedules/common.h"

#include <assert.h>
#include <math.h>
#include <string.h>
#include <stdlib.h>
#ifndef NC
#define NC 4
#endif

// Interleaved 1F1B (Narayanan et al. 2021, section 2.2): several chunks a stage, so that a micro-batch
// goes round the ring of stages once a chunk and the bubble shrinks by the number of chunks.

static bool legal(const struct schedule_shape *shape, const char **why)
{
    *why = shape->stage_count < 2   ? "needs at least two stages (pp)"
           : shape->chunk_count < 2 ? "needs at least two chunks a stage (vpp)"
           : shape->micro_batch_count % shape->stage_count
               ? "needs micro-batches in multiples of pp"
               : NULL;
    return !*why;
}

static int warm_up_of(const struct schedule_shape *shape, int stage)
{
    int warm_up =
        (shape->stage_count - stage - 1) * 2 + (shape->chunk_count - 1) * shape->stage_count;
    int total = shape->chunk_count * shape->micro_batch_count;
    return warm_up < total ? warm_up : total;
}

static void order(const struct schedule_shape *shape, int stage, struct slot *slots)
{
    schedule_fill(shape, warm_up_of(shape, stage), slots);
}

static void in_flight(const struct schedule_shape *shape, int stage, int *per_chunk)
{
    int alive = warm_up_of(shape, stage) + 1;
    int most = shape->chunk_count * shape->micro_batch_count;
    schedule_count(shape, alive < most ? alive : most, per_chunk);
}

#ifndef GSIM
#define GSIM 4
#endif
#ifndef KAPPA
#define KAPPA 4
#endif
#ifndef EXACT
#define EXACT 4
#endif
#ifndef PRUNE
#define PRUNE 1
#endif
enum { REPS = 64, CHUNKS = 64, GRID = 64, BLOCKS = (GSIM < 64 ? GSIM + 2 : 66) * CHUNKS + 8 };
#define NONE -1e30

struct line { double base, slope; };
struct rep {
    int stage, up_d, down_d;
    const int *class_of;
    struct line f[BLOCKS], b[BLOCKS];
    double up[BLOCKS], down[BLOCKS];
};
struct ring {
    int p, v, groups, n, grid;
    int offset[GRID];
    double hop, gap;
    struct rep reps[REPS];
};
struct spot { int block, rest; };
static struct spot spot(int p, int x) // floor division, -2p <= x < 3p
{
    struct spot s = {0, x};
    while (s.rest < 0) s.rest += p, s.block--;
    while (s.rest >= p) s.rest -= p, s.block++;
    return s;
}

enum { PAD = 3 };

static void fill(struct ring *ring, const struct pipeline_times *times, int x)
{
    struct rep *r = &ring->reps[x];
    int p = ring->p, v = ring->v, total = ring->groups * v;
    double f[CHUNKS], b[CHUNKS], up[CHUNKS], down[CHUNKS];
    for (int c = 0; c < v; c++) {
        struct pair_times q = schedule_pair(times, r->stage, c);
        f[c] = q.forward_s + ring->gap;
        b[c] = q.backward_s + ring->gap;
        up[c] = q.forward_s + ring->hop;
        down[c] = 0;
    }
    // sums between reps by runs
    int next = x + 1 < ring->n ? ring->reps[x + 1].stage : p;
    int prev = x > 0 ? ring->reps[x - 1].stage : -1;
    r->up_d = x + 1 < ring->n ? next - r->stage : 1;
    r->down_d = x > 0 ? r->stage - prev : 1;
    for (int i = 0; i < times->runs->run_count; i++) {
        struct stage_run run = times->runs->runs[i];
        int low = run.first, high = run.first + run.count;
        int ul = low > r->stage + 1 ? low : r->stage + 1, uh = high < next ? high : next;
        if (uh > ul)
            for (int c = 0; c < v; c++)
                up[c] += (uh - ul) * (schedule_pair(times, low, c).forward_s + ring->hop);
        if (x == 0) continue;
        int dl = low > prev ? low : prev, dh = high < r->stage ? high : r->stage;
        if (dh > dl)
            for (int c = 0; c < v; c++)
                down[c] += (dh - dl) * (schedule_pair(times, low, c).backward_s + ring->hop);
    }
    if (x == 0)
        for (int c = 0; c < v; c++)
            down[c] = c ? schedule_pair(times, p - 1, c - 1).backward_s + ring->hop : NONE;
    if (x + 1 == ring->n) up[v - 1] = NONE;
    double cf = 0, cb = 0;
    // F blocks e = -PAD .. ; B blocks from -(v+1)
    int e = 0;
    for (; e < PAD; e++) {
        r->f[e] = (struct line){0, 0};
        r->up[e] = NONE;
    }
    for (int g = 0; g < ring->groups; g++)
        for (int c = 0; c < v; c++, e++) {
            r->f[e] = (struct line){cf, f[c]};
            r->up[e] = up[c];
            cf += p * f[c];
        }
    for (int k = 0; k < v + 5; k++, e++) {
        r->f[e] = (struct line){cf, 0};
        r->up[e] = NONE;
    }
    e = 0;
    for (int k = 0; k < v + 2; k++, e++) {
        r->b[e] = (struct line){0, 0};
        r->down[e] = NONE;
    }
    for (int g = 0; g < ring->groups; g++)
        for (int c = v - 1; c >= 0; c--, e++) {
            r->b[e] = (struct line){cb, b[c]};
            r->down[e] = down[c];
            cb += p * b[c];
        }
    for (int k = 0; k < 4; k++, e++) {
        r->b[e] = (struct line){cb, 0};
        r->down[e] = NONE;
    }
    (void)total;
}

struct at {
    struct spot f, b;
};
static struct at place(const struct ring *ring, int offset, int stage)
{
    struct at at = {spot(ring->p, offset - 2 - stage), spot(ring->p, offset + stage)};
    return at;
}
static inline double value(const struct rep *r, const struct at *at, int block)
{
    // block counted from -(v+1) = 0 ; F block index = block + dq + PAD ; B idx = block + dq + 1
    const struct line *f = &r->f[block + at->f.block + PAD];
    const struct line *b = &r->b[block + at->b.block + 1];
    return f->base + at->f.rest * f->slope + b->base + at->b.rest * b->slope;
}

struct node {
    struct at own, up, down;  // C of own at t; of next at t+d
    int up_steps, down_steps; // grid steps
    int up_block, down_block; // block offset for gains
};

static int steps(const struct ring *ring, int j, int d)
{
    int n = 0, t = ring->offset[j], base = 0;
    int jj = j;
    while (base + ring->offset[jj] < t + d) {
        n++;
        if (++jj == ring->grid) jj = 0, base += ring->p;
    }
    return n;
}

static double longest(struct ring *ring, double *last_s)
{
    static struct node nodes[GRID][REPS];
    int n = ring->n, p = ring->p, v = ring->v;
    int most = 1;
    for (int j = 0; j < ring->grid; j++)
        for (int x = 0; x < n; x++) {
            struct node *q = &nodes[j][x];
            const struct rep *r = &ring->reps[x];
            int o = ring->offset[j];
            q->own = place(ring, o, r->stage);
            q->up = place(ring, o + r->up_d, ring->reps[(x + 1) % n].stage);
            q->down = place(ring, o + r->down_d, ring->reps[(x + n - 1) % n].stage);
            q->up_steps = steps(ring, j, r->up_d);
            q->down_steps = steps(ring, j, r->down_d);
            q->up_block = q->own.f.block;
            q->down_block = spot(p, o + r->stage - 1).block;
            if (q->up_steps > most) most = q->up_steps;
            if (q->down_steps > most) most = q->down_steps;
        }
    static double arr[256][REPS];
    assert(most < 256);
    int blocks = ring->groups * v + v + 1;
    for (int k = 0; k < 256; k++) for (int x = 0; x < n; x++) arr[k][x] = NONE;
    double u[REPS];
    for (int x = 0; x < n; x++) u[x] = NONE;
    u[0] = 0;
    int at = 0;
    *last_s = NONE;
    // last stage finishes at t = m v - (p-1): block index blocks-1, offset 1
    for (int b = 0; b < blocks; b++)
        for (int j = 0; j < ring->grid; j++, at = (at + 1) & 255) {
            for (int x = 0; x < n; x++) {
                if (arr[at][x] > u[x]) u[x] = arr[at][x];
                arr[at][x] = NONE;
            }
            if (b == blocks - 1 && ring->offset[j] <= 1) {
                *last_s = u[n - 1] + value(&ring->reps[n - 1], &nodes[j][n - 1].own, b);
            }
            for (int x = 0; x < n; x++) {
                const struct node *q = &nodes[j][x];
                const struct rep *r = &ring->reps[x];
                int y = x + 1 < n ? x + 1 : 0, z = x > 0 ? x - 1 : n - 1;
                double here = u[x] + value(r, &q->own, b);
                double up = here + r->up[b + q->up_block + PAD] - value(&ring->reps[y], &q->up, b);
                double down = here + r->down[b + q->down_block + 1] - value(&ring->reps[z], &q->down, b);
                double *to = &arr[(at + q->up_steps) & 255][y];
                if (up > *to) *to = up;
                to = &arr[(at + q->down_steps) & 255][z];
                if (down > *to) *to = down;
            }
        }
    if (arr[at][0] > u[0]) u[0] = arr[at][0];
    struct at end = place(ring, 0, 0);
    return u[0] + value(&ring->reps[0], &end, blocks);
}

static bool covered(const struct pipeline_times *times, int a, int b)
{
    for (int c = 0; c < times->shape.chunk_count; c++) {
        struct pair_times x = schedule_pair(times, a, c), y = schedule_pair(times, b, c);
        if (x.forward_s > y.forward_s || x.backward_s > y.backward_s) return false;
    }
    return true;
}

static double duration(const struct pipeline_times *times, double end_s[2])
{
    static struct ring ring;
    int p = times->shape.stage_count, v = times->shape.chunk_count;
    int groups = times->shape.micro_batch_count / p;
    ring.p = p;
    ring.v = v;
    ring.hop = times->hop_s;
    ring.gap = times->hop_overlapped ? 0 : times->hop_s;
    ring.groups = groups < GSIM ? groups : GSIM;
    ring.n = 0;
    int list[2 * REPS], count = 0;
    for (int i = 0; i < times->runs->run_count && count < 2 * REPS - 4; i++) {
        struct stage_run run = times->runs->runs[i];
        list[count++] = run.first;
        if (run.count > 1) list[count++] = run.first + run.count - 1;
    }
    for (int i = 0; i < count; i++) {
        bool keep = list[i] == 0 || list[i] == p - 1;
        bool dom = false;
        for (int k = 0; k < count && !keep && PRUNE; k++)
            if (k != i && (abs(list[i]-list[k])==1 || abs(list[i]-list[k])==p-1) && covered(times, list[i], list[k]) && (!covered(times, list[k], list[i]) || k < i || list[k]==p-1)) dom = true;
        if (keep || (!dom && ring.n < REPS - 2)) ring.reps[ring.n++].stage = list[i];
    }
    ring.grid = 0;
    if (p <= EXACT || ring.n > NC) {
        for (int j = 0; j < p; j++) ring.offset[ring.grid++] = j;
    } else {
        for (int j = 0; j < KAPPA; j++) {
            int o = j * p / KAPPA;
            ring.offset[ring.grid++] = o;
#ifdef EXTRA
            if (j == 0) {
                if (p / KAPPA > 1) ring.offset[ring.grid++] = 1;
                if (p / KAPPA > 2) ring.offset[ring.grid++] = 2;
            }
#endif
        }
    }
    assert(ring.reps[ring.n-1].stage == p-1);
    for (int x = 0; x < ring.n; x++) fill(&ring, times, x);
    double last, lastm;
    double step = longest(&ring, &last) - ring.gap;
    if (groups > ring.groups) {
        int more = groups - ring.groups;
        ring.groups--;
        for (int x = 0; x < ring.n; x++) fill(&ring, times, x);
        double less = longest(&ring, &lastm) - ring.gap;
        step += more * (step - less);
        last += more * (last - lastm);
    }
    if (end_s) end_s[0] = step, end_s[1] = last;
    return step;
}

const struct schedule_row INTERLEAVED_ROW = {
    .name = "interleaved",
    .backward_fused = true,
    .legal = legal,
    .order = order,
    .stage_of = schedule_linear_stage,
    .chunk_of = schedule_linear_chunk,
    .in_flight = in_flight,
    .duration = duration,
};
