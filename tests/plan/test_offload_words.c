#include "tests/support/test.h"

#include "models/graph.h"
#include "plan/offload.h"
#include "plan/stays.h"

// What is moved, as words and as a number: both ways, for every tier, class and count.

static struct offload parsed(const char *words)
{
    struct offload offload;
    assert_true(offload_parse(words, &offload));
    return offload;
}

static void is_same(const struct offload *expected, const struct offload *found)
{
    assert_int_equal(expected->optimizer, found->optimizer);
    assert_int_equal(expected->activations, found->activations);
    assert_int_equal(expected->parameters, found->parameters);
    assert_int_equal(expected->gradients, found->gradients);
    assert_int_equal(expected->gradient_layers, found->gradient_layers);
    assert_int_equal(expected->optimizer_layers, found->optimizer_layers);
    assert_int_equal(expected->parameter_layers, found->parameter_layers);
    assert_int_equal(expected->turn_blocks, found->turn_blocks);
    assert_int_equal(expected->between_layers, found->between_layers);
    for (int class = 0; class < OFFLOAD_CLASS_MAX; class ++)
        assert_int_equal(expected->layers[class], found->layers[class]);
}

static void comes_back(struct arena *arena, const struct offload *offload)
{
    struct offload words = parsed(offload_words(arena, offload));
    struct offload number = offload_of_value(offload_value(offload));
    is_same(offload, &words);
    is_same(offload, &number);
}

static void every_class_count_and_tier_comes_back(void **state)
{
    static const int COUNTS[] = {-1, 1, 2, 253, 254};
    for (int c = 0; c < 5; c++) {
        for (int class = 0; class < OP_CLASS_COUNT; class ++) {
            struct offload offload = {.activations = c % 2 ? TIER_HOST : TIER_NVME};
            offload.layers[class] = (int16_t)COUNTS[c];
            comes_back(*state, &offload);
            offload.optimizer = c % 2 ? TIER_NVME : TIER_HOST;
            comes_back(*state, &offload);
            offload.parameters = class % 2 ? TIER_NVME : TIER_HOST;
            comes_back(*state, &offload);
            offload.gradients = class % 2;
            comes_back(*state, &offload);
            // All but one alike.
            for (int other = 0; other < OP_CLASS_COUNT; other++)
                offload.layers[other] = other == class ? 7 : (int16_t)COUNTS[c];
            comes_back(*state, &offload);
        }
    }
}

static void words_are_the_shortest(void **state)
{
    static const char *const SAME[] = {
        "none",
        "optimizer",
        "optimizer@nvme",
        "activations",
        "parameters",
        "optimizer,parameters",
        "optimizer@nvme,parameters,activations:3",
        "optimizer@nvme,parameters@nvme",
        "optimizer,gradients",
        "optimizer:1",
        "optimizer:254@nvme,gradients",
        "optimizer:7,gradients:6",
        "optimizer,gradients:254,activations:2",
        "optimizer:9@nvme,parameters:8@nvme,turn,between:2,gradients:5,activations",
        "optimizer:12,activations",
        "optimizer:3@nvme,activations:254@nvme",
        "optimizer:12,parameters:8",
        "optimizer,parameters:254@nvme,gradients,activations:3",
        "optimizer:7@nvme,parameters:7",
        "optimizer,parameters,turn",
        "optimizer,parameters,between",
        "optimizer,parameters:254,turn:254,between:1",
        "optimizer:9@nvme,parameters:8@nvme,turn:1,between,gradients,activations:3@nvme",
        "optimizer@nvme,parameters,gradients,activations:3@nvme",
        "activations:1@nvme",
        "activations:254",
        "optimizer,activations@nvme",
        "optimizer@nvme,other:1",
        "attention:1,norm,activation:2,mlp,experts:3,mla-up",
    };
    for (size_t i = 0; i < sizeof SAME / sizeof *SAME; i++) {
        struct offload offload = parsed(SAME[i]);
        assert_string_equal(offload_words(*state, &offload), SAME[i]);
        comes_back(*state, &offload);
    }
    static const char *const ALSO[][2] = {
        {"activations@host,optimizer@host", "optimizer,activations"},
        {"parameters@host,activations,optimizer", "optimizer,parameters,activations"},
        {"mla-up:2,experts:2,mlp:2,activation:2,norm:2,attention:2,other:2", "activations:2"},
        {"mlp@nvme,other:3@nvme", "other:3@nvme,mlp@nvme"},
        {"between:3,turn:2,parameters,optimizer", "optimizer,parameters,turn:2,between:3"},
        {"parameters:2,activations:1,optimizer:3", "optimizer:3,parameters:2,activations:1"},
    };
    for (size_t i = 0; i < sizeof ALSO / sizeof *ALSO; i++) {
        struct offload offload = parsed(ALSO[i][0]);
        assert_string_equal(offload_words(*state, &offload), ALSO[i][1]);
    }
}

