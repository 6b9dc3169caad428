#include "tests/support/draw.h"
#include "tests/support/priced.h"
#include "tests/support/random_search.h"
#include "tests/support/test.h"

#include "cost_models/hosts.h"
#include "cost_models/offload.h"
#include "cost_models/parameters.h"
#include "plan/offload.h"
#include "planner/explain.h"
#include "planner/ranking.h"
#include "simulator/closed_form.h"
#include "simulator/engine.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static struct offload parsed(const char *words)
{
    struct offload offload;
    assert_true(offload_parse(words, &offload));
    return offload;
}

static struct priced priced_with(struct arena *arena, const char *words, int pp)
{
    struct priced of = priced_start(arena, "llama-2-7b", "dgx-a100-80g", "meshwright");
    of.parallel.degree[AXIS_PP] = pp;
    of.parallel.micro_batch = 2;
    of.parallel.offload = parsed(words);
    priced_finish(&of);
    return of;
}

// What is saved is divided over the classes, and what is moved leaves the device but for two layers
// in transit.
static void moved_activations_leave_the_device(void **state)
{
    struct priced kept = priced_with(*state, "none", 4);
    struct priced moved = priced_with(*state, "activations", 4);
    const struct block_program *layer = priced_block(&kept, BLOCK_LAYER);
    int64_t sum = 0;
    for (int class = 0; class < OP_CLASS_COUNT; class ++)
        sum += layer->class_saved_bytes[class];
    assert_true(sum == layer->saved_bytes && layer->class_saved_bytes[OP_CLASS_ATTENTION] > 0);
    struct memory_parts before = memory_of_stage(kept.program, kept.stack, 0);
    struct memory_parts after = memory_of_stage(moved.program, moved.stack, 0);
    // Four micro-batches of the eight layers of the first stage are in flight.
    assert_true(after.host_bytes == 4 * 8 * layer->saved_bytes);
    assert_true(after.activations_bytes ==
                before.activations_bytes - after.host_bytes + 2 * layer->saved_bytes);
    assert_true(before.host_bytes == 0 && before.optimizer_bytes == after.optimizer_bytes);
}

static void states_on_the_host_take_longer_and_leave_the_device(void **state)
{
    struct priced kept = priced_with(*state, "none", 4);
    struct priced host = priced_with(*state, "optimizer", 4);
    struct priced nvme = priced_with(*state, "optimizer@nvme", 4);
    struct memory_parts before = memory_of_stage(kept.program, kept.stack, 0);
    struct memory_parts after = memory_of_stage(host.program, host.stack, 0);
    struct memory_parts below = memory_of_stage(nvme.program, nvme.stack, 0);
    assert_true(after.optimizer_bytes == 0 && below.optimizer_bytes == 0);
    assert_true(after.host_bytes > before.optimizer_bytes && below.nvme_bytes > 0);
    assert_true(below.nvme_bytes == before.optimizer_bytes);
    double kept_s = closed_form(kept.price).update_s, host_s = closed_form(host.price).update_s;
    assert_true(kept_s < host_s && host_s <= closed_form(nvme.price).update_s);
}

// Gradients that are there already are not brought, and that is all that it saves: buckets are as
// many, and one of the shorter stations is waited for.
static void updates_go_by_buckets_wherever_gradients_are(void **state)
{
    struct priced of = priced_with(*state, "optimizer", 1);
    struct host_share share = {.elements = 1e9};
    struct host_update all = host_update(&of.context, of.program, &share);
    share.away = share.elements;
    struct host_update there = host_update(&of.context, of.program, &share);
    assert_true(all.bucket_count > 1 && all.host_s > all.down_s && all.host_s > all.up_s);
    assert_true(there.bucket_count == all.bucket_count && there.down_s == 0);
    assert_true(fabs(all.s - there.s - all.down_s / all.bucket_count) < 1e-9 * all.s);
}

