#include "models/strided.h"

void strided_write(struct json_writer *writer, const char *key, const struct strided *strided)
{
    json_open(writer, key, '{');
    json_put_i64s(writer, "sizes", strided->sizes, strided->count);
    json_put_i64s(writer, "first", strided->first, LOOPS_INPUTS);
    json_put_i64s(writer, "steps", strided->steps[0], strided->count);
    json_put_i64s(writer, "other_steps", strided->steps[1], strided->count);
    json_close(writer, '}');
}

static const struct json_field FIELDS[] = {
    {JSON_ANY("sizes")}, {JSON_ANY("first")}, {JSON_ANY("steps")}, {JSON_ANY("other_steps")}, {0},
};

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
    bool is_right = read_list(object, "first", LOOPS_INPUTS, 0, made->first, err) == LOOPS_INPUTS &&
                    read_list(object, "steps", LOOPS_MOST, -(double)STRIDED_MOST, made->steps[0],
                              err) == made->count &&
                    read_list(object, "other_steps", LOOPS_MOST, -(double)STRIDED_MOST,
                              made->steps[1], err) == made->count;
    if (!err->kind && !is_right) json_fail(object, err, "a step for each size is wanted");
    return err->kind ? NULL : made;
}

bool strided_fits(const struct strided *strided, int i, int64_t elements)
{
    double least = (double)strided->first[i], most = least;
    for (int l = 0; l < strided->count; l++) {
        double way = (double)(strided->sizes[l] - 1) * (double)strided->steps[i][l];
        if (way > 0) most += way;
        if (way < 0) least += way;
    }
    return least >= 0 && most < (double)elements;
}
