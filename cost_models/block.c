#include "cost_models/exchanges.h"
#include "cost_models/gradient_sums.h"
#include "cost_models/host.h"
#include "cost_models/ledger.h"
#include "cost_models/losses.h"
#include "cost_models/offload.h"

#include <assert.h>
#include <math.h>
#include <string.h>

// One micro-batch through one block: instructions priced and added up by phase, then what hides
// behind compute, then what the host cannot launch in time.

enum { GROUP_MAX = 16, PRICE_MAX = 48 };

// Collectives that can be sent piece by piece beside the kernels that make or need the pieces.
static const unsigned CHUNKED = 1u << COLLECTIVE_ALL_GATHER | 1u << COLLECTIVE_REDUCE_SCATTER;

// Groups and collectives that this call has already looked up: a layer repeats few of them.
struct memo {
    const struct price_context *context;
    const struct mesh *mesh;
    int group_count, price_count;
    struct {
        unsigned axes;
        struct group_shape shape;
    } groups[GROUP_MAX];
    struct memo_price {
        enum collective collective;
        int rows;
        unsigned axes;
        double bytes;
        struct collective_cost cost;
    } prices[PRICE_MAX];
};

// What goes round while one attention works through it: in every step each rank hands a piece of
// all its payloads to its neighbour.
struct ring {
    double step_bytes;
    int step_count;
    unsigned axes;
    enum part part;
    double attention_s;
    int instr;  // 1 + number of the first that is streamed
};

// Seconds of one phase by kind.
struct tally {
    double compute_s, recompute_s;
    double sums_s;                // in compute_s, of gradients beside operators
    double comm_s[PART_COUNT];    // activations
    double dispatch_s;            // of them, rows of experts on their way to experts and back
    double chunked_s;             // of it what tp gathers and scatters: sent piece by piece
    struct ring rings[2];         // of first and of recomputed work
    double gather_s, scatter_s;   // parameters and their gradients (ZeRO 2 and 3)
    double fetch_s, fetch_share;  // parameters from the host; of micro-batches, that fetch them
    double read_s;                // of it what reading a drive takes beyond the copy
    double hiding_s;              // of the phase that communication is hidden behind
    double hideable_s;            // that is not hidden, for want of compute to do it behind
    double kernel_count;
    double host_s;  // beside launching kernels
};

struct block_work {
    struct exchange *exchanges;
    int exchange_count;
    struct tally tallies[PHASE_COUNT];  // without what the exchanges take
    unsigned axes;
    double adding_s;  // see struct block_price
    bool each_time;   // gradients begin in every micro-batch
};

static const struct group_shape *find_group(struct memo *memo, unsigned axes)
{
    for (int i = 0; i < memo->group_count; i++)
        if (memo->groups[i].axes == axes) return &memo->groups[i].shape;
    int at = memo->group_count < GROUP_MAX ? memo->group_count++ : GROUP_MAX - 1;
    memo->groups[at].axes = axes;
    memo->groups[at].shape = price_group(memo->context, memo->mesh, axes);
    return &memo->groups[at].shape;
}

// `routing` of a dispatch that sends a token once to a place, the same in all of a block; without
// rows for every other collective.
static struct collective_cost cost_of(struct memo *memo, enum collective collective,
                                      const struct routing *routing, unsigned axes, double bytes)
{
    for (int i = 0; i < memo->price_count; i++) {
        if (memo->prices[i].collective == collective && memo->prices[i].rows == routing->rows &&
            memo->prices[i].axes == axes && memo->prices[i].bytes == bytes) {
            return memo->prices[i].cost;
        }
    }
    const struct price_context *context = memo->context;
    const struct group_shape *group = find_group(memo, axes);
    double scale = context->compute.stack->network_scale;
    struct collective_cost cost =
        routing->rows ? dispatch_price(context->fabrics, group, routing, bytes, scale)
                      : collective_price(context->fabrics, group, collective, bytes, scale);
    if (memo->price_count < PRICE_MAX) {
        memo->prices[memo->price_count++] =
            (struct memo_price){collective, routing->rows, axes, bytes, cost};
    }
    return cost;
}

