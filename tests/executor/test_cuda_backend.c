#include "tests/support/test.h"

#include "tests/support/emulated.h"
#include "tests/support/kernel_case.h"
#include "tests/support/run_case.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

// The CUDA back end beside its operators, its kernels on the host (tests/gpu/emulate.h):
// optimizers, boxes and sums against the CPU's, whole runs of the engine. And what can be known of
// the true one without a device: that it opens and says so, and what cuDNN has engines for.

enum { COUNT = 1111, TRIALS = 60 };

struct world {
    const struct backend *backend;
    struct device *device;
};

static struct world open_world(const struct backend *backend)
{
    struct world world = {.backend = backend};
    assert_non_null(backend);
    assert_null(backend->open(0, &world.device));
    return world;
}

static struct world open_cpu(void)
{
    struct err err = {0};
    const struct backend *backend = backend_open("cpu", &err);
    assert_string_equal(err.text, "");
    return open_world(backend);
}

static void draw_reals(struct draw *draw, float *reals, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        reals[i] = (float)draw_int(draw, -1000, 1000) / 1000;
}

static void assert_close(const char *what, const float *found, const float *expected, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        if (fabsf(found[i] - expected[i]) <= 1e-5f * (1 + fabsf(expected[i]))) continue;
        fail_msg("%s, element %lld: %.9g, expected %.9g", what, (long long)i, (double)found[i],
                 (double)expected[i]);
    }
}

// The state of an optimizer in the memory of a back end; the host's image of it.
enum { WEIGHTS, GRADIENTS, FIRST, SECOND, DIRECTION, STATES };
struct backend_state {
    float host[STATES][COUNT];
    uint16_t rounded[COUNT];
};

static void update_there(const struct world *world, struct backend_state *state,
                         struct update_call call)
{
    void *memory[STATES], *rounded;
    const struct backend *b = world->backend;
    for (int i = 0; i < STATES; i++) {
        assert_null(b->allocate(world->device, sizeof state->host[i], &memory[i]));
        assert_null(b->copy(world->device, STREAM_COMPUTE, COPY_FROM_HOST, memory[i],
                            state->host[i], sizeof state->host[i]));
    }
    assert_null(b->allocate(world->device, sizeof state->rounded, &rounded));
    call.weights = memory[WEIGHTS], call.gradients = memory[GRADIENTS];
    call.direction = memory[DIRECTION];
    if (call.first_moments) call.first_moments = memory[FIRST];
    if (call.second_moments) call.second_moments = memory[SECOND];
    if (b->compute_bytes == 2) call.rounded = rounded;
    assert_null(b->update(world->device, STREAM_COMPUTE, &call));
    assert_null(b->synchronize(world->device, STREAM_COMPUTE));
    for (int i = 0; i < STATES; i++) {
        assert_null(b->copy(world->device, STREAM_COMPUTE, COPY_TO_HOST, state->host[i], memory[i],
                            sizeof state->host[i]));
        b->release(world->device, memory[i]);
    }
    if (b->compute_bytes == 2) {
        assert_null(b->copy(world->device, STREAM_COMPUTE, COPY_TO_HOST, state->rounded, rounded,
                            sizeof state->rounded));
    }
    b->release(world->device, rounded);
}

static void check_rounded(const struct backend_state *state)
{
    for (int i = 0; i < COUNT; i++) {
        uint32_t bits = (uint32_t)state->rounded[i] << 16;
        float value;
        memcpy(&value, &bits, sizeof value);
        float expected = state->host[WEIGHTS][i];
        if (fabsf(value - expected) > fabsf(expected) / 256) {
            fail_msg("rounded weight %d: %g of %g", i, (double)value, (double)expected);
        }
    }
}

