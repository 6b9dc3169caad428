#include "cli/commands.h"
#include "cli/options.h"
#include "core/version.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

// Manual pages and completions, made from the table of commands and the tables of their options.

static void put_head(const char *name, const char *summary)
{
    printf(".TH MESHWRIGHT%s", *name ? "\\-" : "");
    for (const char *at = name; *at; at++)
        putchar(toupper((unsigned char)*at));
    printf(" 1 \"\" \"meshwright %s\" \"Meshwright\"\n.SH NAME\nmeshwright%s%s \\- %s\n",
           MESHWRIGHT_VERSION, *name ? "\\-" : "", name, summary);
}

static const char STATUS[] =
    ".SH EXIT STATUS\n"
    "0 yes, 1 the answer is no, 2 wrong usage, 3 a wrong input file, 4 the machine failed, 130 "
    "stopped by SIGINT with the best plan found until then.\n"
    ".SH ENVIRONMENT\n"
    ".TP\n.B COLUMNS\nColumns that tables and sentences may take, in place of the terminal's.\n"
    ".TP\n.B NO_COLOR\nNo colours and no progress line.\n"
    ".TP\n.B MESHWRIGHT_DATA\nThe folder of shipped models, clusters, devices and stacks, in place "
    "of share/meshwright beside the binary's.\n"
    ".TP\n.B MESHWRIGHT_PLUGINS\nThe folder of the plug-ins of \\fBrun\\fR, in place of "
    "lib/meshwright beside the binary's.\n"
    ".TP\n.B XDG_CACHE_HOME\nWhere CLUSTER local is kept once it is measured.\n";

static void put_overview(void)
{
    put_head("", "plan, price, simulate and run the training of large models");
    printf(".SH SYNOPSIS\n.B meshwright\n\\fICOMMAND\\fR ...\n.SH DESCRIPTION\n"
           "How should this model be trained on that cluster, how long will it take, what will it "
           "cost, and is that true?\n.SH COMMANDS\n");
    for (const struct cli_command *command = COMMANDS; command->name; command++) {
        printf(".TP\n.BR meshwright\\-%s (1)\n%s\n", command->name, command->summary);
    }
    fputs(STATUS, stdout);
}

static int put_page(const struct cli_command *command, struct err *err)
{
    put_head(command->name, command->summary);
    int status = command_print_help(command, "--help=man", err);
    printf("%s.SH SEE ALSO\n.BR meshwright (1)\n", STATUS);
    return status;
}

int man_command(struct arena *arena, int argc, char **argv, struct err *err)
{
    (void)arena;
    const char *name = NULL;
    const struct option options[] = {
        {"[COMMAND]", OPTION_TEXT, &name,
         "whose page; without it that of meshwright. It is roff: meshwright man plan | man -l -",
         NULL, 0, 0},
        {0},
    };
    if (options_help(argc, argv, options)) return 0;
    if (!options_parse(options, argc, argv, err)) return exit_status(err);
    if (!name) return put_overview(), 0;
    const struct cli_command *command = command_find(name);
    return command ? put_page(command, err) : command_fail_unknown(name, err);
}

// What names are shipped: the first words of a list's lines, from the second to an empty one.
#define NAMES                                                         \
    "    case $1 in\n"                                                \
    "    commands) echo '%s';;\n"                                     \
    "    *) COLUMNS=0 meshwright \"$1\" 2>/dev/null |\n"              \
    "           awk 'NR > 1 && !NF { exit } NR > 1 { print $1 }';;\n" \
    "    esac\n"

static const char *command_names(char *text, size_t bytes)
{
    size_t length = 0;
    for (const struct cli_command *command = COMMANDS; command->name; command++) {
        length += (size_t)snprintf(text + length, bytes - length, "%s%s", length ? " " : "",
                                   command->name);
    }
    return text;
}

