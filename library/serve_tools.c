#include "library/serve_tools.h"

#include "core/file.h"
#include "core/units.h"
#include "exchange/compare_plan.h"
#include "library/answer.h"
#include "reports/page/replan.h"

#include <assert.h>
#include <string.h>

enum { FILE_BYTES_MAX = 64 << 20 };

static double number(const struct json *object, const char *key)
{
    struct err ignored = {0};
    const struct json value = json_find(object, key);
    return json_is_number(&value) ? json_f64(&value, -1e300, 1e300, &ignored) : 0;
}

static const char *word(const struct json *object, const char *key)
{
    struct err ignored = {0};
    const struct json value = json_find(object, key);
    return json_is_text(&value) ? json_text(&value, &ignored) : "not said";
}

// What search found out about the plan: "best of", "optimal", ...; of a plan without one that it
// was pinned.
static const char *proof_of(struct arena *arena, const struct json *plan)
{
    const struct json provenance = json_find(plan, "provenance");
    const struct json search = json_find(&provenance, "search");
    if (!json_is_object(&search)) return "pinned, not searched";
    return arena_print(arena, "%s: %s plans considered, none can take less than %s",
                       word(&search, "status"),
                       units_count(arena, number(&search, "considered_count")),
                       units_seconds(arena, number(&search, "bound_s")));
}

static const char *layout_of(struct arena *arena, const struct json *plan)
{
    static const char *const KEYS[] = {"tp", "cp", "ep", "pp", "dp", "micro_batch", "zero"};
    const struct json parallel = json_find(plan, "parallel");
    const char *text = "";
    for (size_t i = 0; i < sizeof KEYS / sizeof *KEYS; i++)
        text = arena_print(arena, "%s%s%s %.0f", text, *text ? ", " : "", KEYS[i],
                           number(&parallel, KEYS[i]));
    return text;
}

// Figures, band, proof, provenance and next question of a plan, as text and as members.
static void describe(struct arena *arena, const struct json *plan, const char *next,
                     struct serve_answer *answer)
{
    assert(json_is_object(plan) && *next);
    const struct json prediction = json_find(plan, "prediction");
    const struct json band = json_find(&prediction, "band"), memory = json_find(plan, "memory");
    const struct json parallel = json_find(plan, "parallel");
    const char *proof = proof_of(arena, plan), *source = word(&band, "source");
    const char *confidence = word(&prediction, "confidence");
    const struct json model = json_find(plan, "model"), config = json_find(&model, "config");
    bool has_samples = !strcmp(word(&config, "model_type"), "operators");
    answer->text =
        arena_print(arena,
                    "A step takes %s (90 %% band %s to %s), %s %s, MFU %s; %s reserved of %s.\n"
                    "Layout: %s.\nProof: %s.\nRests on: %s; %s\nAsk next: %s",
                    units_seconds(arena, number(&prediction, "step_s")),
                    units_seconds(arena, number(&prediction, "step_s_low")),
                    units_seconds(arena, number(&prediction, "step_s_high")),
                    units_count(arena, number(&prediction, "tokens_per_s")),
                    has_samples ? "samples/s" : "tokens/s",
                    units_ratio(arena, number(&prediction, "mfu_ratio")),
                    units_bytes(arena, number(&prediction, "reserved_bytes")),
                    units_bytes(arena, number(&memory, "device_bytes")), layout_of(arena, plan),
                    proof, confidence, source, next);
    struct json_writer *writer = &answer->structured;
    json_put_f64(writer, "step_s", number(&prediction, "step_s"));
    json_open_flat(writer, "band", '{');
    json_put_f64(writer, "step_s_low", number(&prediction, "step_s_low"));
    json_put_f64(writer, "step_s_high", number(&prediction, "step_s_high"));
    json_close(writer, '}');
    json_put_f64(writer, "tokens_per_s", number(&prediction, "tokens_per_s"));
    json_put_f64(writer, "reserved_bytes", number(&prediction, "reserved_bytes"));
    json_put_copy(writer, "parallel", &parallel);
    json_put_text(writer, "proof", proof);
    json_put_text(writer, "confidence", confidence);
    json_put_text(writer, "provenance", source);
    json_put_text(writer, "next", next);
}

// What was taken where the question says nothing, before the figures that rest on it.
static void put_notes(struct arena *arena, const char *notes, struct serve_answer *answer)
{
    json_open_flat(&answer->structured, "notes", '[');
    for (const char *line = notes; *line;) {
        size_t length = strcspn(line, "\n");
        json_put_text(&answer->structured, NULL, arena_print(arena, "%.*s", (int)length, line));
        line += length + (line[length] != '\0');
    }
    json_close(&answer->structured, ']');
    if (*notes) answer->text = arena_print(arena, "Taken: %s\n%s", notes, answer->text);
}