// What is waited for of a micro-batch's gradients, and on what link each byte passes: those of our
// own stack go both ways at once, those that leave by themselves one way after the other, on the
// stream that reduces, which runs beside compute where the plan overlaps it.
static void gradients_that_leave_along_share_a_stream(void **state)
{
    struct priced of = priced_with(*state, "optimizer,gradients", 1);
    struct stack along = *of.stack;
    along.gradients_leave_zero_stages = 1u << 0;
    double elements = 0, rounds = of.program->shape.micro_batch_count;
    const struct program_chunk *chunk = &of.program->chunks[0];
    const struct step_rules rules = step_rules_of(of.stack, of.program);
    const struct step_end end = step_end_of(of.program, chunk, &rules);
    int units = 0;
    for (int g = 0; g < end.group_count; g++)
        elements += end.groups[g].is_away ? end.groups[g].elements : 0,
            units += end.groups[g].is_away ? end.groups[g].unit_count : 0;
    assert_int_equal(units, 32 + 2);  // a layer, an embedding and a head each go in one copy
    assert_true(elements > 6e9 && rounds > 1);
    double width = stack_gradient_bytes(of.stack, of.program->workload.precision);
    double down_s = elements * width / offload_bytes_per_s(&of.context, TIER_HOST) +
                    units * of.context.compute.device->launch_latency_s;
    double up_s = down_s * (rounds - 1) / rounds, window_s = 0.5 * up_s;
    for (int i = 0; i < 3; i++) {
        struct chunk_price price = {0};
        of.context.compute.stack = i > 0 ? &along : of.stack;
        of.program->parallel.overlap = i > 1 ? OVERLAP_GRAD_REDUCE : 0;
        gradient_copies_add(&of.context, of.program, chunk, window_s, &price);
        double waited_s =
            price.phase_s[PHASE_WEIGHT][PART_OFFLOAD] + price.phase_s[PHASE_BACKWARD][PART_OFFLOAD];
        double beside_s = i == 1 ? 0 : window_s;
        double wanted_s = i > 0 ? down_s + up_s - beside_s : down_s - beside_s;
        assert_true(fabs(waited_s - wanted_s) < 1e-9 * wanted_s);
    }
}

// Of the first two layers of each of four stages alone: what they have of 16 bytes a parameter,
// with the gradient that the host needs, and the price of both updates, one behind the other.
static void states_of_some_layers_leave_the_rest(void **state)
{
    struct priced kept = priced_with(*state, "none", 4);
    struct priced some = priced_with(*state, "optimizer:2", 4);
    const struct block_program *layer = priced_block(&kept, BLOCK_LAYER);
    double elements = 2 * (double)layer->parameter_elements, all_s = 0, here_s = 0;
    for (int stage = 0; stage < 4; stage++) {
        struct memory_parts before = memory_of_stage(kept.program, kept.stack, stage);
        struct memory_parts after = memory_of_stage(some.program, some.stack, stage);
        assert_true(before.optimizer_bytes - after.optimizer_bytes == (int64_t)(12 * elements));
        assert_true(after.host_bytes == (int64_t)((12 + 4) * elements));
        assert_true(after.gradients_bytes == before.gradients_bytes);
    }
    for (int class = 0; class < some.price->class_count; class ++) {
        const struct program_chunk *chunk = &some.program->chunks[class];
        struct parameter_sums sums = parameter_sums(some.program, chunk);
        double own = parameter_stored(some.program, &sums, STORED_STATES);
        here_s = kept.price->classes[class].update_s * (own - elements) / own;
        const struct host_share share = {.elements = elements};
        all_s = here_s + host_update(&some.context, some.program, &share).s;
        double squares_s =
            stream_s(&some.context.compute, norm_bytes(&some.context.compute, elements));
        assert_true(fabs(some.price->classes[class].update_s - all_s - squares_s) < 1e-6 * all_s);
    }
    struct cost cost = closed_form(some.price);
    assert_true(cost.step_s < closed_form(priced_with(*state, "optimizer", 4).price).step_s);
    assert_true(cost.step_s > closed_form(kept.price).step_s);
}

