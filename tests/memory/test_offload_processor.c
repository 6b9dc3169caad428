#include "tests/support/priced.h"
#include "tests/support/test.h"

#include "cost_models/ledger.h"
#include "cost_models/offload.h"
#include "cost_models/parameters.h"
#include "plan/offload.h"

#include <math.h>
#include <string.h>

// Where the device is the host's processor: it copies between its kernels, and a thread reads and
// writes drives beside them. Each case against a sum by hand.

static struct priced priced_on(struct arena *arena, const char *words, bool is_processor)
{
    struct priced of = priced_start(arena, "llama-2-7b", "dgx-a100-80g", "meshwright");
    struct device *device = ARENA_NEW(arena, struct device, 1);
    *device = *of.cluster->nodes[0].device;
    if (is_processor) device->kind = "cpu";
    of.cluster->nodes[0].device = device;
    // A rank's drive is slower than its link, by so much that compute hides a part of it.
    of.cluster->nodes[0].host.nvme_bytes_per_s = 30e9;
    of.parallel.overlap = 0;
    bool is_read = offload_parse(words, &of.parallel.offload);
    assert_true(is_read);
    priced_finish(&of);
    return of;
}

static struct block_price layer_price(const struct priced *of)
{
    return block_price(&of->context, &of->program->mesh, priced_block(of, BLOCK_LAYER),
                       of->parallel.overlap);
}

static struct copy_price copies(const struct priced *of, enum tier tier)
{
    struct block_price price = layer_price(of);
    unsigned all = (1u << OP_CLASS_COUNT) - 1;
    return copy_price(&of->context, tier, priced_block(of, BLOCK_LAYER), &price, all);
}

static double compute_of(const struct priced *of, enum phase phase)
{
    struct block_price price = layer_price(of);
    double s = price.phase_s[phase][PART_COMPUTE] + price.phase_s[phase][PART_RECOMPUTE];
    const double *weight = price.phase_s[PHASE_WEIGHT];
    return phase == PHASE_BACKWARD ? s + weight[PART_COMPUTE] + weight[PART_RECOMPUTE] : s;
}

static bool is_near(double a, double b)
{
    return fabs(a - b) <= 1e-9 * fmax(fabs(a), fabs(b));
}

static void a_processor_hides_no_copy_but_what_its_drive_does(void **state)
{
    for (int on_processor = 0; on_processor < 2; on_processor++) {
        struct priced of = priced_on(*state, "none", on_processor);
        double link = offload_bytes_per_s(&of.context, TIER_HOST);
        double drive = offload_bytes_per_s(&of.context, TIER_NVME);
        double forward_s = compute_of(&of, PHASE_FORWARD);
        double backward_s = compute_of(&of, PHASE_BACKWARD);
        struct copy_price host = copies(&of, TIER_HOST), nvme = copies(&of, TIER_NVME);
        const struct block_program *layer = priced_block(&of, BLOCK_LAYER);
        int arrays = 0;
        for (int class = 0; class < OP_CLASS_COUNT; class ++)
            arrays += layer->class_saved_count[class];
        assert_true(arrays > 5 && arrays < 30);
        double started_s = arrays * of.context.compute.device->launch_latency_s;
        double host_s = host.bytes / link + started_s, nvme_s = nvme.bytes / drive + started_s;
        assert_true(drive < link && host_s > forward_s / 4 && nvme_s > forward_s);
        double room_s = on_processor ? host_s : 0;
        assert_true(is_near(host.forward_s, on_processor ? host_s : fmax(0, host_s - forward_s)));
        assert_true(is_near(host.backward_s, on_processor ? host_s : fmax(0, host_s - backward_s)));
        assert_true(is_near(nvme.forward_s, fmax(room_s, nvme_s - forward_s)));
        assert_true(is_near(nvme.backward_s, fmax(room_s, fmax(0, nvme_s - backward_s))));
    }
}

// What is read ahead is hidden as far as the compute of the block goes; the copy is waited for.
static void a_fetch_from_a_drive_is_read_ahead(void **state)
{
    for (int on_processor = 0; on_processor < 2; on_processor++) {
        struct priced of = priced_on(*state, "optimizer@nvme,parameters@nvme", on_processor);
        struct priced near = priced_on(*state, "optimizer,parameters", on_processor);
        double bytes = 2 * (double)priced_block(&of, BLOCK_LAYER)->parameter_elements;
        double copy_s = bytes / offload_bytes_per_s(&of.context, TIER_HOST);
        double read_s = bytes / offload_bytes_per_s(&of.context, TIER_NVME);
        double found_s = layer_price(&of).phase_s[PHASE_FORWARD][PART_OFFLOAD];
        double wanted_s = fmax(copy_s, read_s - compute_of(&of, PHASE_FORWARD));
        assert_true(read_s > 1.5 * copy_s && fabs(found_s - wanted_s) < 0.02 * wanted_s);
        double near_s = layer_price(&near).phase_s[PHASE_FORWARD][PART_OFFLOAD];
        assert_true(fabs(near_s - copy_s) < 0.02 * copy_s);
    }
}

