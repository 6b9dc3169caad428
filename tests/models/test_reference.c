#include "tests/support/test.h"

#include "models/import.h"
#include "tests/support/given.h"
#include "tests/support/interpreter.h"

#include <math.h>
#include <stdio.h>

// The graphs compute what transformers computes: tests/data/reference_losses.tsv holds the mean
// loss of its models in double precision (config, loss, class), with every parameter and id set to
// the numbers below; its norms, rotations and routers compute in single precision, which shows in
// the eighth digit. Seeds are hashes of names, so that both sides can make them alike.

enum { SAMPLES = 3, SEQ = 6 };  // of a model that compares them; others have one

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

// What a tower ends with, to be compared, is numbered as the block behind it.
static bool is_said(const struct graph *graph, const char *name)
{
    return graph->contrasts && (!strncmp(name, "vision.", 7) || !strncmp(name, "pool.", 5));
}

// Between -0.2 and 0.2; weights of norms around one, and no rate of a scan below zero.
static void fill_parameter(struct interpreter *in, int tensor, const struct graph *graph,
                           int position)
{
    const struct tensor *parameter = &in->block->tensors[tensor];
    const char *name = parameter->tie ? parameter->tie : parameter->name;
    bool is_norm = strstr(name, "norm.weight") != NULL, is_rate = strstr(name, ".rates") != NULL;
    if (in->block->role == BLOCK_LAYER && !parameter->tie)
        name = arena_print(in->arena, "%d:%s", position + is_said(graph, name), name);
    uint64_t seed = hash(name);
    double *values = interpreter_array(in, tensor);
    for (int64_t i = 0; i < interpreter_elements(in, tensor); i++) {
        double value = 0.4 * ((double)next(&seed) / (double)(1u << 31) - 0.5) + is_norm;
        values[interpreter_place(in, tensor, i)] = is_rate ? fabs(value) : value;
    }
}

// Between -1 and 1; none at the places of class token and registers, which are `front`.
static void fill_pixels(struct interpreter *in, int tensor, int64_t front)
{
    const struct extent *extents = in->block->tensors[tensor].extents;
    double *values = interpreter_array(in, tensor);
    uint64_t seed = hash("pixels");
    for (int64_t i = 0; i < interpreter_elements(in, tensor); i++) {
        double value = 2 * ((double)next(&seed) / (double)(1u << 31) - 0.5);
        int64_t at = i % (extents[1].size * extents[2].size);
        values[i] = at < front * extents[2].size ? 0 : value;
    }
}

// Three frames and a one at each place, the middle frame of which is each second one and, of those
// before, the one in front, of those odd the one behind; past the ends there are zeros.
static void fill_frames(struct interpreter *in, int tensor)
{
    const struct tensor *of = &in->block->tensors[tensor];
    int64_t places = of->extents[1].size, width = of->extents[2].size, bands = width / 3;
    int64_t aside = strstr(of->name, "before") ? -1 : strstr(of->name, "odd") ? 1 : 0;
    double *values = interpreter_array(in, tensor);
    double *sound = ARENA_NEW(in->arena, double, 2 * places * bands);
    uint64_t seed = hash("frames");
    for (int64_t i = 0; i < 2 * places * bands; i++)
        sound[i] = 2 * ((double)next(&seed) / (double)(1u << 31) - 0.5);
    for (int64_t place = 0; place < places; place++) {
        if (2 * place + aside < 0) continue;
        values[place * width + width - 1] = 1;
        for (int64_t n = 0; n < 3 * bands; n++) {
            int64_t frame = 2 * place + aside + n % 3 - 1;
            bool is_sound = frame >= 0 && frame < 2 * places;
            values[place * width + n] = is_sound ? sound[frame * bands + n / 3] : 0;
        }
    }
}

