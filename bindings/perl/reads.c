/* Nearcall::Resident::Reads: operations that a program does while it is loaded, and that depend
 * on the directory or the standard input that it is started with; programs that it starts depend on
 * its variables as well. */
#include "nearcall_perl.h"

#include <string.h>

static Perl_ppaddr_t originals[MAXO];
static bool is_noticing;
static bool noticed[NCP_READS_KINDS];

static bool is_relative(const char *text)
{
    return *text != 0 && *text != '/';
}

static void notice_text(pTHX_ const char *path)
{
    ncp_note_here(aTHX_ "file", path);
    if (!is_relative(path))
        return;
    ncp_note_here(aTHX_ "directory", path);
    noticed[NCP_READS_DIRECTORY] = true;
}

static void notice_path(pTHX_ SV *path)
{
    if (SvPOK(path))
        notice_text(aTHX_ SvPVX_const(path));
}

static void notice_input(pTHX)
{
    ncp_note_here(aTHX_ "input", "");
    noticed[NCP_READS_INPUT] = true;
}

static void notice_handle(pTHX_ GV *handle)
{
    IO *io = handle ? GvIO(handle) : NULL;

    if (io && IoIFP(io) && PerlIO_fileno(IoIFP(io)) == 0)
        notice_input(aTHX);
}

/* What is on the stack is a path, a handle, or a reference to one. */
static void notice_file(pTHX_ SV *file)
{
    if (SvROK(file))
        file = SvRV(file);
    if (isGV_with_GP(file))
        notice_handle(aTHX_ (GV *)file);
    else
        notice_path(aTHX_ file);
}

/* stat, -e and their like: the handle is the operation's own, or the file is on the stack. */
static OP *look(pTHX)
{
    if (is_noticing && (PL_op->op_flags & OPf_REF))
        notice_handle(aTHX_ cGVOP_gv == PL_defgv ? NULL : cGVOP_gv);
    else if (is_noticing && PL_op->op_flags & OPf_KIDS)
        notice_file(aTHX_ *PL_stack_sp);
    return originals[PL_op->op_type](aTHX);
}

/* Nobody sees what another program looks at: it has this one's directory, and its variables. What
 * started it is noted here, or (NULL) has noted it itself. */
static void notice_process(pTHX_ const char *started_by)
{
    if (started_by)
        ncp_note_here(aTHX_ "process", started_by);
    noticed[NCP_READS_DIRECTORY] = noticed[NCP_READS_VARIABLES] = true;
}

/* "<name", "+>>name": a command has a bar at either end. */
static void notice_name_with_mode(pTHX_ SV *name)
{
    STRLEN bytes;
    const char *text = SvPOK(name) ? SvPV_nomg_const(name, bytes) : "";

    text += strspn(text, " \t\n<>+");
    bytes = strlen(text);
    if (strcmp(text, "-") == 0)
        notice_input(aTHX);
    else if (*text == '|' || (bytes > 0 && text[bytes - 1] == '|'))
        notice_process(aTHX_ "open");
    else if (bytes > 0)
        notice_text(aTHX_ text);
}

static OP *look_open(pTHX)
{
    SV **first = PL_stack_base + *PL_markstack_ptr + 1;
    SSize_t count = PL_stack_sp - first + 1;

    if (is_noticing && count == 2)
        notice_name_with_mode(aTHX_ first[1]);
    else if (is_noticing && count > 2 && SvPOK(first[1]) && strchr(SvPVX_const(first[1]), '|'))
        notice_process(aTHX_ "open");
    else if (is_noticing && count > 2 && SvPOK(first[1]))
        notice_path(aTHX_ first[2]);
    return originals[PL_op->op_type](aTHX);
}

static OP *look_sysopen(pTHX)
{
    SV **first = PL_stack_base + *PL_markstack_ptr + 1;

    if (is_noticing && PL_stack_sp - first >= 1)
        notice_path(aTHX_ first[1]);
    return originals[PL_op->op_type](aTHX);
}

