/* seckillctl completion: what shells complete, made from the table of commands. */
#include "ctl/completion.h"

#include <string.h>

static bool takes(const struct command *command, int option)
{
    return ((command->options | OPTIONS_OF_ALL) & (UINT32_C(1) << option)) != 0;
}

/* ---- bash ---- */

static void print_bash_case(const struct command *command, FILE *out)
{
    fprintf(out, "    %s) words=\"", command->name);
    const char *before = "";
    if (strchr(command->arguments, '|')) /* words to choose from: "bash|zsh", "rotate|prune FILE" */
        for (const char *at = command->arguments; *at && *at != ' '; at++)
            fputc(*at == '|' ? ' ' : *at, out);
    if (strchr(command->arguments, '|'))
        before = " ";
    for (int i = 0; i < OPTION_COUNT; i++) {
        if (!takes(command, i))
            continue;
        fprintf(out, "%s--%s", before, option_name((enum ctl_option)i));
        before = " ";
    }
    fputs("\" ;;\n", out);
}

/* The options whose value is a file, or anything else; then no other option fits. */
static void print_bash_values(FILE *out, bool files)
{
    const char *before = "";
    for (int i = 0; i < OPTION_COUNT; i++) {
        const char *value = option_value_name((enum ctl_option)i);
        if (!value || (strcmp(value, "FILE") == 0) != files || i == OPTION_STATUS)
            continue;
        fprintf(out, "%s--%s", before, option_name((enum ctl_option)i));
        before = " | ";
    }
}

void completion_bash(const struct command *commands, size_t count, FILE *out)
{
    fputs("# bash completion of seckillctl, made by: seckillctl completion bash\n"
          "_seckillctl() {\n"
          "    local current=${COMP_WORDS[COMP_CWORD]} command='' words='' word\n"
          "    for word in \"${COMP_WORDS[@]:1:COMP_CWORD-1}\"; do\n"
          "        case $word in\n"
          "        -*) ;;\n"
          "        ",
          out);
    for (size_t i = 0; i < count; i++)
        fprintf(out, "%s%s", i == 0 ? "" : " | ", commands[i].name);
    fputs(")\n"
          "            command=$word\n"
          "            break\n"
          "            ;;\n"
          "        esac\n"
          "    done\n"
          "    COMPREPLY=()\n"
          "    case ${COMP_WORDS[COMP_CWORD-1]} in\n"
          "    --status)\n"
          "        words='reserved paid cancelled expired'\n"
          "        mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$current\")\n"
          "        return\n"
          "        ;;\n"
          "    ",
          out);
    print_bash_values(out, true);
    fputs(") return ;; # files\n    ", out);
    print_bash_values(out, false);
    fputs(")\n        compopt +o default\n        return\n        ;;\n    esac\n"
          "    case $command in\n    '') words=\"",
          out);
    for (size_t i = 0; i < count; i++)
        fprintf(out, "%s%s", i == 0 ? "" : " ", commands[i].name);
    fputs("\" ;;\n", out);
    for (size_t i = 0; i < count; i++)
        print_bash_case(&commands[i], out);
    fputs("    esac\n"
          "    mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$current\")\n"
          "}\n"
          "complete -o default -F _seckillctl seckillctl\n",
          out);
}

/* ---- zsh ---- */

/* Text within single quotes and, of an option, brackets: help texts have none of these. */
static void print_zsh_option(int option, FILE *out)
{
    const char *value = option_value_name((enum ctl_option)option);
    fprintf(out, " \\\n            '--%s[%s]", option_name((enum ctl_option)option),
            option_help((enum ctl_option)option));
    if (value && option == OPTION_STATUS)
        fputs(":status:(reserved paid cancelled expired)", out);
    else if (value)
        fprintf(out, ":%s:%s", value, strcmp(value, "FILE") == 0 ? "_files" : "");
    fputc('\'', out);
}

static void print_zsh_case(const struct command *command, FILE *out)
{
    fprintf(out, "        %s)\n            _arguments", command->name);
    for (int i = 0; i < OPTION_COUNT; i++)
        if (takes(command, i))
            print_zsh_option(i, out);
    if (strchr(command->arguments, '|')) {
        fputs(" \\\n            '1:what:(", out);
        for (const char *at = command->arguments; *at && *at != ' '; at++)
            fputc(*at == '|' ? ' ' : *at, out);
        fputs(")'", out);
    }
    if (strstr(command->arguments, "FILE"))
        fputs(" \\\n            '*:file:_files'", out);
    fputs("\n            ;;\n", out);
}

void completion_zsh(const struct command *commands, size_t count, FILE *out)
{
    fputs("#compdef seckillctl\n"
          "# zsh completion of seckillctl, made by: seckillctl completion zsh\n"
          "_seckillctl() {\n"
          "    local -a commands\n"
          "    commands=(\n",
          out);
    for (size_t i = 0; i < count; i++)
        fprintf(out, "        '%s:%s'\n", commands[i].name, commands[i].help);
    fputs("    )\n"
          "    if ((CURRENT == 2)); then\n"
          "        _describe command commands\n"
          "        return\n"
          "    fi\n"
          "    local command=$words[2]\n"
          "    shift words\n"
          "    ((CURRENT--))\n"
          "    case $command in\n",
          out);
    for (size_t i = 0; i < count; i++)
        print_zsh_case(&commands[i], out);
    fputs("    esac\n"
          "}\n"
          "if [[ $funcstack[1] == _seckillctl ]]; then\n"
          "    _seckillctl \"$@\"\n"
          "else\n"
          "    compdef _seckillctl seckillctl\n"
          "fi\n",
          out);
}
