#include "exchange/compare.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "core/console.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct arguments {
    const char *base, *now, *threshold, *judge;
    struct text_list more_base, more_now;
    bool json;
};

// "3%" or "0.03".
static bool read_ratio(const char *text, double *ratio, struct err *err)
{
    char *end = NULL;
    double value = strtod(text, &end);
    bool is_percent = *end == '%' && end[1] == '\0';
    bool is_number = end != text && strspn(text, "0123456789.eE-+%") == strlen(text);
    *ratio = is_percent ? value / 100 : value;
    bool is_whole = is_number && (is_percent || *end == '\0');
    if (is_whole && *ratio >= 0 && *ratio <= 10) return true;
    return err_set(err, ERR_USAGE,
                   "--threshold: expected a share from 0 to 10, as 3%% or 0.03, found \"%s\"",
                   text);
}

static bool read_side(struct arena *arena, const char *first, const struct text_list *more,
                      struct compare_side *side, struct err *err)
{
    const char *paths[COMPARE_FILES_MAX] = {first};
    if (more->count >= COMPARE_FILES_MAX)
        return err_set(err, ERR_USAGE, "a side has at most %d runs", COMPARE_FILES_MAX);
    for (int i = 0; i < more->count; i++)
        paths[i + 1] = more->items[i];
    return compare_side_read(arena, paths, more->count + 1, side, err);
}

static int run(struct arena *arena, const struct arguments *arguments, struct err *err)
{
    struct compare_request request = {
        .judges_step = strstr(arguments->judge, "step") != NULL,
        .judges_memory = strstr(arguments->judge, "memory") != NULL,
    };
    struct compare_side *sides = ARENA_NEW(arena, struct compare_side, 2);
    struct compare compare;
    if (!read_ratio(arguments->threshold, &request.threshold_ratio, err) ||
        !read_side(arena, arguments->base, &arguments->more_base, &sides[0], err) ||
        !read_side(arena, arguments->now, &arguments->more_now, &sides[1], err) ||
        !compare_make(arena, &request, &sides[0], &sides[1], &compare, err))
        return exit_status(err);
    if (arguments->json)
        fputs(compare_json_text(arena, &compare), stdout);
    else
        console_print(stdout, compare_text(arena, &compare));
    return compare.verdict == VERDICT_REGRESSION;
}

int compare_command(int argc, char **argv, struct err *err)
{
    struct arguments a = {.threshold = "3%", .judge = "step"};
    const struct option options[] = {
        {"BASE", OPTION_TEXT, &a.base, "a plan, a run.json, or a trace (.json, .json.gz)", NULL, 0,
         0},
        {"NEW", OPTION_TEXT, &a.now, "what is compared with it, of the same kind", NULL, 0, 0},
        {"--threshold", OPTION_TEXT, &a.threshold,
         "changes up to this are none (default 3%); a regression beyond it answers no (exit 1)",
         "SHARE", 0, 0},
        {"--judge", OPTION_WORDS, &a.judge, "what is judged (default step)", "step|memory", 0, 0},
        {"--base", OPTION_TEXTS, &a.more_base,
         "another run of BASE, may be repeated: then the noise between runs counts", "FILE", 0, 0},
        {"--new", OPTION_TEXTS, &a.more_now, "another run of NEW, may be repeated", "FILE", 0, 0},
        {"--json", OPTION_FLAG, &a.json, "print verdict, metrics and tasks for programs", NULL, 0,
         0},
        {0},
    };
    if (options_help(argc, argv, options)) return 0;
    if (!options_parse(options, argc, argv, err)) return exit_status(err);
    struct arena arena = {0};
    int status = run(&arena, &a, err);
    arena_free(&arena);
    return status;
}
