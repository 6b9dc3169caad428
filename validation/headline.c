#include "validation/headline.h"

#include "core/json_write.h"

#include <assert.h>
#include <math.h>
#include <string.h>

// A 90 % band should hold 90 % of the runs it was not made from; between these nobody would call it
// wrong. Of the runs that it was made from it may hold more.
static const double COVERED_LEAST = 0.85, COVERED_MOST = 0.95;

// A family has few rows, and its mean moves more than that of all does.
static const double FAMILY_MARGINS = 3;

static void add(struct headline *headline, const char *key, const char *words, double value)
{
    assert(headline->count < HEADLINE_MAX);
    headline->figures[headline->count].key = key;
    headline->figures[headline->count].words = words;
    headline->figures[headline->count++].value = value;
}

static double coverage_lack(const struct score *score)
{
    if (score->banded_count == 0) return 0;
    return fmax(0, COVERED_LEAST - score->covered_ratio);
}

// Bands that hold too much are too wide to be of use.
static double coverage_excess(const struct score *score)
{
    return fmax(0, score->covered_ratio - COVERED_MOST);
}

// Without pairs nothing is ordered wrongly.
static double wrong_ratio(const struct ranking_score *ranking)
{
    if (ranking->pair_count == 0) return 0;
    return 1 - (double)ranking->right_count / ranking->pair_count;
}

static double failed_ratio(const struct score *score)
{
    int all = score->row_count + score->failure_count;
    return all ? (double)score->failure_count / all : 0;
}

// What an unseen family may expect, which no fit can flatter.
static void add_left_out(struct headline *headline, const struct accuracy *accuracy)
{
    const struct accuracy_line *groups = accuracy->groups;
    add(headline, "left_out_dense_mape", "MAPE of dense rows, left out",
        groups[ACCURACY_ALL_DENSE].left_out.mape);
    add(headline, "left_out_dense_p90", "p90 of dense rows, left out",
        groups[ACCURACY_ALL_DENSE].left_out.p90);
    add(headline, "left_out_mixture_mape", "MAPE of mixtures of experts, left out",
        groups[ACCURACY_MIXTURE].left_out.mape);
    add(headline, "left_out_coverage_miss", "left-out coverage outside 85 to 95 %",
        coverage_lack(&groups[ACCURACY_ALL].left_out) +
            coverage_excess(&groups[ACCURACY_ALL].left_out));
    add(headline, "left_out_regret_mean", "mean regret, left out",
        accuracy->left_out_ranking.regret_mean);
}

static void add_fits(struct headline *headline, const struct accuracy *accuracy)
{
    const struct accuracy_fits *fits = &accuracy->fits;
    add(headline, "ran_unfit_ratio", "share of runs that ran and are said not to fit",
        1 - (double)fits->ran_fit_count / fits->ran_count);
    add(headline, "failed_fit_ratio", "share of runs that failed and are said to fit",
        1 - (double)fits->failed_unfit_count / fits->failed_count);
    if (fits->short_count == 0) return;
    add(headline, "short_fit_ratio", "share of failures that memory may explain and said to fit",
        1 - (double)fits->short_unfit_count / fits->short_count);
}

struct headline headline_of(const struct accuracy *accuracy)
{
    struct headline headline = {.families = accuracy->families,
                                .family_count = accuracy->family_count};
    const struct accuracy_line *groups = accuracy->groups;
    add(&headline, "dense_mape", "MAPE of dense rows", groups[ACCURACY_ALL_DENSE].now.mape);
    add(&headline, "dense_16_bit_mape", "MAPE of dense rows in 16 bits",
        groups[ACCURACY_DENSE].now.mape);
    add(&headline, "dense_low_precision_mape", "MAPE of dense rows in fp8 and fp4",
        groups[ACCURACY_LOW_PRECISION].now.mape);
    add(&headline, "dense_p90", "p90 of dense rows", groups[ACCURACY_ALL_DENSE].now.p90);
    add(&headline, "mixture_mape", "MAPE of mixtures of experts",
        groups[ACCURACY_MIXTURE].now.mape);
    add(&headline, "failed_ratio", "share of rows that failed",
        failed_ratio(&groups[ACCURACY_ALL].now));
    add(&headline, "coverage_lack", "coverage short of 85 %",
        coverage_lack(&groups[ACCURACY_ALL].now));
    add(&headline, "allocated_mape", "MAPE of allocated memory", accuracy->allocated.mape);
    add(&headline, "allocated_worst", "worst error of allocated memory", accuracy->allocated.worst);
    add(&headline, "allocated_under", "worst under-prediction of allocated memory",
        -accuracy->allocated.least);
    add(&headline, "reserved_mape", "MAPE of reserved memory", accuracy->reserved.mape);
    add(&headline, "pairs_wrong_ratio", "share of pairs ordered wrongly",
        wrong_ratio(&accuracy->ranking));
    add(&headline, "regret_mean", "mean regret", accuracy->ranking.regret_mean);
    if (accuracy->has_left_out) add_left_out(&headline, accuracy);
    const struct accuracy_fits *fits = &accuracy->fits;
    if (fits->failed_count && fits->ran_count) add_fits(&headline, accuracy);
    if (fits->other_count)
        add(&headline, "other_unfit_ratio", "share of other runs that ran and are said not to fit",
            1 - (double)fits->other_fit_count / fits->other_count);
    assert(headline.count > 0);
    return headline;
}

