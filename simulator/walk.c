#include "simulator/walk.h"
#include "core/random.h"

#include <assert.h>
#include <math.h>

int64_t walk_ns(double seconds)
{
    assert(seconds >= 0 && seconds < 9e9);
    return llround(seconds * 1e9);
}

int lane_rounds(const struct engine_lane *lane, const struct schedule_shape *shape)
{
    return lane->micro_batch_count > 0 ? lane->micro_batch_count : shape->micro_batch_count;
}

double phase_compute_s(const double part_s[PART_COUNT])
{
    return part_s[PART_COMPUTE] + part_s[PART_RECOMPUTE];
}

double phase_exposed_s(const double part_s[PART_COUNT])
{
    double sum_s = 0;
    for (int part = PART_TP; part < PART_COUNT; part++)
        sum_s += part_s[part];
    return sum_s;
}

void spans_add(struct spans *spans, const struct span *span)
{
    assert(spans->count < spans->capacity && span->start_ns <= span->end_ns);
    spans->list[spans->count++] = *span;
}

// The first slot of a chunk's last backward: its last W, with the B in front of it where W follows
// at once.
static int last_backward(const struct walk *walk, int stage, int chunk)
{
    const struct slot *slots = walk->slots + (ptrdiff_t)stage * walk->slot_room;
    int n = walk->slot_count - 1;
    while (slots[n].kind != TASK_WEIGHT || slots[n].chunk != chunk)
        n--;
    return walk->row->backward_fused ? n - 1 : n;
}

static void make_tail(struct arena *scratch, struct walk *walk, int stage)
{
    int first = walk->slot_count;
    for (int chunk = 0; chunk < walk->price->shape.chunk_count; chunk++) {
        int slot = last_backward(walk, stage, chunk);
        if (slot < first) first = slot;
    }
    walk->tail_count[stage] = walk->slot_count - first;
    walk->tail_start_ns[stage] = ARENA_NEW(scratch, int64_t, walk->slot_count - first);
    walk->tail_end_ns[stage] = ARENA_NEW(scratch, int64_t, walk->slot_count - first);
}

static void make_stages(struct arena *scratch, struct walk *walk)
{
    const struct step_price *price = walk->price;
    const struct schedule_shape *shape = &price->shape;
    for (int stage = 0; stage < shape->stage_count; stage++) {
        walk->row->order(shape, stage, walk->slots + (ptrdiff_t)stage * walk->slot_room);
        make_tail(scratch, walk, stage);
        walk_set_stage_price(walk, stage, price);
    }
}

// The order of the slots of so many micro-batches, at most those of the price. Lanes of unlike
// numbers have stages of one chunk, whose tails are as long.
static void walk_set_count(struct walk *walk, int micro_batch_count)
{
    struct schedule_shape shape = walk->price->shape;
    if (micro_batch_count == walk->micro_batch_count) return;
    assert(micro_batch_count >= 1 && micro_batch_count <= shape.micro_batch_count);
    assert(shape.chunk_count == 1 && "tails of several chunks differ in length");
    shape.micro_batch_count = walk->micro_batch_count = micro_batch_count;
    walk->slot_count = SLOT_KIND_COUNT * micro_batch_count;
    for (int stage = 0; stage < shape.stage_count; stage++)
        walk->row->order(&shape, stage, walk->slots + (ptrdiff_t)stage * walk->slot_room);
}

void walk_set_stage_price(struct walk *walk, int stage, const struct step_price *price)
{
    walk->gather_sum_ns[stage] = 0;
    for (int chunk = 0; chunk < price->shape.chunk_count; chunk++) {
        int at = stage * price->shape.chunk_count + chunk;
        walk->gather_ns[at] = walk_ns(price->classes[price->class_of[at]].parameter_gather_s);
        if (price->gather_overlapped) walk->gather_sum_ns[stage] += walk->gather_ns[at];
    }
}

