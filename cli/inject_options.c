#include "cli/inject_options.h"
#include "core/units.h"

#include <limits.h>
#include <string.h>

int inject_options(struct inject_arguments *a, struct option options[INJECT_OPTION_COUNT])
{
    const struct option rows[INJECT_OPTION_COUNT] = {
        {"Injected", OPTION_GROUP, NULL,
         "what it costs and who waits; R and NODE are numbers or LOW..HIGH; all but --seed and "
         "--jitter may be repeated",
         NULL, 0, 0},
        {"--slow-rank", OPTION_TEXTS, &a->slow_ranks,
         "rank R computes so many times longer: 137=1.2", "R=FACTOR", 0, 0},
        {"--degraded-nic", OPTION_TEXTS, &a->degraded_nics,
         "a NIC of the node keeps this share of its bandwidth: 3=0.5", "NODE=SHARE", 0, 0},
        {"--slow-link", OPTION_TEXTS, &a->slow_links,
         "the links inside the node keep this share of their bandwidth", "NODE=SHARE", 0, 0},
        {"--jitter", OPTION_F64, &a->jitter_ratio,
         "every task of every rank computes longer or shorter by a normal deviation of this share",
         "RATIO", 0, 1},
        {"--seed", OPTION_I64, &a->seed, "of the jitter (default 0)", "N", 0, 1e15},
    };
    memcpy(options, rows, sizeof rows);
    return INJECT_OPTION_COUNT;
}

bool inject_is_asked(const struct inject_arguments *arguments)
{
    return arguments->slow_ranks.count + arguments->degraded_nics.count +
                   arguments->slow_links.count >
               0 ||
           arguments->jitter_ratio > 0;
}

// "137=1.2" and "8..15=1.2"
static bool read_cause(struct arena *arena, const char *option, const char *text,
                       enum injection_kind kind, struct injection_cause *cause, struct err *err)
{
    const char *equals = strchr(text, '=');
    const char *form = kind == INJECT_RANK ? "R=FACTOR" : "NODE=SHARE";
    if (!equals)
        return err_set(err, ERR_USAGE, "%s: expected %s, found \"%s\"", option, form, text);
    char *place = arena_print(arena, "%.*s", (int)(equals - text), text);
    char *dots = strstr(place, "..");
    int64_t first = 0, last = 0;
    if (dots) *dots = '\0';
    if (!units_parse_i64(place, option, 0, INT_MAX, &first, err)) return false;
    last = first;
    if (dots && !units_parse_i64(dots + 2, option, first, INT_MAX, &last, err)) return false;
    double factor = 0;
    if (!units_parse_f64(equals + 1, option, &factor, err)) return false;
    bool is_rank = kind == INJECT_RANK;
    if (is_rank && !(factor >= 1 && factor <= 1e6))
        return err_set(err, ERR_USAGE, "%s: a slow rank takes 1 to 1e6 times as long, found %s",
                       option, equals + 1);
    if (!is_rank && !(factor >= 1e-6 && factor <= 1))
        return err_set(err, ERR_USAGE, "%s: a share of the bandwidth is 1e-6 to 1, found %s",
                       option, equals + 1);
    *cause = (struct injection_cause){kind, (int)first, (int)last, factor};
    return true;
}

bool inject_read(struct arena *arena, const struct inject_arguments *arguments,
                 struct injection *injection, struct err *err)
{
    const struct {
        const char *option;
        const struct text_list *texts;
        enum injection_kind kind;
    } lists[] = {{"--slow-rank", &arguments->slow_ranks, INJECT_RANK},
                 {"--degraded-nic", &arguments->degraded_nics, INJECT_NIC},
                 {"--slow-link", &arguments->slow_links, INJECT_LINK}};
    struct injection_cause *causes =
        ARENA_NEW(arena, struct injection_cause, sizeof lists / sizeof *lists * TEXT_LIST_MAX);
    *injection = (struct injection){causes, 0, arguments->jitter_ratio, (uint64_t)arguments->seed};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        for (int k = 0; k < lists[i].texts->count; k++) {
            if (!read_cause(arena, lists[i].option, lists[i].texts->items[k], lists[i].kind,
                            &causes[injection->count++], err))
                return false;
        }
    }
    return true;
}