static const char *text_of(const struct json *arguments, const char *key, struct err *err)
{
    const struct json value = json_get(arguments, key, err);
    return err->kind ? NULL : json_text(&value, err);
}

static bool parse(struct arena *arena, const char *name, const char *text, struct json *root,
                  struct err *err)
{
    struct json_document *document = ARENA_NEW(arena, struct json_document, 1);
    if (!json_parse(arena, name, text, strlen(text), document, err)) return false;
    *root = json_root(document);
    return true;
}

// A file that is there is only replaced where it is a plan.
static bool save(struct arena *arena, const char *path, const char *text, struct err *err)
{
    size_t bytes = 0;
    struct json root = {0};
    struct err wrong = {0};
    if (file_exists(path)) {
        const char *old = file_read(arena, path, FILE_BYTES_MAX, &bytes, &wrong);
        bool is_plan = old && parse(arena, path, old, &root, &wrong) && json_has(&root, "parallel");
        if (!is_plan)
            return err_set(err, ERR_USAGE, "%s is there and is no plan: nothing was written", path);
    }
    return file_write(path, text, strlen(text), err);
}

static bool tool_plan(struct arena *arena, const struct json *arguments,
                      struct serve_answer *answer, struct err *err)
{
    const struct json question = json_get(arguments, "question", err);
    if (err->kind) return false;
    const struct answer found = answer_question(arena, &question, err);
    if (err->kind) return false;
    if (!found.plan) return err_set(err, ERR_USAGE, "%s", found.reason);
    const char *next = "why {\"choice\": \"tp=8\"}, or what_if on the saved plan";
    if (json_has(arguments, "save")) {
        const char *path = text_of(arguments, "save", err);
        if (!path || !save(arena, path, found.plan, err)) return false;
        next = arena_print(
            arena, "what_if {\"plan\": \"%s\", \"change\": {\"network_ratio\": 0.5}}", path);
    }
    struct json plan;
    if (!parse(arena, "plan", found.plan, &plan, err)) return false;
    describe(arena, &plan, next, answer);
    put_notes(arena, found.notes, answer);
    return true;
}

static bool tool_why(struct arena *arena, const struct json *arguments, struct serve_answer *answer,
                     struct err *err)
{
    const struct json question = json_get(arguments, "question", err);
    const char *choice = text_of(arguments, "choice", err);
    if (!choice) return false;
    const struct answer found = answer_why(arena, &question, choice, err);
    if (err->kind) return false;
    struct json plan;
    if (!parse(arena, "plan", found.plan, &plan, err)) return false;
    describe(arena, &plan, "plan with that choice pinned", answer);
    json_put_text(&answer->structured, "why", found.reason);
    put_notes(arena, found.notes, answer);
    answer->text = arena_print(arena, "%s\nThe best plan: %s", found.reason, answer->text);
    return true;
}

static bool tool_what_if(struct arena *arena, const struct json *arguments,
                         struct serve_answer *answer, struct err *err)
{
    size_t bytes = 0;
    const char *path = text_of(arguments, "plan", err);
    const struct json change = json_get(arguments, "change", err);
    const char *text = err->kind ? NULL : file_read(arena, path, FILE_BYTES_MAX, &bytes, err);
    const char *base = text ? answer_base(arena, text, err) : NULL;
    if (!base) return false;
    struct json_writer copy = {.arena = arena};
    json_put_copy(&copy, NULL, &change);
    const struct replan_answer found = replan(arena, base, copy.text);
    if (!found.plan) return err_set(err, ERR_USAGE, "%s", found.reason);
    struct json plan, words;
    if (!parse(arena, "plan", found.plan, &plan, err)) return false;
    describe(arena, &plan, "why a choice of it lost or won, or memory of the saved plan", answer);
    if (found.words && parse(arena, "words", found.words, &words, err)) {
        json_put_text(&answer->structured, "change", word(&words, "sentence"));
        answer->text = arena_print(arena, "%s\n%s", word(&words, "sentence"), answer->text);
    }
    return !err->kind;
}

