#include "cli/interrupt.h"
#include "planner/search.h"
#include "tests/support/test.h"

#include "planner/choice.h"
#include "topologies/cluster.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

// A search that is told to stop, and the signal that tells it.

static struct search_request request_of(struct arena *arena, const char *cluster,
                                        int64_t global_batch)
{
    struct err err = {0};
    struct search_request request = {.pins = pins_none(), .top = 5};
    request.model = model_load(arena, "qwen3-8b", NULL, NULL, &err);
    request.cluster = cluster_load(arena, cluster, &err);
    request.stack = stack_load(arena, "megatron-core", &err);
    request.fabrics = fabrics_load(arena, &err);
    assert_string_equal(err.text, "");
    request.workload = (struct workload){.seq_len = 4096,
                                         .global_batch = global_batch,
                                         .precision = PRECISION_BF16,
                                         .optimizer = OPTIMIZER_ADAMW};
    return request;
}

static void what_is_stopped_before_it_starts_has_no_plan(void **state)
{
    const enum objective objectives[] = {OBJECTIVE_TIME, OBJECTIVE_MEMORY};
    for (int i = 0; i < 4; i++) {
        atomic_bool stop = true;
        struct search_request request = request_of(*state, "dgx-h100-x8", 1024);
        struct search_result result = {0};
        struct err err = {0};
        request.stop = &stop;
        request.objective = objectives[i % 2];
        request.exhaustive = i >= 2;
        assert_true(search_plans(*state, &request, &result, &err));
        assert_int_equal(result.status, SEARCH_STOPPED);
        assert_int_equal(result.best_count, 0);
        assert_true(result.considered_count > 0);
    }
}

// Where nothing fits, too, nobody knows yet.
static void what_is_stopped_does_not_say_that_nothing_fits(void **state)
{
    atomic_bool stop = true;
    struct search_request request = request_of(*state, "dgx-h100", 1024);
    struct search_result result = {0};
    struct err err = {0};
    request.stop = &stop;
    request.model = model_load(*state, "llama-3.1-405b", NULL, NULL, &err);
    assert_true(search_plans(*state, &request, &result, &err));
    assert_int_equal(result.status, SEARCH_STOPPED);
}

// Stops as soon as something is found.
static void stop_with_a_plan(void *context, double done_ratio, double best_s, double plans_per_s)
{
    (void)done_ratio;
    (void)plans_per_s;
    if (best_s > 0) atomic_store((atomic_bool *)context, true);
}

static void the_best_so_far_is_no_proof(void **state)
{
    atomic_bool stop = false;
    struct search_request request = request_of(*state, "dgx-h100-x8", 1024);
    struct search_result stopped = {0}, whole = {0};
    struct err err = {0};
    assert_true(search_plans(*state, &request, &whole, &err));
    request.exhaustive = true;  // of minutes
    request.stop = &stop;
    request.progress = stop_with_a_plan;
    request.progress_context = &stop;
    assert_true(search_plans(*state, &request, &stopped, &err));
    assert_int_equal(stopped.status, SEARCH_STOPPED);
    assert_true(stopped.best_count > 0);
    assert_true(stopped.bound_s == 0 && stopped.layers_s == 0 && stopped.bound_bytes == 0);
    assert_true(stopped.priced_count > 0);
    assert_true(stopped.priced_count < stopped.considered_count);
    assert_true(stopped.best[0].simulated);
    assert_true(stopped.best[0].closed_form_s >= whole.bound_s * (1 - 1e-12));
}

static void a_flag_that_stays_down_changes_nothing(void **state)
{
    atomic_bool stop = false;
    struct search_request request = request_of(*state, "dgx-h100-x2", 128);
    struct search_result with = {0}, without = {0};
    struct err err = {0};
    assert_true(search_plans(*state, &request, &without, &err));
    request.stop = &stop;
    assert_true(search_plans(*state, &request, &with, &err));
    assert_int_equal(with.status, without.status);
    assert_true(with.bound_s == without.bound_s);
    assert_true(with.best[0].cost.step_s == without.best[0].cost.step_s);
}

// The signal by which a child that does this ended; 0: it did not. Whoever starts a job behind the
// terminal may have it ignore the signal.
static int signal_of(void (*child)(void))
{
    int status = 0;
    pid_t pid = fork();
    if (pid == 0) {
        signal(SIGINT, SIG_DFL);
        child();
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

static void raise_once(void)
{
    const atomic_bool *stop = interrupt_catch();
    if (atomic_load(stop)) raise(SIGKILL);
    raise(SIGINT);
    if (!atomic_load(stop)) raise(SIGKILL);
}

static void raise_twice(void)
{
    raise_once();
    raise(SIGINT);
}

static void raise_after_release(void)
{
    interrupt_catch();
    interrupt_release();
    raise(SIGINT);
}

static void raise_ignored(void)
{
    signal(SIGINT, SIG_IGN);
    const atomic_bool *stop = interrupt_catch();
    raise(SIGINT);
    if (atomic_load(stop)) raise(SIGKILL);
    interrupt_release();
    raise(SIGINT);
}

static void the_first_signal_asks_and_the_second_ends(void **state)
{
    (void)state;
    assert_int_equal(signal_of(raise_once), 0);
    assert_int_equal(signal_of(raise_twice), SIGINT);
    assert_int_equal(signal_of(raise_after_release), SIGINT);
    assert_int_equal(signal_of(raise_ignored), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_stopped_before_it_starts_has_no_plan),
        cmocka_unit_test(what_is_stopped_does_not_say_that_nothing_fits),
        cmocka_unit_test(the_best_so_far_is_no_proof),
        cmocka_unit_test(a_flag_that_stays_down_changes_nothing),
        cmocka_unit_test(the_first_signal_asks_and_the_second_ends),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