// Where a picture stands in the text there is no token, and but for its last place no label.
static void fill_ids(struct interpreter *in, int tensor, const struct graph *graph)
{
    int64_t vocab = graph->vocab, prefix = graph->prefix, front = graph->front_count;
    const char *name = in->block->tensors[tensor].name;
    bool is_of_layer = strcmp(name, "layer_token_ids") == 0;
    uint64_t seed = hash(is_of_layer ? "token_ids" : name);
    double *values = interpreter_array(in, tensor);
    if (strcmp(name, "relative_buckets") == 0) return given_buckets(in, tensor);
    if (strcmp(name, "distances") == 0) return given_distances(in, tensor);
    if (strcmp(name, "first_place") == 0) return given_places(in, tensor, true, front);
    if (strcmp(name, "place_kinds") == 0) return given_places(in, tensor, false, front);
    if (strncmp(name, "frames_", 7) == 0) return fill_frames(in, tensor);
    bool has_class = strcmp(name, "pixels") == 0;
    if (has_class || strcmp(name, "patches") == 0)
        return fill_pixels(in, tensor, has_class ? front : 0);
    if (given_means(in, tensor, front)) return;
    if (given_pairs(in, tensor) || given_in_text(in, tensor) || given_waves(in, tensor)) return;
    if (strcmp(name, "token_experts") == 0) {
        double tokens[SEQ];
        seed = hash("token_ids");
        for (int i = 0; i < SEQ; i++)
            tokens[i] = (double)(next(&seed) % (uint64_t)vocab);
        given_experts(in, tensor, tokens, SEQ, graph->expert_count);
        return;
    }
    int64_t ahead = strcmp(name, "labels") == 0;
    for (int64_t i = 0; i < interpreter_elements(in, tensor); i++) {
        bool is_position = strcmp(name, "position_ids") == 0;
        bool is_type = strcmp(name, "token_type_ids") == 0;
        double drawn = (double)(next(&seed) % (uint64_t)vocab);
        if (is_of_layer && drawn >= (double)in->block->vocab) drawn = 0;
        values[i] = is_position ? (double)i : is_type ? 0 : i + ahead < prefix ? -1 : drawn;
    }
}

// Runs one block on the outputs of the one before, which its own then replace. Returns how many
// elements the first of them has.
static int64_t run_block(struct arena *arena, const struct graph *graph, int position,
                         double *passed[BLOCK_EDGES])
{
    const struct block *block = &graph->blocks[graph->sequence[position]];
    struct interpreter in = interpreter_new(arena, block, graph->contrasts ? SAMPLES : 1, SEQ);
    for (int t = 0; t < block->tensor_count; t++) {
        enum tensor_role role = block->tensors[t].role;
        if (role == TENSOR_PARAMETER) fill_parameter(&in, t, graph, position);
        if (role == TENSOR_IDS) fill_ids(&in, t, graph);
    }
    for (int i = 0; i < block->input_count; i++) {
        assert_non_null(passed[i]);
        double *values = interpreter_array(&in, block->inputs[i]);
        int64_t elements = interpreter_elements(&in, block->inputs[i]);
        memcpy(values, passed[i], (size_t)elements * sizeof *values);
    }
    interpreter_run(&in, 0, block->op_count);
    for (int i = 0; i < block->output_count; i++)
        passed[i] = in.values[block->outputs[i]];
    return interpreter_elements(&in, block->outputs[0]);
}

// Of the next token; what a prediction module loses beside it, transformers does not compute.
static double mean_loss(struct arena *arena, const char *path, bool is_flash)
{
    struct err err = {0};
    struct model_config *config = model_load(arena, path, NULL, NULL, &err);
    assert_string_equal(err.text, "");
    struct import_options options = {.flash = is_flash};
    struct graph *graph = model_graph(arena, config, &options);
    double *passed[BLOCK_EDGES] = {NULL}, sum = 0;
    int64_t losses = 0;
    for (int position = 0; position < graph->sequence_count; position++)
        losses = run_block(arena, graph, position, passed);
    for (int64_t i = 0; i < losses; i++)
        sum += passed[0][i];
    return sum / (double)(losses - (graph->prefix > 0 ? graph->prefix - 1 : 0));
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
    assert_true(checked >= 288);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(graphs_compute_the_losses_of_transformers),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
