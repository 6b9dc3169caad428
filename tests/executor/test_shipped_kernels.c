#include "tests/support/test.h"

#include "core/file.h"
#include "models/autodiff.h"
#include "models/import.h"
#include "plan/unexecuted.h"
#include "tests/support/emulated.h"

// Every operator of every shipped model, forward and backward: what a back end has no kernel for
// the planner refuses for our stack on such devices, naming the same operator, and nothing else.

enum { BATCH = 2, SEQ = 8 };

static struct kernel_array shape_of(const struct block *block, int tensor)
{
    const struct tensor *of = &block->tensors[tensor];
    struct kernel_array array = {.rank = of->rank, .element = of->element};
    for (int i = 0; i < of->rank; i++) {
        array.dims[i] = of->extents[i].dim;
        array.sizes[i] = array.whole[i] = extent_size(&of->extents[i], BATCH, SEQ);
    }
    return array;
}

static const char *answer(const struct backend *backend, const struct graph *graph,
                          const struct block *block, const struct op *op)
{
    struct kernel_call call = {.op = op,
                               .input_count = op->input_count,
                               .output_count = op->output_count,
                               .vocab = graph->vocab,
                               .head_count = graph->head_count};
    for (int i = 0; i < op->input_count; i++)
        call.inputs[i] = shape_of(block, op->inputs[i]);
    for (int i = 0; i < op->output_count; i++)
        call.outputs[i] = shape_of(block, op->outputs[i]);
    return backend->can_run(&call);
}

// The first operator that the back end lacks; NULL: it has all.
static const struct op *lacked(struct arena *arena, const struct backend *backend,
                               const struct graph *graph)
{
    for (int b = 0; b < graph->block_count; b++) {
        struct block_gradients gradients;
        const struct block *block = autodiff_block(arena, &graph->blocks[b], &gradients);
        for (int o = 0; o < block->op_count; o++) {
            const char *rule = answer(backend, graph, block, &block->ops[o]);
            if (rule) return &block->ops[o];
        }
    }
    return NULL;
}

static void check(struct arena *arena, const struct backend *backend, const char *device,
                  const struct graph *graph)
{
    struct err why = {0};
    const struct op *op = lacked(arena, backend, graph);
    if (unexecuted_check_graph(graph, device, &why)) {
        if (op) fail_msg("%s on a %s: %s has no kernel", graph->name, device, op->name);
        return;
    }
    if (!op) {
        fail_msg("%s has all kernels of %s: %s", backend->name, graph->name, why.text);
    } else if (!strstr(why.text, op->name)) {
        fail_msg("%s: %s", op->name, why.text);
    }
}

static void planner_and_back_ends_refuse_the_same_models(void **state)
{
    struct err err = {0};
    int count = 0;
    const struct backend *cpu = backend_open("cpu", &err), *cuda = emulated_backend(PRECISION_FP32);
    const char **names = file_list_data(*state, "models/zoo", &count);
    assert_string_equal(err.text, "");
    assert_true(count > 100);
    for (int i = 0; i < count; i++) {
        struct arena arena = {0};
        struct model_config *config = model_load(&arena, names[i], NULL, NULL, &err);
        assert_string_equal(err.text, "");
        for (int flash = 0; flash < 2; flash++) {
            const struct import_options options = {.flash = flash, .dropout = true};
            const struct graph *graph = model_graph(&arena, config, &options);
            check(&arena, cpu, "cpu", graph);
            check(&arena, cuda, "gpu", graph);
        }
        arena_free(&arena);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(planner_and_back_ends_refuse_the_same_models),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
