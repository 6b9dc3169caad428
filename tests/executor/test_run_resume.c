#include "tests/support/test.h"

#include "tests/support/run_case.h"
#include "tests/support/tiny_models.h"

#include <dirent.h>
#include <stdio.h>
#include <unistd.h>

// Runs that write checkpoints and go on from them: the weights, moments and losses of one that
// stayed, to the bit in the same plan, but for rounding in another.

static const char GPT2[] =
    "{\"model_type\": \"gpt2\", \"vocab_size\": 37, \"n_embd\": 16, \"n_layer\": 2, \"n_head\": 4, "
    "\"n_positions\": 16}";
enum { SEQ = 16, BATCH = 8, STEPS = 5 };

struct listener {
    char folder[64], said[80];  // of the checkpoints; what was said, a line each
    int stop_at;                // the how manieth question whether to end says so; 0: none
    int asked;
};

static int every_third(void *context, double pause_s, double write_s, double step_s)
{
    (void)context;
    return pause_s >= 0 && write_s >= 0 && step_s >= 0 ? 3 : 1;
}

static void hear(void *context, const char *line)
{
    const struct listener *listener = context;
    FILE *file = fopen(listener->said, "a");
    assert_non_null(file);
    fprintf(file, "%s\n", line);
    fclose(file);
}

static bool is_asked(void *context)
{
    struct listener *listener = context;
    return ++listener->asked == listener->stop_at;
}

static struct listener listen(void)
{
    struct listener listener = {.folder = "/tmp/meshwright-resume-XXXXXX"};
    assert_non_null(mkdtemp(listener.folder));
    snprintf(listener.said, sizeof listener.said, "%s.said", listener.folder);
    return listener;
}

static const char *heard(struct arena *arena, const struct listener *listener)
{
    FILE *file = fopen(listener->said, "r");
    char *text = ARENA_NEW(arena, char, 4096);
    if (!file) return text;
    text[fread(text, 1, 4095, file)] = '\0';
    fclose(file);
    unlink(listener->said);
    return text;
}

// The names in a folder that begin so, and their count.
static int count_of(const char *folder, const char *begin)
{
    DIR *listing = opendir(folder);
    int count = 0;
    if (!listing) return 0;
    for (const struct dirent *entry = readdir(listing); entry; entry = readdir(listing))
        count += strncmp(entry->d_name, begin, strlen(begin)) == 0;
    closedir(listing);
    return count;
}

static void clear(const struct listener *listener)
{
    char command[128];
    snprintf(command, sizeof command, "rm -r %s", listener->folder);
    assert_int_equal(system(command), 0);
    unlink(listener->said);
}

static struct run_checkpoint checkpoint_of(struct listener *listener, int every, int keep,
                                           enum run_resume resume)
{
    return (struct run_checkpoint){.folder = listener->folder,
                                   .every = every,
                                   .keep = keep,
                                   .resume = resume,
                                   .plan_hash = "fnv1a64:1",
                                   .model = "tiny",
                                   .family = "gpt2",
                                   .optimizer = "adamw",
                                   .interval = every_third,
                                   .say = hear,
                                   .is_stop_asked = is_asked,
                                   .context = listener};
}

static struct run_case case_of(int tp, int dp, int zero, int steps,
                               const struct run_checkpoint *checkpoint)
{
    struct run_case of = run_case_new(GPT2, SEQ, BATCH);
    of.parallel.degree[AXIS_TP] = tp;
    of.parallel.degree[AXIS_DP] = dp;
    of.parallel.zero = zero;
    of.steps = steps;
    of.checkpoint = checkpoint;
    return of;
}

static struct run_outcome *run(struct arena *arena, struct run_case of)
{
    struct err why = {0};
    struct run_outcome *outcome = run_case_run(arena, &of, &why);
    assert_string_equal(why.text, "");
    return outcome;
}

static struct run_outcome *done(struct arena *arena, struct run_case of)
{
    struct run_outcome *outcome = run(arena, of);
    assert_string_equal(outcome->error, "");
    return outcome;
}

