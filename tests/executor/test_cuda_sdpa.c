#include "tests/support/test.h"

#include "core/file.h"
#include "models/import.h"

#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

// cuDNN compiles its plans for shapes of attention in the zoo, with the back end's own code, on a
// Hopper that need not be there (tests/gpu/sdpa_shapes.c): some of them here, all of them in `make
// check`, which sets MESHWRIGHT_CASES. Where CUDA or cuDNN is not installed there is nothing to
// ask.

// Gradients of wider heads cuDNN has no plan for (9.24, a Hopper): the products take them.
enum { BACKWARD_WIDTH_MOST = 256 };

enum { SHAPE_MAX = 512, SEQ = 2048, CASES = 2, PART_MAX = 16 };

struct sdpa_case {
    char name[96];
    int64_t heads, kv_heads, width, value_width;
    int64_t ahead, back;  // of what a query sees
    double softcap;
    int ends, starts, has_slopes, has_sinks, has_choice;
};

struct shapes {
    struct sdpa_case at[SHAPE_MAX];
    int count;
};

// Dropout, and what looks ahead from a prefix, go to the products and the masked softmax, whatever
// cuDNN says.
static bool is_special(const struct op *op)
{
    return op->dropout_ratio > 0 || op->prefix > 0;
}

// Of a sequence that a window is shorter than; one in chunks is a longer batch.
static void bound(struct sdpa_case *shape, const struct op *op)
{
    bool slides = op->window > 0 && !op->chunked;
    shape->back = !slides ? 0 : op->window < SEQ / 2 ? op->window : SEQ / 2;
    shape->ahead = slides && !op->causal ? shape->back - 1 : 0;
    shape->ends = op->causal || slides;
    shape->starts = slides;
}

static void add_shape(struct shapes *shapes, const char *model, const struct block *block,
                      const struct op *op)
{
    const struct tensor *q = &block->tensors[op->inputs[0]];
    const struct tensor *k = &block->tensors[op->inputs[1]];
    const struct tensor *v = &block->tensors[op->inputs[2]];
    struct sdpa_case shape = {.heads = q->extents[2].size,
                              .kv_heads = k->extents[2].size,
                              .width = q->extents[3].size,
                              .value_width = v->extents[3].size,
                              .softcap = op->softcap,
                              .has_slopes = op->alibi > 0,
                              .has_sinks = op->input_count > 3 + (op->top_k > 0),
                              .has_choice = op->top_k > 0};
    if (is_special(op)) return;
    bound(&shape, op);
    for (int i = 0; i < shapes->count; i++) {
        struct sdpa_case other = shapes->at[i];
        memset(other.name, 0, sizeof other.name);
        if (memcmp(&other, &shape, sizeof shape) == 0) return;
    }
    assert_true(shapes->count < SHAPE_MAX);
    snprintf(shape.name, sizeof shape.name, "%s", model);
    shapes->at[shapes->count++] = shape;
}

static void read_zoo(struct arena *arena, struct shapes *shapes)
{
    int count = 0;
    const char **names = file_list_data(arena, "models/zoo", &count);
    assert_true(count > 50);
    for (int i = 0; i < count; i++) {
        struct err err = {0};
        struct arena_mark mark = arena_mark(arena);
        struct import_options options = {.flash = true};
        struct model_config *config = model_load(arena, names[i], NULL, NULL, &err);
        assert_string_equal(err.text, "");
        struct graph *graph = model_graph(arena, config, &options);
        for (int b = 0; b < graph->block_count; b++) {
            for (int o = 0; o < graph->blocks[b].op_count; o++) {
                const struct op *op = &graph->blocks[b].ops[o];
                if (op->kind == OP_ATTENTION) add_shape(shapes, names[i], &graph->blocks[b], op);
            }
        }
        arena_reset(arena, mark);
    }
}

// A process that asks a part of the questions, which it reads from a file.
struct asked {
    char questions[64];
    int count;
    FILE *answers;
};

