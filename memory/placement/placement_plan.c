#include "memory/placement/placement_plan.h"

#include "cost_models/memory.h"
#include "cost_models/offload.h"
#include "cost_models/parameters.h"
#include "memory/plan_chunk.h"
#include "memory/stage_slots.h"

#include <assert.h>
#include <math.h>
#include <string.h>

enum { MOMENTS_MOST = 1000, INTERVALS_MOST = 2500, CUT_AS = 3 };

// Parameters that are used and updated together: those of one block, or what blocks tie together.
struct holding {
    const char *tie;                    // NULL: of one block
    double elements;                    // before ZeRO
    double weights, gradients, states;  // elements that the rank has of it
    int pieces;
    int first;          // chunk of its first piece: parameters, then gradients, then states
    bool has_gradient;  // written in this step already
    bool is_updated;
};

// A block of the stage.
struct position {
    const struct block_program *block;
    int index;      // of the block program
    int *holdings;  // one a tie, and one of all that is not tied
    int holding_count;
};

struct making {
    struct arena *arena;
    const struct placement_question *question;
    const struct stack *stack;
    struct position *positions;
    int *first_position;  // [chunk of the stage], and one past the last
    int position_count;
    struct holding *holdings;
    int holding_count;
    const struct block_price *prices;  // [block program]
    struct stage_slots slots;
    struct placed_chunk *chunks;
    struct placed_moment *moments;
    int chunk_count, moment_count, moment_room;
    int *activation;  // [micro-batch * positions + position]: its chunk; -1
    struct placed_plan *plan;
};

static int holding_of(struct making *making, struct position *position, const char *tie)
{
    for (int i = 0; i < making->holding_count && tie; i++) {
        if (making->holdings[i].tie && strcmp(making->holdings[i].tie, tie) == 0) {
            for (int k = 0; k < position->holding_count; k++)
                if (position->holdings[k] == i) return i;
            position->holdings[position->holding_count++] = i;
            return i;
        }
    }
    for (int k = 0; k < position->holding_count && !tie; k++)
        if (!making->holdings[position->holdings[k]].tie) return position->holdings[k];
    making->holdings[making->holding_count] = (struct holding){.tie = tie};
    position->holdings[position->holding_count++] = making->holding_count;
    return making->holding_count++;
}

static void hold_parameters(struct making *making, struct position *position)
{
    const struct program *program = making->question->program;
    position->holdings = ARENA_NEW(making->arena, int, position->block->parameter_count + 1);
    for (int i = 0; i < position->block->parameter_count; i++) {
        const struct parameter *parameter = &position->block->parameters[i];
        int before = making->holding_count;
        int index = holding_of(making, position, parameter->tie);
        if (parameter->tie && index < before) continue;  // another block has it
        struct holding *holding = &making->holdings[index];
        struct storage storage = step_storage(program, parameter);
        double elements = (double)parameter->elements;
        holding->elements += elements;
        holding->weights += elements / mesh_size(&program->mesh, storage.weight_axes);
        holding->gradients += elements / mesh_size(&program->mesh, storage.gradient_axes);
        holding->states += elements / mesh_size(&program->mesh, storage.optimizer_axes);
    }
}

static void list_positions(struct making *making)
{
    const struct program *program = making->question->program;
    int chunk_count = program->shape.chunk_count, count = 0, tie_count = 0;
    for (int c = 0; c < chunk_count; c++)
        count += program->spans[making->question->stage * chunk_count + c].count;
    for (int b = 0; b < program->block_count; b++)
        tie_count += program->blocks[b]->parameter_count;  // at most
    making->positions = ARENA_NEW(making->arena, struct position, count);
    making->first_position = ARENA_NEW(making->arena, int, chunk_count + 1);
    making->holdings = ARENA_NEW(making->arena, struct holding, count + tie_count);
    for (int c = 0; c < chunk_count; c++) {
        int class = program->class_of[making->question->stage * chunk_count + c];
        const struct program_chunk *chunk = &program->chunks[class];
        for (int u = 0; u < chunk->use_count; u++) {
            for (int k = 0; k < chunk->uses[u].count; k++) {
                struct position *position = &making->positions[making->position_count++];
                position->index = chunk->uses[u].block_program;
                position->block = program->blocks[position->index];
                hold_parameters(making, position);
            }
        }
        making->first_position[c + 1] = making->position_count;
    }
    assert(making->position_count == count);
}

static void price_blocks(struct making *making)
{
    const struct program *program = making->question->program;
    const struct price_context *context = making->question->context;
    struct block_price *prices = ARENA_NEW(making->arena, struct block_price, program->block_count);
    struct price_context quiet = *context;
    quiet.ledger = NULL;
    unsigned overlap = step_overlap(making->stack, &program->parallel);
    for (int i = 0; i < program->block_count; i++) {
        struct program room;
        const struct program *seen = program_of_block(program, i, &room);
        prices[i] = block_price(&quiet, &seen->mesh, program->blocks[i], overlap);
    }
    making->prices = prices;
}

