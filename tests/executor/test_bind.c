#include "executor/calibrate/calibrate.h"
#include "tests/support/test.h"

#include <sched.h>

// Ranks that are bound to cores: how many a host has, of machines that hwloc is told of, and what
// the process may run on, of this one.

struct made_up {
    const char *text;  // hwloc's words for it
    int core_count;
};

// Cores count, and where there are none what runs on them.
static const struct made_up MACHINES[] = {
    {"package:2 core:3 pu:2", 6}, {"package:1 core:1 pu:4", 1}, {"package:1 pu:3", 3}};

static void cores_are_those_of_the_machine(void **state)
{
    (void)state;
    // Checks with sanitizers leave components of hwloc out by a list, beside which it hears of
    // none.
    const char *list = getenv("HWLOC_COMPONENTS");
    char *kept = list ? strdup(list) : NULL;
    assert_int_equal(setenv("HWLOC_COMPONENTS", "synthetic,stop", 1), 0);
    for (size_t i = 0; i < sizeof MACHINES / sizeof *MACHINES; i++) {
        int cores = MACHINES[i].core_count;
        assert_int_equal(setenv("HWLOC_SYNTHETIC", MACHINES[i].text, 1), 0);
        for (int ranks = 1; ranks <= cores + 1; ranks++) {
            struct binding binding = binding_make(ranks - 1, ranks);
            assert_int_equal(binding.core_count, cores);
            // As many as there are have one each; of more none has.
            assert_int_equal(binding.is_bound, ranks <= cores);
            binding_undo(&binding);
            assert_false(binding.is_bound);
        }
        unsetenv("HWLOC_SYNTHETIC");
    }
    unsetenv("HWLOC_COMPONENTS");
    if (kept) assert_int_equal(setenv("HWLOC_COMPONENTS", kept, 1), 0);
    free(kept);
}

static void a_rank_runs_on_its_core_and_then_where_it_did(void **state)
{
    cpu_set_t before, bound, after, both;
    (void)state;
    assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
    struct binding first = binding_make(0, 1);
    assert_true(first.core_count >= 1 && first.is_bound);
    assert_int_equal(sched_getaffinity(0, sizeof bound, &bound), 0);
    CPU_AND(&both, &before, &bound);
    assert_true(CPU_EQUAL(&both, &bound) && CPU_COUNT(&bound) >= 1);
    // Of one core; those of the others are left.
    if (first.core_count > 1) assert_true(CPU_COUNT(&bound) < CPU_COUNT(&before));
    binding_undo(&first);
    assert_int_equal(sched_getaffinity(0, sizeof after, &after), 0);
    assert_true(CPU_EQUAL(&before, &after) && !first.is_bound);
    struct binding more = binding_make(0, first.core_count + 1);
    assert_int_equal(sched_getaffinity(0, sizeof after, &after), 0);
    assert_true(CPU_EQUAL(&before, &after) && !more.is_bound);
    assert_int_equal(more.core_count, first.core_count);
    binding_undo(&more);
    assert_in_range(binding_core_count(), 1, CPU_COUNT(&before));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cores_are_those_of_the_machine),
        cmocka_unit_test(a_rank_runs_on_its_core_and_then_where_it_did),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