static void check_update(struct draw *draw, const struct world *cpu, const struct world *cuda,
                         struct update_call call)
{
    char what[64];
    struct backend_state *expected = malloc(sizeof *expected), *found = malloc(sizeof *found);
    assert_true(expected && found);
    memset(expected, 0, sizeof *expected);
    for (int i = 0; i < STATES; i++)
        draw_reals(draw, expected->host[i], COUNT);
    for (int i = 0; i < COUNT; i++)
        expected->host[SECOND][i] = fabsf(expected->host[SECOND][i]);
    *found = *expected;
    update_there(cpu, expected, call);
    update_there(cuda, found, call);
    for (int i = 0; i < STATES; i++) {
        snprintf(what, sizeof what, "optimizer %d part %d array %d", call.optimizer, call.part, i);
        assert_close(what, found->host[i], expected->host[i], COUNT);
    }
    if (call.part != UPDATE_DIRECTION) check_rounded(found);
    free(expected);
    free(found);
}

static void optimizers_step_as_on_the_cpu_and_round_what_they_wrote(void **state)
{
    (void)state;
    static int there;  // any address: which moments there are
    struct draw draw = draw_start("optimizers", 71);
    struct world cpu = open_cpu(), cuda = open_world(emulated_backend(PRECISION_BF16));
    for (enum optimizer o = 0; o < OPTIMIZER_COUNT; o++) {
        bool is_adam = o == OPTIMIZER_ADAM || o == OPTIMIZER_ADAMW || o == OPTIMIZER_LAMB;
        bool is_whole = o != OPTIMIZER_LAMB && o != OPTIMIZER_LARS;
        struct update_call call = {.optimizer = o,
                                   .count = COUNT,
                                   .second_moments = is_adam ? &there : NULL,
                                   .gradient_scale = 0.5,
                                   .learning_rate = 1e-2,
                                   .beta1 = 0.9,
                                   .beta2 = 0.95,
                                   .epsilon = 1e-8,
                                   .weight_decay = 0.1,
                                   .momentum = 0.9,
                                   .trust_ratio = 0.7,
                                   .step = 3};
        for (int has_first = is_adam; has_first < 2; has_first++) {
            call.first_moments = has_first ? &there : NULL;
            for (int part = is_whole ? UPDATE_ALL : UPDATE_DIRECTION;
                 part <= (is_whole ? UPDATE_ALL : UPDATE_APPLY); part++) {
                call.part = (enum update_part)part;
                check_update(&draw, &cpu, &cuda, call);
            }
        }
    }
    cpu.backend->close(cpu.device);
    cuda.backend->close(cuda.device);
}

static void sums_and_factors_are_those_of_the_cpu(void **state)
{
    (void)state;
    float reals[COUNT], scaled[COUNT];
    struct draw draw = draw_start("sums", 72);
    struct world cpu = open_cpu(), cuda = open_world(emulated_backend(PRECISION_FP32));
    double expected = 1, found = 1;
    void *memory;
    draw_reals(&draw, reals, COUNT);
    memcpy(scaled, reals, sizeof reals);
    assert_null(cuda.backend->allocate(cuda.device, sizeof reals, &memory));
    assert_null(
        cuda.backend->copy(cuda.device, STREAM_DP, COPY_FROM_HOST, memory, reals, sizeof reals));
    assert_null(cpu.backend->sum_squares(cpu.device, STREAM_DP, reals, COUNT, &expected));
    assert_null(cuda.backend->sum_squares(cuda.device, STREAM_DP, memory, COUNT, &found));
    assert_true(fabs(found - expected) < 1e-9 * expected);
    assert_null(cpu.backend->scale(cpu.device, STREAM_DP, scaled, COUNT, -0.25));
    assert_null(cuda.backend->scale(cuda.device, STREAM_DP, memory, COUNT, -0.25));
    assert_null(
        cuda.backend->copy(cuda.device, STREAM_DP, COPY_TO_HOST, reals, memory, sizeof reals));
    assert_close("scale", reals, scaled, COUNT);
    cuda.backend->release(cuda.device, memory);
    cpu.backend->close(cpu.device);
    cuda.backend->close(cuda.device);
}