static bool is_legal(const struct program *program, int micro_batches)
{
    struct schedule_shape shape = program->shape;
    const char *why = NULL;
    shape.micro_batch_count = micro_batches;
    return schedule_row(program->parallel.schedule)->legal(&shape, &why);
}

static void choose_slots(struct making *making)
{
    const struct program *program = making->question->program;
    int stage = making->question->stage, all = program->shape.micro_batch_count;
    int least = stage_slots_cut(making->arena, program, stage);
    assert(making->position_count > 0);
    int count = MOMENTS_MOST / (2 * making->position_count);
    if (making->question->micro_batches > 0) count = making->question->micro_batches;
    if (count < least) count = least;
    if (count < 2) count = 2;  // so that gradients are added up
    if (count > all) count = all;
    while (count < all && !is_legal(program, count))
        count++;
    making->slots = stage_slots_of(making->arena, program, stage, count);
    making->plan->micro_batches = count;
}

static int pieces_of(double elements, double chunk_elements)
{
    return elements <= chunk_elements ? 1 : (int)ceil(elements / chunk_elements);
}

// Chunks of the size that wastes least, or of twice that and so on where there would be too many
// accesses. One piece is all of what is smaller.
static void cut_pieces(struct making *making)
{
    const struct program *program = making->question->program;
    struct plan_chunk chunk =
        plan_chunk_of(making->arena, program, making->stack, making->question->stage);
    double width = stack_gradient_bytes(making->stack, program->workload.precision);
    double elements = fmax(1, (double)chunk.chunk_bytes / width);
    // Asked for so many, all numbers up to CUT_AS have the same chunks.
    int asked = making->question->micro_batches, micro_batches = making->plan->micro_batches;
    if (asked > 0 && asked <= CUT_AS) micro_batches = CUT_AS;
    int interval_most =
        making->question->interval_most ? making->question->interval_most : INTERVALS_MOST;
    while (true) {
        int pieces = 0;
        for (int i = 0; i < making->holding_count; i++) {
            making->holdings[i].pieces = pieces_of(making->holdings[i].elements, elements);
            pieces += making->holdings[i].pieces;
        }
        bool is_few = 5 * pieces * micro_batches <= interval_most;
        if (is_few || pieces == making->holding_count) break;
        elements *= 2;
    }
}

static int add_chunk(struct making *making, enum placed_kind kind, double bytes)
{
    making->chunks[making->chunk_count] =
        (struct placed_chunk){kind, (int64_t)ceil(bytes), TIER_HOST};
    return making->chunk_count++;
}

static void make_chunks(struct making *making)
{
    const struct program *program = making->question->program;
    const struct stack *stack = making->stack;
    enum precision precision = program->workload.precision;
    enum optimizer optimizer = program->workload.optimizer;
    double weight = parameter_weight_bytes(precision);
    double gradient = stack_gradient_bytes(stack, precision);
    double state = making->question->updates_on_host
                       ? stack_host_state_bytes(stack, optimizer, precision)
                       : stack_state_bytes(stack, optimizer, precision);
    int most = making->position_count * making->plan->micro_batches;
    for (int i = 0; i < making->holding_count; i++)
        most += PLACED_ACTIVATIONS * making->holdings[i].pieces;
    making->chunks = ARENA_NEW(making->arena, struct placed_chunk, most);
    for (int i = 0; i < making->holding_count; i++) {
        struct holding *of = &making->holdings[i];
        of->first = making->chunk_count;
        for (int p = 0; p < of->pieces; p++)
            add_chunk(making, PLACED_PARAMETERS, of->weights * weight / of->pieces);
        for (int p = 0; p < of->pieces; p++)
            add_chunk(making, PLACED_GRADIENTS, of->gradients * gradient / of->pieces);
        for (int p = 0; p < of->pieces; p++)
            add_chunk(making, PLACED_OPTIMIZER, of->states * state / of->pieces);
    }
    int count = making->position_count * making->plan->micro_batches;
    making->activation = ARENA_NEW(making->arena, int, count);
    for (int i = 0; i < count; i++) {
        const struct block_program *block = making->positions[i % making->position_count].block;
        double bytes = memory_kept_bytes(stack, precision, block);
        making->activation[i] = bytes >= 1 ? add_chunk(making, PLACED_ACTIVATIONS, bytes) : -1;
    }
}

