#include "simulator/kernels_account.h"

#include "cost_models/gemm.h"
#include "cost_models/gradient_sums.h"

#include <assert.h>
#include <math.h>

static double peak_of(const struct price_context *context, const struct block_program *block,
                      const struct instr *instr)
{
    const struct compute_context *compute = &context->compute;
    enum precision precision = gemm_is_low_precision(compute, block, instr)
                                   ? compute->precision
                                   : wide_precision(compute->device, compute->precision);
    return compute->device->peak_flop_per_s[precision];
}

static double roof_of(const struct price_context *context, const struct block_program *block,
                      const struct ledger_line *line)
{
    double bytes_s = line->bytes / context->compute.device->memory_bandwidth_bytes_per_s;
    if (line->flop <= 0) return bytes_s;
    return fmax(line->flop / peak_of(context, block, line->instr), bytes_s);
}

// The row of the kernel that this is a part of; else a row of its own.
static struct kernel_account *row_of(const struct block_program *block,
                                     const struct ledger_line *line, struct layer_account *layer)
{
    int first = line->instr ? line->instr->kernel - 1 : -1;
    for (int k = layer->kernel_count - 1; k >= 0 && first >= 0; k--)
        if (layer->kernels[k].price.instr == &block->instrs[first]) return &layer->kernels[k];
    struct kernel_account *own = &layer->kernels[layer->kernel_count++];
    *own = (struct kernel_account){.price = *line};
    own->price.s = own->price.joined = 0;
    return own;
}

static void add_kernel(const struct price_context *context, const struct block_program *block,
                       const struct ledger_line *line, double alone_s, struct layer_account *layer)
{
    assert(line->bytes >= 0 && line->flop >= 0 && line->count > 0);
    struct kernel_account *kernel = row_of(block, line, layer);
    double launches = line->count * line->launch_count, roof_s = roof_of(context, block, line);
    kernel->price.s += line->s;
    kernel->price.joined += line->joined;
    kernel->flop += line->flop;
    kernel->bytes += line->bytes;
    kernel->launch_count += launches;
    kernel->roof_s += roof_s;
    kernel->alone_s += alone_s;
    assert(roof_s >= 0 && kernel->launch_count > 0);
    layer->launch_count += launches;
    layer->flop += line->flop;
    layer->roof_s += roof_s;
    layer->alone_s += alone_s;
    layer->s += line->s;
}

// Work that no kernel does (zeros are written by a copy engine) is in the sum alone.
static void add_line(const struct price_context *context, const struct block_program *block,
                     const struct ledger_line *line, double alone_s, struct layer_account *layer)
{
    bool is_part = line->instr && line->instr->kernel;
    switch (line->entry) {
    case ENTRY_OPERATOR:
        if (line->launch_count > 0 || is_part) {
            add_kernel(context, block, line, alone_s, layer);
        } else {
            layer->s += line->s;
        }
        break;
    case ENTRY_EXCHANGE:
    case ENTRY_CONTENTION:
        layer->communication_s += line->exposed_s;
        break;
    case ENTRY_HOST:
        layer->host_s += line->s;
        break;
    default:
        break;
    }
}

// What adds to gradients in all micro-batches but the first is priced with those of a chunk.
static void add_sums(const struct price_context *context, const struct program *program,
                     const struct block_program *block, struct layer_account *layer)
{
    double rounds = step_rounds(context, program), adding = (rounds - 1) / rounds;
    double count = block->begins.each_time ? 0 : adding * block->begins.added_sums;
    for (int k = 0; k < layer->kernel_count && stack_is_executed(context->compute.stack); k++) {
        struct ledger_line *price = &layer->kernels[k].price;
        if (!price->instr || price->phase != PHASE_WEIGHT) continue;
        double s = adding * gradient_adding_s(context, block, price->instr);
        price->s += s, layer->s += s;
    }
    struct ledger_line line = {.entry = ENTRY_BEGIN,
                               .what = GRADIENT_ADDED_SUM,
                               .phase = PHASE_WEIGHT,
                               .count = count,
                               .launch_count = 1,
                               .s = count * context->compute.device->launch_latency_s};
    // Of so few numbers that alone, without the gap in front, it takes no time worth a line.
    if (count > 0) add_kernel(context, block, &line, 0, layer);
}