static void add_streamed(const struct mesh *mesh, const struct block_program *program,
                         const struct instr *instr, struct tally *tally)
{
    struct ring *ring = &tally->rings[instr->recompute];
    assert(ring->step_count == 0 || ring->axes == instr->axes);
    // The payloads of a step are sent together.
    if (ring->step_count == 0) tally->kernel_count += instr->stream_steps;
    if (ring->step_count == 0) ring->instr = 1 + (int)(instr - program->instrs);
    if (instr->stream_steps > ring->step_count) ring->step_count = instr->stream_steps;
    ring->step_bytes += (double)instr->bytes / mesh_size(mesh, instr->axes);
    ring->axes = instr->axes;
    ring->part = part_of_axis(instr->parent);
}

static void note_exchange(struct memo *memo, const struct exchange *exchange, double count,
                          const struct collective_cost *cost, double exposed_s)
{
    if (!memo->context->ledger) return;
    ledger_add_exchange(memo->context->ledger, exchange, find_group(memo, exchange->axes), count,
                        cost, exposed_s);
}

static void add_exchange(struct memo *memo, const struct exchange *exchange, struct tally *tallies)
{
    struct tally *tally = &tallies[exchange->phase];
    struct collective_cost cost = exchange->kind == EXCHANGE_FETCH
                                      ? exchange_fetch_cost(memo->context, exchange)
                                      : cost_of(memo, exchange->collective, &exchange->routing,
                                                exchange->axes, exchange->bytes);
    double s = cost.s;
    assert(isfinite(s) && s >= 0 && exchange->share > 0 && exchange->share <= 1);
    tally->host_s += exchange_sync_s(memo->context, memo->mesh, exchange);
    note_exchange(memo, exchange, exchange->share, &cost, exchange->share * s);
    if (exchange->kind == EXCHANGE_FETCH) tally->fetch_share = exchange->share;
    if (exchange->deep) tally->read_s += s - copies_s(memo->context, TIER_HOST, exchange->bytes, 1);
    *(exchange->kind == EXCHANGE_GATHER    ? &tally->gather_s
      : exchange->kind == EXCHANGE_SCATTER ? &tally->scatter_s
      : exchange->kind == EXCHANGE_FETCH   ? &tally->fetch_s
                                           : &tally->comm_s[exchange->part]) += s;
    if (exchange->collective == COLLECTIVE_ALL_TO_ALL && exchange->overlap == OVERLAP_EP)
        tally->dispatch_s += s;
    bool is_tp = exchange->kind == EXCHANGE_ACTIVATION && exchange->overlap == OVERLAP_TP;
    if (is_tp && CHUNKED >> exchange->collective & 1) tally->chunked_s += s;
}

static void add_compute(const struct price_context *context, const struct block_program *program,
                        const struct instr *instr, struct tally *tally)
{
    struct compute_cost cost = compute_price(&context->compute, program, instr);
    assert(isfinite(cost.s) && cost.s >= 0 && cost.kernel_count >= 0);
    ledger_add_operator(context->ledger, program, instr, &cost);
    bool attends = instr->kind == OP_ATTENTION || instr->kind == OP_ATTENTION_BACKWARD;
    *(instr->recompute ? &tally->recompute_s : &tally->compute_s) += cost.s;
    if (attends) tally->rings[instr->recompute].attention_s += cost.s;
    tally->kernel_count += cost.kernel_count;
    tally->host_s += cost.host_s;
}

static double host_s_of(const struct stack *stack, const struct tally *tally)
{
    return tally->kernel_count * stack->host_op_s + tally->host_s;
}

// While one phase computes or its device waits for the host, transfers may proceed.
static double window_of(const struct stack *stack, const struct tally *tally)
{
    double busy_s = tally->compute_s + tally->recompute_s;
    return busy_s + host_wait_s(stack, busy_s, host_s_of(stack, tally));
}

static double hide(double *exposed_s, double most_s)
{
    double hidden_s = fmin(*exposed_s, most_s);
    *exposed_s -= hidden_s;
    return hidden_s;
}