struct walk *walk_new(struct arena *scratch, const struct step_price *price)
{
    const struct schedule_shape *shape = &price->shape;
    int stages = shape->stage_count;
    int virtuals = stages * shape->chunk_count;
    struct walk *walk = ARENA_NEW(scratch, struct walk, 1);
    walk->price = price;
    walk->row = schedule_row(price->schedule);
    walk->hop_ns = ARENA_NEW(scratch, int64_t, stages);
    walk->virtual_count = virtuals;
    walk->micro_batch_count = shape->micro_batch_count;
    walk->slot_count = SLOT_KIND_COUNT * shape->chunk_count * shape->micro_batch_count;
    walk->slot_room = walk->slot_count;
    walk->slots = ARENA_NEW(scratch, struct slot, (size_t)stages * (size_t)walk->slot_count);
    walk->virtual_of = ARENA_NEW(scratch, int, virtuals);
    walk->stage_of = ARENA_NEW(scratch, int, virtuals);
    walk->chunk_of = ARENA_NEW(scratch, int, virtuals);
    for (int at = 0; at < virtuals; at++) {
        walk->stage_of[at] = walk->row->stage_of(shape, at);
        walk->chunk_of[at] = walk->row->chunk_of(shape, at);
        walk->virtual_of[walk->stage_of[at] * shape->chunk_count + walk->chunk_of[at]] = at;
    }
    size_t messages = (size_t)virtuals * (size_t)shape->micro_batch_count;
    for (int i = 0; i < 2; i++)
        walk->arrive_ns[i] = ARENA_NEW(scratch, int64_t, messages);
    walk->duration_ns = ARENA_NEW(scratch, int64_t, virtuals * SLOT_KIND_COUNT);
    walk->compute_ns = ARENA_NEW(scratch, int64_t, virtuals * SLOT_KIND_COUNT);
    walk->gather_ns = ARENA_NEW(scratch, int64_t, virtuals);
    walk->gather_sum_ns = ARENA_NEW(scratch, int64_t, stages);
    walk->queue = ARENA_NEW(scratch, int, stages);
    walk->queued = ARENA_NEW(scratch, bool, stages);
    walk->stages = ARENA_NEW(scratch, struct stage_walk, stages);
    walk->tail_count = ARENA_NEW(scratch, int, stages);
    walk->tail_start_ns = ARENA_NEW(scratch, int64_t *, stages);
    walk->tail_end_ns = ARENA_NEW(scratch, int64_t *, stages);
    make_stages(scratch, walk);
    return walk;
}

// Of the ranks that are walked.
static const struct step_price *price_of(const struct walk *walk, int stage)
{
    return walk->lane && walk->prices ? walk->prices[walk->lane->stages[stage].price] : walk->price;
}

static const struct chunk_price *class_of(const struct walk *walk, int at)
{
    const struct step_price *price = price_of(walk, at / walk->price->shape.chunk_count);
    return &price->classes[price->class_of[at]];
}

static void set_durations(struct walk *walk)
{
    int chunk_count = walk->price->shape.chunk_count;
    for (int stage = 0; stage < walk->price->shape.stage_count; stage++)
        walk->hop_ns[stage] = walk_ns(price_of(walk, stage)->hop_s);
    for (int at = 0; at < walk->virtual_count; at++) {
        const struct chunk_price *class = class_of(walk, at);
        double slow = walk->lane ? walk->lane->stages[at / chunk_count].slowdown : 1;
        for (int kind = 0; kind < SLOT_KIND_COUNT; kind++) {
            const double *part_s = class->phase_s[kind];
            double compute_s = phase_compute_s(part_s) * slow;
            walk->compute_ns[at * SLOT_KIND_COUNT + kind] = walk_ns(compute_s);
            walk->duration_ns[at * SLOT_KIND_COUNT + kind] =
                walk_ns(compute_s + phase_exposed_s(part_s));
        }
    }
}

// The time of a task, with what chance adds to the compute of the slowest of its ranks.
static int64_t task_length_ns(struct walk *walk, int index)
{
    if (walk->jitter_ratio <= 0) return walk->duration_ns[index];
    double most = random_normal(&walk->random);
    for (int rank = 1; rank < walk->jitter_ranks; rank++)
        most = fmax(most, random_normal(&walk->random));
    double change_ratio = fmax(walk->jitter_ratio * most, -1);
    return walk->duration_ns[index] + llround(change_ratio * (double)walk->compute_ns[index]);
}

