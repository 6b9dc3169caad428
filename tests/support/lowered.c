#include "tests/support/lowered.h"

#include "tests/support/test.h"

static int at_least_one(int value)
{
    return value > 0 ? value : 1;
}

struct lowered lowered_make(struct arena *arena, struct setup setup, int position)
{
    struct err err = {0};
    struct model_config *config = model_load(arena, setup.model, NULL, NULL, &err);
    assert_string_equal(err.text, "");
    struct lowered l = {.parallel = {.degree = {[0 ... AXIS_COUNT - 1] = 1},
                                     .vpp = 1,
                                     .micro_batch = at_least_one(setup.micro_batch),
                                     .sp = setup.sp,
                                     .cp_kind = setup.cp_kind,
                                     .recompute_classes = setup.recompute_classes,
                                     .zero = setup.zero,
                                     .passes = 1u << PASS_COMBINE | setup.passes}};
    l.parallel.degree[AXIS_TP] = at_least_one(setup.tp);
    l.parallel.degree[AXIS_CP] = at_least_one(setup.cp);
    l.parallel.degree[AXIS_DP] = at_least_one(setup.dp);
    l.parallel.degree[AXIS_EP] = at_least_one(setup.ep);
    l.parallel.degree[AXIS_ETP] = at_least_one(setup.etp);
    struct import_options options = {.flash = !setup.unfused,
                                     .dropout = setup.dropout,
                                     .vocab_multiple = 128 * l.parallel.degree[AXIS_TP]};
    l.graph = model_graph(arena, config, &options);
    l.mesh = mesh_make(&l.parallel, l.graph->kv_head_count);
    if (position < 0) position += l.graph->sequence_count;
    struct lower_request request = {
        .block = &l.graph->blocks[l.graph->sequence[position]],
        .mesh = &l.mesh,
        .parallel = &l.parallel,
        .recompute = setup.recompute,
        .seq_len = setup.seq_len ? setup.seq_len : LOWERED_SEQ,
        .expert_imbalance = setup.expert_imbalance,
        .capacity_factor = setup.capacity_factor,
        .precision = PRECISION_BF16,
        .joins = setup.joins,
        .zigzag = setup.zigzag,
    };
    l.program = lower_block(arena, &request);
    return l;
}

int lowered_count(const struct lowered *l, int phase, enum collective collective, int64_t bytes)
{
    int found = 0;
    for (int i = 0; i < l->program->instr_count; i++) {
        const struct instr *instr = &l->program->instrs[i];
        bool counts = instr->collective == collective && !instr->parameter && !instr->inner &&
                      !instr->recompute && (phase == ANY_PHASE || (int)instr->phase == phase);
        if (!counts) continue;
        if (bytes) assert_int_equal(instr->bytes, bytes);
        found++;
    }
    return found;
}

int lowered_count_all(const struct lowered *l)
{
    int found = 0;
    for (int i = 0; i < l->program->instr_count; i++) {
        enum collective collective = l->program->instrs[i].collective;
        found += collective != COLLECTIVE_NONE && collective != COLLECTIVE_SLICE;
    }
    return found;
}

int64_t lowered_hidden_bytes(const struct lowered *l)
{
    return 2 * l->graph->hidden * LOWERED_SEQ * l->parallel.micro_batch;
}

const struct parameter *lowered_parameter(const struct lowered *l, const char *name)
{
    for (int i = 0; i < l->program->parameter_count; i++) {
        const struct parameter *parameter = &l->program->parameters[i];
        const char *found = l->program->block->tensors[parameter->tensor].name;
        if (strcmp(found, name) == 0) return parameter;
    }
    fail_msg("no parameter is called %s", name);
    return NULL;
}

int64_t lowered_saved_bytes(const struct lowered *l, const char *name)
{
    int64_t bytes = 0;
    for (int b = 0; b < l->program->buffer_count; b++) {
        const struct buffer *buffer = &l->program->buffers[b];
        bool is_it =
            buffer->saved && strcmp(l->program->block->tensors[buffer->tensor].name, name) == 0;
        if (is_it) bytes += buffer->bytes;
    }
    return bytes;
}