// Events and closed form see the same copies; the parts of a step sum to it.
static void events_and_closed_form_agree(void **state)
{
    static const char *const WORDS[] = {"activations",
                                        "optimizer,activations:3@nvme",
                                        "other,mlp:2,attention:5",
                                        "optimizer,parameters,activations",
                                        "optimizer,gradients,activations:3",
                                        "optimizer,activations",
                                        "optimizer,parameters,gradients",
                                        "optimizer:3@nvme,activations:2",
                                        "optimizer:5,gradients,activations:3",
                                        "optimizer:5,parameters:3",
                                        "optimizer,parameters:5,gradients",
                                        "optimizer@nvme,parameters:3@nvme,activations:2",
                                        "optimizer,parameters,turn:3,between:5",
                                        "optimizer:2,parameters:1,activations",
                                        "optimizer:6,gradients:4,activations:1"};
    struct arena scratch = {0};
    for (size_t i = 0; i < sizeof WORDS / sizeof *WORDS; i++) {
        struct priced of = priced_with(*state, WORDS[i], i % 2 ? 4 : 1);
        struct cost plain = closed_form(priced_with(*state, "none", i % 2 ? 4 : 1).price);
        struct cost form = closed_form(of.price);
        struct engine_options options = {.want_trace = true};
        struct simulation *events = simulate_step(*state, &scratch, of.price, &options);
        assert_true(fabs(form.step_s / events->cost.step_s - 1) < 0.01);
        assert_true(fabs(cost_parts_sum(&form) - form.step_s) < 1e-9 * form.step_s);
        double exposed_s = form.exposed_s[PART_OFFLOAD];
        assert_true(exposed_s > 0 && form.step_s > plain.step_s);
        assert_true(fabs(exposed_s - events->cost.exposed_s[PART_OFFLOAD]) < 1e-3 * exposed_s);
        int down = 0, up = 0;
        for (int64_t s = 0; s < events->trace.span_count; s++) {
            down += events->trace.spans[s].stream == STREAM_D2H;
            up += events->trace.spans[s].stream == STREAM_H2D;
        }
        // An update of weights that all stay on the host brings none of them up; gradients that are
        // kept there go down in backward and not for it.
        bool stays = offload_takes_parameters(&of.parallel.offload, -1);
        bool sums = offload_moves_gradients(&of.parallel.offload);
        assert_true(down > 0 && (sums ? up <= down + !stays : stays ? up < down : up == down));
    }
    arena_free(&scratch);
}

// Two stages of four ranks share a host of eight; each counts its own bytes.
static void the_fullest_host_is_found(void **state)
{
    struct priced of = priced_with(*state, "activations", 2);
    struct memory_parts stages[2] = {{.host_bytes = 100}, {.host_bytes = 10, .nvme_bytes = 7}};
    struct host_need need = hosts_need(of.program, stages);
    assert_int_equal(need.host_bytes, 4 * 100 + 4 * 10);
    assert_int_equal(need.nvme_bytes, 4 * 7);
    assert_int_equal(hosts_shortfall(&need), 0);
    stages[0].host_bytes = need.host_limit_bytes;
    need = hosts_need(of.program, stages);
    assert_true(hosts_shortfall(&need) == 3 * need.host_limit_bytes + 40);
    assert_string_equal(hosts_lack(&need), "host memory");
}

static void hosts_without_drives_are_named(void **state)
{
    struct priced of = priced_start(*state, "llama-2-7b", "ascend-910b", "mindspore");
    of.parallel.degree[AXIS_DP] = of.cluster->rank_count;
    of.workload.global_batch = of.cluster->rank_count;
    of.parallel.offload = parsed("optimizer@nvme");
    struct err err = {0};
    assert_false(program_check(of.graph, of.cluster, &of.workload, &of.parallel, &err));
    assert_non_null(strstr(err.text, "have no NVMe"));
}

static void stacks_refuse_what_they_cannot_move(void **state)
{
    static const struct {
        const char *stack, *words, *why;
    } CASES[] = {
        {"megatron-2021", "optimizer", "cannot offload the optimizer"},
        {"fsdp", "optimizer@nvme", "cannot offload the optimizer to NVMe"},
        {"fsdp", "mlp", "of whole layers only"},
        {"megatron-deepspeed", "optimizer", "at zero stage 0"},
        {"megatron-deepspeed", "activations", "without full recompute"},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        struct err err = {0};
        const struct stack *stack = stack_load(*state, CASES[i].stack, &err);
        struct parallel parallel = {.offload = parsed(CASES[i].words),
                                    .attention = ATTENTION_UNFUSED};
        for (int axis = 0; axis < AXIS_COUNT; axis++)
            parallel.degree[axis] = 1;
        const char *why = NULL;
        assert_false(stack_can_run(stack, &parallel, *state, &why));
        assert_non_null(strstr(why, CASES[i].why));
    }
}