static struct placed_moment *add_moment(struct making *making, int access_most)
{
    assert(making->moment_count < making->moment_room);
    struct placed_moment *moment = &making->moments[making->moment_count++];
    *moment = (struct placed_moment){
        .accesses = ARENA_NEW(making->arena, struct placed_access, access_most),
        .work_bytes = making->plan->work_bytes,
    };
    return moment;
}

static void add_access(struct placed_moment *moment, int chunk, bool reads, bool writes)
{
    if (chunk < 0) return;
    struct placed_access *accesses = (struct placed_access *)moment->accesses;
    accesses[moment->access_count++] = (struct placed_access){chunk, reads, writes};
}

// An update of each piece: gradients die, and parameters are written anew from master weights where
// there are any.
static void add_updates(struct making *making, const struct position *position)
{
    const struct program *program = making->question->program;
    const struct price_context *context = making->question->context;
    bool on_host = making->question->updates_on_host;
    double weight_state =
        stack_state_bytes(making->stack, program->workload.optimizer, program->workload.precision) -
        making->stack->moment_bytes * optimizer_moment_count(program->workload.optimizer);
    for (int k = 0; k < position->holding_count; k++) {
        struct holding *of = &making->holdings[position->holdings[k]];
        if (of->is_updated) continue;
        of->is_updated = true;
        double elements = of->states / of->pieces;
        double own_s = update_s(&context->compute, program->workload.optimizer, elements);
        if (on_host)
            own_s =
                host_update(context, program, &(struct host_share){.elements = elements}).host_s;
        for (int p = 0; p < of->pieces; p++) {
            struct placed_moment *moment = add_moment(making, PLACED_ACTIVATIONS);
            add_access(moment, of->first + p, weight_state <= 0, true);
            add_access(moment, of->first + of->pieces + p, true, false);
            add_access(moment, of->first + 2 * of->pieces + p, true, true);
            moment->seconds = own_s;
            moment->on_host = on_host;
            moment->after_all = on_host && !step_streams(&program->workload);
            if (on_host) moment->work_bytes = 0;
        }
    }
}

static int pieces_at(const struct making *making, const struct position *position)
{
    int most = 1;
    for (int k = 0; k < position->holding_count; k++) {
        int pieces = making->holdings[position->holdings[k]].pieces;
        if (pieces > most) most = pieces;
    }
    return most;
}

// One way through a block, whose operators use its pieces in turn.
struct block_pass {
    double seconds;
    int activation;  // -1: none
    bool saves, loads;
    bool reads_parameters, makes_gradients, is_reversed;
};

static void add_pass(struct making *making, const struct position *position,
                     const struct block_pass *pass)
{
    int count = pieces_at(making, position);
    for (int i = 0; i < count; i++) {
        int p = pass->is_reversed ? count - 1 - i : i;
        struct placed_moment *moment = add_moment(making, 1 + 2 * position->holding_count);
        moment->seconds = pass->seconds / count;
        if (pass->loads) add_access(moment, pass->activation, true, false);
        if (pass->saves && i == count - 1) add_access(moment, pass->activation, false, true);
        for (int k = 0; k < position->holding_count; k++) {
            struct holding *of = &making->holdings[position->holdings[k]];
            if (p >= of->pieces) continue;
            if (pass->reads_parameters) add_access(moment, of->first + p, true, false);
            if (pass->makes_gradients)
                add_access(moment, of->first + of->pieces + p, of->has_gradient, true);
        }
    }
    for (int k = 0; k < position->holding_count && pass->makes_gradients; k++)
        making->holdings[position->holdings[k]].has_gradient = true;
}

// What is recomputed goes forward through the block once more.
static void add_block(struct making *making, const struct stage_slot *slot, int at)
{
    const struct position *position = &making->positions[at];
    const struct block_price *price = &making->prices[position->index];
    bool is_forward = slot->kind == TASK_FORWARD;
    struct block_pass pass = {
        .activation = making->activation[slot->micro_batch * making->position_count + at],
        .saves = is_forward,
        .loads = !is_forward,
        .reads_parameters = slot->kind != TASK_WEIGHT,
        .makes_gradients = slot->fused || slot->kind == TASK_WEIGHT,
        .is_reversed = !is_forward,
    };
    if (is_forward) pass.seconds = parts_s(price->phase_s[PHASE_FORWARD]);
    if (slot->kind == TASK_BACKWARD) pass.seconds = parts_s(price->phase_s[PHASE_BACKWARD]);
    if (pass.makes_gradients) pass.seconds += parts_s(price->phase_s[PHASE_WEIGHT]);
    double again_s = price->phase_s[PHASE_BACKWARD][PART_RECOMPUTE];
    if (slot->kind == TASK_BACKWARD && again_s > 0) {
        struct block_pass again = {.activation = pass.activation,
                                   .seconds = again_s,
                                   .loads = true,
                                   .reads_parameters = true};
        add_pass(making, position, &again);
        pass.seconds -= again_s;
    }
    add_pass(making, position, &pass);
}