// Parameters are gathered ahead and gradients scattered behind, while the phases from `first` to
// `last` compute or wait for the host; what does not fit is exposed. Without the wait, work that is
// recomputed in it would seem to win time. Compute beside communication is slower.
static void overlap_parameters(const struct stack *stack, unsigned overlap, struct tally *tallies,
                               int first, int last)
{
    double window_s = 0, wanted_s = 0;
    bool gathers = overlap & OVERLAP_PARAM_GATHER, scatters = overlap & OVERLAP_GRAD_REDUCE;
    for (int phase = first; phase <= last; phase++) {
        const struct tally *tally = &tallies[phase];
        window_s += window_of(stack, tally);
        wanted_s += (gathers ? tally->gather_s : 0) + (scatters ? tally->scatter_s : 0);
    }
    if (wanted_s <= 0) return;
    double hidden_ratio = fmin(1, stack->overlap_ratio * window_s / wanted_s);
    double slowed_s = 0;
    for (int phase = first; phase <= last; phase++) {
        struct tally *tally = &tallies[phase];
        if (gathers) slowed_s += hide(&tally->gather_s, tally->gather_s * hidden_ratio);
        if (scatters) slowed_s += hide(&tally->scatter_s, tally->scatter_s * hidden_ratio);
    }
    for (int phase = first; phase <= last && window_s > 0; phase++)
        tallies[phase].hiding_s = slowed_s * window_of(stack, &tallies[phase]) / window_s;
    tallies[last].compute_s += slowed_s * stack->contention_ratio;
}

// Parameters come from the host beside what the blocks in front compute: as long as this one does,
// and behind what of that hides other parameters. Returns the seconds.
static double overlap_fetches(const struct stack *stack, unsigned overlap, struct tally *tallies,
                              int first, int last)
{
    double window_s = 0, fetch_s = tallies[first].fetch_s;
    if (fetch_s <= 0) return 0;
    for (int phase = first; phase <= last; phase++)
        window_s += window_of(stack, &tallies[phase]) - tallies[phase].hiding_s;
    if (window_s <= 0) return 0;
    // Where copies wait a thread reads a drive ahead of them all the same.
    bool copies = overlap & OVERLAP_PARAM_GATHER;
    double hidden_s = fmin(window_s, copies ? fetch_s : tallies[first].read_s);
    for (int phase = first; phase <= last; phase++) {
        struct tally *tally = &tallies[phase];
        double left_s = window_of(stack, tally) - tally->hiding_s;
        tally->hiding_s += tallies[first].fetch_share * hidden_s * left_s / window_s;
    }
    (void)hide(&tallies[first].fetch_s, hidden_s);
    return copies ? hidden_s : 0;
}

// A piece is sent on while attention works on it; what the work on one piece does not cover is
// waited for, in every step. Of that work parameters have had all but `left_ratio`. Returns the
// seconds that are covered.
static double overlap_ring(struct memo *memo, unsigned overlap, enum phase phase,
                           const struct ring *ring, double left_ratio, struct tally *tally)
{
    if (ring->step_count == 0) return 0;
    struct exchange exchange = {.phase = phase,
                                .part = ring->part,
                                .collective = COLLECTIVE_SEND_RECV,
                                .axes = ring->axes,
                                .bytes = ring->step_bytes,
                                .instr = ring->instr};
    struct collective_cost send =
        cost_of(memo, exchange.collective, &exchange.routing, exchange.axes, exchange.bytes);
    double piece_s = left_ratio * ring->attention_s / (ring->step_count + 1);
    double hidden_s = overlap & OVERLAP_CP ? fmin(send.s, piece_s) : 0;
    double exposed_s = ring->step_count * (send.s - hidden_s);
    if (overlap & OVERLAP_CP) tally->hideable_s += exposed_s;
    note_exchange(memo, &exchange, ring->step_count, &send, exposed_s);
    tally->comm_s[ring->part] += exposed_s;
    return ring->step_count * hidden_s;
}