static void boxes_are_those_of_the_cpu(void **state)
{
    (void)state;
    enum { ROOM = 6 * 6 * 6 * 6 };
    float from[ROOM], expected[ROOM], found[ROOM];
    struct draw draw = draw_start("boxes", 73);
    struct world cpu = open_cpu(), cuda = open_world(emulated_backend(PRECISION_FP16));
    const struct backend *b = cuda.backend;
    void *to_there, *from_there;
    assert_null(b->allocate(cuda.device, sizeof found, &to_there));
    assert_null(b->allocate(cuda.device, sizeof from, &from_there));
    for (int trial = 0; trial < TRIALS; trial++) {
        struct box_copy copy = draw_box(&draw, ELEMENT_FP32), there = copy;
        draw_reals(&draw, from, ROOM);
        draw_reals(&draw, expected, ROOM);
        assert_null(
            b->copy(cuda.device, STREAM_PP, COPY_FROM_HOST, to_there, expected, sizeof expected));
        assert_null(b->copy(cuda.device, STREAM_PP, COPY_FROM_HOST, from_there, from, sizeof from));
        copy.to = expected, copy.from = from;
        there.to = to_there, there.from = from_there;
        assert_null(cpu.backend->box(cpu.device, STREAM_PP, &copy));
        assert_null(b->box(cuda.device, STREAM_PP, &there));
        assert_null(b->copy(cuda.device, STREAM_PP, COPY_TO_HOST, found, to_there, sizeof found));
        assert_memory_equal(found, expected, sizeof found);
    }
    b->release(cuda.device, to_there);
    b->release(cuda.device, from_there);
    b->close(cuda.device);
    cpu.backend->close(cpu.device);
}

static const char LLAMA[] =
    "{\"model_type\": \"llama\", \"vocab_size\": 37, \"hidden_size\": 16, \"intermediate_size\": "
    "24, \"num_hidden_layers\": 2, \"num_attention_heads\": 4, \"num_key_value_heads\": 2, "
    "\"head_dim\": 4, \"tie_word_embeddings\": false}";
// Rows that threads cannot hold whole: the norm behind a residual adds and reads them in turn.
static const char WIDE[] =
    "{\"model_type\": \"llama\", \"vocab_size\": 37, \"hidden_size\": 1044, \"intermediate_size\": "
    "24, \"num_hidden_layers\": 2, \"num_attention_heads\": 4, \"num_key_value_heads\": 2, "
    "\"head_dim\": 4, \"tie_word_embeddings\": false}";
static const char GPT2[] =
    "{\"model_type\": \"gpt2\", \"vocab_size\": 37, \"n_embd\": 16, \"n_layer\": 2, \"n_head\": 4, "
    "\"n_positions\": 16, \"attn_pdrop\": 0.1, \"resid_pdrop\": 0.1, \"embd_pdrop\": 0.1}";

// The engine on memory that is not the host's: losses, weights and gradients of a few steps.
static void whole_runs_are_those_of_the_cpu(void **state)
{
    const char *models[] = {LLAMA, WIDE, GPT2};
    for (size_t m = 0; m < sizeof models / sizeof *models; m++) {
        struct run_case of = run_case_new(models[m], 16, 4);
        struct err err = {0};
        of.steps = 2;
        of.dropout = true;
        of.poison = models[m] != WIDE;  // which keeps operators apart
        of.backend = "cpu-fp64";
        struct run_outcome *expected = run_case_run(*state, &of, &err);
        assert_string_equal(err.text, "");
        of.backend = "cuda";
        struct run_outcome *found = run_case_run(*state, &of, &err);
        assert_string_equal(err.text, "");
        assert_string_equal(found->error, "");
        for (int i = 0; i < of.steps; i++) {
            assert_true(fabs(found->loss[i] - expected->loss[i]) < 1e-5 * expected->loss[i]);
            assert_true(fabs(found->norm[i] - expected->norm[i]) < 1e-4 * expected->norm[i]);
        }
        // The bias of keys has no gradient but rounding, which Adam makes a step of full length.
        const char *difference =
            models[m] != GPT2 ? run_outcome_difference(*state, expected, found, 1e-3) : NULL;
        if (difference) fail_msg("%s", difference);
    }
}

