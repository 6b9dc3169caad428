#include "reports/page/chart.h"
#include "reports/page/page_parts.h"
#include "tests/support/test.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

// Colours that stand beside each other in a figure are told apart by whoever sees them: as they
// are, and as people without one kind of cones see them (Machado, Oliveira and Fernandes 2009,
// IEEE TVCG 15(6), severity 1), by CIEDE2000 (Sharma, Wu and Dalal 2005, Color Res. Appl. 30).

static const double SIGHTS[][9] = {
    {1, 0, 0, 0, 1, 0, 0, 0, 1},
    {0.152286, 1.052583, -0.204868, 0.114503, 0.786281, 0.099216, -0.003882, -0.048116, 1.051998},
    {0.367322, 0.860646, -0.227968, 0.280085, 0.672501, 0.047413, -0.011820, 0.042940, 0.968881},
    {1.255528, -0.076749, -0.178779, -0.078411, 0.930809, 0.147602, 0.004733, 0.691367, 0.303900},
};
static const char *const SIGHT_NAMES[] = {"all cones", "protanopia", "deuteranopia", "tritanopia"};
enum { SIGHT_COUNT = sizeof SIGHTS / sizeof *SIGHTS };

struct rgb {
    double channel[3];  // linear
};

static struct rgb rgb_of(const char *hex)
{
    unsigned red, green, blue;
    assert_int_equal(sscanf(hex, "#%2x%2x%2x", &red, &green, &blue), 3);
    const unsigned bytes[] = {red, green, blue};
    struct rgb rgb;
    for (int i = 0; i < 3; i++) {
        double c = bytes[i] / 255.0;
        rgb.channel[i] = c <= 0.04045 ? c / 12.92 : pow((c + 0.055) / 1.055, 2.4);
    }
    return rgb;
}

struct lab {
    double l, a, b;
};

static struct lab lab_seen(const struct rgb *rgb, const double sight[9])
{
    static const double TO_XYZ[9] = {0.4124564 / 0.95047, 0.3575761 / 0.95047, 0.1804375 / 0.95047,
                                     0.2126729,           0.7151522,           0.0721750,
                                     0.0193339 / 1.08883, 0.1191920 / 1.08883, 0.9503041 / 1.08883};
    double seen[3], f[3];
    for (int i = 0; i < 3; i++) {
        double sum = 0;
        for (int k = 0; k < 3; k++)
            sum += sight[3 * i + k] * rgb->channel[k];
        seen[i] = fmin(fmax(sum, 0), 1);
    }
    for (int i = 0; i < 3; i++) {
        double x = 0;
        for (int k = 0; k < 3; k++)
            x += TO_XYZ[3 * i + k] * seen[k];
        f[i] = x > 216.0 / 24389 ? cbrt(x) : (24389.0 / 27 * x + 16) / 116;
    }
    return (struct lab){116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])};
}

static double radians(double degrees)
{
    return degrees * acos(-1) / 180;
}

static double hue(double a, double b)
{
    double degrees = atan2(b, a) * 180 / acos(-1);
    return degrees < 0 ? degrees + 360 : degrees;
}

static double rotation(double chroma)
{
    return sqrt(pow(chroma, 7) / (pow(chroma, 7) + pow(25, 7)));
}

static double difference(struct lab x, struct lab y)
{
    double grey = (hypot(x.a, x.b) + hypot(y.a, y.b)) / 2, g = 1.5 - 0.5 * rotation(grey);
    x.a *= g;
    y.a *= g;
    double cx = hypot(x.a, x.b), cy = hypot(y.a, y.b), c = (cx + cy) / 2, l = (x.l + y.l) / 2;
    double hx = hue(x.a, x.b), hy = hue(y.a, y.b), turn = hy - hx, h = (hx + hy) / 2;
    bool has_hue = cx * cy > 0;
    if (turn > 180) turn -= 360;
    if (turn < -180) turn += 360;
    if (has_hue && fabs(hx - hy) > 180) h += hx + hy < 360 ? 180 : -180;
    if (!has_hue) turn = 0, h = hx + hy;
    double t = 1 - 0.17 * cos(radians(h - 30)) + 0.24 * cos(radians(2 * h)) +
               0.32 * cos(radians(3 * h + 6)) - 0.2 * cos(radians(4 * h - 63));
    double dl = (y.l - x.l) / (1 + 0.015 * pow(l - 50, 2) / sqrt(20 + pow(l - 50, 2)));
    double dc = (cy - cx) / (1 + 0.045 * c);
    double dh = 2 * sqrt(cx * cy) * sin(radians(turn / 2)) / (1 + 0.015 * c * t);
    double turned = -sin(radians(60 * exp(-pow((h - 275) / 25, 2)))) * 2 * rotation(c);
    return sqrt(dl * dl + dc * dc + dh * dh + turned * dc * dh);
}

