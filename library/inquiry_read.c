#include "library/inquiry.h"
#include "reports/page/replan.h"

#include <ctype.h>
#include <string.h>

static const struct json_field FIELDS[] = {
    {JSON_TEXT(struct inquiry, model)},
    {JSON_TEXT(struct inquiry, cluster)},
    {JSON_I64(struct inquiry, seq_len, 1, 1e12)},
    {JSON_I64(struct inquiry, global_batch, 1, 1 << 30)},
    {JSON_OPT_I64(struct inquiry, nodes, 1, CLUSTER_NODES_MAX)},
    {JSON_OPT_I64(struct inquiry, gpus, 1, CLUSTER_GPUS_MAX)},
    {JSON_OPT_TEXT(struct inquiry, stack)},
    {JSON_OPT_TEXT(struct inquiry, kernels)},
    {JSON_OPT_TEXT(struct inquiry, precision)},
    {JSON_OPT_TEXT(struct inquiry, optimizer)},
    {JSON_OPT_F64(struct inquiry, tokens, 1, 1e30)},
    {JSON_OPT_ANY("objective")},
    {JSON_OPT_ANY("pins")},
    {0},
};

static bool read_objective(const struct json *at, enum objective *objective, struct err *err)
{
    static const char *const NAMES[] = {"time", "cost", "memory"};
    if (!json_has(at, "objective")) return true;
    const struct json value = json_get(at, "objective", err);
    const char *word = json_text(&value, err);
    for (int i = 0; !err->kind && i < (int)(sizeof NAMES / sizeof *NAMES); i++) {
        if (strcmp(word, NAMES[i]) != 0) continue;
        *objective = (enum objective)i;
        return true;
    }
    return err->kind ? false : json_fail(&value, err, "expected time, cost or memory");
}

bool inquiry_read(struct arena *arena, const struct json *at, struct inquiry *inquiry,
                  struct err *err)
{
    *inquiry = inquiry_start();
    enum precision precision;
    enum optimizer optimizer;
    json_read(at, FIELDS, inquiry, err);
    if (err->kind) return false;
    if (inquiry->precision && !precision_from_name(inquiry->precision, &precision))
        return json_fail(at, err, "%s is no precision", inquiry->precision);
    if (inquiry->optimizer && !optimizer_from_name(inquiry->optimizer, &optimizer))
        return json_fail(at, err, "%s is no optimizer", inquiry->optimizer);
    return read_objective(at, &inquiry->objective, err) &&
           replan_pins(arena, at, &inquiry->pins, err);
}

// In place: a member is never longer than its option.
char *inquiry_members(char *text)
{
    char *to = text;
    for (const char *at = text; *at;) {
        bool starts = at == text || strchr(" (", at[-1]);
        if (!starts || strncmp(at, "--", 2) != 0 || !islower((unsigned char)at[2])) {
            *to++ = *at++;
            continue;
        }
        for (at += 2; islower((unsigned char)*at) || *at == '-'; at++)
            *to++ = *at == '-' ? '_' : *at;
    }
    *to = '\0';
    return text;
}
