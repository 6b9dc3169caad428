#include "simulator/routed.h"
#include "tests/support/test.h"

#include <math.h>
#include <stdio.h>

// A Mixtral of four layers on eight A100, experts over `ep` ranks.
static struct evaluation_request question(struct arena *arena, int ep)
{
    struct err err = {0};
    const char *text =
        "{\"model_type\": \"mixtral\", \"vocab_size\": 1024, \"hidden_size\": 512, "
        "\"intermediate_size\": 1024, \"num_hidden_layers\": 4, \"num_attention_heads\": 8, "
        "\"num_key_value_heads\": 8, \"num_local_experts\": 8, \"num_experts_per_tok\": 2, "
        "\"max_position_embeddings\": 128}";
    struct json_document *document = ARENA_NEW(arena, struct json_document, 1);
    assert_true(json_parse(arena, "config", text, strlen(text), document, &err));
    struct json *root = ARENA_NEW(arena, struct json, 1);
    *root = json_root(document);
    struct evaluation_request request = {
        .model = model_read(arena, "tiny", root, NULL, NULL, &err),
        .cluster = cluster_load(arena, "dgx-a100-80g", &err),
        .stack = stack_load(arena, "megatron-core", &err),
        .fabrics = fabrics_load(arena, &err),
        .workload = {.seq_len = 128, .global_batch = 8, .precision = PRECISION_BF16},
    };
    assert_string_equal(err.text, "");
    assert_true(cluster_set_nodes((struct cluster *)request.cluster, 1, &err));
    request.parallel = (struct parallel){
        .degree = {[AXIS_TP] = 1,
                   [AXIS_CP] = 1,
                   [AXIS_PP] = 1,
                   [AXIS_DP] = 8,
                   [AXIS_EP] = ep,
                   [AXIS_ETP] = 1},
        .vpp = 1,
        .micro_batch = 1,
        .attention = ATTENTION_FLASH,
    };
    for (int axis = 0; axis < AXIS_COUNT; axis++)
        if (request.parallel.degree[axis] == 0) request.parallel.degree[axis] = 1;
    parallel_default_order(&request.parallel);
    return request;
}

static struct routed routed(struct arena *arena, int ep, const char *routing)
{
    struct err err = {0};
    struct routed out;
    const struct evaluation_request request = question(arena, ep);
    bool done = routed_make(arena, &request, routing, 50, 1, &out, &err);
    assert_string_equal(err.text, "");
    assert_true(done);
    return out;
}

// W0: every rank as many rows, of 128 tokens a rank at two experts each, and as many bytes.
static void the_balanced_workload_is_the_balanced_plan(void **state)
{
    for (int ep = 1; ep <= 4; ep *= 2) {
        struct routed at = routed(*state, ep, "W0_balanced");
        assert_true(at.imbalance.p50 == 1 && at.imbalance.p99 == 1);
        assert_true(at.step_s.p99 == at.balanced_step_s);
        assert_true(at.rows.p50 == 2 * 128);
        assert_true(at.exchange_bytes.p50 == 2 * 128 * 512 * 2);
        assert_true(at.unfit_ratio == 0);
        assert_int_equal(at.layer_count, 4);
    }
}

// W5 leaves the first half of the experts and their ranks without rows: twice the mean for others.
static void ranks_without_rows_leave_theirs_to_others(void **state)
{
    struct routed two = routed(*state, 2, "W5"), one = routed(*state, 1, "W5");
    assert_true(two.imbalance.p50 == 2 && two.imbalance.p99 == 2);
    assert_true(two.rows.p50 == 2 * 2 * 128);
    assert_true(two.step_s.p50 > two.balanced_step_s);
    assert_true(one.imbalance.p99 == 1);
    assert_true(two.replaced_step_s < two.step_s.p50);
}

// Rows and bytes that the busiest of two and of four ranks receives, in the first step and at most
// in eight: routing_for_step of the public benchmark (Megatron-LM pull request 7488), run with
// PyTorch 2.15 for 8 experts, 2 a token, 128 tokens a rank, seed 1234.
static void ranks_receive_what_the_public_generator_sends(void **state)
{
    static const double BUSIEST[TOKEN_WORKLOAD_COUNT][2][2] = {
        {{256, 256}, {256, 256}}, {{450, 458}, {836, 840}}, {{446, 460}, {820, 840}},
        {{258, 282}, {288, 324}}, {{280, 280}, {300, 308}}, {{512, 512}, {540, 544}},
        {{444, 462}, {840, 856}}, {{258, 388}, {268, 644}},
    };
    for (int i = 0; i < 4 * TOKEN_WORKLOAD_COUNT; i++) {
        int workload = i / 4, ep = i & 2 ? 4 : 2;
        const struct evaluation_request request = question(*state, ep);
        struct err err = {0};
        struct routed at;
        const char *name = token_routing_workload_name(workload);
        assert_true(routed_make(*state, &request, name, i & 1 ? 8 : 1, 1234, &at, &err));
        assert_true(at.rows.p99 == BUSIEST[workload][ep / 4][i & 1]);
        assert_true(at.exchange_bytes.p99 == at.rows.p99 * 512 * 2);
    }
}

static void steeper_shares_take_longer(void **state)
{
    struct routed flat = routed(*state, 4, "zipf:0"), steep = routed(*state, 4, "zipf:1.2");
    assert_true(flat.step_s.p50 < steep.step_s.p50);
    assert_true(steep.step_s.p50 <= steep.step_s.p90 && steep.step_s.p90 <= steep.step_s.p99);
    assert_true(steep.capacities[0].step_s < steep.step_s.p50);
    assert_true(steep.capacities[0].dropped_ratio > steep.capacities[3].dropped_ratio);
}

// Of 8 experts 1, 2 and 4 are held on every rank: three matrices of 512 x 1,024 in each of 4
// layers, a parameter in 18 bytes.
static void hot_experts_are_held_once_more_on_every_rank(void **state)
{
    struct routed steep = routed(*state, 4, "zipf:1.2");
    assert_int_equal(steep.replica_count, 3);
    for (int i = 0; i < 3; i++) {
        assert_true(steep.replicas[i].amount == 1 << i);
        assert_int_equal(steep.replicas[i].added_bytes, (3LL * 512 * 1024 * 4 * 18) << i);
        assert_true(steep.replicas[i].step_s < steep.step_s.p50);
    }
}

static void a_model_without_experts_is_refused(void **state)
{
    struct err err = {0};
    struct routed out;
    struct evaluation_request request = question(*state, 1);
    request.model = model_load(*state, "gpt2", NULL, NULL, &err);
    assert_false(routed_make(*state, &request, "W0", 5, 1, &out, &err));
    assert_string_equal(err.text, "the model has no experts that tokens are routed to");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_balanced_workload_is_the_balanced_plan),
        cmocka_unit_test(ranks_without_rows_leave_theirs_to_others),
        cmocka_unit_test(ranks_receive_what_the_public_generator_sends),
        cmocka_unit_test(steeper_shares_take_longer),
        cmocka_unit_test(hot_experts_are_held_once_more_on_every_rank),
        cmocka_unit_test(a_model_without_experts_is_refused),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