// For each rank of the stage that the trace shows.
static void add_span(struct walk *walk, int stage, enum stream stream, struct task_id id,
                     int64_t start_ns, int64_t end_ns)
{
    if (!walk->spans) return;
    assert(walk->lane);
    const struct lane_stage *ranks = &walk->lane->stages[stage];
    for (int i = 0; i < ranks->shown_count; i++) {
        struct span span = {ranks->shown[i], stream, task_number(&walk->price->shape, &id),
                            start_ns, end_ns};
        spans_add(walk->spans, &span);
    }
}

// What forward saves goes down behind the layers that made it, and comes up before those that read
// it; gradients that are kept on the host go down behind B and come up before it: the trace shows
// all copies of a task as one span, against the end of its slot, or from the start of B.
static void add_copies(struct walk *walk, int stage, const struct slot *slot, int64_t start_ns,
                       int64_t end_ns)
{
    int at = stage * walk->price->shape.chunk_count + slot->chunk;
    const struct chunk_price *class = class_of(walk, at);
    bool is_forward = slot->kind == TASK_FORWARD;
    int64_t copy_ns = walk_ns(class->copy_s + (is_forward ? 0 : class->gradient_copy_s[1]));
    int64_t down_ns = is_forward ? 0 : walk_ns(class->gradient_copy_s[0]);
    struct task_id id = {slot->kind, slot->chunk, slot->micro_batch};
    if (slot->kind == TASK_WEIGHT) return;
    if (down_ns > end_ns - start_ns) down_ns = end_ns - start_ns;
    if (down_ns > 0) add_span(walk, stage, STREAM_D2H, id, end_ns - down_ns, end_ns);
    if (copy_ns == 0) return;
    if (copy_ns > end_ns - start_ns) copy_ns = end_ns - start_ns;
    if (is_forward) {
        add_span(walk, stage, STREAM_D2H, id, end_ns - copy_ns, end_ns);
    } else {
        add_span(walk, stage, STREAM_H2D, id, start_ns, start_ns + copy_ns);
    }
}

static void add_own(struct walk *walk, int rank, enum stream stream, struct task_id id,
                    int64_t start_ns, int64_t end_ns)
{
    struct span span = {rank, stream, task_number(&walk->price->shape, &id), start_ns, end_ns};
    spans_add(walk->spans, &span);
}

// A task on the compute stream and, behind it, the collectives inside it that nothing hides: they
// lie between its operators, the trace shows their sum at its end, each on the stream of its axis.
// A rank that is faster than those it communicates with waits for them in its collectives.
static void add_task(struct walk *walk, int stage, const struct slot *slot, int64_t start_ns,
                     int64_t end_ns)
{
    static const enum part EXPOSED[] = {PART_TP, PART_CP, PART_EP, PART_DP};
    enum { EXPOSED_COUNT = sizeof EXPOSED / sizeof *EXPOSED };
    if (!walk->spans) return;
    struct task_id id = {slot->kind, slot->chunk, slot->micro_batch};
    int at = stage * walk->price->shape.chunk_count + slot->chunk;
    const double *part_s = class_of(walk, at)->phase_s[slot->kind];
    add_copies(walk, stage, slot, start_ns, end_ns);
    int64_t compute_end_ns = end_ns - walk_ns(part_s[PART_OFFLOAD]);
    for (int i = 0; i < EXPOSED_COUNT; i++)
        compute_end_ns -= walk_ns(part_s[EXPOSED[i]]);
    if (compute_end_ns < start_ns) compute_end_ns = start_ns;  // rounding of parts
    const struct lane_stage *ranks = &walk->lane->stages[stage];
    for (int shown = 0; shown < ranks->shown_count; shown++) {
        double own = ranks->shown_slowdown ? ranks->shown_slowdown[shown] : ranks->slowdown;
        int64_t compute_ns = compute_end_ns - start_ns;
        int64_t now_ns = start_ns + llround((double)compute_ns * own / ranks->slowdown);
        add_own(walk, ranks->shown[shown], STREAM_COMPUTE, id, start_ns, now_ns);
        int64_t until_ns = compute_end_ns;
        for (int i = 0; i < EXPOSED_COUNT && now_ns < end_ns; i++) {
            int64_t part_ns = walk_ns(part_s[EXPOSED[i]]);
            until_ns = until_ns + part_ns < end_ns ? until_ns + part_ns : end_ns;
            if (part_ns == 0 || until_ns == now_ns) continue;
            add_own(walk, ranks->shown[shown], axis_stream(part_axis(EXPOSED[i])), id, now_ns,
                    until_ns);
            now_ns = until_ns;
        }
    }
}

