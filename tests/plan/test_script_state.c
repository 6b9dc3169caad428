#include "plan/script/check.h"
#include "tests/support/script_case.h"
#include "tests/support/test.h"

#include <string.h>

// What is said of a script whose state is wrong: in a script of GPT-2 on two stages one number of a
// parameter, a unit or a bucket is changed at a time. Unit 0 is the table of positions, in a bucket
// with units 2 to 4 of layers; unit 1 that of tokens, alone and tied to the other stage.

struct wrong {
    const char *words;
    void (*make)(struct script *script);
};

#define CHANGE(name, ...)                   \
    static void name(struct script *script) \
    {                                       \
        __VA_ARGS__;                        \
    }

#define UNIT script->units[1]
#define BUCKET script->buckets[script->units[2].bucket]
CHANGE(unit_begins_later, UNIT.first_parameter++)
CHANGE(unit_of_none, UNIT.parameter_count = 0)
CHANGE(last_unit_longer, script->units[script->unit_count - 1].parameter_count++)
CHANGE(last_unit_shorter, script->units[script->unit_count - 1].parameter_count--)
CHANGE(parameter_of_chunk, script->parameters[1].chunk++)
CHANGE(parameter_of_position, script->parameters[1].position++)
CHANGE(parameter_of_block, script->parameters[1].block++)
CHANGE(parameter_of_unit, script->parameters[1].unit++)
CHANGE(parameter_of_none, script->parameters[1].index = -1)
CHANGE(parameter_behind, script->parameters[1].index = 2)
CHANGE(unit_of_chunk, UNIT.chunk = script->parameters[1].chunk = -1)
CHANGE(parameter_begins_later, script->parameters[1].first++)
CHANGE(parameter_larger, script->parameters[1].elements++)
CHANGE(unit_of_kind, UNIT.kind++)
CHANGE(unit_larger, UNIT.elements++)
CHANGE(weights_elsewhere, UNIT.storage.weight_axes ^= 1)
CHANGE(gradients_elsewhere, UNIT.storage.gradient_axes ^= 1)
CHANGE(states_elsewhere, UNIT.storage.optimizer_axes ^= 1)
CHANGE(reduced_too_far, UNIT.reduce_axes |= 1u << 7)
CHANGE(parameter_twice, script->parameters[3].index = script->parameters[2].index)
CHANGE(unit_in_bucket_twice, BUCKET.units[1] = BUCKET.units[0])
CHANGE(unit_of_bucket, UNIT.bucket++)
CHANGE(unit_later_in_bucket, script->units[3].bucket_first++)
CHANGE(unit_off_device, UNIT.storage.weights_away = true)
CHANGE(bucket_of_kind, BUCKET.kind++)
CHANGE(bucket_of_chunk, BUCKET.chunk++)
CHANGE(bucket_reduced, BUCKET.reduce_axes ^= 1u << 7)
CHANGE(bucket_of_weights, BUCKET.storage.weight_axes ^= 1)
CHANGE(bucket_of_gradients, BUCKET.storage.gradient_axes ^= 1)
CHANGE(bucket_of_states, BUCKET.storage.optimizer_axes ^= 1)
CHANGE(bucket_tied, BUCKET.tied = 1)
CHANGE(bucket_larger, BUCKET.elements++)
CHANGE(bucket_without_room, BUCKET.room = script->room_count)
CHANGE(unit_in_no_bucket, BUCKET.elements -= script->units[4].elements; BUCKET.unit_count--)
CHANGE(not_tied, UNIT.tied = -1; script->buckets[UNIT.bucket].tied = -1)
CHANGE(parameter_tied, script->parameters[1].same_as = 0)

