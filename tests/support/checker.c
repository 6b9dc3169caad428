#include "tests/support/checker.h"

#include "tests/support/checker_config.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const char *const AXES[] = {"tp", "cp", "dp", "pp"};
enum { AXIS_KINDS = 4 };

void checker_violate(struct checker_result *result, const char *format, ...)
{
    if (result->violation_count++ > 0) return;
    va_list args;
    va_start(args, format);
    vsnprintf(result->text, sizeof result->text, format, args);
    va_end(args);
}

static double cluster_ranks(const cJSON *cluster)
{
    double whole = checker_number(cluster, "rank_count", NAN), sum = 0;
    const cJSON *node = NULL;
    cJSON_ArrayForEach(node, checker_get(cluster, "nodes"))
    {
        sum += checker_number(node, "count", 1) * checker_number(node, "gpus", 0);
    }
    return isnan(whole) ? sum : whole;
}

static double device_memory_bytes(const cJSON *cluster)
{
    double least = INFINITY;
    const cJSON *node = NULL;
    cJSON_ArrayForEach(node, checker_get(cluster, "nodes"))
    {
        least = fmin(least, checker_number(checker_get(node, "device"), "memory_bytes", INFINITY));
    }
    return least;
}

static void check_order(const cJSON *parallel, struct checker_result *result)
{
    int seen[AXIS_KINDS] = {0}, count = 0;
    const cJSON *item = NULL;
    cJSON_ArrayForEach(item, checker_get(parallel, "order"))
    {
        count++;
        for (int i = 0; i < AXIS_KINDS; i++) {
            if (cJSON_IsString(item) && strcmp(item->valuestring, AXES[i]) == 0) seen[i]++;
        }
    }
    for (int i = 0; i < AXIS_KINDS; i++) {
        if (seen[i] != 1) checker_violate(result, "order names %s %d times", AXES[i], seen[i]);
    }
    if (count != AXIS_KINDS) checker_violate(result, "order has %d axes", count);
}

static void check_split(const cJSON *plan, struct checker_result *result)
{
    const cJSON *parallel = checker_get(plan, "parallel"),
                *workload = checker_get(plan, "workload");
    struct checker_shape shape =
        checker_shape_of(checker_get(checker_get(plan, "model"), "config"));
    double product = 1, batch = checker_number(workload, "global_batch", 0);
    for (int i = 0; i < AXIS_KINDS; i++) {
        double degree = checker_number(parallel, AXES[i], 0);
        if (degree < 1 || degree != floor(degree))
            checker_violate(result, "%s is %g", AXES[i], degree);
        product *= degree;
    }
    double ranks = cluster_ranks(checker_get(plan, "cluster"));
    if (product != ranks) checker_violate(result, "dp*tp*cp*pp = %g on %g GPUs", product, ranks);
    double tp = checker_number(parallel, "tp", 0), pp = checker_number(parallel, "pp", 0);
    if (!checker_divides(tp, shape.heads))
        checker_violate(result, "tp %g and %g heads", tp, shape.heads);
    double samples = checker_number(parallel, "dp", 0) * checker_number(parallel, "micro_batch", 0);
    if (!checker_divides(samples, batch)) {
        checker_violate(result, "dp * micro_batch = %g does not divide batch %g", samples, batch);
    }
    double vpp = checker_number(parallel, "vpp", 0);
    if (vpp < 1 || pp * vpp > shape.layers + shape.modules + 2) {
        checker_violate(result, "pp %g * vpp %g for %g layers", pp, vpp, shape.layers);
    }
    double zero = checker_number(parallel, "zero", -1);
    if (zero < 0 || zero > 3) checker_violate(result, "zero is %g", zero);
}

// What a rank allocates is the sum of its parts, what it reserves has the stack's share on top.
static void check_memory_parts(const cJSON *memory, struct checker_result *result)
{
    static const char *const PARTS[] = {"weights_bytes",     "gradients_bytes", "optimizer_bytes",
                                        "activations_bytes", "transient_bytes", "logits_bytes",
                                        "buffers_bytes"};
    double sum = 0;
    for (size_t i = 0; i < sizeof PARTS / sizeof *PARTS; i++) {
        double part = checker_number(memory, PARTS[i], NAN);
        if (!(part >= 0)) checker_violate(result, "%s is %g", PARTS[i], part);
        sum += part;
    }
    double peak = checker_number(memory, "peak_bytes", NAN);
    double reserved = checker_number(memory, "reserved_bytes", NAN);
    if (sum != peak) checker_violate(result, "parts of %.0f bytes, peak of %.0f", sum, peak);
    if (peak + checker_number(memory, "reserve_bytes", NAN) != reserved) {
        checker_violate(result, "a peak of %.0f bytes, %.0f reserved", peak, reserved);
    }
}

