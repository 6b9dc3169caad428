#include "reports/table/space_text.h"

#include "core/table.h"
#include "core/units.h"
#include "planner/choice.h"

#include <assert.h>

enum { SHOWN_MAX = 12 };

// "1, 2, 4, 8", and of many the first and the last.
static const char *values_text(struct arena *arena, const struct space_list *list,
                               enum choice choice)
{
    assert(list->choices[choice].count >= 0);
    int count = list->choices[choice].count, kept = count < SPACE_LIST_MAX ? count : SPACE_LIST_MAX;
    const int64_t *values = list->choices[choice].values;
    const char *text = "";
    for (int i = 0; i < kept; i++) {
        bool is_hidden = kept > SHOWN_MAX && i >= SHOWN_MAX - 1 && i < kept - 1;
        if (is_hidden) continue;
        const char *gap = i == 0 ? "" : kept > SHOWN_MAX && i == kept - 1 ? " .. " : ", ";
        text = arena_print(arena, "%s%s%s", text, gap, choice_text(arena, choice, values[i]));
    }
    return text;
}

// How the search treats the choices whose other values it does not go through one by one.
static const char *rule_of(enum choice choice)
{
    if (choice == CHOICE_LORA) return "none unless --lora asks";
    if (choice == CHOICE_TP_RELAY) return "off unless --tp-relay asks";
    if (choice == CHOICE_LOSS_CHUNKS) return "whole unless asked for";
    if (!choice_is_searched(choice)) return "as the stack has it";
    switch (choice) {
    case CHOICE_ATTENTION:
        return "as the stack has it";
    case CHOICE_OFFLOAD:
        return "none unless --offload asks";
    case CHOICE_RECOMPUTE:
        return "and other sets";
    case CHOICE_IN_FLIGHT:
        return "and others";
    default:
        return "";
    }
}

static const char *cuts_of(struct arena *arena, const struct space_list *list)
{
    const char *text = "";
    for (int cut = 0; cut < CUT_COUNT; cut++) {
        if (list->cuts >> cut & 1)
            text = arena_print(arena, "%s%s%s", text, *text ? ", " : "", cut_text((enum cut)cut));
    }
    if (!*text) return "";
    return arena_print(arena, "Left out, as there are too many meshes: %s.\n", text);
}

char *space_text(struct arena *arena, const struct search_request *request,
                 const struct space_list *list)
{
    struct table table = table_new(arena, "lll");
    table_row(&table, (const char *[]){"choice", "", "values"});
    for (int i = 0; i < CHOICE_COUNT; i++) {
        enum choice choice = (enum choice)i;
        bool is_told = choice_kind(choice) != CHOICE_KIND_DEGREE || !choice_may_be_absent(choice);
        if (!is_told && !list->choices[i].is_pinned) continue;
        const char *rule = list->choices[i].is_pinned ? "pinned" : rule_of(choice);
        table_row(&table,
                  (const char *[]){choice_name(choice), rule, values_text(arena, list, choice)});
    }
    const char *stages = request->pins.stage_layers_count > 0 ? "as pinned"
                         : list->has_pipeline ? "even, balanced, and one layer moved around the "
                                                "best plans"
                                              : "one";
    return arena_print(arena, "%s plans, of axes in up to four orders\n%sstages: %s\n%s",
                       units_count(arena, list->plan_count), table_text(&table), stages,
                       cuts_of(arena, list));
}
