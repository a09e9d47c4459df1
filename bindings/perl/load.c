/* Modules that are loaded when they are first needed: in the middle of a program, whose signals'
 * handlers may die. What perl has loaded halfway it does not load again. */
#include "nearcall_perl.h"

#include <pthread.h>
#include <signal.h>

bool ncp_is_loaded(pTHX_ const char *file)
{
    SV **path = hv_fetch(GvHVn(PL_incgv), file, (I32)strlen(file), 0);

    return path && SvOK(*path);
}

static void restore_signals(pTHX_ void *mask)
{
    PERL_UNUSED_CONTEXT;
    (void)pthread_sigmask(SIG_SETMASK, mask, NULL);
}

/* To the end of the scope; before its SAVETMPS, as the former mask is a temporary. Those of faults are not held back: they would end the process. */
static void hold_signals(pTHX)
{
    static const int faults[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP };
    sigset_t *former = (sigset_t *)SvPVX(sv_2mortal(newSV(sizeof(*former))));
    sigset_t held;
    size_t i;

    sigfillset(&held);
    for (i = 0; i < C_ARRAY_LENGTH(faults); i++)
        sigdelset(&held, faults[i]);
    (void)pthread_sigmask(SIG_BLOCK, &held, former);
    SAVEDESTRUCTOR_X(restore_signals, former);
}

/* The handlers of signals that have come already run first. */
void ncp_load(pTHX_ const char *file)
{
    dSP;
    SV *name;

    ENTER;
    hold_signals(aTHX);
    SAVETMPS;
    PERL_ASYNC_CHECK();
    PUSHSTACKi(PERLSI_REQUIRE);
    PUSHMARK(SP);
    name = sv_2mortal(newSVpv(file, 0));
    SvTAINTED_off(name); /* it is tainted if the statement has read what is */
    XPUSHs(name);
    PUTBACK;
    call_pv("Nearcall::_require", G_VOID | G_DISCARD);
    POPSTACK;
    FREETMPS;
    LEAVE;
}