// What stands beside what; limits are lines, dashed and named.
static const enum chart_color SETS[][8] = {
    {CHART_FORWARD, CHART_WEIGHT, CHART_TRAFFIC, CHART_WAIT, CHART_UPDATE, CHART_PLAIN},
    {CHART_FORWARD, CHART_BACKWARD, CHART_WEIGHT, CHART_TRAFFIC, CHART_UPDATE},
    {CHART_FORWARD, CHART_BACKWARD, CHART_UPDATE, CHART_WEIGHT, CHART_WORKING, CHART_LOGITS,
     CHART_TRAFFIC, CHART_WAIT},
    {CHART_FORWARD, CHART_BACKWARD, CHART_WEIGHT, CHART_PLAIN},
    {CHART_PLAIN, CHART_FORWARD, CHART_LIMIT},
};
static const int SET_COUNTS[] = {6, 5, 8, 4, 3};

// The n-th value of "--cN: #rrggbb" in the style: light first, then dark.
static const char *color_of(const char *style, enum chart_color color, int variant)
{
    char key[16];
    snprintf(key, sizeof key, "--c%d: #", (int)color);
    const char *found = style;
    for (int i = 0; i <= variant; i++) {
        found = strstr(found, key);
        assert_non_null(found);
        found += strlen(key) - 1;
    }
    return found;
}

static void the_formula_is_that_of_its_authors(void **state)
{
    (void)state;
    // Pairs 1, 7 and 25 of their test data.
    static const struct {
        struct lab x, y;
        double difference;
    } PAIRS[] = {{{50, 2.6772, -79.7751}, {50, 0, -82.7485}, 2.0425},
                 {{50, 0, 0}, {50, -1, 2}, 2.3669},
                 {{60.2574, -34.0099, 36.2677}, {60.4626, -34.1751, 39.4387}, 1.2644}};
    for (size_t i = 0; i < sizeof PAIRS / sizeof *PAIRS; i++) {
        assert_true(fabs(difference(PAIRS[i].x, PAIRS[i].y) - PAIRS[i].difference) < 1e-4);
    }
}

static void colours_beside_each_other_are_told_apart(void **state)
{
    (void)state;
    const double LEAST = 15;
    for (int at = 0; at < 2 * SIGHT_COUNT; at++) {
        int variant = at / SIGHT_COUNT, sight = at % SIGHT_COUNT;
        for (size_t s = 0; s < sizeof SETS / sizeof *SETS; s++) {
            for (int i = 0; i < SET_COUNTS[s] * SET_COUNTS[s]; i++) {
                enum chart_color a = SETS[s][i / SET_COUNTS[s]], b = SETS[s][i % SET_COUNTS[s]];
                if (a >= b) continue;
                struct rgb one = rgb_of(color_of(page_style(), a, variant));
                struct rgb other = rgb_of(color_of(page_style(), b, variant));
                double apart =
                    difference(lab_seen(&one, SIGHTS[sight]), lab_seen(&other, SIGHTS[sight]));
                if (apart < LEAST)
                    fail_msg("%s: c%d and c%d of the %s set differ by %.1f", SIGHT_NAMES[sight], a,
                             b, variant ? "dark" : "light", apart);
            }
        }
    }
}

static void pictures_have_the_colours_of_the_page(void **state)
{
    (void)state;
    for (int color = 0; color < CHART_COLOR_COUNT; color++) {
        const char *hex = chart_color_hex((enum chart_color)color);
        assert_int_equal(strncmp(hex, color_of(page_style(), (enum chart_color)color, 0), 7), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_formula_is_that_of_its_authors),
        cmocka_unit_test(colours_beside_each_other_are_told_apart),
        cmocka_unit_test(pictures_have_the_colours_of_the_page),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
