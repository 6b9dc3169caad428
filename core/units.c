#include "core/units.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// One step of a ladder of units: a quantity below `limit` is shown divided by `scale`.
struct step {
    double limit, scale;
    const char *name;
};

// 999.5 would be printed as 1000: it belongs to the next unit.
static const struct step SECONDS[] = {
    {999.5e-9, 1e-9, "ns"}, {999.5e-6, 1e-6, "µs"}, {0.9995, 1e-3, "ms"}, {599.95, 1, "s"},
    {7199, 60, "min"},      {259199, 3600, "h"},    {0, 86400, "days"},
};
static const struct step BYTES[] = {
    {1023.5, 1, "B"},
    {999.5 * 0x1p10, 0x1p10, "KiB"},
    {999.5 * 0x1p20, 0x1p20, "MiB"},
    {999.5 * 0x1p30, 0x1p30, "GiB"},
    {0, 0x1p40, "TiB"},
};
static const struct step FLOP_PER_S[] = {
    {999.5e6, 1e6, "MFLOP/s"},   {999.5e9, 1e9, "GFLOP/s"}, {999.5e12, 1e12, "TFLOP/s"},
    {999.5e15, 1e15, "PFLOP/s"}, {0, 1e18, "EFLOP/s"},
};
static const struct step BYTES_PER_S[] = {
    {999.5, 1, "B/s"},      {999.5e3, 1e3, "kB/s"}, {999.5e6, 1e6, "MB/s"},
    {999.5e9, 1e9, "GB/s"}, {0, 1e12, "TB/s"},
};
static const struct step COUNTS[] = {{999.5e6, 1e6, "M"}, {999.5e9, 1e9, "B"}, {0, 1e12, "T"}};

static int decimals_of(double magnitude)
{
    return magnitude < 9.995 ? 2 : magnitude < 99.95 ? 1 : 0;
}

// The last step of a ladder has limit 0 and takes everything.
static const struct step *step_of(const struct step *ladder, double magnitude)
{
    while (ladder->limit > 0 && magnitude >= ladder->limit)
        ladder++;
    return ladder;
}

static char *print_grouped(struct arena *arena, double count)
{
    const char *sign = count < 0 ? "-" : "";
    long rounded = lround(fabs(count));
    if (rounded < 1000) return arena_print(arena, "%s%ld", sign, rounded);
    return arena_print(arena, "%s%ld,%03ld", sign, rounded / 1000, rounded % 1000);
}

static char *print_on(struct arena *arena, const struct step *ladder, double value)
{
    const struct step *step = step_of(ladder, fabs(value));
    double shown = value / step->scale;
    // Past the largest unit.
    if (fabs(shown) >= 999.5 && fabs(shown) < 1e6)
        return arena_print(arena, "%s %s", print_grouped(arena, shown), step->name);
    return arena_print(arena, "%.*f %s", decimals_of(fabs(shown)), shown, step->name);
}

char *units_seconds(struct arena *arena, double seconds)
{
    if (seconds == 0) return arena_copy(arena, "0 s");
    // Step times are compared with each other: from 10 s to 100 s one more digit is kept.
    double magnitude = fabs(seconds);
    if (magnitude >= 9.995 && magnitude < 99.995) return arena_print(arena, "%.2f s", seconds);
    return print_on(arena, SECONDS, seconds);
}

char *units_duration(struct arena *arena, double seconds)
{
    static const double MINUTE_S = 60, HOUR_S = 3600, DAY_S = 86400, YEAR_S = 365.25 * 86400;
    if (isinf(seconds)) return arena_copy(arena, "for ever");
    if (seconds < 2 * MINUTE_S) return units_seconds(arena, seconds);
    if (seconds < 2 * HOUR_S) return arena_print(arena, "%.1f min", seconds / MINUTE_S);
    if (seconds < 2 * DAY_S) return arena_print(arena, "%.1f h", seconds / HOUR_S);
    double tenths = round(10 * seconds / DAY_S);
    if (tenths >= 10000 && seconds < 10 * YEAR_S)
        return arena_print(arena, "%.0f,%05.1f days", floor(tenths / 10000),
                           fmod(tenths, 10000) / 10);
    if (seconds < 10 * YEAR_S) return arena_print(arena, "%.1f days", seconds / DAY_S);
    return arena_print(arena, "%.1f years", seconds / YEAR_S);
}