static double seconds_of(const struct run_outcome *outcome, enum run_group group, int first,
                         int last)
{
    double seconds = 0;
    for (int k = 0; k < outcome->kind_count; k++) {
        const struct run_kind *kind = &outcome->kinds[k];
        if (kind->group != group || kind->index < first || kind->index > last) continue;
        seconds += kind->measured_s;
    }
    return seconds;
}

// Operators are timed in one step, the slots that they are in in all: where a slot begins and ends
// an event of an operator is in every step, and its other one of that step alone.
static void operators_take_no_longer_than_their_slots(void **state)
{
    struct run_case of = run_case_new(LLAMA, 16, 4);
    struct err err = {0};
    of.steps = 8, of.poison = false;
    of.backend = "cuda";
    const struct run_outcome *found = run_case_run(*state, &of, &err);
    assert_string_equal(err.text, "");
    assert_string_equal(found->error, "");
    double slots = seconds_of(found, RUN_TASK, TASK_FORWARD, TASK_FORWARD) +
                   seconds_of(found, RUN_TASK, TASK_BACKWARD, TASK_BACKWARD);
    double operators = seconds_of(found, RUN_OPERATOR, 0, OP_KIND_COUNT);
    assert_true(found->replay_count > 0);
    // The step in which they are timed may be a slow one.
    assert_true(operators > 0.2 * slots && operators < 3 * slots);
}

// One step runs all by itself, one is timed, two replay. Of recordings each is refused, or every
// second breaks: those runs of operators are never replayed, the others in both steps, and what is
// computed stays the same to the bit.
static void what_cannot_be_recorded_runs_by_itself(void **state)
{
    static const struct {
        const char *fault;
        int each;
    } CASES[] = {{"begin=1", 1}, {"capture=2", 2}};
    struct run_case of = run_case_new(LLAMA, 4, 2);
    of.steps = 4, of.poison = false;
    of.backend = "cuda";
    const struct run_outcome *whole = run_case_done(*state, &of);
    int64_t runs = whole->replay_count / 2;
    assert_true(runs > 1 && whole->replay_count == 2 * runs);
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES && !getenv("MESHWRIGHT_TEST_GPU"); i++) {
        setenv("MESHWRIGHT_EMULATED_FAULT", CASES[i].fault, 1);
        const struct run_outcome *some = run_case_done(*state, &of);
        unsetenv("MESHWRIGHT_EMULATED_FAULT");
        const char *difference = run_outcome_bits(*state, whole, some);
        if (difference) fail_msg("%s: %s", CASES[i].fault, difference);
        assert_int_equal(some->replay_count, 2 * (runs - runs / CASES[i].each));
    }
}

static void without_a_device_the_true_one_says_so_in_a_line(void **state)
{
    struct err err = {0}, none = {0};
    const char *note = NULL;
    const struct backend *backend = backend_open("cuda", &err);
    assert_non_null(backend_choose(*state, "auto", &note, &none));
    if (backend) {
        assert_string_equal(backend->name, "cuda");
        assert_non_null(backend->at(PRECISION_BF16));
        assert_null(backend->at(PRECISION_FP4));
        return;
    }
    assert_int_equal(err.kind, ERR_SYSTEM);
    assert_null(strchr(err.text, '\n'));
    bool is_built = strstr(err.text, "cannot be used: no device") != NULL;
    bool is_missing = strstr(err.text, "no exec_cuda.so") != NULL;
    assert_true(is_built || is_missing);
    assert_true(strncmp(note, "cpu on ", 7) == 0);
    assert_non_null(strstr(note, err.text));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        // First: ranks are forked, and CUDA does not outlive the fork of who has used it.
        cmocka_unit_test(whole_runs_are_those_of_the_cpu),
        cmocka_unit_test(operators_take_no_longer_than_their_slots),
        cmocka_unit_test(what_cannot_be_recorded_runs_by_itself),
        cmocka_unit_test(optimizers_step_as_on_the_cpu_and_round_what_they_wrote),
        cmocka_unit_test(sums_and_factors_are_those_of_the_cpu),
        cmocka_unit_test(boxes_are_those_of_the_cpu),
        cmocka_unit_test(without_a_device_the_true_one_says_so_in_a_line),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