static void add_slots(struct making *making)
{
    const struct program *program = making->question->program;
    bool streams = step_streams(&program->workload);
    int last = making->plan->micro_batches - 1;
    for (int i = 0; i < making->slots.count; i++) {
        const struct stage_slot *slot = &making->slots.slots[i];
        int from = making->first_position[slot->chunk];
        int count = making->first_position[slot->chunk + 1] - from;
        bool makes_gradients = slot->fused || slot->kind == TASK_WEIGHT;
        for (int k = 0; k < count; k++) {
            int at = slot->kind == TASK_FORWARD ? from + k : from + count - 1 - k;
            add_block(making, slot, at);
            // Of what blocks tie together the first has the last gradient.
            bool is_last = makes_gradients && slot->micro_batch == last && streams;
            bool is_tied = making->positions[at].holding_count > 1;
            if (is_last && !is_tied) add_updates(making, &making->positions[at]);
        }
    }
    int count = making->position_count;
    for (int i = 0; i < count; i++) {
        int at = making->question->updates_ahead ? i : count - 1 - i;
        add_updates(making, &making->positions[at]);
    }
}

static void make_moments(struct making *making)
{
    for (int i = 0; i < making->holding_count; i++)
        making->moment_room += making->holdings[i].pieces;
    for (int i = 0; i < making->position_count; i++)
        making->moment_room += 2 * making->slots.count * pieces_at(making, &making->positions[i]);
    making->moments = ARENA_NEW(making->arena, struct placed_moment, making->moment_room);
    add_slots(making);
}

// What is alive of activations at the most; of the other kinds everything.
static void sum_kinds(struct making *making)
{
    struct placed_plan *plan = making->plan;
    int64_t alive = 0;
    int *last = ARENA_NEW(making->arena, int, making->chunk_count);
    for (int c = 0; c < making->chunk_count; c++) {
        const struct placed_chunk *chunk = &making->chunks[c];
        if (chunk->kind != PLACED_ACTIVATIONS) plan->kind_bytes[chunk->kind] += chunk->bytes;
    }
    for (int t = 0; t < making->moment_count; t++) {
        for (int i = 0; i < making->moments[t].access_count; i++)
            last[making->moments[t].accesses[i].chunk] = t;
    }
    for (int t = 0; t < making->moment_count; t++) {
        const struct placed_moment *moment = &making->moments[t];
        for (int i = 0; i < moment->access_count; i++) {
            const struct placed_access *access = &moment->accesses[i];
            const struct placed_chunk *chunk = &making->chunks[access->chunk];
            if (chunk->kind != PLACED_ACTIVATIONS) continue;
            if (access->writes) alive += chunk->bytes;
            if (alive > plan->kind_bytes[PLACED_ACTIVATIONS])
                plan->kind_bytes[PLACED_ACTIVATIONS] = alive;
            if (last[access->chunk] == t) alive -= chunk->bytes;
        }
    }
    for (int kind = 0; kind < PLACED_KIND_COUNT; kind++)
        plan->all_bytes += plan->kind_bytes[kind];
}

static int64_t work_bytes(const struct making *making)
{
    struct memory_parts parts =
        memory_of_stage(making->question->program, making->stack, making->question->stage);
    return parts.transient_bytes + parts.logits_bytes + parts.buffers_bytes + parts.reserve_bytes;
}

bool placed_plan_make(struct arena *arena, const struct placement_question *question,
                      struct placed_plan *plan, struct err *err)
{
    *plan = (struct placed_plan){0};
    struct making making = {.arena = arena,
                            .question = question,
                            .stack = question->context->compute.stack,
                            .plan = plan};
    const struct price_context *context = question->context;
    list_positions(&making);
    price_blocks(&making);
    choose_slots(&making);
    cut_pieces(&making);
    make_chunks(&making);
    plan->work_bytes = work_bytes(&making);
    make_moments(&making);
    sum_kinds(&making);
    if (!placed_homes(arena, question->program->cluster, making.chunks, making.chunk_count, plan,
                      err))
        return false;
    double link = offload_bytes_per_s(context, TIER_HOST);
    plan->problem = (struct placement_problem){
        .chunks = making.chunks,
        .chunk_count = making.chunk_count,
        .moments = making.moments,
        .moment_count = making.moment_count,
        .device_bytes = question->device_bytes,
        .up_bytes_per_s = link,
        .down_bytes_per_s = link,
        .nvme_bytes_per_s =
            plan->home_bytes[TIER_NVME] > 0 ? offload_bytes_per_s(context, TIER_NVME) : 0,
        .nvme_duplex_ratio = offload_duplex_ratio(context),
        .start_s = context->compute.device->launch_latency_s,
    };
    return true;
}