// A search that may move what it likes finds the same plans whether it prunes or not, and none that
// is slower than without.
static void pruned_and_exhaustive_search_move_the_same(void **state)
{
    (void)state;
    const char *wanted = getenv("MESHWRIGHT_CASES");
    int cases = wanted ? atoi(wanted) : 5;
    struct draw draw = draw_start("offload, pruned against exhaustive", 20261121);
    int moved_count = 0;
    for (int i = 0; i < cases; i++) {
        struct arena arena = {0};
        struct search_request request = random_search(&arena, &draw);
        request.objective = i % 5 == 4 ? OBJECTIVE_MEMORY : OBJECTIVE_TIME;
        struct err err = {0}, other = {0};
        request.stack = stack_load(&arena, "meshwright", &err);
        struct search_result plain = {0}, pruned = {0}, whole = {0};
        bool fits = search_plans(&arena, &request, &plain, &other) && plain.best_count > 0;
        // Where all is moved anyway, recomputing more may be faster: less of it is copied.
        struct offload all = parsed("activations");
        request.pins.search_offload = i % 3 != 2;
        if (!request.pins.search_offload)
            pins_set(&request.pins, CHOICE_OFFLOAD, offload_value(&all), offload_value(&all));
        bool ok = search_plans(&arena, &request, &pruned, &err);
        request.exhaustive = true;
        other = (struct err){0};
        assert_int_equal(ok, search_plans(&arena, &request, &whole, &other));
        assert_int_equal(pruned.status, whole.status);
        assert_int_equal(pruned.best_count, whole.best_count);
        assert_true(pruned.considered_count == whole.considered_count);
        // What classes may still win, and what whole layers cannot, is the same too.
        if (request.objective == OBJECTIVE_TIME)
            assert_int_equal(step_ns(pruned.bound_s), step_ns(whole.bound_s));
        assert_int_equal(step_ns(pruned.layers_s), step_ns(whole.layers_s));
        if (pruned.layers_s > 0) assert_true(pruned.best[0].closed_form_s >= pruned.bound_s);
        for (int k = 0; k < pruned.best_count; k++) {
            const struct candidate *a = &pruned.best[k], *b = &whole.best[k];
            assert_int_equal(candidate_compare(request.objective, a, b), 0);
            moved_count += !offload_is_none(&a->parallel.offload);
        }
        if (fits && request.pins.search_offload) assert_true(pruned.best_count > 0);
        arena_free(&arena);
    }
    assert_true(moved_count > 0);
}

static struct search_request question(struct arena *arena, const char *stack)
{
    struct search_request request = {.pins = pins_none(), .top = 1};
    struct err err = {0};
    request.model = model_load(arena, "llama-2-7b", NULL, NULL, &err);
    request.cluster = cluster_load(arena, "dgx-a100-80g", &err);
    request.stack = stack_load(arena, stack, &err);
    request.fabrics = fabrics_load(arena, &err);
    assert_string_equal(err.text, "");
    request.workload =
        (struct workload){.seq_len = 2048, .global_batch = 16, .precision = PRECISION_BF16};
    return request;
}