// Parts are handed on beside work on them. Returns what that covers; the rest is waited for.
static double overlap_relays(struct memo *memo, unsigned overlap, enum phase phase,
                             const struct block_work *work, double left_ratio, struct tally *tally)
{
    double covered_s = 0;
    for (int i = 0; i < work->exchange_count; i++) {
        const struct exchange *exchange = &work->exchanges[i];
        if (!exchange->is_relay || exchange->phase != phase) continue;
        struct collective_cost cost = cost_of(memo, exchange->collective, &exchange->routing,
                                              exchange->axes, exchange->bytes);
        double most_s = overlap & exchange->overlap ? left_ratio * exchange->beside_s : 0;
        double exposed_s = fmax(0, cost.s - most_s);
        tally->hideable_s += most_s > 0 ? exposed_s : 0;
        note_exchange(memo, exchange, 1, &cost, exposed_s);
        tally->comm_s[exchange->part] += exposed_s;
        covered_s += cost.s - exposed_s;
    }
    return covered_s;
}

// Rows travel while another micro-batch is computed, by what multiprocessors their kernels leave to
// it, and behind what nothing else is hidden behind: `left_s` of the window. Experts that are cut
// (etp) gather and scatter rows as well, which waits. Returns by how much compute takes longer.
static double overlap_dispatch(const struct compute_context *compute, double window_s,
                               double left_s, struct tally *tally)
{
    const struct stack *stack = compute->stack;
    left_s = fmin(stack->overlap_ratio * window_s, left_s);
    double hidden_s = fmin(stack->ep_overlap_ratio * tally->dispatch_s, left_s);
    tally->comm_s[PART_EP] -= hidden_s;
    tally->hiding_s += hidden_s;
    tally->hideable_s += stack->ep_overlap_ratio * tally->dispatch_s - hidden_s;
    double taken_ratio = stack->expert_comm_units / compute->device->multiprocessor_count;
    return hidden_s * fmin(1, fmax(stack->contention_ratio, taken_ratio));
}

// A second of compute hides a second of communication and no more: were it lent to two kinds, a
// faster device would expose both, and be slower.
static void overlap_activations(struct memo *memo, unsigned overlap, enum phase phase,
                                const struct block_work *work, struct tally *tally)
{
    const struct stack *stack = memo->context->compute.stack;
    double window_s = window_of(stack, tally), left_s = window_s - tally->hiding_s;
    double left_ratio = window_s > 0 ? left_s / window_s : 1;
    double slowed_s = overlap_ring(memo, overlap, phase, &tally->rings[0], left_ratio, tally) +
                      overlap_ring(memo, overlap, phase, &tally->rings[1], left_ratio, tally);
    slowed_s += overlap_relays(memo, overlap, phase, work, left_ratio, tally);
    tally->hiding_s += slowed_s;
    left_s -= slowed_s;
    if (overlap & OVERLAP_TP) {
        double most_s = fmin(left_s, tally->compute_s + tally->recompute_s);
        most_s = fmin(stack->tp_overlap_ratio * tally->chunked_s, most_s);
        double hidden_s = hide(&tally->comm_s[PART_TP], fmax(most_s, 0));
        tally->hideable_s += fmax(0, stack->tp_overlap_ratio * tally->chunked_s - hidden_s);
        tally->hiding_s += hidden_s;
        left_s -= hidden_s;
    }
    slowed_s *= stack->contention_ratio;
    if (overlap & OVERLAP_EP)
        slowed_s += overlap_dispatch(&memo->context->compute, window_s, left_s, tally);
    tally->compute_s += slowed_s;
}

static double device_s_of(const struct tally *tally)
{
    double device_s = tally->compute_s + tally->recompute_s + tally->gather_s + tally->scatter_s;
    device_s += tally->fetch_s;
    for (int part = 0; part < PART_COUNT; part++)
        device_s += tally->comm_s[part];
    return device_s;
}