// 12 bytes of states a parameter are read and as many written, and its weights of 2 are where they
// are fetched from a drive. In turn, at once, and half as fast again as one way: no way is faster
// than alone.
static void a_drive_reads_and_writes_at_once_as_it_can(void **state)
{
    struct priced of = priced_on(*state, "optimizer@nvme,parameters@nvme", true);
    double drive = offload_bytes_per_s(&of.context, TIER_NVME);
    static const double RATIOS[] = {0, 1, 1.5, 2}, BYTES[] = {26, 26, 26 / 1.5, 14};
    for (int i = 0; i < 4; i++) {
        of.cluster->nodes[0].host.nvme_duplex_ratio = RATIOS[i];
        double nvme_s = host_update(&of.context, of.program,
                                    &(struct host_share){.elements = 1e6, .fetched = 1e6})
                            .nvme_s;
        assert_true(is_near(nvme_s, BYTES[i] * 1e6 / drive));
    }
}

// Lines of an update sum to what it takes, whether its drive or all else is the longer one.
static void lines_of_an_update_sum_to_it(void **state)
{
    for (int is_slow = 0; is_slow < 2; is_slow++) {
        struct priced of = priced_on(*state, "optimizer@nvme", true);
        of.cluster->nodes[0].host.nvme_bytes_per_s = is_slow ? 1e9 : 1e15;
        struct device *device = ARENA_NEW(*state, struct device, 1);
        *device = *of.cluster->nodes[0].device;
        device->memory_bandwidth_bytes_per_s = 1e10;
        of.context.compute.device = device;
        struct ledger ledger = ledger_new(*state);
        of.context.ledger = &ledger;
        struct chunk_price chunk = {0};
        host_update_add(&of.context, of.program, &(struct host_share){.elements = 1e6}, &chunk);
        double sum_s = 0, waited_s = 0;
        for (int i = 0; i < ledger.count; i++) {
            sum_s += ledger.lines[i].exposed_s;
            waited_s += ledger.lines[i].part == PART_OFFLOAD ? ledger.lines[i].exposed_s : 0;
        }
        struct host_update update =
            host_update(&of.context, of.program, &(struct host_share){.elements = 1e6});
        assert_true(is_near(sum_s, chunk.update_s) &&
                    is_near(sum_s - waited_s, update.host_s + (chunk.update_s - update.s)));
        assert_true((update.nvme_s > update.host_s + update.down_s + update.up_s) == is_slow);
    }
}

// Our executor copies unit by unit: of seven five gradients down, and all weights up; other
// software a bucket, which is one on a processor.
static void units_are_copied_one_by_one(void **state)
{
    struct priced of = priced_on(*state, "optimizer", true);
    double launch_s = of.context.compute.device->launch_latency_s;
    struct host_share share = {.elements = 1e6, .units = 7, .away_units = 2};
    struct host_update by_unit = host_update(&of.context, of.program, &share);
    share.units = share.away_units = 0;
    struct host_update at_once = host_update(&of.context, of.program, &share);
    assert_true(is_near(by_unit.down_s, at_once.down_s + 4 * launch_s));
    assert_true(is_near(by_unit.up_s, at_once.up_s + 6 * launch_s));
    // A plan's are told: of each of 32 layers one, and of what stands before and behind them, where
    // buckets are wider.
    of.parallel.bucket_bytes = 2000000000;
    priced_finish(&of);
    double up_s = of.price->classes[0].update_copy_s[1];
    double link = offload_bytes_per_s(&of.context, TIER_HOST);
    const struct parameter_sums sums = parameter_sums(of.program, &of.program->chunks[0]);
    double elements = parameter_stored(of.program, &sums, STORED_STATES);
    assert_true(is_near(up_s, 2 * elements / link + 34 * launch_s));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_processor_hides_no_copy_but_what_its_drive_does),
        cmocka_unit_test(a_fetch_from_a_drive_is_read_ahead),
        cmocka_unit_test(a_drive_reads_and_writes_at_once_as_it_can),
        cmocka_unit_test(lines_of_an_update_sum_to_it),
        cmocka_unit_test(units_are_copied_one_by_one),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
