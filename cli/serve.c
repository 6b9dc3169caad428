#include "library/serve.h"
#include "cli/commands.h"
#include "cli/options.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

// The next line without its end; NULL: there is none, or it cannot be read.
static char *read_line(struct arena *arena)
{
    char *line = NULL;
    size_t length = 0, capacity = 0;
    int byte = getc(stdin);
    for (; byte != EOF && byte != '\n'; byte = getc(stdin)) {
        line = arena_text_room(arena, line, length, 1, &capacity);
        line[length++] = (char)byte;
    }
    if (byte == EOF && (length == 0 || ferror(stdin))) return NULL;
    line = arena_text_room(arena, line, length, 1, &capacity);
    line[length] = '\0';
    return line;
}

// Answers line by line, until its input ends.
static int answer_lines(struct err *err)
{
    struct arena arena = {0};
    for (char *line = read_line(&arena); line; line = read_line(&arena)) {
        const char *answer = serve_line(&arena, line);
        if (answer) printf("%s\n", answer);
        fflush(stdout);
        arena_free(&arena);
        arena = (struct arena){0};
        errno = 0;
    }
    if (ferror(stdin)) err_set(err, ERR_SYSTEM, "cannot read a message: %s", strerror(errno));
    arena_free(&arena);
    return err->kind ? exit_status(err) : 0;
}

int serve_command(struct arena *arena, int argc, char **argv, struct err *err)
{
    (void)arena;
    bool by_lines = false;
    const struct option options[] = {
        {"--stdio", OPTION_FLAG, &by_lines,
         "speak the Model Context Protocol over standard input and output, one message a line",
         NULL, 0, 0},
        {0},
    };
    if (options_help(argc, argv, options)) return 0;
    if (!options_parse(options, argc, argv, err)) return exit_status(err);
    if (by_lines) return answer_lines(err);
    err_set(err, ERR_USAGE, "--stdio is missing: nothing else is served");
    return exit_status(err);
}