/* Other names are looked for in @INC. */
static OP *look_require(pTHX)
{
    SV *name = *PL_stack_sp;

    if (is_noticing && SvPOK(name)
        && (strncmp(SvPVX_const(name), "./", 2) == 0 || strncmp(SvPVX_const(name), "../", 3) == 0))
        noticed[NCP_READS_DIRECTORY] = true;
    return originals[PL_op->op_type](aTHX);
}

/* Names between spaces; one with a tilde is in a home directory. */
void ncp_reads_pattern(pTHX_ SV *pattern)
{
    const char *text = is_noticing && SvPOK(pattern) ? SvPVX_const(pattern) : "";

    while (*(text += strspn(text, " \t\n"))) {
        if (*text == '~')
            noticed[NCP_READS_HOME] = true;
        else if (*text != '/')
            notice_text(aTHX_ text);
        text += strcspn(text, " \t\n");
    }
}

/* Behind the pattern is the operation's own handle, unless a function takes its place. */
static OP *look_glob(pTHX)
{
    ncp_reads_pattern(aTHX_ PL_stack_sp[(PL_op->op_flags & OPf_SPECIAL) ? 0 : -1]);
    return originals[PL_op->op_type](aTHX);
}

/* <>: the files that @ARGV names, or standard input where it names none. */
static void notice_arguments(pTHX)
{
    AV *names = GvAVn(PL_argvgv);
    IO *io = GvIO(PL_argvgv);

    for (SSize_t i = 0; i <= av_len(names); i++) {
        SV **name = av_fetch(names, i, 0);
        if (name)
            notice_name_with_mode(aTHX_ *name);
    }
    if (io && IoIFP(io))
        notice_name_with_mode(aTHX_ GvSVn(PL_argvgv));
    else if (av_len(names) < 0)
        notice_input(aTHX);
}

static OP *look_readline(pTHX)
{
    SV *handle = PL_op->op_type == OP_RCATLINE ? (SV *)cGVOP_gv : *PL_stack_sp;

    if (is_noticing) {
        if (handle && SvROK(handle))
            handle = SvRV(handle);
        if (!handle || handle == (SV *)PL_argvgv)
            notice_arguments(aTHX);
        else if (isGV_with_GP(handle))
            notice_handle(aTHX_ (GV *)handle);
    }
    return originals[PL_op->op_type](aTHX);
}

static OP *look_process(pTHX)
{
    if (is_noticing)
        notice_process(aTHX_ NULL);
    return originals[PL_op->op_type](aTHX);
}

static void stand_before(pTHX_ int type, Perl_ppaddr_t replacement)
{
    originals[type] = PL_ppaddr[type];
    PL_ppaddr[type] = replacement;
}

/* For what is compiled from here on, for as long as the process lives. */
void ncp_reads_files(pTHX)
{
    static const int looks[] = {OP_STAT, OP_LSTAT, OP_READLINK, OP_OPEN_DIR, OP_CHDIR};

    if (originals[OP_STAT])
        return;
    for (size_t i = 0; i < sizeof(looks) / sizeof(looks[0]); i++)
        stand_before(aTHX_ looks[i], look);
    for (int type = OP_FTRREAD; type <= OP_FTBINARY; type++)
        stand_before(aTHX_ type, look);
    stand_before(aTHX_ OP_OPEN, look_open);
    stand_before(aTHX_ OP_SYSOPEN, look_sysopen);
    stand_before(aTHX_ OP_GLOB, look_glob);
    stand_before(aTHX_ OP_READLINE, look_readline);
    stand_before(aTHX_ OP_RCATLINE, look_readline);
    stand_before(aTHX_ OP_BACKTICK, look_process);
    stand_before(aTHX_ OP_SYSTEM, look_process);
    stand_before(aTHX_ OP_FORK, look_process);
    stand_before(aTHX_ OP_REQUIRE, look_require);
    stand_before(aTHX_ OP_DOFILE, look_require);
}

void ncp_reads_notice(bool notice)
{
    is_noticing = notice;
}

bool ncp_reads_noticed(int kind)
{
    return noticed[kind];
}
