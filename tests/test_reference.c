#include "tests/test.h"

#include "models/import.h"
#include "tests/interpreter.h"

#include <math.h>
#include <stdio.h>

// The graphs compute what transformers computes: tests/data/reference_losses.tsv holds the mean
// loss of its models in double precision (config, loss, class), with every parameter and id set to
// the numbers below; its norms, rotations and routers compute in single precision, which shows in
// the eighth digit. Seeds are hashes of names, so that both sides can make them alike.

enum { BATCH = 1, SEQ = 6 };

// FNV-1a, 64 bits.
static uint64_t hash(const char *text)
{
    uint64_t hash = 14695981039346656037u;
    for (; *text; text++)
        hash = (hash ^ (unsigned char)*text) * 1099511628211u;
    return hash;
}

static uint64_t next(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return *seed >> 33;
}

// Between -0.2 and 0.2; weights of norms around one.
static void fill_parameter(struct interpreter *in, int tensor, int position)
{
    const struct tensor *parameter = &in->block->tensors[tensor];
    const char *key = parameter->tie ? parameter->tie
                                     : arena_print(in->arena, "%d:%s", position, parameter->name);
    uint64_t seed = hash(key);
    bool is_norm = strstr(parameter->name, "norm.weight") != NULL;
    double *values = interpreter_array(in, tensor);
    for (int64_t i = 0; i < interpreter_elements(in, tensor); i++) {
        values[i] = 0.4 * ((double)next(&seed) / (double)(1u << 31) - 0.5) + is_norm;
    }
}

static void fill_ids(struct interpreter *in, int tensor, int64_t vocab)
{
    const char *name = in->block->tensors[tensor].name;
    uint64_t seed = hash(name);
    double *values = interpreter_array(in, tensor);
    for (int64_t i = 0; i < interpreter_elements(in, tensor); i++) {
        bool is_position = strcmp(name, "position_ids") == 0;
        values[i] = is_position ? (double)i : (double)(next(&seed) % (uint64_t)vocab);
    }
}

// Runs one block on the output of the one before; returns its own.
static double *run_block(struct arena *arena, const struct graph *graph, int position,
                         const double *input)
{
    const struct block *block = &graph->blocks[graph->sequence[position]];
    struct interpreter in = interpreter_new(arena, block, BATCH, SEQ);
    for (int t = 0; t < block->tensor_count; t++) {
        enum tensor_role role = block->tensors[t].role;
        if (role == TENSOR_PARAMETER) fill_parameter(&in, t, position);
        if (role == TENSOR_IDS) fill_ids(&in, t, graph->vocab);
    }
    if (input) {
        double *values = interpreter_array(&in, block->inputs[0]);
        int64_t elements = interpreter_elements(&in, block->inputs[0]);
        memcpy(values, input, (size_t)elements * sizeof *values);
    }
    interpreter_run(&in, 0, block->op_count);
    return in.values[block->outputs[0]];
}

static double mean_loss(struct arena *arena, const char *path, bool is_flash)
{
    struct err err = {0};
    struct model_config *config = model_load(arena, path, NULL, NULL, &err);
    assert_string_equal(err.text, "");
    struct import_options options = {.flash = is_flash};
    struct graph *graph = model_graph(arena, config, &options);
    double *values = NULL, sum = 0;
    for (int position = 0; position < graph->sequence_count; position++) {
        values = run_block(arena, graph, position, values);
    }
    for (int i = 0; i < BATCH * SEQ; i++)
        sum += values[i];
    return sum / (BATCH * SEQ);
}

static void graphs_compute_the_losses_of_transformers(void **state)
{
    (void)state;
    FILE *file = fopen("tests/data/reference_losses.tsv", "r");
    assert_non_null(file);
    char line[256], name[128];
    double expected = 0;
    int checked = 0;
    while (fgets(line, sizeof line, file)) {
        if (sscanf(line, "%127s %lf", name, &expected) != 2) continue;
        struct arena arena = {0};
        const char *path = arena_print(&arena, "tests/data/config_variants/%s.json", name);
        for (int flash = 0; flash < 2; flash++) {
            double found = mean_loss(&arena, path, flash);
            if (!(fabs(found - expected) < 1e-6)) {
                fail_msg("%s: a loss of %.12f, transformers computes %.12f", name, found, expected);
            }
        }
        arena_free(&arena);
        checked++;
    }
    fclose(file);
    assert_true(checked >= 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(graphs_compute_the_losses_of_transformers),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
