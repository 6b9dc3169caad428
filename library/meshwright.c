#include "library/meshwright.h"

#include "core/file.h"
#include "core/version.h"
#include "library/answer.h"
#include "reports/page/replan.h"
#include "reports/table/plan_json.h"

#include <assert.h>
#include <string.h>

// The plan is kept as the text of its file: what is asked of it reads that, as commands do.
struct meshwright {
    struct arena kept;  // the plan, and this struct
    struct arena last;  // of the last call
    const char *plan;   // NULL: none yet
    const char *text, *notes;
    struct err err;
};

const char *meshwright_version(void)
{
    return MESHWRIGHT_VERSION;
}

struct meshwright *meshwright_new(void)
{
    struct arena kept = {0};
    struct meshwright *plan = ARENA_NEW(&kept, struct meshwright, 1);
    plan->kept = kept;
    plan->text = plan->notes = "";
    return plan;
}

void meshwright_free(struct meshwright *plan)
{
    if (!plan) return;
    // The struct lies in its own arena.
    struct arena kept = plan->kept;
    arena_free(&plan->last);
    arena_free(&kept);
}

static void begin(struct meshwright *plan)
{
    assert(plan && "a handle comes of meshwright_new");
    arena_free(&plan->last);
    plan->last = (struct arena){0};
    plan->text = plan->notes = "";
    plan->err = (struct err){0};
}

// The status of a call. Its error names members, not options.
static int end(struct meshwright *plan)
{
    assert((int)plan->err.kind <= MESHWRIGHT_MACHINE_FAILED);
    inquiry_members(plan->err.text);
    return (int)plan->err.kind;
}

// A text that the caller gave, under the name by which errors call it.
static bool parse(struct meshwright *plan, const char *name, const char *text, struct json *root)
{
    struct json_document *document = ARENA_NEW(&plan->last, struct json_document, 1);
    if (!text) return err_set(&plan->err, ERR_INPUT, "%s: no text", name);
    if (!json_parse(&plan->last, name, text, strlen(text), document, &plan->err)) return false;
    *root = json_root(document);
    return true;
}

// A text of the last call would go with the next one: the plan outlives it.
static void keep(struct meshwright *plan, const char *text)
{
    plan->plan = arena_copy(&plan->kept, text);
    plan->text = plan->plan;
}

// The plan read and evaluated.
static bool evaluate_plan(struct meshwright *plan, const char *text, struct evaluation *evaluation)
{
    struct evaluation_request request;
    struct json root;
    if (!text) return err_set(&plan->err, ERR_USAGE, "no plan is there: load or plan one first");
    if (!parse(plan, "plan", text, &root)) return false;
    const struct plan *read = plan_read(&plan->last, &root, &plan->err);
    if (!read || !inquiry_of_plan(&plan->last, read, NULL, &request, &plan->err)) return false;
    struct arena scratch = {0};
    bool done = evaluate(&plan->last, &scratch, &request, evaluation, &plan->err);
    arena_free(&scratch);
    return done;
}

int meshwright_load(struct meshwright *plan, const char *path)
{
    enum { PLAN_BYTES_MAX = 64 << 20 };
    struct evaluation evaluation = {0};
    size_t bytes = 0;
    begin(plan);
    const char *text = file_read(&plan->last, path, PLAN_BYTES_MAX, &bytes, &plan->err);
    if (text && evaluate_plan(plan, text, &evaluation)) keep(plan, text);
    return end(plan);
}

int meshwright_plan(struct meshwright *plan, const char *question)
{
    struct json root;
    begin(plan);
    if (!parse(plan, "question", question, &root)) return end(plan);
    const struct answer answer = answer_question(&plan->last, &root, &plan->err);
    if (plan->err.kind) return end(plan);
    plan->notes = answer.notes;
    assert((answer.plan != NULL) != (answer.reason != NULL) && "a plan, or why there is none");
    if (!answer.plan) {
        err_set(&plan->err, ERR_USAGE, "%s", answer.reason);
        end(plan);
        return MESHWRIGHT_NO;
    }
    keep(plan, answer.plan);
    return MESHWRIGHT_YES;
}

