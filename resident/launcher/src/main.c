#include "finish.h"
#include "inherited.h"
#include "limits_gen.h"
#include "link.h"
#include "nearcall.h"
#include "place.h"
#include "plain.h"
#include "program.h"
#include "reach.h"
#include "run.h"
#include "settings.h"
#include "signals.h"
#include "standing.h"
#include "start.h"
#include "terminal.h"
#include "text.h"

#include <errno.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#define TEXT_OF(number) #number
#define VERSION_TEXT(major, minor, patch) TEXT_OF(major) "." TEXT_OF(minor) "." TEXT_OF(patch)

static const char no_resident[] = "--no-resident";

static const char help[] =
    "usage: nearcall-run [--no-resident] PROGRAM [ARGUMENT...]\n"
    "       PROGRAM [ARGUMENT...]           by a symbolic link to nearcall-run\n"
    "\n"
    "Runs PROGRAM in its resident, which is started when there is none, or plainly\n"
    "when that cannot be. Ends as PROGRAM ends.\n"
    "\n"
    "  --no-resident   run it plainly; also as PROGRAM's first argument\n"
    "  --help          print this\n"
    "  --version       print the version\n"
    "\n"
    "NEARCALL_NO_RESIDENT=1        run every program plainly\n"
    "NEARCALL_RUN_DEBUG=1          say why a program is run plainly\n"
    "NEARCALL_RUN_ANSWER_MS=5000   wait so long until a resident begins\n"
    "\n"
    "Exit codes besides those of PROGRAM: 125 nearcall-run failed or cannot know how\n"
    "PROGRAM ended, 126 PROGRAM cannot be run, 127 there is no PROGRAM.\n";

_Noreturn static void print(const char *text)
{
    size_t length = strlen(text);
    _exit(write(STDOUT_FILENO, text, length) == (ssize_t)length ? 0 : NC_EXIT_FAILED);
}

_Noreturn static void wrong_usage(const char *what, const char *argument)
{
    nc_say(what, argument, "; nearcall-run --help tells how it is used");
    _exit(NC_EXIT_FAILED);
}

/* Takes the launcher's options away. 1 when the program is to be run plainly. */
static int parse_options(char ***arguments)
{
    int plainly = 0;
    for (; **arguments != NULL && ***arguments == '-'; (*arguments)++) {
        const char *option = **arguments;
        if (strcmp(option, "--help") == 0)
            print(help);
        if (strcmp(option, "--version") == 0)
            print("nearcall-run " VERSION_TEXT(NEARCALL_VERSION_MAJOR, NEARCALL_VERSION_MINOR, NEARCALL_VERSION_PATCH) "\n");
        if (strcmp(option, no_resident) == 0)
            plainly = 1;
        else if (strcmp(option, "--") != 0)
            wrong_usage("there is no option ", option);
        if (strcmp(option, "--") == 0) {
            (*arguments)++;
            break;
        }
    }
    if (**arguments == NULL)
        wrong_usage("which program? No PROGRAM was given", "");
    return plainly;
}

/* The program's first argument may ask for a plain run, and is taken away. */
static int take_no_resident(char **arguments)
{
    if (arguments[1] == NULL || strcmp(arguments[1], no_resident) != 0)
        return 0;
    for (char **at = arguments + 1; *at != NULL; at++)
        at[0] = at[1];
    return 1;
}

/* 0, or -1 with the reason why there is no need to ask a resident. */
static int may_be_resident(const struct program *program, const struct terminal *terminal, int plainly,
                           struct reason *reason)
{
    if (plainly)
        return nc_because(reason, "--no-resident was given", 0);
    if (nc_setting_plain())
        return nc_because(reason, "NEARCALL_NO_RESIDENT is set", 0);
    if (getauxval(AT_SECURE) != 0 || getauxval(AT_UID) != getauxval(AT_EUID))
        return nc_because(reason, "the launcher has other rights than its caller", 0);
    const char *inherited = nc_inherited(program->arguments + 1);
    if (inherited != NULL)
        return nc_because(reason, inherited, 0);
    if (nc_terminal_is_behind(terminal))
        return nc_because(reason, "it is in the background and its standard input is the terminal", 0);
    return nc_standing_check(reason);
}

/* Returns when the program is to be asked for again, or run plainly. */
static enum nc_verdict attempt(struct caller *caller, unsigned starts_max, struct reason *reason)
{
    int connection;
    enum nc_reached reached = nc_reach(caller->place, &connection, reason);
    if (reached == NC_REACHED_NOBODY)
        reached = nc_start(caller->place, caller->program, starts_max, &connection, reason);
    if (reached == NC_REACHED_NOBODY)
        return NC_VERDICT_AGAIN;
    /* Until here signals simply end the launcher. */
    if (reached == NC_REACHED_PLAIN || nc_signals_open(caller->signals, reason) != 0)
        return NC_VERDICT_PLAIN;
    enum nc_verdict verdict = nc_run(caller, connection, reason);
    nc_signals_close(caller->signals);
    return verdict;
}

/* Returns with the reason when it has to be run plainly. */
static void run_by_resident(const struct program *program, struct terminal *terminal, struct reason *reason)
{
    static struct place place;
    struct signals signals;
    struct caller caller = {program, &place, &signals, terminal};
    if (nc_place_find(&place, program, reason) != 0)
        return;
    enum nc_verdict verdict = attempt(&caller, NC_RESIDENT_STARTS_MAX, reason);
    /* No run starts a program twice that is not made for it. */
    if (verdict == NC_VERDICT_AGAIN)
        verdict = attempt(&caller, 1, reason);
    if (verdict == NC_VERDICT_SILENT)
        nc_start_give_up(&place);
}

int main(int argc, char **argv)
{
    static struct program program;
    struct terminal terminal;
    struct reason reason = {""};
    int plainly = 0;
    if (argc < 1)
        wrong_usage("no arguments were given, not even the program's name", "");
    program.by_link = strcmp(nc_last_part(argv[0]), nc_launcher_name) != 0;
    program.searched = program.by_link;
    program.arguments = argv;
    if (!program.searched) {
        program.arguments++;
        plainly = parse_options(&program.arguments);
        program.searched = strchr(program.arguments[0], '/') == NULL;
    }
    program.name = program.arguments[0];
    plainly |= take_no_resident(program.arguments);
    enum nc_found found = nc_program_find(&program, &reason);
    if (found == NC_FOUND_NONE)
        nc_plain_missing(&program, errno);
    nc_terminal_remember(&terminal);
    if (found == NC_FOUND && may_be_resident(&program, &terminal, plainly, &reason) == 0)
        run_by_resident(&program, &terminal, &reason);
    nc_plain(&program, &reason);
}
