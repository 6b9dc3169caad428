#include "tests/support/test.h"

#include "planner/choice.h"
#include "reports/whatif/scenario.h"
#include "topologies/offers.h"

#include <stdio.h>
#include <unistd.h>

static struct offers *load(struct arena *arena, const char *name)
{
    struct err err = {0};
    struct offers *offers = offers_load(arena, name, &err);
    assert_string_equal(err.text, "");
    return offers;
}

// The rental page of requirement C25.
static void the_shipped_offers_say_what_their_source_says(void **state)
{
    struct arena *arena = *state;
    struct offers *offers = load(arena, "rental-2024");
    static const struct {
        const char *name, *device;
        double price;
        int64_t device_bytes_least;
    } WANTED[] = {{"h800", "h800-sxm5-80g", 5.99, 79},
                  {"a800", "a800-sxm4-80g", 5.99, 79},
                  {"910b", "ascend-910b-64g", 5.99, 60},
                  {"4090", "rtx-4090-24g", 1.99, 23}};
    assert_string_equal(offers->currency, "CNY");
    assert_int_equal(offers->count, 4);
    for (int i = 0; i < offers->count; i++) {
        const struct offer *offer = &offers->items[i];
        const struct node_group *node = &offer->cluster->nodes[0];
        assert_string_equal(offer->name, WANTED[i].name);
        assert_string_equal(node->device->name, WANTED[i].device);
        assert_true(offer->price_per_gpu_hour == WANTED[i].price);
        assert_true(node->device->memory_bytes >> 30 >= WANTED[i].device_bytes_least);
        assert_int_equal(offer->cores_per_gpu, 20);
        assert_int_equal(offer->host_memory_bytes_per_gpu, 181000000000);
    }
    int free = 0, total = 0;
    for (int i = 0; i < offers->items[0].host_count; i++) {
        free += offers->items[0].hosts[i].count * offers->items[0].hosts[i].free;
        total += offers->items[0].hosts[i].count * offers->items[0].hosts[i].total;
    }
    assert_int_equal(free, 7);
    assert_int_equal(total, 32);
    // A coupon of 50 is "20+ hours" of a 4090.
    assert_true((int)(offers->credits / offers->items[3].price_per_gpu_hour) == 25);
}

static void no_cluster_has_more_of_a_host_than_is_free(void **state)
{
    struct arena *arena = *state;
    struct offers *offers = load(arena, "rental-2024");
    int count = 0, seen = 0;
    const struct offer_cluster *clusters = offers_clusters(arena, offers, &count);
    assert_int_equal(count, 6 + 8 + 8 + 8 + 1);
    for (int i = 0; i < count; i++) {
        const struct cluster *cluster = clusters[i].cluster;
        const struct node_group *node = &cluster->nodes[0];
        int with_room = 0, most = 0;
        for (int k = 0; k < clusters[i].offer->host_count; k++) {
            const struct offer_hosts *hosts = &clusters[i].offer->hosts[k];
            if (hosts->free >= node->gpus) with_room += hosts->count;
            if (hosts->free > most) most = hosts->free;
        }
        assert_true(node->gpus <= most && node->count <= with_room);
        assert_int_equal(cluster->rank_count, node->gpus * node->count);
        assert_int_equal(node->host.memory_bytes, 181000000000 * node->gpus);
        assert_int_equal(node->host.cores, 20 * node->gpus);
        assert_true(node->nics.count >= 1);
        assert_string_equal(cluster->price.date, "2024");
        assert_string_equal(cluster->price.source, offers->source);
        seen += strcmp(cluster->name, "h800 1 x 6") == 0;
        seen += strcmp(cluster->name, "h800 2 x 1") == 0;
    }
    assert_int_equal(seen, 2);
}