// The same where every plan keeps its parameters off the device, and some gradients, of which
// nothing else is asked; or those of its first layers alone, which are pinned.
static void parameters_elsewhere_are_bounded_as_well(void **state)
{
    (void)state;
    const char *wanted = getenv("MESHWRIGHT_CASES");
    int cases = wanted ? atoi(wanted) : 6, found_count = 0;
    struct draw draw = draw_start("parameters elsewhere, pruned against exhaustive", 20261124);
    for (int i = 0; i < cases; i++) {
        struct arena arena = {0};
        struct search_request request = random_search(&arena, &draw);
        request.objective = i % 3 == 2 ? OBJECTIVE_MEMORY : OBJECTIVE_TIME;
        struct err err = {0}, other = {0};
        request.stack = stack_load(&arena, "meshwright", &err);
        request.pins.search_offload = true;
        request.pins.search_parameters = TIER_HOST;
        request.pins.search_gradients = i % 2;
        const struct offload some = {.optimizer = TIER_HOST,
                                     .parameters = TIER_HOST,
                                     .parameter_layers = (int16_t)(i % 6 < 2 ? i % 6 + 1 : 0),
                                     .gradients = i % 2,
                                     .gradient_layers = (int16_t)(i % 6 == 1 ? 3 : 0)};
        if (some.parameter_layers > 0)
            pins_set(&request.pins, CHOICE_OFFLOAD, offload_value(&some), offload_value(&some));
        struct search_result pruned = {0}, whole = {0};
        bool ok = search_plans(&arena, &request, &pruned, &err);
        request.exhaustive = true;
        assert_int_equal(ok, search_plans(&arena, &request, &whole, &other));
        assert_int_equal(pruned.status, whole.status);
        assert_int_equal(pruned.best_count, whole.best_count);
        for (int k = 0; k < pruned.best_count; k++) {
            const struct candidate *a = &pruned.best[k], *b = &whole.best[k];
            assert_int_equal(candidate_compare(request.objective, a, b), 0);
            assert_int_equal(a->parallel.offload.parameters, TIER_HOST);
            if (some.parameter_layers > 0)
                assert_int_equal(a->parallel.offload.parameter_layers, some.parameter_layers);
            if (some.parameter_layers > 0)
                assert_int_equal(a->parallel.offload.gradient_layers, some.gradient_layers);
            assert_int_equal(a->parallel.offload.gradients, i % 2);
            assert_int_not_equal(a->parallel.offload.optimizer, TIER_DEVICE);
            found_count++;
        }
        arena_free(&arena);
    }
    assert_true(found_count > 0);
}

static void forbid(struct search_request *request, const char *key, int64_t value)
{
    struct pins *pins = &request->pins;
    pins->forbidden[pins->forbidden_count].key = key;
    pins->forbidden[pins->forbidden_count++].value = value;
}

// The best move is forbidden, then the next one, some times. Returns how many rounds had a plan
// that moves something.
static int forbid_best(struct search_request *request, int rounds)
{
    int moved_count = 0;
    struct search_result before = {0};
    struct arena arena = {0};
    for (int round = 0; round < rounds; round++) {
        struct search_result pruned = {0}, whole = {0};
        struct err err = {0}, other = {0};
        request->exhaustive = false;
        bool ok = search_plans(&arena, request, &pruned, &err);
        request->exhaustive = true;
        assert_int_equal(ok, search_plans(&arena, request, &whole, &other));
        assert_int_equal(pruned.best_count, whole.best_count);
        for (int k = 0; k < pruned.best_count; k++) {
            const struct candidate *plan = &pruned.best[k];
            assert_int_equal(candidate_compare(request->objective, plan, &whole.best[k]), 0);
            assert_true(pins_allow_all(&request->pins, &plan->parallel, NULL));
        }
        if (pruned.best_count == 0) break;
        const struct candidate *best = &pruned.best[0];
        // Where W stands apart a tail means one plan, and forbidding it may show a faster one.
        bool is_fused = schedule_row(best->parallel.schedule)->backward_fused;
        if (before.best_count > 0 && is_fused && request->objective == OBJECTIVE_TIME)
            assert_true(best->closed_form_s >= before.bound_s * (1 - 1e-9));
        moved_count += !offload_is_none(&best->parallel.offload);
        forbid(request, "offload", offload_value(&best->parallel.offload));
        before = pruned;
    }
    arena_free(&arena);
    return moved_count;
}

static void forbidden_moves_are_not_proposed(void **state)
{
    (void)state;
    const char *wanted = getenv("MESHWRIGHT_CASES");
    int cases = wanted ? atoi(wanted) : 2, moved_count = 0;
    struct draw draw = draw_start("offload, the best one forbidden", 20261122);
    for (int i = 0; i < cases; i++) {
        struct arena arena = {0};
        struct search_request request = random_search(&arena, &draw);
        request.objective = i % 4 == 3 ? OBJECTIVE_MEMORY : OBJECTIVE_TIME;
        struct err err = {0};
        request.stack = stack_load(&arena, "meshwright", &err);
        request.pins.search_offload = true;
        moved_count += forbid_best(&request, wanted ? 4 : 2);
        arena_free(&arena);
    }
    assert_true(moved_count > 0);
}