static bool tool_memory(struct arena *arena, const struct json *arguments,
                        struct serve_answer *answer, struct err *err)
{
    size_t bytes = 0;
    const char *path = text_of(arguments, "plan", err);
    const char *text = path ? file_read(arena, path, FILE_BYTES_MAX, &bytes, err) : NULL;
    struct json plan;
    if (!text || !parse(arena, path, text, &plan, err)) return false;
    const struct json memory = json_find(&plan, "memory"), stages = json_find(&plan, "stages");
    if (!json_is_object(&memory)) return json_fail(&plan, err, "no plan: missing \"memory\"");
    describe(arena, &plan, "what_if with {\"pins\": {\"recompute\": \"full\"}}", answer);
    json_put_copy(&answer->structured, "memory", &memory);
    json_put_copy(&answer->structured, "stages", &stages);
    answer->text = arena_print(
        arena, "Stage %.0f needs most: weights %s, gradients %s, optimizer %s, activations %s.\n%s",
        number(&memory, "worst_stage"), units_bytes(arena, number(&memory, "weights_bytes")),
        units_bytes(arena, number(&memory, "gradients_bytes")),
        units_bytes(arena, number(&memory, "optimizer_bytes")),
        units_bytes(arena, number(&memory, "activations_bytes")), answer->text);
    return true;
}

// Between which seconds the step of a side lies, and how that is known: of a plan its band, of what
// was measured the least and the most of its samples.
struct side_band {
    double low_s, high_s;
    const char *provenance;
};

static const char *choice_of(const struct side_file *file, const char *key)
{
    for (int i = 0; i < file->choice_count; i++)
        if (strcmp(file->choices[i].key, key) == 0) return file->choices[i].value;
    return "not said";
}

static bool band_of(struct arena *arena, const struct compare_side *side, struct side_band *band,
                    struct err *err)
{
    const struct side_file *file = &side->files[0];
    if (file->kind == SIDE_PLAN) {
        size_t bytes = 0;
        struct json plan;
        const char *text = file_read(arena, file->path, FILE_BYTES_MAX, &bytes, err);
        if (!text || !parse(arena, file->path, text, &plan, err)) return false;
        const struct json prediction = json_find(&plan, "prediction");
        const struct json source = json_find(&prediction, "band");
        *band = (struct side_band){
            number(&prediction, "step_s_low"), number(&prediction, "step_s_high"),
            arena_print(arena, "predicted, 90 %% band; %s; %s", word(&prediction, "confidence"),
                        word(&source, "source"))};
        return true;
    }
    band->low_s = band->high_s = side->step_s.values[0];
    for (int i = 1; i < side->step_s.count; i++) {
        double s = side->step_s.values[i];
        if (s < band->low_s) band->low_s = s;
        if (s > band->high_s) band->high_s = s;
    }
    const char *where = file->kind == SIDE_RUN
                            ? arena_print(arena, "measured on %s, back end %s",
                                          choice_of(file, "device"), choice_of(file, "backend"))
                        : file->kind == SIDE_LOG ? "measured elsewhere"
                                                 : "slices of a trace";
    int count = side->step_s.count;
    const char *of = side->count > 1 ? arena_print(arena, "the medians of %d files", side->count)
                                     : arena_print(arena, "%d step%s of %s", count,
                                                   count == 1 ? "" : "s", file->path);
    band->provenance = arena_print(arena, "%s; least and most of %s", where, of);
    return true;
}

// Members "band" and "provenance"; returns them as lines.
static const char *write_bands(struct arena *arena, struct json_writer *writer,
                               const struct side_band bands[2])
{
    assert(bands[0].provenance && bands[1].provenance);
    static const char *const SIDES[] = {"base", "new"};
    bool overlap = bands[0].low_s <= bands[1].high_s && bands[1].low_s <= bands[0].high_s;
    const char *text = "";
    json_open(writer, "band", '{');
    for (int i = 0; i < 2; i++) {
        json_open_flat(writer, SIDES[i], '{');
        json_put_f64(writer, "step_s_low", bands[i].low_s);
        json_put_f64(writer, "step_s_high", bands[i].high_s);
        json_close(writer, '}');
        text = arena_print(arena, "%sBand of %s: %s to %s (%s).\n", text, SIDES[i],
                           units_seconds(arena, bands[i].low_s),
                           units_seconds(arena, bands[i].high_s), bands[i].provenance);
    }
    json_put_bool(writer, "overlap", overlap);
    json_close(writer, '}');
    json_open(writer, "provenance", '{');
    for (int i = 0; i < 2; i++)
        json_put_text(writer, SIDES[i], bands[i].provenance);
    json_close(writer, '}');
    return arena_print(arena, "%sThe bands %s.", text, overlap ? "overlap" : "do not overlap");
}

