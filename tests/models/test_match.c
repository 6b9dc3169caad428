#include "tests/support/test.h"

#include "models/match.h"
#include "models/op.h"
#include "plan/lower/lower.h"
#include "tests/support/interpreter.h"
#include "tests/support/tiny_models.h"

#include <dirent.h>
#include <math.h>

static void assert_equal_tensors(const struct block *a, const struct block *b)
{
    assert_int_equal(a->tensor_count, b->tensor_count);
    for (int t = 0; t < a->tensor_count; t++) {
        const struct tensor *x = &a->tensors[t], *y = &b->tensors[t];
        assert_string_equal(x->name, y->name);
        assert_int_equal(x->role, y->role);
        assert_int_equal(x->element, y->element);
        assert_int_equal(x->rank, y->rank);
        for (int i = 0; i < x->rank; i++) {
            assert_int_equal(x->extents[i].dim, y->extents[i].dim);
            assert_int_equal(x->extents[i].size, y->extents[i].size);
        }
        assert_true(x->density == y->density);
        assert_int_equal(x->producer, y->producer);
        assert_int_equal(x->gradient_of, y->gradient_of);
        assert_string_equal(x->tie ? x->tie : "", y->tie ? y->tie : "");
    }
}

static void assert_equal_ops(const struct block *a, const struct block *b)
{
    assert_int_equal(a->op_count, b->op_count);
    for (int o = 0; o < a->op_count; o++) {
        struct op x = a->ops[o], y = b->ops[o];
        assert_string_equal(x.name, y.name);
        assert_memory_equal(x.inputs, y.inputs, (size_t)x.input_count * sizeof *x.inputs);
        assert_memory_equal(x.outputs, y.outputs, (size_t)x.output_count * sizeof *x.outputs);
        assert_int_equal(x.input_count, y.input_count);
        assert_int_equal(x.output_count, y.output_count);
        assert_int_equal(x.kind, y.kind);
        assert_int_equal(x.phase, y.phase);
        assert_int_equal(x.forward_op, y.forward_op);
        assert_int_equal(x.function, y.function);
        assert_true(x.flop_per_element == y.flop_per_element && x.scalar == y.scalar);
        assert_true(x.softcap == y.softcap && x.dropout_ratio == y.dropout_ratio);
        assert_int_equal(x.rotary_dims, y.rotary_dims);
        assert_true(x.alibi == y.alibi && x.causal == y.causal);
        assert_int_equal(x.window, y.window);
        assert_int_equal(x.chunked, y.chunked);
        assert_int_equal(x.prefix, y.prefix);
        assert_int_equal(x.merge, y.merge);
        assert_int_equal(x.class, y.class);
    }
}

static void assert_equal_blocks(const struct block *a, const struct block *b)
{
    assert_equal_tensors(a, b);
    assert_equal_ops(a, b);
    assert_int_equal(a->input_count, b->input_count);
    assert_int_equal(a->output_count, b->output_count);
    assert_memory_equal(a->inputs, b->inputs, sizeof a->inputs);
    assert_memory_equal(a->outputs, b->outputs, sizeof a->outputs);
}

static const struct block_program *lower(struct arena *arena, const struct block *block,
                                         const struct graph *graph, int64_t seq_len)
{
    struct parallel parallel = {.micro_batch = 1, .recompute_layers = -1};
    for (int axis = 0; axis < AXIS_COUNT; axis++)
        parallel.degree[axis] = 1;
    parallel.degree[AXIS_DP] = 2;
    parallel_default_order(&parallel);
    struct mesh mesh = mesh_make(&parallel, graph->kv_head_count);
    struct lower_request request = {.block = block,
                                    .mesh = &mesh,
                                    .parallel = &parallel,
                                    .seq_len = seq_len,
                                    .precision = PRECISION_BF16,
                                    .joins = 1u << JOIN_CHAIN | 1u << JOIN_MERGED};
    return lower_block(arena, &request);
}

// The numbers that are priced, instruction by instruction.
static void assert_equal_programs(struct arena *arena, const struct block *a, const struct block *b,
                                  const struct graph *graph)
{
    const struct block_program *x = lower(arena, a, graph, 128), *y = lower(arena, b, graph, 128);
    assert_int_equal(x->instr_count, y->instr_count);
    for (int i = 0; i < x->instr_count; i++) {
        const struct instr *p = &x->instrs[i], *q = &y->instrs[i];
        assert_int_equal(p->kind, q->kind);
        assert_true(p->flop == q->flop);
        assert_int_equal(p->read_bytes, q->read_bytes);
        assert_int_equal(p->write_bytes, q->write_bytes);
    }
    assert_int_equal(x->saved_bytes, y->saved_bytes);
    assert_int_equal(x->backward_transient_bytes, y->backward_transient_bytes);
}