char *units_bytes(struct arena *arena, double bytes)
{
    if (fabs(bytes) < BYTES[0].limit) return arena_print(arena, "%.0f B", bytes);
    return print_on(arena, BYTES, bytes);
}

char *units_flop_per_s(struct arena *arena, double flop_per_s)
{
    return print_on(arena, FLOP_PER_S, flop_per_s);
}

char *units_bytes_per_s(struct arena *arena, double bytes_per_s)
{
    return print_on(arena, BYTES_PER_S, bytes_per_s);
}

char *units_count(struct arena *arena, double count)
{
    double magnitude = fabs(count);
    if (magnitude < 999.5 && count != floor(count)) return arena_print(arena, "%.3g", count);
    if (magnitude < 999999.5) return print_grouped(arena, count);
    const struct step *step = step_of(COUNTS, magnitude);
    double shown = count / step->scale;
    char digits[64];
    int length = snprintf(digits, sizeof digits, "%.*f", decimals_of(fabs(shown)), shown);
    if (strchr(digits, '.')) {
        while (digits[length - 1] == '0')
            length--;
        if (digits[length - 1] == '.') length--;
    }
    return arena_print(arena, "%.*s %s", length, digits, step->name);
}

char *units_counted(struct arena *arena, double count, const char *noun)
{
    return arena_print(arena, "%s %s%s", units_count(arena, count), noun, count == 1 ? "" : "s");
}

char *units_ratio(struct arena *arena, double ratio)
{
    return arena_print(arena, "%.1f %%", 100 * ratio);
}

char *units_percent(struct arena *arena, double ratio)
{
    return arena_print(arena, "%.1f%%", 100 * ratio);
}

char *units_signed_percent(struct arena *arena, double ratio)
{
    // No minus before a zero.
    return arena_print(arena, "%+.1f%%", fabs(ratio) < 0.0005 ? 0.0 : 100 * ratio);
}

// The multiple becomes an exponent of the text, because 1.1 * 1e6 is not always what 1.1e6 reads
// as.
static const char *exponent_of(char suffix)
{
    switch (suffix) {
    case 'k':
    case 'K':
        return "e3";
    case 'M':
        return "e6";
    case 'G':
    case 'B':
        return "e9";
    case 'T':
        return "e12";
    case 'P':
        return "e15";
    default:
        return NULL;
    }
}

// "16Ki" and "16KiB": the power of two that a text ends in, and the length that is left before it.
static int power_of_two(const char *text, size_t *length)
{
    static const char LETTERS[] = "KMGT";
    size_t end = *length;
    if (end > 0 && text[end - 1] == 'B') end--;
    if (end < 3 || text[end - 1] != 'i') return 0;
    const char *letter = strchr(LETTERS, text[end - 2]);
    if (!letter) return 0;
    *length = end - 2;
    return 10 * (int)(letter - LETTERS + 1);
}

static bool parse_number(const char *text, double *value)
{
    char digits[64];
    size_t length = strlen(text);
    if (length == 0 || length > sizeof digits - 8) return false;
    int power = power_of_two(text, &length);
    const char *exponent = power ? NULL : exponent_of(text[length - 1]);
    if (exponent) length--;
    // strtod also reads blanks, "inf", "nan" and hexadecimal: none of these is meant here.
    if (strspn(text, "0123456789.eE+-") != length) return false;
    snprintf(digits, sizeof digits, "%.*s%s", (int)length, text, exponent ? exponent : "");
    char *end = NULL;
    *value = ldexp(strtod(digits, &end), power);
    return end != digits && *end == '\0' && isfinite(*value);
}

bool units_parse_f64(const char *text, const char *what, double *value, struct err *err)
{
    assert(text && what);
    double parsed = 0;
    if (!parse_number(text, &parsed)) {
        return err_set(err, ERR_USAGE,
                       "%s: expected a number such as 4096, 1e12 or 2T, found \"%s\"", what, text);
    }
    *value = parsed;
    return true;
}