// Counts what the dp stream gathers until then: at full speed while compute waits.
static void gather_until(struct walk *walk, int stage, bool busy, int64_t until_ns)
{
    struct stage_walk *own = &walk->stages[stage];
    double speed = busy ? walk->price->overlap_ratio : 1, before_ns = own->gather_done_ns;
    double sum_ns = (double)walk->gather_sum_ns[stage];
    own->gather_done_ns += speed * (double)(until_ns - own->gather_seen_ns);
    own->gather_seen_ns = until_ns;
    if (before_ns >= sum_ns || own->gather_done_ns < sum_ns) return;
    int64_t end_ns = until_ns - (int64_t)((own->gather_done_ns - sum_ns) / speed);
    walk->event_count++;
    add_span(walk, stage, STREAM_DP, (struct task_id){TASK_PARAMETER_GATHER, 0, 0}, 0, end_ns);
}

// The first forward of a chunk, stopped wherever its next bucket is not there. Returns its end;
// `*start_ns` moves to the arrival of the first bucket.
static int64_t gather_forward(struct walk *walk, int stage, int chunk, int64_t *start_ns,
                              int64_t length_ns)
{
    const struct step_price *price = walk->price;
    struct stage_walk *own = &walk->stages[stage];
    int first = stage * price->shape.chunk_count, at = first + chunk;
    int buckets = price->classes[price->class_of[at]].bucket_count;
    if (buckets < 1) buckets = 1;
    double before_ns = 0;
    for (int i = first; i < at; i++)
        before_ns += (double)walk->gather_ns[i];

    int64_t now_ns = *start_ns, asked_ns = now_ns;
    for (int bucket = 0; bucket < buckets; bucket++) {
        int64_t needed_ns = walk->gather_ns[at] * (bucket + 1) / buckets;
        double missing_ns = before_ns + (double)needed_ns - own->gather_done_ns;
        if (missing_ns > 0) {
            now_ns += llround(missing_ns);
            gather_until(walk, stage, false, now_ns);
        }
        if (bucket == 0) *start_ns = now_ns;
        now_ns += length_ns * (bucket + 1) / buckets - length_ns * bucket / buckets;
        gather_until(walk, stage, true, now_ns);
    }
    own->gather_wait_ns += now_ns - asked_ns - length_ns;
    return now_ns;
}

static void wake(struct walk *walk, int stage, int *queue_end, int *queue_count)
{
    if (walk->queued[stage]) return;
    walk->queued[stage] = true;
    walk->queue[*queue_end] = stage;
    *queue_end = (*queue_end + 1) % walk->price->shape.stage_count;
    ++*queue_count;
}

static int64_t message_ns(const struct walk *walk, int from, int to)
{
    return walk->hop_ns[from] > walk->hop_ns[to] ? walk->hop_ns[from] : walk->hop_ns[to];
}

// Of the stages that a slot hands its result to the n-th; -1: no more.
static int reader_of(const struct walk *walk, int at, int direction, int n)
{
    const struct schedule_shape *shape = &walk->price->shape;
    if (direction) return schedule_before(shape, at, n);
    return n == 0 ? schedule_next(shape, at) : -1;
}

// Where a slot's input comes from: neighbouring stages, this stage, or nowhere.
struct input {
    int64_t hop_ns;     // of its messages where those block; 0: there is none
    int64_t arrive_ns;  // of the last; -1: not yet
};