// Returns the number of chains that were replaced.
static int check_model(struct arena *arena, const struct model_config *config)
{
    int count = 0;
    for (int dropout = 0; dropout < 2; dropout++) {
        struct import_options options = {.flash = true, .dropout = dropout};
        const struct graph *fused = model_graph(arena, config, &options);
        options.flash = false;
        struct graph *matched = model_graph(arena, config, &options);
        count += match_attention_graph(arena, matched);
        assert_int_equal(fused->block_count, matched->block_count);
        for (int b = 0; b < fused->block_count; b++) {
            assert_equal_blocks(&fused->blocks[b], &matched->blocks[b]);
            assert_equal_programs(arena, &fused->blocks[b], &matched->blocks[b], fused);
        }
        assert_int_equal(match_attention_graph(arena, matched), 0);
    }
    return count;
}

// Whether scores take something by distance, which no fused attention adds: T5's, MPNet's,
// DeBERTa's.
static bool adds_by_distance(const struct graph *graph)
{
    for (int b = 0; b < graph->block_count; b++) {
        for (int t = 0; t < graph->blocks[b].tensor_count; t++) {
            const char *name = graph->blocks[b].tensors[t].name;
            if (strcmp(name, "relative_buckets") == 0 || strcmp(name, "distances") == 0)
                return true;
        }
    }
    return false;
}

static int check_folder(struct arena *arena, const char *folder)
{
    DIR *dir = opendir(folder);
    assert_non_null(dir);
    int models = 0;
    for (struct dirent *entry = readdir(dir); entry; entry = readdir(dir)) {
        if (!strstr(entry->d_name, ".json")) continue;
        struct err err = {0};
        char *path = arena_print(arena, "%s/%s", folder, entry->d_name);
        const struct model_config *config = model_load(arena, path, NULL, NULL, &err);
        if (!config && strstr(err.text, "missing")) continue;  // tests/models/test_import.c
        assert_string_equal(err.text, "");
        // Attention over one of several dims, or to chosen keys, is built fused alone.
        const struct import_options options = {.flash = false};
        const struct graph *graph = model_graph(arena, config, &options);
        bool has_chains = graph->frames == 0 && graph->channels == 0 && !graph->has_indexer;
        bool attends = !strstr(config->model_type, "mamba") && !adds_by_distance(graph);
        if (check_model(arena, config) < (has_chains && attends ? 2 : 0))
            fail_msg("%s has no chain", path);
        models++;
    }
    closedir(dir);
    return models;
}

static void every_model_fuses_to_the_graph_that_is_built_fused(void **state)
{
    assert_true(check_folder(*state, "models/zoo") >= 40);
    assert_true(check_folder(*state, "tests/data/config_variants") >= 10);
}

struct match_work {
    double product_flop,
        bytes;  // of forward: products and attention; all but the parameters' GEMMs
    int64_t saved_bytes;
};

static struct match_work work_of(struct arena *arena, const struct block *block,
                                 const struct graph *graph, int64_t seq_len)
{
    const struct block_program *program = lower(arena, block, graph, seq_len);
    struct match_work work = {.saved_bytes = program->saved_bytes};
    for (int i = 0; i < program->phase_first[PHASE_BACKWARD]; i++) {
        const struct instr *instr = &program->instrs[i];
        bool is_product = instr->kind == OP_CONTRACT || instr->kind == OP_ATTENTION;
        if (is_product) work.product_flop += instr->flop;
        work.bytes += (double)(instr->read_bytes + instr->write_bytes);
    }
    return work;
}

// The scores of every head are neither kept nor moved: what is left grows with the sequence, not
// with its square. The work is the same where no mask spares half of it.
static void the_operator_saves_memory_and_traffic_but_no_work(void **state)
{
    struct arena *arena = *state;
    struct err err = {0};
    const struct model_config *bert = model_load(arena, "bert-base", NULL, NULL, &err);
    assert_string_equal(err.text, "");
    const struct graph *graph = model_graph(arena, bert, &(struct import_options){.flash = false});
    struct block fused = graph->blocks[1];
    assert_int_equal(match_attention(arena, &fused), 1);
    for (int64_t seq_len = 512; seq_len <= 4096; seq_len *= 2) {
        struct match_work chain = work_of(arena, &graph->blocks[1], graph, seq_len);
        struct match_work one = work_of(arena, &fused, graph, seq_len);
        struct match_work half = work_of(arena, &fused, graph, seq_len / 2);
        double scores_bytes = 2.0 * 12 * (double)seq_len * (double)seq_len;
        assert_true(chain.product_flop == one.product_flop);
        assert_true(chain.bytes - one.bytes > 3.9 * scores_bytes);
        assert_true((double)(chain.saved_bytes - one.saved_bytes) > 0.9 * scores_bytes);
        assert_int_equal(one.saved_bytes, 2 * half.saved_bytes);
    }
}