#define U(number, what) "stage 0, unit " #number ": " what
static const struct wrong WRONG[] = {
    {U(1, "has not the parameters behind the unit before"), unit_begins_later},
    {U(1, "has not the parameters behind the unit before"), unit_of_none},
    {U(8, "has not the parameters behind the unit before"), last_unit_longer},
    {U(8, "is not as large as its parameters"), last_unit_shorter},
    {U(1, "has a parameter of elsewhere"), parameter_of_chunk},
    {U(1, "has a parameter of elsewhere"), parameter_of_position},
    {U(1, "has a parameter of elsewhere"), parameter_of_block},
    {U(1, "has a parameter of elsewhere"), parameter_of_unit},
    {U(1, "has a parameter of elsewhere"), parameter_of_none},
    {U(1, "has a parameter of elsewhere"), parameter_behind},
    {U(1, "has a parameter of elsewhere"), unit_of_chunk},
    {U(1, "has parameters that overlap or leave gaps"), parameter_begins_later},
    {U(1, "has parameters that overlap or leave gaps"), parameter_larger},
    {U(1, "has parameters that overlap or leave gaps"), unit_of_kind},
    {U(1, "is not as large as its parameters"), unit_larger},
    {U(1, "is stored over other axes"), weights_elsewhere},
    {U(1, "is stored over other axes"), gradients_elsewhere},
    {U(1, "is stored over other axes"), states_elsewhere},
    {U(1, "is reduced over axes over which it is whole"), reduced_too_far},
    {"stage 0: block 1 of chunk 0 has not each parameter once", parameter_twice},
    {U(0, "is in two buckets"), unit_in_bucket_twice},
    {U(1, "is not where its bucket has it"), unit_of_bucket},
    {U(3, "is not where its bucket has it"), unit_later_in_bucket},
    {U(1, "is off the device, which updates it"), unit_off_device},
    {U(0, "is not like its bucket"), bucket_of_kind},
    {U(0, "is not like its bucket"), bucket_of_chunk},
    {U(0, "is not like its bucket"), bucket_reduced},
    {U(0, "is not like its bucket"), bucket_of_weights},
    {U(0, "is not like its bucket"), bucket_of_gradients},
    {U(0, "is not like its bucket"), bucket_of_states},
    {U(0, "is not like its bucket"), bucket_tied},
    {"stage 0: bucket 2 is not as large as said", bucket_larger},
    {"stage 0: bucket 2 is not as large as said", bucket_without_room},
    {U(4, "is in no bucket"), unit_in_no_bucket},
    {U(1, "is not tied as its parameters are"), not_tied},
    {U(1, "is not tied as its parameters are"), parameter_tied},
};

static struct script *copy_of(struct arena *arena, const struct script *script)
{
    struct script *copy = ARENA_COPY(arena, struct script, script, 1);
    copy->parameters =
        ARENA_COPY(arena, struct script_parameter, script->parameters, script->parameter_count);
    copy->units = ARENA_COPY(arena, struct script_unit, script->units, script->unit_count);
    copy->buckets = ARENA_COPY(arena, struct script_bucket, script->buckets, script->bucket_count);
    for (int b = 0; b < script->bucket_count; b++)
        copy->buckets[b].units =
            ARENA_COPY(arena, int, script->buckets[b].units, script->buckets[b].unit_count);
    return copy;
}

static void every_rule_of_the_state_has_its_words(void **state)
{
    struct script_case of;
    script_case_gpt2(*state, 2, 2, &of);
    script_case_write(&of);
    const struct script *right = of.scripts[0];
    int wrong = 0;
    for (size_t i = 0; i < sizeof WRONG / sizeof *WRONG; i++) {
        struct arena scratch = {0};
        struct err err = {0};
        struct script *script = copy_of(&scratch, right);
        const struct script *scripts[] = {script, of.scripts[1]};
        WRONG[i].make(script);
        assert_false(script_check(&scratch, scripts, 2, &err));
        assert_int_equal(err.kind, ERR_INPUT);
        if (strcmp(err.text, WRONG[i].words) != 0) {
            print_error("case %zu: \"%s\", not \"%s\"\n", i, err.text, WRONG[i].words);
            wrong++;
        }
        arena_free(&scratch);
    }
    assert_int_equal(wrong, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_rule_of_the_state_has_its_words),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