static struct input input_of(const struct walk *walk, int stage, const struct slot *slot)
{
    struct input input = {0, 0};
    if (slot->kind == TASK_WEIGHT) return input;
    int direction = slot->kind == TASK_BACKWARD;
    int at = walk->virtual_of[stage * walk->price->shape.chunk_count + slot->chunk];
    for (int n = 0, from; (from = reader_of(walk, at, !direction, n)) >= 0; n++) {
        int64_t index = (int64_t)(direction ? at : from) * walk->price->shape.micro_batch_count;
        int64_t arrive_ns = walk->arrive_ns[direction][index + slot->micro_batch];
        bool blocks = walk->stage_of[from] != stage && !walk->price->hop_overlapped;
        if (arrive_ns < 0) return (struct input){0, -1};
        if (blocks) input.hop_ns += message_ns(walk, walk->stage_of[from], stage);
        if (arrive_ns > input.arrive_ns) input.arrive_ns = arrive_ns;
    }
    return input;
}

// A message under way; `stage` is to be woken. -1: to a chunk of the same stage.
struct sent {
    int stage;
    int64_t start_ns, end_ns;
};

// Hands the result of a slot of virtual stage `at` to virtual stage `to`.
static struct sent send(struct walk *walk, const struct slot *slot, int at, int to, int direction)
{
    int stage = walk->stage_of[at];
    struct stage_walk *own = &walk->stages[stage];
    int64_t hop_ns = message_ns(walk, stage, walk->stage_of[to]);
    int64_t index = (int64_t)(direction ? to : at) * walk->price->shape.micro_batch_count;
    int64_t *arrive_ns = &walk->arrive_ns[direction][index + slot->micro_batch];
    assert(*arrive_ns < 0);
    if (walk->stage_of[to] == stage) {
        *arrive_ns = own->end_ns;
        return (struct sent){-1, 0, 0};
    }
    int64_t start_ns = own->end_ns + own->send_ns;
    if (walk->price->hop_overlapped) {
        if (own->link_ns[direction] > start_ns) start_ns = own->link_ns[direction];
        own->link_ns[direction] = start_ns + hop_ns;
    } else {
        own->send_ns += hop_ns;
    }
    *arrive_ns = start_ns + hop_ns;
    walk->event_count++;
    return (struct sent){walk->stage_of[to], start_ns, *arrive_ns};
}

// What comes to a stage beside its compute: the last of the messages that one of its slots waits
// for. A receiver that blocks takes them when it is ready to.
static void add_receive(struct walk *walk, const struct slot *slot, int at, int64_t hop_ns)
{
    int stage = walk->stage_of[at];
    struct slot there = {slot->kind == TASK_FORWARD ? TASK_FORWARD : TASK_BACKWARD,
                         (uint8_t)walk->chunk_of[at], slot->micro_batch};
    int64_t end_ns = input_of(walk, stage, &there).arrive_ns;
    struct task_id id = {TASK_RECEIVE, there.chunk,
                         2 * slot->micro_batch + (there.kind != TASK_FORWARD)};
    if (end_ns < 0 || !walk->price->hop_overlapped) return;
    add_span(walk, stage, STREAM_PP, id, end_ns - hop_ns, end_ns);
}

// The result of a slot to all that read it, one message after the other; wakes their stages.
static void send_all(struct walk *walk, int stage, const struct slot *slot, int *queue_end,
                     int *queue_count)
{
    int at = walk->virtual_of[stage * walk->price->shape.chunk_count + slot->chunk];
    int direction = slot->kind != TASK_FORWARD;
    int64_t start_ns = -1, end_ns = -1;
    for (int n = 0, to; (to = reader_of(walk, at, direction, n)) >= 0; n++) {
        struct sent sent = send(walk, slot, at, to, direction);
        if (sent.stage < 0) continue;
        if (start_ns < 0) start_ns = sent.start_ns;
        end_ns = sent.end_ns;
        add_receive(walk, slot, to, message_ns(walk, stage, sent.stage));
        wake(walk, sent.stage, queue_end, queue_count);
    }
    struct task_id id = {TASK_SEND, slot->chunk, 2 * slot->micro_batch + direction};
    if (start_ns >= 0) add_span(walk, stage, STREAM_PP, id, start_ns, end_ns);
}

