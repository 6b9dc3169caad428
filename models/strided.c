#include "models/strided.h"

#include <assert.h>

static const char *const STEPS[LOOPS_INPUTS] = {"steps", "other_steps", "third_steps",
                                                "fourth_steps"};

// At least two are written.
static int operand_count(const struct strided *strided)
{
    assert(strided->count >= 0 && strided->count <= LOOPS_MOST);
    int count = 2;
    for (int i = count; i < LOOPS_INPUTS; i++)
        for (int l = 0; l < strided->count; l++)
            if (strided->steps[i][l]) count = i + 1;
    return count;
}

void strided_write(struct json_writer *writer, const char *key, const struct strided *strided)
{
    int operands = operand_count(strided);
    json_open(writer, key, '{');
    json_put_i64s(writer, "sizes", strided->sizes, strided->count);
    json_put_i64s(writer, "first", strided->first, operands);
    for (int i = 0; i < operands; i++)
        json_put_i64s(writer, STEPS[i], strided->steps[i], strided->count);
    json_close(writer, '}');
}

static const struct json_field FIELDS[] = {
    {JSON_ANY("sizes")},
    {JSON_ANY("first")},
    {JSON_ANY("steps")},
    {JSON_ANY("other_steps")},
    {JSON_OPT_ANY("third_steps")},
    {JSON_OPT_ANY("fourth_steps")},
    {0},
};

// Lists of a plan are a user's: too long a one is an error, never a write past the end.
static int read_list(const struct json *object, const char *key, int most, double low,
                     int64_t *numbers, struct err *err)
{
    struct json list = json_get(object, key, err);
    int count = json_count(&list, err);
    if (!err->kind && (!json_is_array(&list) || count > most))
        json_fail(&list, err, "a list of at most %d numbers is wanted", most);
    for (int i = 0; i < count && !err->kind; i++) {
        struct json item = json_item(&list, i);
        numbers[i] = json_i64(&item, low, (double)STRIDED_MOST, err);
    }
    return count;
}

const struct strided *strided_read(struct arena *arena, const struct json *object, struct err *err)
{
    struct strided *made = ARENA_NEW(arena, struct strided, 1);
    struct strided ignored;
    json_read(object, FIELDS, &ignored, err);
    made->count = read_list(object, "sizes", LOOPS_MOST, 1, made->sizes, err);
    int operands = read_list(object, "first", LOOPS_INPUTS, 0, made->first, err);
    bool is_right = operands >= 2;
    for (int i = 0; i < operands && is_right && !err->kind; i++) {
        is_right = read_list(object, STEPS[i], LOOPS_MOST, -(double)STRIDED_MOST, made->steps[i],
                             err) == made->count;
    }
    if (!err->kind && !is_right) json_fail(object, err, "a step for each size is wanted");
    assert(err->kind || (made->count <= LOOPS_MOST && operands <= LOOPS_INPUTS));
    return err->kind ? NULL : made;
}