// The device waits for the host, or for what is hidden in that wait: exposed communication shortens
// the wait, but has no room in it beside what is there. Returns what more compute would hide.
static double write_phase(const struct tally *tally, double host_wait_s, double phase_s[PART_COUNT])
{
    double wait_s = fmax(host_wait_s, tally->hiding_s - (tally->compute_s + tally->recompute_s));
    assert(isfinite(wait_s) && wait_s >= -1e-9 * device_s_of(tally));
    memcpy(phase_s, tally->comm_s, sizeof tally->comm_s);
    phase_s[PART_COMPUTE] += tally->compute_s + wait_s;
    phase_s[PART_RECOMPUTE] += tally->recompute_s;
    phase_s[PART_DP] += tally->gather_s + tally->scatter_s;
    phase_s[PART_OFFLOAD] += tally->fetch_s;
    return tally->hideable_s + tally->gather_s + tally->scatter_s + tally->fetch_s + wait_s;
}

// What a graph takes off the host, and what it costs where it replays a whole layer of experts.
static void add_graph(const struct compute_context *context, const struct block_program *program,
                      struct ledger *ledger, struct tally *tallies)
{
    double left_ratio = compute_host_ratio(context, program);
    for (int phase = 0; phase < PHASE_COUNT; phase++) {
        tallies[phase].kernel_count *= left_ratio;
        tallies[phase].host_s *= left_ratio;
    }
    if (left_ratio > 0) return;
    double stash_s = context->stack->expert_stash_ratio * compute_stash_s(context, program);
    tallies[PHASE_FORWARD].compute_s += stash_s;
    tallies[PHASE_BACKWARD].compute_s += stash_s;
    ledger_add_time(ledger, ENTRY_OPERATOR, PHASE_FORWARD, "expert stash", stash_s, 0);
    ledger_add_time(ledger, ENTRY_OPERATOR, PHASE_BACKWARD, "expert stash", stash_s, 0);
}

static void add_losses(const struct price_context *context, const struct block_program *program,
                       struct tally *tallies)
{
    struct loss_price price = loss_price(context, program);
    tallies[PHASE_FORWARD].compute_s += price.loss_s;
    tallies[PHASE_BACKWARD].compute_s += price.seed_s;
}

// Adds up the work of a program. Exchanges are listed, or, given `memo`, priced but for relays.
static void add_program(const struct price_context *context, const struct mesh *mesh,
                        const struct block_program *program, struct memo *memo,
                        struct block_work *work)
{
    for (int i = 0; i < program->instr_count; i++) {
        const struct instr *instr = &program->instrs[i];
        struct tally *tally = &work->tallies[instr->phase];
        work->axes |= instr->axes;
        if (instr->collective == COLLECTIVE_NONE || instr->collective == COLLECTIVE_SLICE) {
            add_compute(context, program, instr, tally);
        } else if (instr->streamed) {
            add_streamed(mesh, program, instr, tally);
        } else {
            struct exchange exchange = exchange_of(context, program, instr);
            if (memo && !exchange.is_relay) {
                add_exchange(memo, &exchange, work->tallies);
            } else {
                work->exchanges[work->exchange_count++] = exchange;
            }
            tally->kernel_count += exchange.share;
        }
    }
    add_losses(context, program, work->tallies);
    work->adding_s = gradients_adding_s(context, program);
    work->each_time = program->begins.each_time;
    work->tallies[PHASE_WEIGHT].sums_s = gradient_sums_s(context, program);
    work->tallies[PHASE_WEIGHT].compute_s += work->tallies[PHASE_WEIGHT].sums_s;
    add_graph(&context->compute, program, context->ledger, work->tallies);
}

struct block_work *block_work(struct arena *arena, const struct price_context *context,
                              const struct mesh *mesh, const struct block_program *program)
{
    struct block_work *work = ARENA_NEW(arena, struct block_work, 1);
    int collective_count = 0;
    for (int i = 0; i < program->instr_count; i++)
        collective_count += program->instrs[i].collective != COLLECTIVE_NONE;
    work->exchanges = ARENA_NEW(arena, struct exchange, collective_count);
    add_program(context, mesh, program, NULL, work);
    assert(work->exchange_count <= collective_count);
    return work;
}

unsigned block_work_axes(const struct block_work *work)
{
    return work->axes;
}