// As many stages as pp, each with a layer at least (the ends have the embedding and the head),
// together all layers.
static void check_stages(const cJSON *plan, struct checker_result *result)
{
    const cJSON *parallel = checker_get(plan, "parallel"), *stages = checker_get(plan, "stages");
    const cJSON *pinned = checker_get(parallel, "stages");
    double worst = checker_number(checker_get(plan, "memory"), "reserved_bytes", 0), sum = 0;
    int index = 0;
    const cJSON *item = NULL;
    cJSON_ArrayForEach(item, stages)
    {
        double layers = checker_number(item, "layers", 0);
        const cJSON *wanted = cJSON_GetArrayItem(pinned, index);
        bool is_end = index == 0 || !item->next;
        if (layers < (is_end ? 0 : 1))
            checker_violate(result, "stage %d holds %g layers", index, layers);
        if (pinned && (!cJSON_IsNumber(wanted) || wanted->valuedouble != layers)) {
            checker_violate(result, "stage %d holds %g layers, not the number chosen", index,
                            layers);
        }
        if (checker_number(checker_get(item, "memory"), "reserved_bytes", 0) > worst) {
            checker_violate(result, "stage %d needs more memory than the worst stage", index);
        }
        check_memory_parts(checker_get(item, "memory"), result);
        sum += layers;
        index++;
    }
    struct checker_shape shape =
        checker_shape_of(checker_get(checker_get(plan, "model"), "config"));
    double layers = shape.layers + shape.modules;
    if (sum != layers) checker_violate(result, "stages hold %g of %g layers", sum, layers);
    double pp = checker_number(parallel, "pp", 0);
    if (index != pp) checker_violate(result, "%d stages for pp %g", index, pp);
}

// The plan's memory is that of its worst stage.
static void check_worst(const cJSON *plan, struct checker_result *result)
{
    const cJSON *memory = checker_get(plan, "memory"), *item = NULL;
    const cJSON *worst = cJSON_GetArrayItem(checker_get(plan, "stages"),
                                            (int)checker_number(memory, "worst_stage", -1));
    if (!worst) checker_violate(result, "worst_stage is no stage");
    cJSON_ArrayForEach(item, checker_get(worst, "memory"))
    {
        double found = checker_number(memory, item->string, NAN);
        if (!cJSON_IsNumber(item) || found == item->valuedouble) continue;
        checker_violate(result, "%s is %.0f, on the worst stage %.0f", item->string, found,
                        item->valuedouble);
    }
}

static void check_memory(const cJSON *plan, struct checker_result *result)
{
    const cJSON *memory = checker_get(plan, "memory");
    double reserved = checker_number(memory, "reserved_bytes", NAN);
    double device = device_memory_bytes(checker_get(plan, "cluster"));
    if (isnan(reserved))
        reserved = checker_number(checker_get(plan, "prediction"), "reserved_bytes", NAN);
    if (isnan(reserved)) {
        checker_violate(result, "no reserved_bytes");
        return;
    }
    check_worst(plan, result);
    bool fits = cJSON_IsTrue(checker_get(memory, "fits"));
    if (fits != (reserved <= device)) {
        checker_violate(result, "fits is %s with %.0f of %.0f bytes", fits ? "true" : "false",
                        reserved, device);
    }
    double least = checker_plan_least_bytes(plan);
    if (reserved < least) {
        checker_violate(result, "reserved %.0f bytes, weights and optimizer alone need %.0f",
                        reserved, least);
    }
}

static void check_parts(const cJSON *parts, const char *name, double whole,
                        struct checker_result *result)
{
    double sum = 0;
    const cJSON *part = NULL;
    cJSON_ArrayForEach(part, parts)
    {
        if (!cJSON_IsNumber(part)) continue;
        if (part->valuedouble < 0) checker_violate(result, "%s is negative", part->string);
        sum += part->valuedouble;
    }
    if (!(fabs(sum - whole) <= 1e-6 * whole)) {
        checker_violate(result, "the parts of %s sum to %.9g, not to %.9g", name, sum, whole);
    }
}

