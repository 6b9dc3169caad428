#include "cli/checkpoint_options.h"

#include <stdio.h>
#include <string.h>

int checkpoint_options(struct checkpoint_arguments *a,
                       struct option options[CHECKPOINT_OPTION_COUNT])
{
    const struct option rows[CHECKPOINT_OPTION_COUNT] = {
        {"Checkpoints", OPTION_GROUP, NULL, "see docs/checkpoints.md", NULL, 0, 0},
        {"--checkpoint", OPTION_TEXT, &a->folder,
         "write checkpoints there, beside the steps; SIGTERM writes one and ends the run", "DIR", 0,
         0},
        {"--checkpoint-every", OPTION_INT, &a->every,
         "steps between two (default: by what one costs and how often the cluster fails)", NULL, 1,
         1e9},
        {"--keep", OPTION_INT, &a->keep, "the last so many of them (default: all)", NULL, 1, 1e9},
        {"--resume", OPTION_CHOICE, &a->resume,
         "go on from the last good one, of whatever plan; auto: or begin, if there is none",
         "|auto", 0, 0},
        {"--restarts", OPTION_INT, &a->restarts,
         "start the ranks again so many times, from the last good one, when one has died; one that "
         "dies again before a step, or a third time before the next checkpoint, is gone, and the "
         "others are planned for",
         NULL, 1, 1e6},
        {"--ranks-left", OPTION_INT, &a->ranks_left,
         "so many of the plan's ranks are left: plans for them first", NULL, 1, 1e6},
        {"--replan", OPTION_FLAG, &a->replan,
         "plan around a rank that stays slow, and go over to that plan by a checkpoint where the "
         "steps left are worth it",
         NULL, 0, 0},
        {"--slow-rank", OPTION_TEXT, &a->slow,
         "a drill on CPUs: what these ranks work takes so many times as long, as on slower devices",
         "R=FACTOR,A..B=FACTOR", 0, 0},
    };
    memcpy(options, rows, sizeof rows);
    return CHECKPOINT_OPTION_COUNT;
}

bool checkpoint_options_check(const struct checkpoint_arguments *a, struct err *err)
{
    if (a->folder) return true;
    const struct {
        const char *name;
        bool is_given;
    } rows[] = {{"--checkpoint-every", a->every > 0}, {"--keep", a->keep > 0},
                {"--resume", a->resume != NULL},      {"--restarts", a->restarts > 0},
                {"--ranks-left", a->ranks_left > 0},  {"--replan", a->replan}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (rows[i].is_given)
            return err_set(err, ERR_USAGE, "%s needs --checkpoint DIR", rows[i].name);
    }
    return true;
}

static bool read_slow(const char *text, struct slow_ranks *ranks)
{
    int end = 0;
    bool is_range =
        sscanf(text, "%d..%d=%lf%n", &ranks->first, &ranks->last, &ranks->ratio, &end) == 3;
    if (!is_range) {
        if (sscanf(text, "%d=%lf%n", &ranks->first, &ranks->ratio, &end) != 2) return false;
        ranks->last = ranks->first;
    }
    return (!text[end] || text[end] == ',') && ranks->first >= 0 && ranks->first <= ranks->last &&
           ranks->ratio >= 1 && ranks->ratio <= 1e6;
}

bool checkpoint_options_slow(struct checkpoint_arguments *a, struct err *err)
{
    for (const char *at = a->slow; at; at = strchr(at, ',')) {
        at += *at == ',';
        if (a->slow_count == SLOW_RANKS_MAX)
            return err_set(err, ERR_USAGE, "--slow-rank: at most %d are allowed", SLOW_RANKS_MAX);
        if (!read_slow(at, &a->slow_ranks[a->slow_count++]))
            return err_set(err, ERR_USAGE,
                           "--slow-rank: expected RANK=FACTOR or FIRST..LAST=FACTOR, joined by "
                           "commas, a factor of 1 to 1000000, found \"%s\"",
                           a->slow);
    }
    return true;
}

double checkpoint_options_slow_ratio(const struct checkpoint_arguments *a, int rank)
{
    double ratio = 1;
    for (int i = 0; i < a->slow_count; i++) {
        const struct slow_ranks *ranks = &a->slow_ranks[i];
        bool is_slower = ranks->first <= rank && rank <= ranks->last && ranks->ratio > ratio;
        if (is_slower) ratio = ranks->ratio;
    }
    return ratio;
}