// 8-way tensor parallelism over NVLink exists on a whole host and not on one with 6 free.
static void eight_way_tensor_parallelism_needs_eight_free(void **state)
{
    struct arena *arena = *state;
    struct err err = {0};
    struct offers *offers = load(arena, "rental-2024");
    int count = 0;
    const struct offer_cluster *clusters = offers_clusters(arena, offers, &count);
    struct scenario_request request = {
        .model = model_load(arena, "llama-2-7b", NULL, NULL, &err),
        .stack = stack_load(arena, "meshwright", &err),
        .fabrics = fabrics_load(arena, &err),
        .nothing = SEARCH_FITS_ONLY,
    };
    assert_string_equal(err.text, "");
    int possible = 0;
    for (int i = 0; i < count; i++) {
        struct scenario scenario = {.label = clusters[i].cluster->name,
                                    .cluster = clusters[i].cluster,
                                    .workload = {.seq_len = 2048,
                                                 .global_batch = 8,
                                                 .precision = PRECISION_BF16,
                                                 .optimizer = OPTIMIZER_ADAMW},
                                    .pins = pins_none()};
        struct scenario_outcome outcome;
        pins_set(&scenario.pins, CHOICE_TP, 8, 8);
        assert_true(scenarios_run(arena, &request, &scenario, 1, &outcome, &err));
        bool whole = clusters[i].cluster->rank_count == 8;
        assert_int_equal(outcome.status == SCENARIO_IMPOSSIBLE, !whole);
        possible += whole;
    }
    assert_int_equal(possible, 3);
}

static void check_fault(struct arena *arena, const char *offer, const char *fault)
{
    char path[] = "/tmp/offers.XXXXXX.json";
    int file = mkstemps(path, 5);
    assert_true(file >= 0);
    FILE *stream = fdopen(file, "w");
    fprintf(stream,
            "{\"name\": \"x\", \"date\": \"2024\", \"source\": \"s\", \"currency\": \"USD\",\n "
            "\"offers\": [%s]}\n",
            offer);
    fclose(stream);
    struct err err = {0};
    struct offers *offers = offers_load(arena, path, &err);
    unlink(path);
    assert_null(offers);
    assert_int_equal(err.kind, ERR_INPUT);
    assert_true(strncmp(err.text, path, strlen(path)) == 0);
    assert_string_equal(err.text + strlen(path), fault);
}

static void wrong_offers_are_told_by_their_place(void **state)
{
    struct arena *arena = *state;
#define OFFER(rest) \
    "{\"name\": \"a\", \"cluster\": \"dgx-h100\", \"price_per_gpu_hour\": 2, " rest "}"
    check_fault(arena, "", ":2:12: $.offers: expected one offer or more");
    check_fault(arena, OFFER("\"hosts\": []"),
                ":2:84: $.offers[0].hosts: expected one host or more");
    check_fault(arena, OFFER("\"hosts\": [{\"free\": 9, \"total\": 8}]"),
                ":2:85: $.offers[0].hosts[0]: 9 GPUs of 8 cannot be free");
    check_fault(arena, OFFER("\"hosts\": [{\"free\": 4, \"total\": 6}]"),
                ":2:85: $.offers[0].hosts[0]: a host of cluster dgx-h100 has 8 GPUs, found a total "
                "of 6");
    check_fault(arena, OFFER("\"hosts\": [{\"free\": 8, \"total\": 8}], \"prise\": 3"),
                ":2:111: $.offers[0].prise: unknown key");
    check_fault(arena, OFFER("\"preemption_mtbf_h\": 5, \"hosts\": [{\"free\": 8, \"total\": 8}]"),
                ":2:13: $.offers[0]: preemption_mtbf_h is of an offer that is spot");
    check_fault(arena,
                OFFER("\"hosts\": [{\"free\": 8, \"total\": 8}]") ", " OFFER(
                    "\"hosts\": [{\"free\": 8, \"total\": 8}]"),
                ":2:112: $.offers[1]: \"a\" is the name of another offer");
    check_fault(arena,
                "{\"name\": \"a\", \"cluster\": \"dgx-h100-x2\", \"price_per_gpu_hour\": 2, "
                "\"hosts\": [{\"free\": 8, \"total\": 8}]}",
                ":2:38: $.offers[0].cluster: expected a cluster of one node, found 2 nodes of 1 "
                "kinds");
#undef OFFER
}

static void an_unknown_name_lists_those_there_are(void **state)
{
    struct arena *arena = *state;
    struct err err = {0};
    assert_null(offers_load(arena, "rental-2025", &err));
    assert_string_equal(err.text, "no offers file is called \"rental-2025\", did you mean "
                                  "\"rental-2024\"? There are: rental-2024");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_shipped_offers_say_what_their_source_says),
        cmocka_unit_test(no_cluster_has_more_of_a_host_than_is_free),
        cmocka_unit_test(eight_way_tensor_parallelism_needs_eight_free),
        cmocka_unit_test(wrong_offers_are_told_by_their_place),
        cmocka_unit_test(an_unknown_name_lists_those_there_are),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