// What is left of a run of STEPS behind so many of them, as it should be.
static void is_the_rest(struct arena *arena, const struct run_outcome *whole,
                        const struct run_outcome *rest, int behind, double tolerance)
{
    struct run_outcome cut = *whole;
    cut.step_count = STEPS - behind;
    memmove(cut.loss, whole->loss + behind, sizeof(double) * (size_t)cut.step_count);
    memmove(cut.norm, whole->norm + behind, sizeof(double) * (size_t)cut.step_count);
    const char *difference = tolerance > 0 ? run_outcome_difference(arena, &cut, rest, tolerance)
                                           : run_outcome_bits(arena, &cut, rest);
    if (difference) fail_msg("behind step %d: %s", behind, difference);
    assert_int_equal(rest->step_count, STEPS - behind);
    assert_int_equal(rest->saved.resumed_step, behind);
}

// One plan writes, every plan goes on.
static void every_plan_goes_on_where_one_stopped(void **state)
{
    (void)state;
    static const int PLANS[][3] = {{1, 2, 1}, {2, 1, 0}, {1, 2, 3}, {1, 1, 0}};
    for (int from = 0; from < 4; from++) {
        struct arena arena = {0};
        struct listener listener = listen();
        const int *plan = PLANS[from];
        const struct run_outcome *whole =
            done(&arena, case_of(plan[0], plan[1], plan[2], STEPS, NULL));
        struct run_checkpoint checkpoint = checkpoint_of(&listener, 2, 0, RESUME_NONE);
        const struct run_outcome *begun =
            done(&arena, case_of(plan[0], plan[1], plan[2], 3, &checkpoint));
        assert_int_equal(begun->saved.every, 2);
        assert_int_equal(begun->saved.step, 3);
        assert_int_equal(begun->saved.count, 2);
        assert_int_equal(begun->saved.resumed_step, 0);
        assert_false(begun->saved.is_stopped);
        assert_true(begun->saved.pause_s > 0 && begun->saved.write_s >= begun->saved.pause_s);
        assert_int_equal(count_of(listener.folder, "step-"), 2);
        assert_int_equal(count_of(listener.folder, "."), 2);
        assert_string_equal(heard(&arena, &listener), "");
        for (int to = 0; to < 4; to += from == 0 || from == 2 ? 1 : 4) {
            int next = to == 0 ? from : (from + to) % 4;
            struct run_checkpoint again = checkpoint_of(&listener, 0, 0, RESUME_MUST);
            const int *other = PLANS[next];
            const struct run_outcome *rest =
                done(&arena, case_of(other[0], other[1], other[2], STEPS, &again));
            is_the_rest(&arena, whole, rest, 3, next == from ? 0 : 1e-11);
            assert_int_equal(rest->saved.every, 3);
            assert_int_equal(rest->saved.count, 1);
            assert_int_equal(rest->saved.step, STEPS);
            // 37 * 16 + 16 * 16 + 2 * (12 * 16 * 16 + 13 * 16) + 2 * 16 parameters, three numbers
            // of each in eight bytes; a little more where arrays are placed.
            assert_in_range(rest->saved.bytes, 24 * 7440, 24 * 7440 * 21 / 20);
            if (next == from) assert_int_equal(rest->saved.bytes, begun->saved.bytes);
            const char *line = arena_print(&arena, "goes on behind step 3, from %s/step-00000003\n",
                                           listener.folder);
            assert_string_equal(heard(&arena, &listener), line);
            char command[160];
            snprintf(command, sizeof command, "rm -r %s/step-*5", listener.folder);
            assert_int_equal(system(command), 0);
        }
        clear(&listener);
        arena_free(&arena);
    }
}

static void the_last_ones_are_kept_and_a_stop_ends_with_one(void **state)
{
    struct arena *arena = *state;
    struct listener listener = listen();
    struct run_checkpoint checkpoint = checkpoint_of(&listener, 1, 2, RESUME_AUTO);
    const struct run_outcome *whole = done(arena, case_of(1, 2, 1, STEPS, NULL));
    listener.stop_at = 2;
    const struct run_outcome *begun = done(arena, case_of(1, 2, 1, STEPS, &checkpoint));
    assert_true(begun->saved.is_stopped);
    assert_int_equal(begun->step_count, 2);
    assert_int_equal(begun->saved.step, 2);
    listener.stop_at = 0;
    is_the_rest(arena, whole, done(arena, case_of(1, 2, 1, STEPS, &checkpoint)), 2, 0);
    assert_in_range(count_of(listener.folder, "step-"), 1, 2);
    clear(&listener);
}