static void end_compare(struct arena *arena, struct serve_answer *answer, const char *text,
                        const struct side_band bands[2], const char *proof, const char *next)
{
    const char *band_text = write_bands(arena, &answer->structured, bands);
    json_put_text(&answer->structured, "proof", proof);
    json_put_text(&answer->structured, "next", next);
    answer->text =
        arena_print(arena, "%s\n%s\nProof: %s.\nAsk next: %s", text, band_text, proof, next);
}

struct compare_asked {
    const char *base[COMPARE_FILES_MAX], *now[COMPARE_FILES_MAX];
    int base_count, now_count;
    double threshold_ratio;  // below 0: not said
    int trace_steps;         // 0: not said
};

// A path, or a list of them.
static int read_paths(const struct json *arguments, const char *key,
                      const char *paths[COMPARE_FILES_MAX], struct err *err)
{
    const struct json value = json_get(arguments, key, err);
    if (err->kind) return 0;
    if (!json_is_array(&value)) return paths[0] = json_text(&value, err), 1;
    int count = json_count(&value, err);
    if (count < 1 || count > COMPARE_FILES_MAX) {
        json_fail(&value, err, "expected 1 to %d files, found %d", COMPARE_FILES_MAX, count);
        return 0;
    }
    for (int i = 0; i < count; i++) {
        const struct json item = json_item(&value, i);
        paths[i] = json_text(&item, err);
    }
    return count;
}

static bool read_asked(const struct json *arguments, struct compare_asked *asked, struct err *err)
{
    *asked = (struct compare_asked){.threshold_ratio = -1};
    asked->base_count = read_paths(arguments, "base", asked->base, err);
    asked->now_count = read_paths(arguments, "new", asked->now, err);
    if (!err->kind && json_has(arguments, "threshold")) {
        const struct json threshold = json_get(arguments, "threshold", err);
        asked->threshold_ratio = json_f64(&threshold, 0, 10, err);
    }
    if (!err->kind && json_has(arguments, "trace_steps")) {
        const struct json steps = json_get(arguments, "trace_steps", err);
        asked->trace_steps = (int)json_i64(&steps, 1, 1000000, err);
    }
    return !err->kind;
}

// A plan beside what was measured of it: another trainer's log, a profile, a run.json.
static bool compare_measured(struct arena *arena, const struct compare_asked *asked,
                             struct serve_answer *answer, struct err *err)
{
    struct evaluation_request request;
    struct evaluation evaluation = {0};
    struct measurement measured;
    struct plan_compare compare;
    if (asked->base_count > 1 || asked->now_count > 1)
        return err_set(err, ERR_USAGE, "one plan is compared with one measurement");
    const struct plan *plan = plan_load(arena, asked->base[0], err);
    if (!plan || !inquiry_of_plan(arena, plan, NULL, &request, err) ||
        !measurement_read(arena, asked->now[0], asked->trace_steps, &request, &measured, err))
        return false;
    struct arena scratch = {0};
    bool done = evaluate(arena, &scratch, &request, &evaluation, err);
    if (done)
        plan_compare_make(arena, &scratch, &request, &evaluation, &measured, asked->threshold_ratio,
                          &compare);
    arena_free(&scratch);
    if (!done) return false;
    struct json root;
    if (!parse(arena, "compare", plan_compare_json_text(arena, &compare), &root, err)) return false;
    json_put_copy(&answer->structured, "compare", &root);
    struct compare_side *side = ARENA_NEW(arena, struct compare_side, 2);
    side[0].files[0] = (struct side_file){.path = asked->base[0], .kind = SIDE_PLAN};
    side[1].files[0] = (struct side_file){.path = measured.path, .kind = SIDE_LOG};
    side[1].step_s = measured.step_s;
    struct side_band bands[2] = {0};
    if (!band_of(arena, &side[0], &bands[0], err) || !band_of(arena, &side[1], &bands[1], err))
        return false;
    const char *next = compare.verdict == VERDICT_SAME
                           ? "what_if on the plan for what would be faster"
                           : "plan with the measured cluster, or fit the constants that are named";
    end_compare(arena, answer, plan_compare_text(arena, &compare), bands,
                asked->threshold_ratio < 0 ? "the band of the prediction decides"
                                           : "the threshold decides",
                next);
    return true;
}

