#include "tests/support/test.h"

#include "plan/parallel.h"
#include "tests/support/run_case.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// One rank in double precision against PyTorch: loss and every gradient of the first step, and
// three steps of each optimizer with clipping and weight decay. tests/fixtures says how the files
// were made.

static const double TOLERANCE = 1e-10;
// Of gradients that are zero but for rounding (that of a bias of keys), and of the weights that
// Adam moves by these over its epsilon.
static const double ROUNDING = 1e-15, WEIGHT_ROUNDING = 1e-13;

enum { STEPS = 3, LINE_MAX_BYTES = 1 << 16 };

// Lines of one optimizer of a file.
struct fixture {
    FILE *file;
    char *line;
    char config[512];
    int64_t batch, seq;
    enum optimizer optimizer;
    struct run_outcome *first, *last;  // ours, after one step and after all
};

static bool next_line(struct fixture *fixture)
{
    if (!fgets(fixture->line, LINE_MAX_BYTES, fixture->file)) return false;
    char *end = strchr(fixture->line, '\n');
    assert_non_null(end);
    *end = '\0';
    return true;
}

// The rest of the line behind "word ", or NULL when it begins otherwise.
static char *after(const struct fixture *fixture, const char *word)
{
    size_t length = strlen(word);
    bool is_it = strncmp(fixture->line, word, length) == 0 && fixture->line[length] == ' ';
    return is_it ? fixture->line + length + 1 : NULL;
}

// Projections that share their input are stored output by output (plan/lower/merged.h), in the
// files as in PyTorch's x W: the last dim becomes the first.
static void store_by_input(struct arena *arena, struct run_tensor *tensor, int64_t hidden)
{
    static const char *const SHARING[] = {".q.weight ", ".k.weight ", ".v.weight ", ".gate.weight ",
                                          ".up.weight "};
    bool is_sharing = false;
    for (size_t i = 0; i < sizeof SHARING / sizeof *SHARING; i++)
        is_sharing = is_sharing || strstr(tensor->key, SHARING[i]);
    int64_t outputs = 1, last = tensor->rank > 1 ? tensor->sizes[tensor->rank - 1] : 0;
    if (!is_sharing || last != hidden || tensor->sizes[0] == hidden) return;
    for (int i = tensor->rank - 1; i > 0; i--) {
        tensor->sizes[i] = tensor->sizes[i - 1];
        outputs *= tensor->sizes[i];
    }
    tensor->sizes[0] = hidden;
    double *values = ARENA_NEW(arena, double, hidden *outputs);
    for (int64_t i = 0; i < hidden; i++) {
        for (int64_t o = 0; o < outputs; o++)
            values[i * outputs + o] = tensor->values[o * hidden + i];
    }
    tensor->values = values;
}

static struct run_outcome *run(struct arena *arena, const struct fixture *fixture, int steps)
{
    struct run_case of = run_case_new(fixture->config, fixture->seq, fixture->batch);
    of.optimizer = fixture->optimizer;
    of.steps = steps;
    struct err err = {0};
    struct run_outcome *outcome = run_case_run(arena, &of, &err);
    assert_string_equal(err.text, "");
    assert_string_equal(outcome->error, "");
    const struct tensor *input = &outcome->program->graph->blocks[1].tensors[0];
    for (int i = 0; i < outcome->tensor_count; i++)
        store_by_input(arena, &outcome->tensors[i], input->extents[input->rank - 1].size);
    return outcome;
}

static const struct run_tensor *tensor_of(const struct run_outcome *outcome, const char *key)
{
    for (int i = 0; i < outcome->tensor_count; i++) {
        if (strcmp(outcome->tensors[i].key, key) == 0) return &outcome->tensors[i];
    }
    fail_msg("no %s here", key);
    return NULL;
}

static void check_gradient(struct fixture *fixture, char *header)
{
    // "KEY SEQUENCE SIZES...": our key is the first two.
    char key[256];
    char *space = strchr(header, ' ');
    char *sizes = strchr(space + 1, ' ');
    snprintf(key, sizeof key, "gradient %.*s", sizes ? (int)(sizes - header) : 200, header);
    const struct run_tensor *ours = tensor_of(fixture->first, key);
    int64_t elements = 1;
    for (int i = 0; sizes && *sizes; i++) {
        int64_t size = strtoll(sizes, &sizes, 10);
        assert_in_range(i, 0, ours->rank - 1);
        // Padding of the vocabulary stands behind it, outermost.
        assert_true(i == 0 ? size <= ours->sizes[i] : size == ours->sizes[i]);
        elements *= size;
    }
    assert_true(next_line(fixture));
    double *expected = malloc((size_t)elements * sizeof *expected), most = 0;
    char *text = fixture->line;
    for (int64_t e = 0; e < elements; e++) {
        expected[e] = strtod(text, &text);
        most = fmax(most, fabs(expected[e]));
    }
    assert_int_equal(*text, '\0');
    for (int64_t e = 0; e < elements; e++) {
        if (fabs(ours->values[e] - expected[e]) <= TOLERANCE * most + ROUNDING) continue;
        fail_msg("%s, element %lld: %.17g, expected %.17g", key, (long long)e, ours->values[e],
                 expected[e]);
    }
    free(expected);
}