// What is refused says which other choices there are, and none that is forbidden as well.
static void a_refusal_names_what_else_may_be_moved(void **state)
{
    struct search_request request = question(*state, "meshwright");
    struct search_result result = {0};
    struct err err = {0};
    forbid(&request, "offload", 0);
    assert_false(search_plans(*state, &request, &result, &err));
    assert_non_null(strstr(err.text, "--offload as forbidden"));
    assert_non_null(strstr(err.text, "--offload may be optimizer, "));

    struct offload states = parsed("optimizer");
    request.pins.forbidden_count = 0;
    pins_set(&request.pins, CHOICE_OFFLOAD, offload_value(&states), offload_value(&states));
    forbid(&request, "offload", offload_value(&states));
    err = (struct err){0};
    assert_false(search_plans(*state, &request, &result, &err));
    assert_non_null(strstr(err.text, "--offload optimizer: no plan"));
    assert_non_null(strstr(err.text, "--offload may be none, optimizer@nvme"));
}

static struct explanation asked(struct arena *arena, const struct search_request *request,
                                const char *words)
{
    struct search_result result = {0};
    struct err err = {0};
    struct offload offload = parsed(words);
    assert_true(search_plans(arena, request, &result, &err));
    struct explanation why =
        explain_why(arena, request, &result, CHOICE_OFFLOAD, offload_value(&offload));
    if (!why.possible || why.is_winner) return why;
    double other_s = 0;
    for (int i = 0; i < why.term_count; i++)
        other_s += why.terms[i].other_s;
    assert_true(fabs(other_s / why.other.cost.step_s - 1) < 1e-6);
    assert_true(why.other.closed_form_s >= result.bound_s * (1 - 1e-9) ||
                pins_get(&request->pins, CHOICE_OFFLOAD).set);
    assert_true(offload_value(&why.other.parallel.offload) == offload_value(&offload));
    return why;
}

static void moves_are_explained(void **state)
{
    struct search_request request = question(*state, "meshwright");
    assert_true(asked(*state, &request, "none").is_winner);
    struct explanation why = asked(*state, &request, "optimizer");
    assert_true(why.possible && why.fits && !why.is_winner);
    assert_string_equal(why.largest, "update");
    why = asked(*state, &request, "activations");
    assert_true(why.possible && why.fits && !why.is_winner);
    assert_true(asked(*state, &request, "attention:3,mlp").possible);
    assert_true(asked(*state, &request, "attention:3@nvme,mlp@nvme").possible);

    // The question overrules the pin of its own key, searched or given.
    request.pins.search_offload = true;
    assert_string_equal(asked(*state, &request, "optimizer").largest, "update");
    request.pins.search_offload = false;
    struct offload states = parsed("optimizer");
    pins_set(&request.pins, CHOICE_OFFLOAD, offload_value(&states), offload_value(&states));
    assert_true(asked(*state, &request, "optimizer").is_winner);
    why = asked(*state, &request, "none");
    assert_true(why.possible && why.fits && !why.is_winner);

    request = question(*state, "megatron-2021");
    why = asked(*state, &request, "optimizer");
    assert_false(why.possible);
    assert_non_null(strstr(why.reason, "cannot offload the optimizer"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(moved_activations_leave_the_device),
        cmocka_unit_test(states_on_the_host_take_longer_and_leave_the_device),
        cmocka_unit_test(updates_go_by_buckets_wherever_gradients_are),
        cmocka_unit_test(gradients_that_leave_along_share_a_stream),
        cmocka_unit_test(states_of_some_layers_leave_the_rest),
        cmocka_unit_test(events_and_closed_form_agree),
        cmocka_unit_test(the_fullest_host_is_found),
        cmocka_unit_test(hosts_without_drives_are_named),
        cmocka_unit_test(stacks_refuse_what_they_cannot_move),
        cmocka_unit_test(pruned_and_exhaustive_search_move_the_same),
        cmocka_unit_test(parameters_elsewhere_are_bounded_as_well),
        cmocka_unit_test(forbidden_moves_are_not_proposed),
        cmocka_unit_test(a_refusal_names_what_else_may_be_moved),
        cmocka_unit_test(moves_are_explained),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
