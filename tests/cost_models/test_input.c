#include "cost_models/input.h"
#include "tests/support/priced.h"
#include "tests/support/test.h"

#include <math.h>

// gpt2 on four hosts of eight ranks: dp 4 of tp 4 and pp 2, 64 sequences of 1,024. Of a host's
// eight ranks four are of the first stage and four of the last, all of one dp, which has 16
// sequences; a row is 1,026 ids, of 2 bytes in files and 8 on their way.
enum { ROW = 1026, SEQUENCES = 64, OF_HOST = 16, HOSTS = 4, HOST_RANKS = 8 };

static struct priced *gpt2(struct arena *arena)
{
    struct priced *of = ARENA_NEW(arena, struct priced, 1);
    *of = priced_start(arena, "gpt2", "dgx-a100-80g-x4", "megatron-core");
    of->parallel.degree[AXIS_TP] = 4;
    of->parallel.degree[AXIS_PP] = 2;
    of->workload.global_batch = SEQUENCES;
    of->workload.seq_len = ROW - READERS_IDS_AHEAD;
    // Stages of a replica stand together.
    for (int i = 0; i < AXIS_COUNT; i++) {
        enum axis axis = of->parallel.order[i];
        if (axis == AXIS_PP || axis == AXIS_DP)
            of->parallel.order[i] = axis == AXIS_PP ? AXIS_DP : AXIS_PP;
    }
    priced_finish(of);
    return of;
}

static struct input_price price_of(const struct priced *of, enum readers readers, double step_s)
{
    struct input_request request = {.program = of->program, .readers = readers, .step_s = step_s};
    return input_price(of->arena, &request);
}

static void a_price_is_that_worked_by_hand(void **state)
{
    const struct priced *of = gpt2(*state);
    struct host *host = &of->cluster->nodes[0].host;
    double nic = of->cluster->nodes[0].nics.bandwidth_bytes_per_s;
    double latency_s = of->cluster->network.latency_s, all = 8.0 * ROW * SEQUENCES;
    double memory_s = 2.0 * HOST_RANKS * OF_HOST * ROW * 8 / host->memory_bandwidth_bytes_per_s;
    assert_true(input_has_ids(of->program));

    struct input_price each = price_of(of, READERS_RANK, 1);
    assert_int_equal(each.reader_count, HOSTS * HOST_RANKS);
    assert_true(each.read_bytes == 2.0 * ROW * OF_HOST * HOSTS * HOST_RANKS);
    assert_true(each.drive_bytes == 2.0 * ROW * OF_HOST);
    assert_true(each.broadcast_bytes == 0 && each.wait_s == 0);

    struct input_price by_host = price_of(of, READERS_HOST, 1);
    assert_int_equal(by_host.reader_count, HOSTS);
    assert_true(by_host.read_bytes == 2.0 * ROW * SEQUENCES);
    assert_true(by_host.broadcast_bytes == 8.0 * ROW * OF_HOST * HOSTS * (HOST_RANKS - 1));
    assert_true(fabs(by_host.broadcast_s / memory_s - 1) < 1e-12);

    struct input_price one = price_of(of, READERS_ONE, 1);
    assert_int_equal(one.reader_count, 1);
    assert_true(one.host_read_bytes == 2.0 * ROW * SEQUENCES);
    assert_true(one.broadcast_bytes == by_host.broadcast_bytes + all * (HOSTS - 1));
    assert_true(fabs(one.broadcast_s / (memory_s + 2 * (latency_s + all / nic)) - 1) < 1e-12);
    assert_true(fabs(one.read_s * host->nvme_bytes_per_s / one.read_bytes - 1) < 1e-12);
}

static void what_a_step_does_not_hide_is_waited_for(void **state)
{
    const struct priced *of = gpt2(*state);
    struct host *host = &of->cluster->nodes[0].host;
    host->nvme_bytes_per_s = 2.0 * ROW * OF_HOST;
    struct input_price hidden = price_of(of, READERS_RANK, 1.25);
    assert_true(hidden.read_s == 1 && hidden.wait_s == 0 && !input_is_bottleneck(&hidden));
    struct input_price short_step = price_of(of, READERS_RANK, 0.75);
    assert_true(short_step.wait_s == 0.25 && input_is_bottleneck(&short_step));
    // Within what a step varies by.
    struct input_price nearly = price_of(of, READERS_RANK, 0.985);
    assert_true(nearly.wait_s > 0 && !input_is_bottleneck(&nearly));
}

static void what_is_not_given_is_not_guessed(void **state)
{
    const struct priced *of = gpt2(*state);
    of->cluster->nodes[0].nics.count = 0;
    struct input_price one = price_of(of, READERS_ONE, 1e-9);
    assert_true(isnan(one.broadcast_s) && isnan(one.wait_s) && one.read_s > 0);
    of->cluster->nodes[0].host.nvme_bytes_per_s = 0;
    struct input_price by_host = price_of(of, READERS_HOST, 1e-9);
    assert_true(isnan(by_host.read_s) && isnan(by_host.wait_s) && by_host.broadcast_s > 0);
    assert_false(input_is_bottleneck(&by_host));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_price_is_that_worked_by_hand),
        cmocka_unit_test(what_a_step_does_not_hide_is_waited_for),
        cmocka_unit_test(what_is_not_given_is_not_guessed),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