static int find_tensor(const struct block *block, const char *name)
{
    for (int t = 0; t < block->tensor_count; t++) {
        if (strcmp(block->tensors[t].name, name) == 0) return t;
    }
    return -1;
}

static int find_op(const struct block *block, const char *name)
{
    for (int o = 0; o < block->op_count; o++) {
        if (strcmp(block->ops[o].name, name) == 0) return o;
    }
    fail_msg("no op %s", name);
    return -1;
}

static void fill(struct interpreter *in, const struct interpreter *like)
{
    uint64_t seed = 7;
    for (int t = 0; t < in->block->tensor_count; t++) {
        const struct tensor *tensor = &in->block->tensors[t];
        if (tensor->producer >= 0) continue;
        double *values = interpreter_array(in, t);
        int other = like ? find_tensor(like->block, tensor->name) : -1;
        for (int64_t i = 0; i < interpreter_elements(in, t); i++) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            double next = (double)(seed >> 40) / (double)(1 << 24) - 0.5;
            if (tensor->role == TENSOR_IDS) next = 1;
            values[i] = like ? like->values[other][i] : next;
        }
    }
}

static void the_fused_operator_computes_what_the_chain_did(void **state)
{
    struct arena *arena = *state;
    for (int m = 0; TINY_MODELS[m]; m++) {
        const struct graph *graph =
            tiny_graph(arena, TINY_MODELS[m], &(struct import_options){.flash = false});
        if (graph->scan_head_count > 0) continue;  // its first layer does not attend
        struct block chain = graph->blocks[1], fused = graph->blocks[1];
        assert_int_equal(match_attention(arena, &fused), 1);
        struct interpreter a = interpreter_new(arena, &chain, 2, 5);
        struct interpreter b = interpreter_new(arena, &fused, 2, 5);
        fill(&a, NULL);
        fill(&b, &a);
        interpreter_run(&a, 0, chain.op_count);
        interpreter_run(&b, 0, fused.op_count);
        const double *x = a.values[chain.outputs[0]], *y = b.values[fused.outputs[0]];
        double largest = 0;
        for (int64_t i = 0; i < interpreter_elements(&a, chain.outputs[0]); i++) {
            if (fabs(x[i] - y[i]) > 1e-12 * (1 + fabs(x[i]))) {
                fail_msg("%s: the chain gives %.17g, the operator %.17g", TINY_MODELS[m], x[i],
                         y[i]);
            }
            largest = fmax(largest, fabs(x[i]));
        }
        assert_true(largest > 1e-3);
    }
}

// A layer of gemma2 has scores, soft cap, softmax, context; its ops may be written to.
static struct block capped_layer(struct arena *arena)
{
    for (int m = 0; TINY_MODELS[m]; m++) {
        if (!strstr(TINY_MODELS[m], "gemma2")) continue;
        return tiny_graph(arena, TINY_MODELS[m], &(struct import_options){0})->blocks[1];
    }
    fail();
    return (struct block){0};
}

static struct block dropped_layer(struct arena *arena)
{
    return tiny_graph(arena, TINY_GPT2, &(struct import_options){.dropout = true})->blocks[1];
}

// Appends y = f(x) of one input, read by nobody.
static void append_reader(struct arena *arena, struct block *block, int tensor)
{
    struct builder builder = builder_copy(arena, block);
    int out = builder_tensor(&builder, "spy", TENSOR_ACTIVATION, ELEMENT_COMPUTE,
                             builder_shape(&builder, tensor));
    builder_op(&builder, (struct op){.name = "spy",
                                     .kind = OP_ELEMENTWISE,
                                     .function = FUNCTION_SCALE,
                                     .scalar = 2,
                                     .input_count = 1,
                                     .output_count = 1,
                                     .inputs = {tensor},
                                     .outputs = {out}});
    *block = *builder.block;
}

static void a_chain_read_from_outside_is_left_alone(void **state)
{
    struct arena *arena = *state;
    static const char *const INNER[] = {"attention.k_heads", "attention.v_heads",
                                        "attention.scores", "attention.softcap",
                                        "attention.softmax"};
    for (size_t i = 0; i < sizeof INNER / sizeof *INNER; i++) {
        struct block block = capped_layer(arena);
        append_reader(arena, &block, find_tensor(&block, INNER[i]));
        assert_int_equal(match_attention(arena, &block), 0);

        block = capped_layer(arena);
        block.outputs[block.output_count++] = find_tensor(&block, INNER[i]);
        assert_int_equal(match_attention(arena, &block), 0);
    }
    struct block block = dropped_layer(arena);
    append_reader(arena, &block, find_tensor(&block, "attention.softmax_dropout.mask"));
    assert_int_equal(match_attention(arena, &block), 0);
}

