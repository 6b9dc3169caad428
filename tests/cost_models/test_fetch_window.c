#include "tests/support/test.h"

#include "tests/support/priced.h"

#include <math.h>

// What parameters that come from a drive leave of the time in which a ring is hidden.

// Keys and values go round four ranks; parameters come from a drive of so many bytes a second.
static struct priced from_drive(struct arena *arena, double bytes_per_s)
{
    struct priced of = priced_start(arena, "llama-3-8b", "dgx-h100", "meshwright");
    struct host *host = &of.cluster->nodes[0].host;
    host->nvme_bytes_per_s = bytes_per_s;
    host->nvme_bytes = 1e15;
    of.workload.seq_len = 65536;
    of.parallel.degree[AXIS_CP] = 4;
    of.parallel.offload.parameters = of.parallel.offload.optimizer = TIER_NVME;
    priced_finish(&of);
    return of;
}

static double ring_s(const struct priced *of, unsigned overlap, enum phase phase)
{
    const struct block_program *layer = priced_block(of, BLOCK_LAYER);
    struct block_price price = block_price(&of->context, &of->program->mesh, layer, overlap);
    return price.phase_s[phase][PART_CP];
}

// A second that covers reading ahead covers nothing else, whether or not copies wait.
static void reading_ahead_fills_the_window_of_a_ring(void **state)
{
    struct priced slow = from_drive(*state, 1e7), fast = from_drive(*state, 1e15);
    for (enum phase phase = PHASE_FORWARD; phase <= PHASE_BACKWARD; phase++) {
        double exposed_s = ring_s(&slow, 0, phase);
        assert_true(exposed_s > 0 && ring_s(&fast, OVERLAP_CP, phase) < 0.5 * exposed_s);
        unsigned ahead = OVERLAP_CP | OVERLAP_PARAM_GATHER;
        assert_true(fabs(ring_s(&slow, ahead, phase) - exposed_s) <= 1e-12 * exposed_s);
        assert_true(fabs(ring_s(&slow, OVERLAP_CP, phase) - exposed_s) <= 1e-12 * exposed_s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reading_ahead_fills_the_window_of_a_ring),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
