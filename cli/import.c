#include "exchange/import.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "cli/output.h"
#include "core/console.h"
#include "core/file.h"

#include <stdio.h>
#include <string.h>

struct arguments {
    const char *file, *target, *path;
    bool json;
};

static int run(struct arena *arena, const struct arguments *arguments, struct err *err)
{
    const struct exchange_target *target = NULL;
    if (arguments->target) {
        target = target_find(arguments->target, err);
        if (!target) return exit_status(err);
    }
    const struct imported *imported = import_file(arena, arguments->file, target, err);
    if (!imported) return exit_status(err);
    char *text = import_json(arena, imported);
    const char *told = arguments->json ? text : import_text(arena, imported);
    const char *said = arguments->path ? output_said(arena, arguments->path) : "";
    if (arguments->path && !file_write(arguments->path, text, strlen(text), err))
        return exit_status(err);
    if (arguments->json) {
        fputs(told, stdout);
    } else {
        console_print(stdout, told);
        if (*said) console_printf(stdout, "%s.\n", said);
    }
    return 0;
}

int import_command(struct arena *arena, int argc, char **argv, struct err *err)
{
    struct arguments arguments = {0};
    const struct option options[] = {
        {"FILE", OPTION_TEXT, &arguments.file, "what another program is started with", NULL, 0, 0},
        {"--target", OPTION_CHOICE, &arguments.target,
         "whose file it is (default: as its options tell)", target_names(arena), 0, 0},
        {"-o", OPTION_OUTPUT, &arguments.path, "write model, workload and pins; - is stdout",
         "FILE", 0, 0},
        OPTION_FORCE_ROW,
        {"--json", OPTION_FLAG, &arguments.json, "print that instead of words", NULL, 0, 0},
        {0},
    };
    if (options_help(argc, argv, options)) return 0;
    bool is_read =
        options_parse(options, argc, argv, err) && output_take_stdout(&arguments.path, err);
    return is_read ? run(arena, &arguments, err) : exit_status(err);
}