// Moments on the host, or on NVMe, are those of the checkpoint, wherever they were before.
static void states_move_between_device_host_and_nvme(void **state)
{
    struct arena *arena = *state;
    static const enum tier TIERS[] = {TIER_HOST, TIER_NVME, TIER_DEVICE};
    const struct run_outcome *whole = done(arena, case_of(1, 2, 1, STEPS, NULL));
    for (int i = 0; i < 3; i++) {
        struct listener listener = listen();
        struct run_checkpoint checkpoint = checkpoint_of(&listener, 2, 0, RESUME_AUTO);
        struct run_case of = case_of(1, 2, 1, 3, &checkpoint);
        of.nvme = "/tmp";
        of.parallel.offload.optimizer = TIERS[i];
        (void)done(arena, of);
        of.parallel.offload.optimizer = TIERS[(i + 1) % 3];
        of.steps = STEPS;
        is_the_rest(arena, whole, done(arena, of), 3, 1e-12);
        clear(&listener);
    }
}

// Runs that must not go on: why, in one line.
static void is_refused(struct arena *arena, struct run_case of, const char *wanted)
{
    const struct run_outcome *outcome = run(arena, of);
    if (outcome->done || !strstr(outcome->error, wanted))
        fail_msg("found \"%s\", wanted \"%s\"", outcome->error, wanted);
}

static void what_cannot_go_on_says_why(void **state)
{
    struct arena *arena = *state;
    struct listener listener = listen();
    struct run_checkpoint must = checkpoint_of(&listener, 2, 0, RESUME_MUST);
    struct run_checkpoint new = checkpoint_of(&listener, 2, 0, RESUME_NONE);
    is_refused(arena, case_of(1, 1, 0, 3, &must), "--resume: no checkpoint in /tmp/");
    (void)done(arena, case_of(1, 1, 0, 2, &new));
    is_refused(arena, case_of(1, 1, 0, 3, &new), "holds a checkpoint of step 2 already");
    is_refused(arena, case_of(1, 1, 0, 2, &must), "is behind step 2, nothing is left to do");
    struct run_case sgd = case_of(1, 1, 0, 3, &must);
    sgd.optimizer = OPTIMIZER_SGD;
    struct run_checkpoint other = must;
    other.optimizer = "sgd";
    sgd.checkpoint = &other;
    is_refused(arena, sgd, "has the state of adamw, the plan updates by sgd");
    struct run_case mixtral = case_of(1, 1, 0, 3, &must);
    mixtral.config = TINY_MIXTRAL;
    is_refused(arena, mixtral, "has a vocabulary of ");
    // A damaged one is not used: what is left of two is the first.
    (void)done(arena, case_of(1, 1, 0, 4, &must));
    char command[160];
    snprintf(command, sizeof command, "truncate -s 99 %s/step-00000004/rank-00000.safetensors",
             listener.folder);
    assert_int_equal(system(command), 0);
    (void)heard(arena, &listener);
    const struct run_outcome *whole = done(arena, case_of(1, 1, 0, STEPS, NULL));
    is_the_rest(arena, whole, done(arena, case_of(1, 1, 0, STEPS, &must)), 2, 0);
    const char *said = heard(arena, &listener);
    assert_non_null(strstr(said, "the checkpoint of step 4 is damaged and not used: "));
    assert_non_null(strstr(said, "goes on behind step 2, from "));
    clear(&listener);
}

// What has more than 2^20 elements is read back in pieces.
static void large_parameters_come_back_in_pieces(void **state)
{
    struct listener listener = listen();
    struct run_checkpoint checkpoint = checkpoint_of(&listener, 9, 1, RESUME_NONE);
    struct run_case of = case_of(1, 1, 0, STEPS, NULL);
    of.config = "{\"model_type\": \"gpt2\", \"vocab_size\": 66000, \"n_embd\": 16, "
                "\"n_layer\": 1, \"n_head\": 4, \"n_positions\": 4}";
    of.seq_len = 4;
    of.global_batch = 2;
    const struct run_outcome *whole = done(*state, of);
    of.checkpoint = &checkpoint;
    of.steps = 3;
    done(*state, of);
    checkpoint.resume = RESUME_MUST;
    of.steps = STEPS;
    is_the_rest(*state, whole, done(*state, of), 3, 0);
    clear(&listener);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_plan_goes_on_where_one_stopped),
        cmocka_unit_test(the_last_ones_are_kept_and_a_stop_ends_with_one),
        cmocka_unit_test(states_move_between_device_host_and_nvme),
        cmocka_unit_test(large_parameters_come_back_in_pieces),
        cmocka_unit_test(what_cannot_go_on_says_why),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