static bool tool_compare(struct arena *arena, const struct json *arguments,
                         struct serve_answer *answer, struct err *err)
{
    struct compare_asked asked;
    enum side_kind kinds[2];
    if (!read_asked(arguments, &asked, err) ||
        !side_kind_of(arena, asked.base[0], &kinds[0], err) ||
        !side_kind_of(arena, asked.now[0], &kinds[1], err))
        return false;
    if (kinds[0] == SIDE_PLAN && kinds[1] != SIDE_PLAN)
        return compare_measured(arena, &asked, answer, err);
    const struct compare_request request = {
        .threshold_ratio = asked.threshold_ratio < 0 ? 0.03 : asked.threshold_ratio,
        .judges_step = true,
    };
    struct compare_side *sides = ARENA_NEW(arena, struct compare_side, 2);
    struct compare compare;
    struct side_band bands[2] = {0};
    int steps = asked.trace_steps;
    if (!compare_side_read(arena, asked.base, asked.base_count, steps, &sides[0], err) ||
        !compare_side_read(arena, asked.now, asked.now_count, steps, &sides[1], err) ||
        !compare_make(arena, &request, &sides[0], &sides[1], &compare, err) ||
        !band_of(arena, &sides[0], &bands[0], err) || !band_of(arena, &sides[1], &bands[1], err))
        return false;
    struct json root;
    if (!parse(arena, "compare", compare_json_text(arena, &compare), &root, err)) return false;
    json_put_copy(&answer->structured, "compare", &root);
    const char *next = compare.verdict == VERDICT_SAME ? "plan or what_if for what would be faster"
                                                       : "why, of the task that changed most";
    bool is_single = sides[0].step_s.count == 1 && sides[1].step_s.count == 1;
    const char *proof = is_single ? "one sample a side: the threshold alone decides"
                                  : "rank sums and signed ranks, fixed seed";
    end_compare(arena, answer, compare_text(arena, &compare), bands, proof, next);
    return true;
}

#define QUESTION                                                                                  \
    "\"question\": {\"type\": \"object\", \"required\": [\"model\", \"cluster\", \"seq_len\", "   \
    "\"global_batch\"], \"properties\": {\"model\": {\"type\": \"string\"}, \"cluster\": "        \
    "{\"type\": "                                                                                 \
    "\"string\"}, \"seq_len\": {\"type\": \"integer\"}, \"global_batch\": {\"type\": "            \
    "\"integer\"}, "                                                                              \
    "\"nodes\": {\"type\": \"integer\"}, \"gpus\": {\"type\": \"integer\"}, \"stack\": "          \
    "{\"type\": "                                                                                 \
    "\"string\"}, \"precision\": {\"type\": \"string\"}, \"optimizer\": {\"type\": \"string\"}, " \
    "\"objective\": {\"type\": \"string\"}, \"kernels\": {\"type\": \"string\"}, "                \
    "\"tokens\": {\"type\": \"number\"}, \"pins\": {\"type\": \"object\"}}}"
#define PATHS                                                                                      \
    "{\"type\": [\"string\", \"array\"], \"items\": {\"type\": \"string\"}, \"description\": \"a " \
    "file, or several runs of the same\"}"
#define WITH(required, members) \
    "{\"type\": \"object\", \"required\": [" required "], \"properties\": {" members "}}"

const struct serve_tool SERVE_TOOLS[] = {
    {"plan",
     "Search every way to train a model on a cluster; predicted step, memory, band and proof. save "
     "writes plan.json there.",
     WITH("\"question\"", QUESTION ", \"save\": {\"type\": \"string\"}"), tool_plan},
    {"why", "Why a choice lost against the best plan: what it would cost, and where.",
     WITH("\"question\", \"choice\"",
          QUESTION ", \"choice\": {\"type\": \"string\", \"description\": \"KEY=VALUE, as tp=8\"}"),
     tool_why},
    {"what_if",
     "A saved plan asked again with a few numbers changed: gpus, network_ratio, memory_ratio, "
     "price_per_gpu_hour, pins, keep.",
     WITH("\"plan\", \"change\"",
          "\"plan\": {\"type\": \"string\"}, \"change\": {\"type\": \"object\"}"),
     tool_what_if},
    {"memory", "The memory of a saved plan, by stage and by what holds it.",
     WITH("\"plan\"", "\"plan\": {\"type\": \"string\"}"), tool_memory},
    {"compare",
     "Two plans, run.json or traces: what changed, and whether it is a regression; or a plan and "
     "what was measured of it (a trainer's log, a profile, a run.json): what explains the gap.",
     WITH("\"base\", \"new\"",
          "\"base\": " PATHS ", \"new\": " PATHS ", \"threshold\": {\"type\": \"number\"}, "
          "\"trace_steps\": {\"type\": \"integer\", \"description\": \"steps that a trace holds, "
          "where it does not say\"}"),
     tool_compare},
    {0},
};