// What is paid for is the whole run of all GPUs that are paid for; a run that never ends has nulls.
static void check_money(const cJSON *plan, const cJSON *money, struct checker_result *result)
{
    if (!cJSON_IsObject(money)) return;  // check_band says so
    double train_s = checker_number(money, "train_s", INFINITY);
    double hours = checker_number(money, "gpu_hours", INFINITY);
    double total = checker_number(money, "total", INFINITY);
    double price =
        checker_number(checker_get(checker_get(plan, "cluster"), "price"), "per_gpu_hour", 0);
    double wanted = train_s * checker_number(money, "gpu_count", NAN) / 3600;
    if (!(isinf(wanted) && isinf(hours)) && !(fabs(hours - wanted) <= 1e-9 * wanted))
        checker_violate(result, "%g GPU-hours of a run of %g s", hours, train_s);
    if (!isinf(total) && !(fabs(total - hours * price) <= 1e-9 * total))
        checker_violate(result, "a price of %g for %g GPU-hours", total, hours);
    if (checker_number(money, "uninterrupted_s", NAN) > train_s * (1 + 1e-9))
        checker_violate(result, "a run with interruptions takes %g s, without them more", train_s);
}

// A plan may have no band, but not a part of one.
static void check_band(const cJSON *prediction, double step_s, struct checker_result *result)
{
    const cJSON *band = checker_get(prediction, "band"), *money = checker_get(prediction, "money");
    double low = checker_number(prediction, "step_s_low", NAN);
    double high = checker_number(prediction, "step_s_high", NAN);
    const char *confidence = checker_word(prediction, "confidence");
    if (!band && !*confidence && isnan(low) && isnan(high)) return;
    if (!(low <= step_s && step_s <= high)) {
        checker_violate(result, "a step of %g s outside its band, %g to %g", step_s, low, high);
    }
    bool any = strcmp(checker_word(band, "device"), "*") == 0;
    bool any_stack = strcmp(checker_word(band, "stack"), "*") == 0;
    double rows = checker_number(band, "row_count", NAN);
    bool known = strcmp(confidence, "validated") == 0      ? !any && !any_stack && rows >= 20
                 : strcmp(confidence, "extrapolated") == 0 ? rows >= 0
                 : strcmp(confidence, "datasheet") == 0    ? any
                                                           : false;
    if (!known) checker_violate(result, "a band of %g runs is called \"%s\"", rows, confidence);
    if (!*checker_word(band, "source")) checker_violate(result, "a band without a source");
    const char *const ends[] = {"low", "high"};
    const double ratios[] = {low / step_s, high / step_s};
    for (int i = 0; i < 2; i++) {
        double train_s = checker_number(money, "uninterrupted_s", NAN) * ratios[i];
        double found = checker_number(checker_get(money, ends[i]), "uninterrupted_s", NAN);
        if (fabs(found - train_s) <= 1e-9 * train_s) continue;
        checker_violate(result, "%g s to train at the %s end of the band, not %g", found, ends[i],
                        train_s);
    }
}

static void check_prediction(const cJSON *plan, struct checker_result *result)
{
    const cJSON *prediction = checker_get(plan, "prediction"),
                *breakdown = checker_get(prediction, "breakdown");
    double step_s = checker_number(prediction, "step_s", 0);
    if (!(step_s > 0)) checker_violate(result, "step_s is %g", step_s);
    check_money(plan, checker_get(prediction, "money"), result);
    check_parts(breakdown, "the step", step_s, result);
    check_parts(checker_get(prediction, "exposed_comm"), "exposed_comm_s",
                checker_number(breakdown, "exposed_comm_s", NAN), result);
    double mfu = checker_number(prediction, "mfu_ratio", NAN);
    if (!(mfu > 0 && mfu < 1)) checker_violate(result, "mfu_ratio is %g", mfu);
    const char *const shared[] = {"peak_bytes", "reserved_bytes"};
    for (int i = 0; i < 2; i++) {
        double predicted = checker_number(prediction, shared[i], NAN);
        double found = checker_number(checker_get(plan, "memory"), shared[i], NAN);
        if (predicted != found) checker_violate(result, "two values of %s", shared[i]);
    }
    check_band(prediction, step_s, result);
}

struct checker_result checker_check(const char *json)
{
    struct checker_result result = {0};
    cJSON *plan = cJSON_Parse(json);
    if (!plan) {
        checker_violate(&result, "no JSON");
        return result;
    }
    check_order(checker_get(plan, "parallel"), &result);
    check_split(plan, &result);
    checker_choices(plan, &result);
    check_stages(plan, &result);
    check_memory(plan, &result);
    check_prediction(plan, &result);
    cJSON_Delete(plan);
    return result;
}