static void ends_of_the_chain_may_be_read_elsewhere(void **state)
{
    struct arena *arena = *state;
    static const char *const ENDS[] = {"attention.q_rope", "attention.k_rope", "attention.context"};
    for (size_t i = 0; i < sizeof ENDS / sizeof *ENDS; i++) {
        struct block block = capped_layer(arena);
        append_reader(arena, &block, find_tensor(&block, ENDS[i]));
        assert_int_equal(match_attention(arena, &block), 1);
    }
}

static void a_scale_joins_the_factor_of_the_scores(void **state)
{
    struct arena *arena = *state;
    struct block block = capped_layer(arena);
    double factor = block.ops[find_op(&block, "attention.scores")].scalar;
    struct op *cap = &block.ops[find_op(&block, "attention.softcap")];
    cap->function = FUNCTION_SCALE;
    cap->scalar = 0.5;
    assert_int_equal(match_attention(arena, &block), 1);
    const struct op *core = &block.ops[find_op(&block, "attention.core")];
    assert_true(core->scalar == factor * 0.5 && core->softcap == 0);
}

static void steps_that_the_kernel_has_not_are_left_alone(void **state)
{
    struct arena *arena = *state;
    struct block block = capped_layer(arena);
    block.ops[find_op(&block, "attention.softcap")].function = FUNCTION_GELU;
    assert_int_equal(match_attention(arena, &block), 0);

    block = capped_layer(arena);
    block.ops[find_op(&block, "attention.context")].scalar = 2;
    assert_int_equal(match_attention(arena, &block), 0);

    block = capped_layer(arena);
    block.ops[find_op(&block, "attention.scores")].merge = 3;
    assert_int_equal(match_attention(arena, &block), 0);

    // A softmax over the queries is no attention.
    block = capped_layer(arena);
    struct tensor *scores = &block.tensors[find_tensor(&block, "attention.scores")];
    scores->extents[2].dim = DIM_KV_SEQ;
    scores->extents[3].dim = DIM_SEQ;
    assert_int_equal(match_attention(arena, &block), 0);
}

// The cap of what was scaled is another function than the scale of what was capped.
static void the_order_of_the_steps_counts(void **state)
{
    static const struct {
        enum function first, second;
        int matches;
    } CASES[] = {
        {FUNCTION_SCALE, FUNCTION_SOFTCAP, 1}, {FUNCTION_SOFTCAP, FUNCTION_SCALE, 0},
        {FUNCTION_SOFTCAP, FUNCTION_ALIBI, 1}, {FUNCTION_ALIBI, FUNCTION_SOFTCAP, 0},
        {FUNCTION_SCALE, FUNCTION_ALIBI, 1},   {FUNCTION_ALIBI, FUNCTION_SCALE, 0},
        {FUNCTION_ALIBI, FUNCTION_ALIBI, 0},   {FUNCTION_SOFTCAP, FUNCTION_SOFTCAP, 0},
    };
    struct arena *arena = *state;
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        // Links alone are followed: that the steps stand last in the list does not matter here.
        struct block block = dropped_layer(arena);
        int softmax = find_op(&block, "attention.softmax");
        int scores = block.ops[softmax].inputs[0];
        struct builder builder = builder_copy(arena, &block);
        int read = scores;
        for (int step = 0; step < 2; step++) {
            enum function function = step ? CASES[i].second : CASES[i].first;
            int out = builder_tensor(&builder, step ? "second" : "first", TENSOR_ACTIVATION,
                                     ELEMENT_COMPUTE, builder_shape(&builder, scores));
            builder_op(&builder, (struct op){.name = step ? "second" : "first",
                                             .kind = OP_ELEMENTWISE,
                                             .function = function,
                                             .scalar = 3,
                                             .input_count = 1,
                                             .output_count = 1,
                                             .inputs = {read},
                                             .outputs = {out}});
            read = out;
        }
        builder.block->ops[softmax].inputs[0] = read;
        assert_int_equal(match_attention(arena, builder.block), CASES[i].matches);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_model_fuses_to_the_graph_that_is_built_fused),
        cmocka_unit_test(the_operator_saves_memory_and_traffic_but_no_work),
        cmocka_unit_test(the_fused_operator_computes_what_the_chain_did),
        cmocka_unit_test(a_chain_read_from_outside_is_left_alone),
        cmocka_unit_test(ends_of_the_chain_may_be_read_elsewhere),
        cmocka_unit_test(a_scale_joins_the_factor_of_the_scores),
        cmocka_unit_test(steps_that_the_kernel_has_not_are_left_alone),
        cmocka_unit_test(the_order_of_the_steps_counts),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