int meshwright_save(struct meshwright *plan, const char *path)
{
    begin(plan);
    if (!plan->plan)
        err_set(&plan->err, ERR_USAGE, "no plan is there: load or plan one first");
    else if (!file_write(path, plan->plan, strlen(plan->plan), &plan->err))
        return end(plan);
    return end(plan);
}

int meshwright_simulate(struct meshwright *plan)
{
    struct evaluation evaluation = {0};
    begin(plan);
    if (!evaluate_plan(plan, plan->plan, &evaluation)) return end(plan);
    struct json_writer writer = {.arena = &plan->last};
    json_open(&writer, NULL, '{');
    prediction_write(&writer, "prediction", &evaluation.prediction);
    json_close(&writer, '}');
    plan->text = writer.text;
    return MESHWRIGHT_YES;
}

int meshwright_memory(struct meshwright *plan)
{
    struct evaluation evaluation = {0};
    struct json root;
    begin(plan);
    if (!evaluate_plan(plan, plan->plan, &evaluation) || !parse(plan, "plan", plan->plan, &root))
        return end(plan);
    struct json_writer writer = {.arena = &plan->last};
    json_open(&writer, NULL, '{');
    const struct json memory = json_find(&root, "memory"), stages = json_find(&root, "stages");
    json_put_copy(&writer, "memory", &memory);
    json_put_copy(&writer, "stages", &stages);
    json_close(&writer, '}');
    plan->text = writer.text;
    return MESHWRIGHT_YES;
}

int meshwright_what_if(struct meshwright *plan, const char *change)
{
    struct json root;
    begin(plan);
    if (!plan->plan) err_set(&plan->err, ERR_USAGE, "no plan is there: load or plan one first");
    if (plan->err.kind || !parse(plan, "change", change, &root)) return end(plan);
    const char *base = answer_base(&plan->last, plan->plan, &plan->err);
    if (!base) return end(plan);
    const struct replan_answer answer = replan(&plan->last, base, change);
    if (answer.plan) plan->text = answer.plan;
    if (answer.reason) err_set(&plan->err, ERR_USAGE, "%s", answer.reason);
    end(plan);
    return answer.status;
}

int meshwright_figures(struct meshwright *plan, struct meshwright_figures *figures)
{
    struct evaluation evaluation = {0};
    begin(plan);
    if (figures->struct_bytes <= 0)
        err_set(&plan->err, ERR_USAGE, "figures: struct_bytes is not set");
    if (plan->err.kind || !evaluate_plan(plan, plan->plan, &evaluation)) return end(plan);
    assert(evaluation.program);
    const struct prediction *prediction = &evaluation.prediction;
    const struct meshwright_figures all = {
        .struct_bytes = figures->struct_bytes,
        .step_s = prediction->step_s,
        .step_s_low = prediction->step_s_low,
        .step_s_high = prediction->step_s_high,
        .tokens_per_s = prediction->tokens_per_s,
        .mfu_ratio = prediction->mfu_ratio,
        .peak_bytes = prediction->peak_bytes,
        .reserved_bytes = prediction->reserved_bytes,
        .device_bytes = prediction->device_bytes,
        .gpu_count = evaluation.program->mesh.rank_count,
    };
    // A caller of another version knows fewer members, or more, which stay as they are.
    size_t bytes = (size_t)figures->struct_bytes;
    memcpy(figures, &all, bytes < sizeof all ? bytes : sizeof all);
    return MESHWRIGHT_YES;
}

const char *meshwright_text(const struct meshwright *plan)
{
    return plan->text;
}

const char *meshwright_notes(const struct meshwright *plan)
{
    return plan->notes;
}

const char *meshwright_error(const struct meshwright *plan)
{
    return plan->err.text;
}