static void every_class_that_reaches_a_layer_moves_there(void **state)
{
    (void)state;
    struct offload offload = parsed("other,attention:1,mlp:2");
    unsigned all = 1u << OP_CLASS_NONE;
    unsigned first = all | 1u << OP_CLASS_ATTENTION | 1u << OP_CLASS_MLP;
    assert_int_equal(offload_classes(&offload, 0), first);
    assert_int_equal(offload_classes(&offload, 1), all | 1u << OP_CLASS_MLP);
    assert_int_equal(offload_classes(&offload, 2), all);
    assert_true(offload_moves_activations(&offload));
    assert_false(offload_is_none(&offload));
    offload = parsed("optimizer");
    assert_int_equal(offload_classes(&offload, 0), 0);
    assert_false(offload_moves_activations(&offload));
    assert_false(offload_is_none(&offload));
    offload = parsed("none");
    assert_true(offload_is_none(&offload));
    offload = parsed("activations");
    assert_int_equal(offload_classes(&offload, 999), (1u << OP_CLASS_COUNT) - 1);
}

static void states_of_the_first_layers_leave_alone(void **state)
{
    (void)state;
    struct offload offload = parsed("optimizer:2@nvme");
    assert_true(offload_away(&offload, 0) && offload_away(&offload, 1));
    assert_false(offload_away(&offload, 2));
    offload = parsed("optimizer");
    assert_false(offload_away(&offload, 0));
    offload = parsed("activations:2");
    assert_false(offload_away(&offload, 0));
    // And their gradients, of no more of them.
    offload = parsed("optimizer:2,gradients:1");
    assert_int_equal(offload_away(&offload, 0), AWAY_STATES | AWAY_GRADIENTS);
    assert_int_equal(offload_away(&offload, 1), AWAY_STATES);
    offload = parsed("optimizer,gradients:2");
    assert_int_equal(offload_away(&offload, 1), AWAY_GRADIENTS);
    assert_int_equal(offload_away(&offload, 2), 0);
}

static void parameters_of_the_first_layers_leave_alone(void **state)
{
    (void)state;
    struct offload offload = parsed("optimizer,parameters:2");
    assert_true(offload_takes_parameters(&offload, 0) && offload_takes_parameters(&offload, 1));
    assert_false(offload_takes_parameters(&offload, 2) || offload_takes_parameters(&offload, -1));
    offload = parsed("optimizer,parameters@nvme");
    assert_true(offload_takes_parameters(&offload, 253) && offload_takes_parameters(&offload, -1));
    offload = parsed("optimizer:2");
    assert_false(offload_takes_parameters(&offload, 0) || offload_takes_parameters(&offload, -1));
}

