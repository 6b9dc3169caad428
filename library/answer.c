#include "library/answer.h"

#include "core/file.h"
#include "core/plain.h"
#include "reports/table/plan_json.h"
#include "reports/table/plan_table.h"

#include <string.h>

struct heard {
    struct arena *arena;
    const char *lines;
};

static void hear(void *context, const char *line)
{
    struct heard *heard = context;
    heard->lines =
        arena_print(heard->arena, "%s%s%s", heard->lines, *heard->lines ? "\n" : "",
                    plain_copy(heard->arena, inquiry_members(arena_copy(heard->arena, line))));
}

struct found {
    struct search_request request;
    struct search_result result;
    struct heard heard;
};

static bool search(struct arena *arena, const struct json *at, struct found *found, struct err *err)
{
    struct inquiry question;
    *found = (struct found){.heard = {arena, ""}};
    if (!inquiry_read(arena, at, &question, err)) return false;
    question.ear = (struct inquiry_ear){hear, hear, &found->heard};
    return inquiry_request(arena, &question, &found->request, err) &&
           search_plans(arena, &found->request, &found->result, err);
}

static const char *plan_of(struct arena *arena, const struct found *found, struct err *err)
{
    const struct bands *bands = bands_load(arena, err);
    if (!bands) return NULL;
    return plan_found_text(arena, &found->request, &found->result, &found->result.best[0].parallel,
                           bands, err);
}

// Three ends, of which a caller tells exactly one: a plan, why nothing fits, or a wrong question.
struct answer answer_question(struct arena *arena, const struct json *question, struct err *err)
{
    struct answer answer = {.notes = ""};
    struct found found;
    if (!search(arena, question, &found, err)) return answer;
    answer.notes = found.heard.lines;
    if (found.result.status == SEARCH_NOTHING_FITS)
        answer.reason = plan_nothing_text(arena, &found.request, &found.result);
    else
        answer.plan = plan_of(arena, &found, err);
    return answer;
}

struct answer answer_why(struct arena *arena, const struct json *question, const char *choice,
                         struct err *err)
{
    struct answer answer = {.notes = ""};
    struct found found;
    enum choice key = CHOICE_COUNT;
    int64_t value = 0;
    if (!choice_parse_pair(arena, "", choice, &key, &value, err)) return answer;
    if (!search(arena, question, &found, err)) return answer;
    answer.notes = found.heard.lines;
    if (found.result.status == SEARCH_NOTHING_FITS) {
        err_set(err, ERR_USAGE, "%s", plan_nothing_text(arena, &found.request, &found.result));
        return answer;
    }
    struct explanation explanation = explain_why(arena, &found.request, &found.result, key, value);
    const char *why = explanation.text ? explanation.text : explanation.reason;
    answer.reason = inquiry_members(arena_copy(arena, why));
    answer.plan = plan_of(arena, &found, err);
    return answer;
}

const char *answer_base(struct arena *arena, const char *plan, struct err *err)
{
    enum { DATA_BYTES_MAX = 64 << 20 };
    static const char *const NAMES[] = {"fabrics", "bands"};
    const char *texts[2];
    for (int i = 0; i < 2; i++) {
        size_t bytes = 0;
        const char *path = file_find_data(arena, "cost_models", NAMES[i], NAMES[i], err);
        texts[i] = path ? file_read(arena, path, DATA_BYTES_MAX, &bytes, err) : NULL;
        if (!texts[i]) return NULL;
    }
    return arena_print(arena, "{\"plan\": %s, \"fabrics\": %s, \"bands\": %s}", plan, texts[0],
                       texts[1]);
}