// Ten thousandths of a point are noise of rounding, and make every difference unreadable.
static void put_ratio(struct json_writer *writer, const char *key, double value)
{
    double rounded = round(value * 1e6) / 1e6;
    json_put_f64(writer, key, rounded == 0 ? 0 : rounded);
}

char *headline_text(struct arena *arena, const struct headline *headline)
{
    struct json_writer writer = {.arena = arena};
    json_open(&writer, NULL, '{');
    for (int i = 0; i < headline->count; i++)
        put_ratio(&writer, headline->figures[i].key, headline->figures[i].value);
    json_open(&writer, "families", '{');
    for (int i = 0; i < headline->family_count; i++)
        put_ratio(&writer, headline->families[i].name, headline->families[i].now.mape);
    json_close(&writer, '}');
    json_close(&writer, '}');
    return writer.text;
}

// Member `index` of an array of ratios.
static struct json_field ratio_field(const char *key, int index)
{
    assert(index >= 0);
    return (struct json_field){
        .key = key,
        .type = JSON_TYPE_F64,
        .offset = (size_t)index * sizeof(double),
        .low = -1,
        .high = 1e6,
    };
}

// The committed errors of the families, in the order of `headline`.
static const double *read_families(struct arena *arena, const struct json *root,
                                   const struct headline *headline, struct err *err)
{
    int count = headline->family_count;
    double *committed = ARENA_NEW(arena, double, count + 1);
    struct json_field *fields = ARENA_NEW(arena, struct json_field, count + 1);
    for (int i = 0; i < count; i++)
        fields[i] = ratio_field(headline->families[i].name, i);
    struct json families = json_get(root, "families", err);
    json_read(&families, fields, committed, err);
    return committed;
}

// Families have three times the margin: few rows move more.
int headline_worse(struct arena *arena, const char *path, const struct headline *headline,
                   double margin, struct headline_change changes[HEADLINE_MAX], struct err *err)
{
    assert(margin >= 0 && headline->count <= HEADLINE_MAX);
    struct json_document document;
    if (!json_load(arena, path, &document, err)) return -1;
    double committed[HEADLINE_MAX] = {0};
    struct json_field fields[HEADLINE_MAX + 2] = {0};
    for (int i = 0; i < headline->count; i++)
        fields[i] = ratio_field(headline->figures[i].key, i);
    fields[headline->count] = (struct json_field){JSON_ANY("families")};
    struct json root = json_root(&document);
    json_read(&root, fields, committed, err);
    if (err->kind) return -1;
    const double *families = read_families(arena, &root, headline, err);
    if (err->kind) return -1;
    int count = 0;
    for (int i = 0; i < headline->count; i++) {
        double value = headline->figures[i].value;
        if (value <= committed[i] + margin) continue;
        changes[count++] =
            (struct headline_change){headline->figures[i].words, committed[i], value};
    }
    for (int i = 0; i < headline->family_count && count < HEADLINE_MAX; i++) {
        const struct accuracy_line *line = &headline->families[i];
        if (line->now.mape <= families[i] + FAMILY_MARGINS * margin) continue;
        changes[count++] = (struct headline_change){line->name, families[i], line->now.mape};
    }
    return count;
}