static void what_is_no_choice_is_refused(void **state)
{
    static const char *const WORDS[] = {"",
                                        "all",
                                        "optimizer:0",
                                        "optimizer:255",
                                        "optimizer:3,mlp",
                                        "optimizer:3,optimizer",
                                        "parameters:0",
                                        "parameters:255",
                                        "optimizer,parameters:3,mlp",
                                        "optimizer,parameters:3,parameters",
                                        "optimizer,gradients:0",
                                        "optimizer,gradients:255",
                                        "optimizer,gradients:2@nvme",
                                        "optimizer,gradients:3,mlp",
                                        "parameters,turn:0",
                                        "parameters,turn:255",
                                        "parameters,between:-1",
                                        "parameters,turn@host",
                                        "parameters,between:2@nvme",
                                        "parameters,turn,turn",
                                        "parameters,between:1,between:2",
                                        "parameters,turn:2,mlp",
                                        "activations:0",
                                        "activations:255",
                                        "mlp,mlp",
                                        "optimizer,",
                                        "mlp,attention@nvme",
                                        "none,mlp",
                                        "optimizer@device",
                                        "mlp:x",
                                        "mlp:",
                                        "activations,mlp",
                                        "@nvme",
                                        "optimizer,optimizer",
                                        "mlp:1x",
                                        "mlp@",
                                        "mlp@nvm",
                                        "mlp@nvmes",
                                        "mlp:2@nvme@nvme",
                                        "optimizers",
                                        "optimize",
                                        "mlp:2:3",
                                        "mlp:9999999999999",
                                        "mlp:/"};
    (void)state;
    struct offload offload = {.optimizer = TIER_HOST};
    for (size_t i = 0; i < sizeof WORDS / sizeof *WORDS; i++) {
        if (offload_parse(WORDS[i], &offload)) fail_msg("\"%s\" is taken", WORDS[i]);
    }
    assert_int_equal(offload.optimizer, TIER_HOST);
}

static void tiers_have_names(void **state)
{
    (void)state;
    assert_string_equal(tier_name(TIER_DEVICE), "device");
    assert_string_equal(tier_name(TIER_HOST), "host");
    assert_string_equal(tier_name(TIER_NVME), "nvme");
}

// Of blocks that fetch the last ones stay from forward to backward, and the first layers from a
// micro-batch to the next; a count below 0 is all of them.
static void counts_say_which_blocks_stay(void **state)
{
    (void)state;
    static const struct {
        int16_t turn, between;
        int layer, behind, stays;
    } CASES[] = {
        {0, 0, 0, 0, STAYS_NOT},
        {1, 0, 0, 0, STAYS_TURN},
        {1, 0, 0, 1, STAYS_NOT},
        {3, 0, 5, 2, STAYS_TURN},
        {3, 0, 5, 3, STAYS_NOT},
        {-1, 0, 9, 99, STAYS_TURN},
        {0, 1, 0, 0, STAYS_BETWEEN},
        {0, 1, 1, 0, STAYS_NOT},
        {0, 2, 1, 7, STAYS_BETWEEN},
        {0, -1, 99, 9, STAYS_BETWEEN},
        {2, 4, 3, 1, STAYS_TURN | STAYS_BETWEEN},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        const struct offload offload = {.turn_blocks = CASES[i].turn,
                                        .between_layers = CASES[i].between};
        int stays = (int)stays_of(&offload, true, CASES[i].layer, CASES[i].behind);
        assert_int_equal(stays, CASES[i].stays);
        // What is no layer stays for a turn alone.
        stays = (int)stays_of(&offload, false, CASES[i].layer, CASES[i].behind);
        assert_int_equal(stays, CASES[i].stays & STAYS_TURN);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_class_count_and_tier_comes_back),
        cmocka_unit_test(words_are_the_shortest),
        cmocka_unit_test(every_class_that_reaches_a_layer_moves_there),
        cmocka_unit_test(states_of_the_first_layers_leave_alone),
        cmocka_unit_test(parameters_of_the_first_layers_leave_alone),
        cmocka_unit_test(what_is_no_choice_is_refused),
        cmocka_unit_test(tiers_have_names),
        cmocka_unit_test(counts_say_which_blocks_stay),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