// Repetitions of a block program in one micro-batch, on all stages together.
static int uses_of(const struct program *program, int block)
{
    int uses = 0;
    for (int at = 0; at < program->shape.stage_count * program->shape.chunk_count; at++) {
        const struct program_chunk *chunk = &program->chunks[program->class_of[at]];
        for (int u = 0; u < chunk->use_count; u++)
            uses += chunk->uses[u].block_program == block ? chunk->uses[u].count : 0;
    }
    return uses;
}

static bool is_recomputed(const struct ledger *ledger, int block)
{
    for (int i = 0; i < ledger->count; i++)
        if (ledger->lines[i].block == block && ledger->lines[i].recompute) return true;
    return false;
}

static struct ledger *ledger_of(struct arena *arena, struct price_context context,
                                const struct program *program)
{
    struct ledger *ledger = ARENA_NEW(arena, struct ledger, 1);
    *ledger = ledger_new(arena);
    context.ledger = ledger;
    (void)step_price(arena, &context, program);
    return ledger;
}

// The same prices with every kernel alone; NULL where the device does not say how fast that is.
static const struct ledger *ledger_alone(struct arena *arena, struct price_context context,
                                         const struct program *program)
{
    struct compute_context *compute = &context.compute;
    enum precision wide = wide_precision(compute->device, compute->precision);
    struct device *device = device_alone(arena, compute->device, compute->precision);
    if (!device || device->efficiency.gemm_ratio[wide] <= 0) return NULL;
    struct stack *stack = stack_copy(arena, compute->stack);
    stack->gemm_scale = stack->element_wise_scale = 1;
    stack->attention_forward_scale = stack->attention_backward_scale = 1;
    compute->device = device;
    compute->stack = stack;
    return ledger_of(arena, context, program);
}

// Of operator lines, which every ledger of a program has in the same order, the next one's from
// `*at` on.
static double next_alone_s(const struct ledger *alone, const struct ledger_line *line, int *at)
{
    if (!alone || line->entry != ENTRY_OPERATOR) return 0;
    while (alone->lines[*at].entry != ENTRY_OPERATOR)
        *at += 1;
    const struct ledger_line *same = &alone->lines[(*at)++];
    assert(same->instr == line->instr && same->block == line->block && *at <= alone->count);
    return same->s;
}

struct kernels_account kernels_account_make(struct arena *arena,
                                            const struct evaluation_request *request,
                                            const struct evaluation *evaluation)
{
    struct price_context context = evaluation_context(request);
    const struct program *program = evaluation->program;
    const struct ledger *ledger = ledger_of(arena, context, program);
    const struct ledger *alone = ledger_alone(arena, context, program);
    struct kernels_account account = {
        .device = context.compute.device,
        .peak_flop_per_s = context.compute.device->peak_flop_per_s[context.compute.precision],
        .has_alone = alone != NULL,
        .layers = ARENA_NEW(arena, struct layer_account, program->block_count),
    };
    for (int b = 0; b < program->block_count; b++) {
        const struct block_program *block = program->blocks[b];
        int uses = block ? uses_of(program, b) : 0;
        if (uses == 0 || block->block->role != BLOCK_LAYER) continue;
        assert(account.layer_count < program->block_count);
        struct layer_account *layer = &account.layers[account.layer_count++];
        *layer = (struct layer_account){
            .name = block->block->name,
            .recomputed = is_recomputed(ledger, b),
            .layer_count = uses,
            .kernels = ARENA_NEW(arena, struct kernel_account, ledger->count + 1)};
        for (int i = 0, at = 0; i < ledger->count; i++) {
            const struct ledger_line *line = &ledger->lines[i];
            double alone_s = next_alone_s(alone, line, &at);
            if (line->block == b) add_line(&context, block, line, alone_s, layer);
        }
        add_sums(&context, program, block, layer);
    }
    assert(account.peak_flop_per_s > 0);
    return account;
}