static void add_storage(struct memo *memo, const struct block_work *storage, struct tally *tallies)
{
    for (int i = 0; i < storage->exchange_count; i++)
        add_exchange(memo, &storage->exchanges[i], tallies);
    for (int phase = 0; phase < PHASE_COUNT; phase++) {
        tallies[phase].kernel_count += storage->tallies[phase].kernel_count;
        tallies[phase].compute_s += storage->tallies[phase].sums_s;
    }
}

static void memo_start(struct memo *memo, const struct price_context *context,
                       const struct mesh *mesh)
{
    memo->context = context;
    memo->mesh = mesh;
    memo->group_count = memo->price_count = 0;
}

static struct block_price price_of(struct memo *memo, const struct block_work *work,
                                   struct tally *tallies, unsigned overlap)
{
    const struct stack *stack = memo->context->compute.stack;
    overlap_parameters(stack, overlap, tallies, PHASE_FORWARD, PHASE_FORWARD);
    int last = overlap & OVERLAP_APART ? PHASE_BACKWARD : PHASE_WEIGHT;
    overlap_parameters(stack, overlap, tallies, PHASE_BACKWARD, last);
    overlap_parameters(stack, overlap, tallies, last + 1, PHASE_WEIGHT);
    overlap_fetches(stack, overlap, tallies, PHASE_FORWARD, PHASE_FORWARD);
    tallies[PHASE_FORWARD].fetch_s *= tallies[PHASE_FORWARD].fetch_share;
    struct block_price price = {.adding_s = work->adding_s};
    price.fetched_s = overlap_fetches(stack, overlap, tallies, PHASE_BACKWARD, last);
    double device_s[PHASE_COUNT], host_s[PHASE_COUNT], wait_s[PHASE_COUNT];
    for (int phase = 0; phase < PHASE_COUNT; phase++) {
        overlap_activations(memo, overlap, (enum phase)phase, work, &tallies[phase]);
        device_s[phase] = device_s_of(&tallies[phase]);
        host_s[phase] = host_s_of(stack, &tallies[phase]);
    }
    host_waits(stack, device_s, host_s, wait_s);
    for (int phase = 0; phase < PHASE_COUNT; phase++) {
        struct tally *tally = &tallies[phase];
        double hideable_s = write_phase(tally, wait_s[phase], price.phase_s[phase]);
        if (phase != PHASE_FORWARD) price.hideable_s += hideable_s;
        struct phase_end end = {.gather_s = tally->gather_s,
                                .scatter_s = tally->scatter_s,
                                .fetch_s = tally->fetch_s,
                                .comm_s = tally->comm_s,
                                .compute_s = tally->compute_s,
                                .with_host_s = price.phase_s[phase][PART_COMPUTE],
                                .hidden = {[PART_TP] = CHUNKED | 1u << COLLECTIVE_SEND_RECV,
                                           [PART_EP] = 1u << COLLECTIVE_ALL_TO_ALL}};
        ledger_end_phase(memo->context->ledger, (enum phase)phase, &end);
    }
    return price;
}

struct block_price block_work_price(const struct price_context *context, const struct mesh *mesh,
                                    const struct block_work *work, const struct block_work *storage,
                                    unsigned overlap)
{
    struct memo memo;
    memo_start(&memo, context, mesh);
    struct tally tallies[PHASE_COUNT];
    memcpy(tallies, work->tallies, sizeof tallies);
    if (storage) add_storage(&memo, storage, tallies);
    for (int i = 0; i < work->exchange_count; i++)
        if (!work->exchanges[i].is_relay) add_exchange(&memo, &work->exchanges[i], tallies);
    struct block_price price = price_of(&memo, work, tallies, overlap);
    if (storage && storage->each_time) price.adding_s = 0;
    return price;
}

struct block_price block_price(const struct price_context *context, const struct mesh *mesh,
                               const struct block_program *program, unsigned overlap)
{
    struct memo memo;
    memo_start(&memo, context, mesh);
    struct arena scratch = {0};
    struct block_work work = {.exchanges =
                                  ARENA_NEW(&scratch, struct exchange, program->instr_count)};
    add_program(context, mesh, program, &memo, &work);
    struct block_price price = price_of(&memo, &work, work.tallies, overlap);
    arena_free(&scratch);
    return price;
}