bool units_parse_i64(const char *text, const char *what, int64_t low, int64_t high, int64_t *value,
                     struct err *err)
{
    assert(text && what && low <= high);
    double parsed = 0;
    if (!units_parse_f64(text, what, &parsed, err)) return false;
    if (parsed != floor(parsed)) {
        return err_set(err, ERR_USAGE, "%s: expected a whole number, found \"%s\"", what, text);
    }
    if (fabs(parsed) >= 0x1p53) {
        return err_set(err, ERR_USAGE, "%s: %s is too large for a whole number", what, text);
    }
    if ((int64_t)parsed < low || (int64_t)parsed > high) {
        return err_set(err, ERR_USAGE, "%s: must be between %lld and %lld, found %s", what,
                       (long long)low, (long long)high, text);
    }
    *value = (int64_t)parsed;
    return true;
}

bool units_parse_duration(const char *text, const char *what, double *seconds, struct err *err)
{
    static const struct {
        char letter;
        double unit_s;
    } UNITS[] = {{'s', 1},     {'m', 60},        {'h', 3600},
                 {'d', 86400}, {'w', 7 * 86400}, {'y', 365.25 * 86400}};
    char number[64];
    size_t length = strlen(text);
    for (size_t i = 0; i < sizeof UNITS / sizeof *UNITS; i++) {
        double value = 0;
        if (length < 2 || length > sizeof number || text[length - 1] != UNITS[i].letter) continue;
        snprintf(number, sizeof number, "%.*s", (int)length - 1, text);
        if (!parse_number(number, &value) || value <= 0 || !isfinite(value * UNITS[i].unit_s))
            break;
        *seconds = value * UNITS[i].unit_s;
        return true;
    }
    return err_set(err, ERR_USAGE, "%s: expected a duration such as 12h or 30d, found \"%s\"", what,
                   text);
}

const char *units_number(char text[UNITS_NUMBER_BYTES], double value)
{
    assert(isfinite(value));
    if (value == 0) value = 0;  // -0 is written as 0
    bool whole = value == floor(value) && fabs(value) < 0x1p53;
    for (int digits = 15; digits <= 17; digits++) {
        if (whole) {
            snprintf(text, UNITS_NUMBER_BYTES, "%.0f", value);
        } else {
            snprintf(text, UNITS_NUMBER_BYTES, "%.*g", digits, value);
        }
        // Read back before the comma is replaced: strtod and snprintf agree on the locale.
        if (strtod(text, NULL) == value) break;
    }
    char *comma = strchr(text, ',');
    if (comma) *comma = '.';
    return text;
}

int units_edit_distance(const char *a, const char *b)
{
    assert(a && b);
    enum { LONGEST = 127 };
    size_t a_length = strnlen(a, LONGEST), b_length = strnlen(b, LONGEST);
    int row[LONGEST + 1];
    for (size_t j = 0; j <= b_length; j++) {
        row[j] = (int)j;
    }
    for (size_t i = 1; i <= a_length; i++) {
        int diagonal = row[0];
        row[0] = (int)i;
        for (size_t j = 1; j <= b_length; j++) {
            int changed = diagonal + (a[i - 1] != b[j - 1]);
            int shorter = 1 + (row[j] < row[j - 1] ? row[j] : row[j - 1]);
            diagonal = row[j];
            row[j] = changed < shorter ? changed : shorter;
        }
    }
    return row[b_length];
}

// The letters that a name has, as bits; several share one.
static uint64_t letters_of(const char *name)
{
    uint64_t letters = 0;
    for (; *name; name++)
        letters |= 1ull << (*name & 63);
    return letters;
}

// No distance is less than the difference in length, nor than the letters that one of two has and
// the other has not: most names are already beyond.
static bool is_beyond(const char *a, const char *b, int most)
{
    enum { LONGEST = 127 };
    int apart = (int)strnlen(a, LONGEST) - (int)strnlen(b, LONGEST);
    if (abs(apart) > most) return true;
    uint64_t first = letters_of(a), second = letters_of(b);
    return __builtin_popcountll(first & ~second) > most ||
           __builtin_popcountll(second & ~first) > most;
}

void units_guess_offer(struct units_guess *guess, const char *name)
{
    assert(guess->text && name);
    int most = (int)strnlen(guess->text, 30) / 3;
    if (most < 1) most = 1;
    if (is_beyond(guess->text, name, most)) return;
    int distance = units_edit_distance(guess->text, name);
    if (distance > most) return;
    if (guess->best && guess->distance <= distance) return;
    guess->best = name;
    guess->distance = distance;
}
