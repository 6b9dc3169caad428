#include "cli/commands.h"
#include "cli/options.h"
#include "core/console.h"
#include "core/file.h"
#include "core/json_write.h"
#include "core/table.h"
#include "core/units.h"

#include <stdio.h>
#include <string.h>

// Every format there is: of files that commands read and write, and of what --json prints.
static const struct schema {
    const char *name, *folder, *what;
} SCHEMAS[] = {
    {"cluster", "topologies/schema", "cluster files, `topology --json`"},
    {"device", "topologies/schema", "device files"},
    {"kernels", "topologies/schema", "tables of measured kernels, `calibrate -o`"},
    {"offers", "topologies/schema", "offers of `whatif --offers`"},
    {"stack", "cost_models/schema", "stack files"},
    {"fabrics", "cost_models/schema", "fabrics.json: how fast links are"},
    {"bands", "cost_models/schema", "bands.json, `validate --bands-out`"},
    {"local", "cost_models/schema", "what `calibrate` keeps of CLUSTER local"},
    {"plan", "plan", "plan.json, `plan --json`"},
    {"parallel", "plan", "the object \"parallel\" of a plan"},
    {"pins", "exchange", "`import -o`, `import --json`"},
    {"prediction", "reports/schema", "`simulate --json`"},
    {"report", "reports", "`report --json`"},
    {"whatif", "reports", "whatif.json, `whatif --json`"},
    {"whatif-least", "reports/schema", "`whatif --min-gpus --json`"},
    {"whatif-largest", "reports/schema", "`whatif --largest-model --json`"},
    {"whatif-kinds", "reports/schema", "`whatif --tensor-kinds --json`"},
    {"whatif-releases", "reports/schema", "`whatif --releases --json`"},
    {"whatif-needs", "reports/schema", "`whatif MODEL --json` without a cluster"},
    {"graph", "memory", "graphs that `memory` reads"},
    {"schedule", "reports/schema", "`memory GRAPH -o FILE.json`"},
    {"memory", "reports/schema", "`memory --json`"},
    {"placement", "reports/schema", "`memory PLAN --policies --json`"},
    {"strategy", "reports/schema", "problems that `strategy` reads"},
    {"strategy-answer", "reports/schema", "`strategy --json`, `strategy -o`"},
    {"measure-next", "reports/schema", "`measure-next --json`"},
    {"run", "executor", "run.json, `run --json`"},
    {"compare", "reports/schema", "`compare BASE NEW --json`"},
    {"compare-plan", "reports/schema", "`compare PLAN MEASURED --json`"},
    {"checkpoint", "executor", "checkpoint.json, the index of `run --checkpoint`"},
    {"result", "executor/results", "what a run on a machine with GPUs leaves"},
    {"metrics", "reports/schema", "a line of `run --metrics`"},
    {"trace", "reports/schema", "timelines, `simulate --trace`, `run --trace`"},
    {"models", "reports/schema", "`models --json`"},
    {"clusters", "reports/schema", "`clusters --json`"},
    {"devices", "reports/schema", "`devices --json`"},
    {"stacks", "reports/schema", "`stacks --json`"},
    {"schemas", "reports/schema", "`schema --json`"},
    {"rows", "reports/schema", "a line of published runs, what `validate` and `fit` read"},
    {"headline", "reports/schema", "`validate --headline-out`"},
    {"left-out", "reports/schema", "left_out.json of `fit -o`, `validate --left-out`"},
    {"validation", "reports/schema", "`validate --json`"},
    {"fit", "reports/schema", "`fit --json`"},
    {"recommender", "reports/schema", "recommendation models"},
    {"table-stack", "cost_models/schema", "stacks for recommendation models"},
    {"table-plan", "reports/schema", "plan.json of a recommendation model"},
    {"table-run", "reports/schema", "run.json of a recommendation model"},
    {"table-least", "reports/schema", "`whatif --min-gpus --json` of a recommendation model"},
};
enum { SCHEMA_COUNT = sizeof SCHEMAS / sizeof *SCHEMAS };

static int list(struct arena *arena, bool as_json)
{
    struct table table = table_new(arena, "ll");
    struct json_writer writer = {.arena = arena};
    table_row(&table, (const char *[]){"schema", "of"});
    json_open(&writer, NULL, '{');
    json_open(&writer, "schemas", '[');
    for (int i = 0; i < SCHEMA_COUNT; i++) {
        table_row(&table, (const char *[]){SCHEMAS[i].name, SCHEMAS[i].what});
        json_open_flat(&writer, NULL, '{');
        json_put_text(&writer, "name", SCHEMAS[i].name);
        json_put_text(&writer, "of", SCHEMAS[i].what);
        json_close(&writer, '}');
    }
    json_close(&writer, ']');
    json_close(&writer, '}');
    if (as_json) return fputs(writer.text, stdout), 0;
    console_printf(stdout, "%s\nJSON Schema 2020-12: `meshwright schema NAME` prints one.\n",
                   table_text(&table));
    return 0;
}

static bool print(struct arena *arena, const char *name, struct err *err)
{
    enum { LIMIT_BYTES = 1 << 20 };
    struct units_guess guess = {.text = name};
    for (int i = 0; i < SCHEMA_COUNT; i++) {
        const struct schema *schema = &SCHEMAS[i];
        units_guess_offer(&guess, schema->name);
        if (strcmp(schema->name, name) != 0) continue;
        const char *file = arena_print(arena, "%s.schema", schema->name);
        const char *path = file_find_data(arena, schema->folder, file, "schema", err);
        size_t bytes = 0;
        const char *text = path ? file_read(arena, path, LIMIT_BYTES, &bytes, err) : NULL;
        if (text) fwrite(text, 1, bytes, stdout);
        return text != NULL;
    }
    if (!guess.best)
        return err_set(err, ERR_USAGE, "no schema is called \"%s\", see meshwright schema", name);
    return err_set(err, ERR_USAGE, "no schema is called \"%s\", did you mean \"%s\"?", name,
                   guess.best);
}

int schema_command(struct arena *arena, int argc, char **argv, struct err *err)
{
    const char *name = NULL;
    bool as_json = false;
    const struct option options[] = {
        {"[NAME]", OPTION_TEXT, &name, "the one to print; without it all are listed", NULL, 0, 0},
        {"--json", OPTION_FLAG, &as_json, "the list as one object for programs", NULL, 0, 0},
        {0},
    };
    if (options_help(argc, argv, options)) return 0;
    if (!options_parse(options, argc, argv, err)) return exit_status(err);
    if (!name) return list(arena, as_json);
    return print(arena, name, err) ? 0 : exit_status(err);
}