static void check_weight(struct fixture *fixture, char *text)
{
    char *last = strrchr(text, ' '), key[256];
    snprintf(key, sizeof key, "weight %.*s", (int)(last - text), text);
    const struct run_tensor *ours = tensor_of(fixture->last, key);
    int64_t elements = 1;
    for (int i = 0; i < ours->rank; i++)
        elements *= ours->sizes[i];
    double sum = 0, most = 0, expected = strtod(last, NULL);
    for (int64_t e = 0; e < elements; e++) {
        sum += ours->values[e] * cos((double)e);  // rows that pad the vocabulary are zero
        most += fabs(ours->values[e]);
    }
    if (!(fabs(sum - expected) <= TOLERANCE * most + WEIGHT_ROUNDING))
        fail_msg("%s: %.17g, expected %.17g", key, sum, expected);
}

static void check_numbers(const char *what, char *text, const double *found)
{
    for (int s = 0; s < STEPS; s++) {
        double expected = strtod(text, &text);
        if (!(fabs(found[s] - expected) <= TOLERANCE * fabs(expected)))
            fail_msg("%s of step %d: %.17g, expected %.17g", what, s + 1, found[s], expected);
    }
}

static void begin(struct arena *arena, struct fixture *fixture, const char *optimizer)
{
    assert_true(optimizer_from_name(optimizer, &fixture->optimizer));
    fixture->first = run(arena, fixture, 1);
    fixture->last = run(arena, fixture, STEPS);
}

// How many gradients there were to compare.
static int check_file(struct arena *arena, const char *path)
{
    struct fixture fixture = {.file = fopen(path, "r"), .line = malloc(LINE_MAX_BYTES)};
    assert_non_null(fixture.file);
    int gradients = 0;
    char *text;
    while (next_line(&fixture)) {
        if ((text = after(&fixture, "config"))) {
            snprintf(fixture.config, sizeof fixture.config, "%s", text);
        } else if ((text = after(&fixture, "batch"))) {
            fixture.batch = strtoll(text, &text, 10);
            fixture.seq = strtoll(text + strlen(" seq "), NULL, 10);
        } else if ((text = after(&fixture, "optimizer"))) {
            begin(arena, &fixture, text);
        } else if ((text = after(&fixture, "gradient"))) {
            check_gradient(&fixture, text);
            gradients++;
        } else if ((text = after(&fixture, "loss"))) {
            check_numbers("loss", text, fixture.last->loss);
        } else if ((text = after(&fixture, "norm"))) {
            check_numbers("norm", text, fixture.last->norm);
        } else {
            assert_non_null(text = after(&fixture, "weight"));
            check_weight(&fixture, text);
        }
    }
    free(fixture.line);
    fclose(fixture.file);
    int ours = 0;
    for (int i = 0; i < fixture.first->tensor_count; i++)
        ours += strncmp(fixture.first->tensors[i].key, "gradient ", 9) == 0;
    assert_int_equal(gradients, ours);
    return gradients;
}

static void gpt2_and_every_optimizer_are_as_in_pytorch(void **state)
{
    assert_true(check_file(*state, "tests/fixtures/executor_gpt2.txt") > 0);
}

static void llama_is_as_in_pytorch(void **state)
{
    assert_true(check_file(*state, "tests/fixtures/executor_llama.txt") > 0);
}

static void gemma2_is_as_in_pytorch(void **state)
{
    assert_true(check_file(*state, "tests/fixtures/executor_gemma2.txt") > 0);
}

static void mixtral_is_as_in_pytorch(void **state)
{
    assert_true(check_file(*state, "tests/fixtures/executor_mixtral.txt") > 0);
}

static void qwen2_moe_is_as_in_pytorch(void **state)
{
    assert_true(check_file(*state, "tests/fixtures/executor_qwen2_moe.txt") > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gpt2_and_every_optimizer_are_as_in_pytorch),
        cmocka_unit_test(llama_is_as_in_pytorch),
        cmocka_unit_test(gemma2_is_as_in_pytorch),
        cmocka_unit_test(mixtral_is_as_in_pytorch),
        cmocka_unit_test(qwen2_moe_is_as_in_pytorch),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