// Every parts-th shape of those that are asked, from the part-th on.
static void write_questions(struct asked *asked, const struct shapes *shapes, int part, int parts)
{
    snprintf(asked->questions, sizeof asked->questions, "/tmp/meshwright_shapes_XXXXXX");
    FILE *file = fdopen(mkstemp(asked->questions), "w");
    assert_non_null(file);
    const char *wanted = getenv("MESHWRIGHT_CASES");
    int cases = wanted ? atoi(wanted) : CASES;
    int step = shapes->count > cases ? shapes->count / cases : 1;
    for (int i = part * step; i < shapes->count; i += parts * step, asked->count++) {
        const struct sdpa_case *s = &shapes->at[i];
        fprintf(file, "%d 1 %lld %lld %d %d %lld %lld %d %lld %d %lld %g %d %d %d\n", i,
                (long long)s->heads, (long long)s->kv_heads, SEQ, SEQ, (long long)s->width,
                (long long)s->value_width, s->ends, (long long)s->ahead, s->starts,
                (long long)s->back, s->softcap, s->has_slopes, s->has_sinks, s->has_choice);
    }
    fclose(file);
}

static void start_asking(struct asked *asked, const char *folder)
{
    char command[3 * PATH_MAX];
    snprintf(command, sizeof command,
             "ASAN_OPTIONS=$ASAN_OPTIONS:detect_leaks=0 "  // cuDNN keeps what it has made
             "LD_LIBRARY_PATH=%s/stub:$LD_LIBRARY_PATH %s/sdpa_shapes <%s",
             folder, folder, asked->questions);
    asked->answers = popen(command, "r");
    assert_non_null(asked->answers);
}

static void read_answers(struct asked *asked, const struct shapes *shapes)
{
    char line[256];
    int lines = 0, faults = 0;
    for (int index, is_made; fgets(line, sizeof line, asked->answers); lines++) {
        char direction[16];
        assert_int_equal(sscanf(line, "%d %15s %d", &index, direction, &is_made), 3);
        const struct sdpa_case *s = &shapes->at[index];
        bool is_wide = s->width > BACKWARD_WIDTH_MOST || s->value_width > BACKWARD_WIDTH_MOST;
        bool is_wanted = !is_wide || strcmp(direction, "backward") != 0;
        if (is_made != is_wanted) {
            printf("# %s plan %s for %s: %lld heads, %lld of keys, width %lld and %lld\n",
                   is_made ? "a" : "no", direction, s->name, (long long)s->heads,
                   (long long)s->kv_heads, (long long)s->width, (long long)s->value_width);
        }
        faults += is_made != is_wanted;
    }
    int status = pclose(asked->answers);
    unlink(asked->questions);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) < 2);
    assert_int_equal(lines, 4 * asked->count);  // dense and packed
    assert_int_equal(faults, 0);
}

// The shapes are shared out among as many processes as there are cores.
static void ask(const char *folder, const struct shapes *shapes)
{
    struct asked asked[PART_MAX] = {0};
    int cores = (int)sysconf(_SC_NPROCESSORS_ONLN), parts = cores < PART_MAX ? cores : PART_MAX;
    assert_true(parts > 0);
    for (int i = 0; i < parts; i++) {
        write_questions(&asked[i], shapes, i, parts);
        start_asking(&asked[i], folder);
    }
    for (int i = 0; i < parts; i++) {
        read_answers(&asked[i], shapes);
    }
}

static void cudnn_makes_plans_for_the_attention_of_the_zoo(void **state)
{
    char path[PATH_MAX], probe[PATH_MAX + 32];
    struct shapes *shapes = ARENA_NEW(*state, struct shapes, 1);
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
    assert_true(length > 0);
    path[length] = '\0';
    const char *folder = dirname(path);
    read_zoo(*state, shapes);
    assert_true(shapes->count > 20);
    snprintf(probe, sizeof probe, "%s/sdpa_shapes", folder);
    bool is_there = access(probe, X_OK) == 0;
    snprintf(probe, sizeof probe, "%s/stub/libcuda.so.1", folder);
    if (!is_there || access(probe, R_OK) != 0) {
        printf("# nothing asked: CUDA, its driver's stub or cuDNN is not installed\n");
        return;
    }
    ask(folder, shapes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cudnn_makes_plans_for_the_attention_of_the_zoo),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