// A word is an argument where it is no option and not the value of one: --option=value is not
// completed.
static int put_bash(const char *names, struct err *err)
{
    printf(
        "# bash completion of meshwright %s: made from its tables of options.\n"
        "_meshwright_names() {\n" NAMES "}\n"
        "_meshwright() {\n"
        "    local word=${COMP_WORDS[COMP_CWORD]} command=${COMP_WORDS[1]} words= i place=0\n"
        "    COMPREPLY=()\n"
        "    if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
        "        COMPREPLY=($(compgen -W '%s help --help --version' -- \"$word\"))\n"
        "        return\n"
        "    fi\n"
        "    for ((i = 2; i <= COMP_CWORD; i++)); do\n"
        "        [[ ${COMP_WORDS[i]} == -* ]] || _meshwright_is_value $i || place=$((place + 1))\n"
        "    done\n"
        "    [[ $word == -* ]] && place=--\n"
        "    _meshwright_is_value $COMP_CWORD && place=${COMP_WORDS[COMP_CWORD - 1]}\n"
        "    case $command,$place in\n"
        "    help,1|man,1) words=$(_meshwright_names commands);;\n",
        MESHWRIGHT_VERSION, names, names);
    for (const struct cli_command *command = COMMANDS; command->name; command++) {
        if (command_print_help(command, "--help=bash", err) != 0) return exit_status(err);
    }
    printf("    esac\n"
           "    COMPREPLY=($(compgen -W \"$words\" -- \"$word\"))\n"
           "    [[ $word == -* ]] || COMPREPLY+=($(compgen -f -- \"$word\"))\n"
           "}\n"
           "# Whether the word stands behind an option that takes a value.\n"
           "_meshwright_is_value() {\n"
           "    case ${COMP_WORDS[1]},${COMP_WORDS[$1 - 1]} in\n");
    for (const struct cli_command *command = COMMANDS; command->name; command++) {
        if (command_print_help(command, "--help=flags", err) != 0) return exit_status(err);
    }
    printf("    *,-*) return 0;;\n    esac\n    return 1\n}\n"
           "complete -o filenames -F _meshwright meshwright\n");
    return 0;
}

static int put_zsh(const char *names, struct err *err)
{
    printf("#compdef meshwright\n"
           "# zsh completion of meshwright %s: made from its tables of options.\n"
           "_meshwright_names() {\n" NAMES "}\n"
           "_meshwright_of() {\n"
           "    local -a names\n"
           "    names=(${=\"$(_meshwright_names $1)\"})\n"
           "    compadd -a names\n"
           "    _files\n"
           "}\n",
           MESHWRIGHT_VERSION, names);
    for (const struct cli_command *command = COMMANDS; command->name; command++) {
        if (command_print_help(command, "--help=zsh", err) != 0) return exit_status(err);
    }
    printf("_meshwright() {\n"
           "    if (( CURRENT == 2 )); then\n"
           "        local -a commands=(\n");
    for (const struct cli_command *command = COMMANDS; command->name; command++) {
        printf("            '%s:%s'\n", command->name, command->summary);
    }
    printf("            'help:explain a command'\n"
           "        )\n"
           "        _describe command commands\n"
           "        return\n"
           "    fi\n"
           "    local command=$words[2]\n"
           "    words=($words[1] $words[3,-1])\n"
           "    (( CURRENT-- ))\n"
           "    if [[ $command == help ]]; then\n"
           "        _meshwright_man\n"
           "    elif (( $+functions[_meshwright_$command] )); then\n"
           "        _meshwright_$command\n"
           "    fi\n"
           "}\n"
           "_meshwright \"$@\"\n");
    return 0;
}

int completion_command(struct arena *arena, int argc, char **argv, struct err *err)
{
    (void)arena;
    const char *shell = NULL;
    const struct option options[] = {
        {"SHELL", OPTION_CHOICE, &shell,
         "of which shell: `source <(meshwright completion bash)`; zsh finds it as _meshwright in "
         "$fpath",
         "bash|zsh", 0, 0},
        {0},
    };
    if (options_help(argc, argv, options)) return 0;
    if (!options_parse(options, argc, argv, err)) return exit_status(err);
    char text[512];
    const char *names = command_names(text, sizeof text);
    return strcmp(shell, "bash") == 0 ? put_bash(names, err) : put_zsh(names, err);
}
