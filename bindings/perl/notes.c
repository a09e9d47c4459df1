/* Nearcall::Resident::Notes: what a program touches before its runs, and what a run loads,
 * noted where 'nearcall resident check' asks for it. */
#include "nearcall_perl.h"

#include <string.h>

/* More tells nobody more. */
enum { NOTES_MAX = 2000 };

static Perl_ppaddr_t originals[MAXO];
static AV *found; /* NULL: nobody asks; the process's own, as perl is */
static bool is_noting;
static bool is_run;

void ncp_note(pTHX_ const char *kind, const char *by, const char *name)
{
    if (found && av_len(found) + 1 < NOTES_MAX)
        av_push(found, newSVpvf("%s\t%s\t%s", kind, by, name));
}

void ncp_note_here(pTHX_ const char *kind, const char *name)
{
    SV *by;

    if (!found || !is_noting || is_run)
        return;
    by = sv_2mortal(newSVpvf("%s:%lu", CopFILE(PL_curcop), (unsigned long)CopLINE(PL_curcop)));
    ncp_note(aTHX_ kind, SvPV_nolen(by), name);
}

static OP *note_time(pTHX)
{
    bool is_of_now = PL_op->op_type == OP_TIME || (PL_op->op_private & OPpARG4_MASK) < 1;

    if (is_of_now)
        ncp_note_here(aTHX_ "time", PL_op_name[PL_op->op_type]);
    return originals[PL_op->op_type](aTHX);
}

static OP *note_random(pTHX)
{
    ncp_note_here(aTHX_ "randomness", PL_op_name[PL_op->op_type]);
    return originals[PL_op->op_type](aTHX);
}

static OP *note_socket(pTHX)
{
    ncp_note_here(aTHX_ "socket", PL_op_name[PL_op->op_type]);
    return originals[PL_op->op_type](aTHX);
}

static OP *note_process(pTHX)
{
    SV *command = PL_op->op_type == OP_BACKTICK ? *PL_stack_sp : NULL;

    ncp_note_here(aTHX_ "process", command && SvPOK(command) ? SvPVX_const(command) : PL_op_name[PL_op->op_type]);
    return originals[PL_op->op_type](aTHX);
}

/* What a module loads that is loaded comes with it. */
static bool is_within_require(pTHX)
{
    for (const PERL_SI *stack = PL_curstackinfo; stack; stack = stack->si_prev)
        for (I32 i = stack->si_cxix; i >= 0; i--) {
            const PERL_CONTEXT *context = &stack->si_cxstack[i];
            if (CxTYPE(context) == CXt_EVAL && CxOLD_OP_TYPE(context) == OP_REQUIRE)
                return true;
        }
    return false;
}

static OP *note_require(pTHX)
{
    SV *name = *PL_stack_sp;

    if (found && is_run && SvPOK(name) && strstr(SvPVX_const(name), ".pm") &&
        !hv_exists_ent(GvHVn(PL_incgv), name, 0) && !is_within_require(aTHX))
        ncp_note(aTHX_ "module", "", SvPVX_const(name));
    return originals[PL_op->op_type](aTHX);
}

/* For what is compiled from here on. */
void ncp_notes_begin(pTHX)
{
    static const struct {
        int type;
        Perl_ppaddr_t note;
    } notes[] = {
        {OP_TIME, note_time}, {OP_LOCALTIME, note_time}, {OP_GMTIME, note_time}, {OP_RAND, note_random}, {OP_SRAND, note_random},
        {OP_SOCKET, note_socket}, {OP_CONNECT, note_socket}, {OP_BIND, note_socket}, {OP_BACKTICK, note_process},
        {OP_SYSTEM, note_process}, {OP_FORK, note_process}, {OP_REQUIRE, note_require},
    };

    if (found)
        return;
    found = newAV();
    for (size_t i = 0; i < sizeof(notes) / sizeof(notes[0]); i++) {
        originals[notes[i].type] = PL_ppaddr[notes[i].type];
        PL_ppaddr[notes[i].type] = notes[i].note;
    }
}

void ncp_notes_enter(bool is_entered)
{
    is_noting = is_entered;
}

void ncp_notes_run(pTHX)
{
    is_run = true;
    if (found)
        av_clear(found);
}

AV *ncp_notes(void)
{
    return found;
}