static void keep_tail(struct walk *walk, int stage, int64_t start_ns, int64_t end_ns)
{
    int at = walk->stages[stage].next - (walk->slot_count - walk->tail_count[stage]);
    if (at < 0) return;
    if (start_ns > walk->tail_start_ns[stage][at]) walk->tail_start_ns[stage][at] = start_ns;
    if (end_ns > walk->tail_end_ns[stage][at]) walk->tail_end_ns[stage][at] = end_ns;
}

// Runs one slot whose input is there.
static void run_slot(struct walk *walk, int stage, const struct slot *slot, struct input input)
{
    struct stage_walk *own = &walk->stages[stage];
    int64_t gap_ns = own->send_ns > input.hop_ns ? own->send_ns : input.hop_ns;
    int64_t start_ns = own->end_ns + gap_ns;
    own->blocked_ns += gap_ns;
    if (input.arrive_ns > start_ns) start_ns = input.arrive_ns;
    if (input.hop_ns > 0) {
        struct task_id receive = {TASK_RECEIVE, slot->chunk,
                                  2 * slot->micro_batch + (slot->kind != TASK_FORWARD)};
        add_span(walk, stage, STREAM_PP, receive, start_ns - input.hop_ns, start_ns);
    }
    int at = stage * walk->price->shape.chunk_count + slot->chunk;
    int64_t task_ns = task_length_ns(walk, at * SLOT_KIND_COUNT + (int)slot->kind);
    int64_t end_ns = start_ns + task_ns;
    if (own->gather_done_ns < (double)walk->gather_sum_ns[stage]) {
        gather_until(walk, stage, false, start_ns);
        if (slot->kind == TASK_FORWARD && slot->micro_batch == 0) {
            end_ns = gather_forward(walk, stage, slot->chunk, &start_ns, task_ns);
        } else {
            gather_until(walk, stage, true, end_ns);
        }
    }
    keep_tail(walk, stage, start_ns, end_ns);
    add_task(walk, stage, slot, start_ns, end_ns);
    own->busy_ns += task_ns;
    own->end_ns = end_ns;
    own->send_ns = 0;
    own->next++;
    walk->event_count++;
}

// Runs a stage until a slot waits for its input; wakes the stages it sends to.
static void run_stage(struct walk *walk, int stage, int *queue_end, int *queue_count)
{
    struct stage_walk *own = &walk->stages[stage];
    const struct slot *slots = walk->slots + (ptrdiff_t)stage * walk->slot_room;
    int backward_kind = walk->row->backward_fused ? TASK_WEIGHT : TASK_BACKWARD;
    while (own->next < walk->slot_count) {
        const struct slot *slot = &slots[own->next];
        struct input input = input_of(walk, stage, slot);
        if (input.arrive_ns < 0) return;
        run_slot(walk, stage, slot, input);
        if (slot->kind == TASK_FORWARD || slot->kind == backward_kind)
            send_all(walk, stage, slot, queue_end, queue_count);
    }
    own->end_ns += own->send_ns;
    own->blocked_ns += own->send_ns;
    own->send_ns = 0;
}

void walk_run(struct walk *walk, const struct engine_lane *lane)
{
    walk->lane = lane;
    if (lane) walk_set_count(walk, lane_rounds(lane, &walk->price->shape));
    int stage_count = walk->price->shape.stage_count;
    int64_t messages = (int64_t)walk->virtual_count * walk->price->shape.micro_batch_count;
    for (int direction = 0; direction < 2; direction++) {
        for (int64_t i = 0; i < messages; i++)
            walk->arrive_ns[direction][i] = -1;
    }
    for (int stage = 0; stage < stage_count; stage++)
        walk->stages[stage] = (struct stage_walk){0};
    set_durations(walk);

    int queue_first = 0, queue_end = 0, queue_count = 0;
    for (int stage = 0; stage < stage_count; stage++)
        wake(walk, stage, &queue_end, &queue_count);
    while (queue_count > 0) {
        int stage = walk->queue[queue_first];
        queue_first = (queue_first + 1) % stage_count;
        queue_count--;
        walk->queued[stage] = false;
        run_stage(walk, stage, &queue_end, &queue_count);
    }
    for (int stage = 0; stage < stage_count; stage++)
        assert(walk->stages[stage].next == walk->slot_count && "the schedule deadlocks");
}
