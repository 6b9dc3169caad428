#include "cli/price_options.h"
#include "core/console.h"
#include "core/units.h"

#include <string.h>

static const double PRICE_LOW = 1e-6, PRICE_HIGH = 1e9;  // as in a cluster file
enum { CURRENCY_LETTERS = 3 };                           // ISO 4217

int price_options(struct price_arguments *a, struct option options[PRICE_OPTION_COUNT])
{
    const struct option rows[PRICE_OPTION_COUNT] = {
        {"Price", OPTION_GROUP, NULL, "of time and money to finish; see docs/money.md", NULL, 0, 0},
        {"--price-per-gpu-hour", OPTION_F64, &a->per_gpu_hour,
         "in place of what the cluster file says", "N", PRICE_LOW, PRICE_HIGH},
        {"--currency", OPTION_TEXT, &a->currency, "of that price (default USD)", "CODE", 0, 0},
        {"--currency-rate", OPTION_TEXTS, &a->rates,
         "keep prices in CODE, at N of --currency for one; may be repeated", "CODE=N", 0, 0},
    };
    memcpy(options, rows, sizeof rows);
    return PRICE_OPTION_COUNT;
}

static const char *price_currency(const struct price_arguments *arguments)
{
    return arguments->currency ? arguments->currency : "USD";
}

static bool is_currency(const char *text)
{
    for (int i = 0; i < CURRENCY_LETTERS; i++)
        if (text[i] < 'A' || text[i] > 'Z') return false;
    return !text[CURRENCY_LETTERS];
}

struct rate {
    const char *currency;
    double value;
};

static bool read_rate(struct arena *arena, const char *text, struct rate *rate, struct err *err)
{
    const char *equals = strchr(text, '=');
    rate->currency = equals ? arena_print(arena, "%.*s", (int)(equals - text), text) : text;
    if (!equals || !is_currency(rate->currency)) {
        return err_set(err, ERR_USAGE,
                       "--currency-rate: expected CODE=N such as CNY=0.14, found \"%s\"", text);
    }
    if (!units_parse_f64(equals + 1, "--currency-rate", &rate->value, err)) return false;
    if (rate->value >= PRICE_LOW && rate->value <= PRICE_HIGH) return true;
    return err_set(err, ERR_USAGE, "--currency-rate: must be between 1e-6 and 1e9, found %s",
                   equals + 1);
}

double price_rate(struct arena *arena, const struct price_arguments *arguments,
                  const char *currency, struct err *err)
{
    for (int i = 0; i < arguments->rates.count; i++) {
        struct rate rate = {0};
        if (!read_rate(arena, arguments->rates.items[i], &rate, err)) return 0;
        if (strcmp(rate.currency, currency) == 0) return rate.value;
    }
    return 0;
}

// All that can be wrong without a look at a cluster.
static bool check(struct arena *arena, const struct price_arguments *arguments, struct err *err)
{
    const char *currency = arguments->currency;
    int rate_count = arguments->rates.count;
    if (currency && !is_currency(currency)) {
        return err_set(err, ERR_USAGE,
                       "--currency: expected three letters such as USD, found \"%s\"", currency);
    }
    if (currency && arguments->per_gpu_hour <= 0 && rate_count == 0) {
        return err_set(err, ERR_USAGE, "--currency is of --price-per-gpu-hour or --currency-rate");
    }
    for (int i = 0; i < rate_count; i++) {
        struct rate rate, other;
        if (!read_rate(arena, arguments->rates.items[i], &rate, err)) return false;
        if (strcmp(rate.currency, price_currency(arguments)) == 0) {
            return err_set(err, ERR_USAGE,
                           "--currency-rate: %s is the currency of the answer (--currency)",
                           rate.currency);
        }
        for (int k = 0; k < i; k++) {
            if (!read_rate(arena, arguments->rates.items[k], &other, err)) return false;
            if (strcmp(rate.currency, other.currency) != 0) continue;
            return err_set(err, ERR_USAGE, "--currency-rate: %s is given twice", rate.currency);
        }
    }
    return true;
}

static bool check_rates_used(struct arena *arena, const struct price_arguments *arguments,
                             const struct cluster *const *clusters, int count, struct err *err)
{
    for (int i = 0; i < arguments->rates.count; i++) {
        struct rate rate;
        bool is_used = false;
        if (!read_rate(arena, arguments->rates.items[i], &rate, err)) return false;
        for (int k = 0; k < count; k++) {
            const struct price *price = &clusters[k]->price;
            is_used = is_used || (price->currency && strcmp(price->currency, rate.currency) == 0);
        }
        if (is_used) continue;
        return err_set(err, ERR_USAGE, "--currency-rate: no price is in %s", rate.currency);
    }
    return true;
}

static struct price converted(struct arena *arena, const struct price *price, double rate,
                              const char *currency)
{
    char number[UNITS_NUMBER_BYTES];
    const char *how = arena_print(arena, "at %s %s for one %s", units_number(number, rate),
                                  currency, price->currency);
    return (struct price){
        .per_gpu_hour = price->per_gpu_hour * rate,
        .spot_per_gpu_hour = price->spot_per_gpu_hour * rate,
        .currency = currency,
        .date = price->date,
        .source = price->source ? arena_print(arena, "%s; %s", price->source, how) : how,
    };
}

// " hgx-h800 5.99 CNY" where a file's price is not what is taken.
static const char *replaced_text(struct arena *arena, const struct cluster *cluster,
                                 const struct price *price)
{
    const struct price *old = &cluster->price;
    const char *was = old->currency ? old->currency : "", *is = price->currency;
    bool is_same = old->per_gpu_hour <= 0 ||
                   (old->per_gpu_hour == price->per_gpu_hour && is && strcmp(was, is) == 0);
    char number[UNITS_NUMBER_BYTES];
    return is_same ? ""
                   : arena_print(arena, "%s %s %s", cluster->name,
                                 units_number(number, old->per_gpu_hour), old->currency);
}

bool price_apply(struct arena *arena, const struct price_arguments *arguments,
                 const struct cluster **clusters, int count, struct err *err)
{
    const char *currency = price_currency(arguments), *replaced = "";
    if (!check(arena, arguments, err)) return false;
    if (!check_rates_used(arena, arguments, clusters, count, err)) return false;
    const struct price given = {.per_gpu_hour = arguments->per_gpu_hour,
                                .currency = currency,
                                .source = "--price-per-gpu-hour"};
    for (int i = 0; i < count; i++) {
        const struct price *old = &clusters[i]->price;
        double rate = old->currency ? price_rate(arena, arguments, old->currency, err) : 0;
        if (err->kind) return false;
        if (rate <= 0 && given.per_gpu_hour <= 0) continue;
        struct price taken = rate > 0 ? converted(arena, old, rate, currency) : given;
        const char *was = rate > 0 ? "" : replaced_text(arena, clusters[i], &taken);
        if (*was) replaced = arena_print(arena, "%s%s%s", replaced, *replaced ? ", " : "", was);
        struct cluster *priced = ARENA_NEW(arena, struct cluster, 1);
        *priced = *clusters[i];
        priced->price = taken;
        clusters[i] = priced;
    }
    if (*replaced) {
        console_printf(stderr, "note: --price-per-gpu-hour takes the place of the price of %s\n",
                       replaced);
    }
    return true;
}
