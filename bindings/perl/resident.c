/* Nearcall::Resident: how a run that a forked child was given becomes perl's own. */
#include "nearcall_perl.h"

#include <errno.h>
#include <perliol.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

/* ---- The supervisor ---- */

static void throw_failure(pTHX_ const nearcall_resident *handle, int r)
{
    SV *message = newSVpv(nearcall_resident_error_message(handle), 0);

    ncp_throw(aTHX_ ncp_error_new(aTHX_ r, NEARCALL_OUTCOME_NOT_EXECUTED, NULL, message, NULL));
}

nearcall_resident *ncp_resident_open(pTHX_ const char *program, U32 workers, IV idle_ms, AV *names)
{
    nearcall_resident_options options = NEARCALL_RESIDENT_OPTIONS_INIT;
    nearcall_resident *handle;
    int (*check)(void *);
    void *argument = ncp_signal_check(aTHX_ &check);
    SSize_t count = av_len(names) + 1;
    const char **list = (const char **)SvPVX(sv_2mortal(newSV(sizeof(*list) * (STRLEN)(count + 1))));
    int r;

    for (SSize_t i = 0; i < count; i++)
        list[i] = ncp_c_text(aTHX_ *av_fetch(names, i, 1), "a name in environment");
    list[count] = NULL;
    options.program = program;
    options.workers = workers;
    options.idle_ms = idle_ms;
    options.environment = list;
    r = nearcall_resident_open(&handle, &options);
    if (r == NEARCALL_OK)
        r = nearcall_resident_interruptible_check(handle, check, argument);
    if (r != NEARCALL_OK)
        throw_failure(aTHX_ handle, r); /* the process is of no more use: the handle stays for the text */
    return handle;
}

/* Signal handlers of the program's run between waits, as perl would have it. */
int ncp_resident_next(pTHX_ nearcall_resident *handle)
{
    int r;

    while ((r = nearcall_resident_next(handle)) == NEARCALL_E_INTERRUPTED)
        PERL_ASYNC_CHECK();
    if (r < 0)
        throw_failure(aTHX_ handle, r);
    return r;
}

/* END blocks and destructors are for runs. */
void ncp_resident_leave(pTHX_ int code)
{
    PerlIO_flush(NULL);
    _exit(code);
}

/* ---- The child ---- */

/* Numbers that the parent drew are drawn again by all its children. */
void ncp_resident_child(pTHX_ nearcall_resident *handle)
{
    int r = nearcall_resident_child(handle);

    if (r != NEARCALL_OK)
        throw_failure(aTHX_ handle, r);
    PL_srand_called = FALSE;
}

/* Tainted under -T, as what perl was started with is. */
static AV *new_list(pTHX_ char *const *strings, size_t count)
{
    AV *list = newAV();

    for (size_t i = 0; i < count; i++) {
        SV *string = newSVpv(strings[i], 0);

        SvTAINTED_on(string);
        av_push(list, string);
    }
    return list;
}

/* What perl decides when it opens a stream: line by line on terminals, and the place in
 * a file. All layers decide alike. */
static void renew_stream(pTHX_ PerlIO *stream)
{
    if (!PerlIOValid(stream))
        return;
    bool terminal = isatty(PerlIO_fileno(stream));

    PerlIO_clearerr(stream);
    for (PerlIO *layer = stream; PerlIOValid(layer); layer = PerlIONext(layer)) {
        if (terminal)
            PerlIOBase(layer)->flags |= PERLIO_F_LINEBUF;
        else
            PerlIOBase(layer)->flags &= ~(U32)PERLIO_F_LINEBUF;
    }
    (void)PerlIO_seek(stream, 0, SEEK_CUR);
    PerlIO_clearerr(stream);
}

static void renew_streams(pTHX)
{
    renew_stream(aTHX_ PerlIO_stdin());
    renew_stream(aTHX_ PerlIO_stdout());
    renew_stream(aTHX_ PerlIO_stderr());
    errno = 0;
}

HV *ncp_resident_accept(pTHX_ nearcall_resident *handle)
{
    nearcall_resident_run run;
    HV *what;
    int r;

    while ((r = nearcall_resident_accept(handle, &run)) == NEARCALL_E_INTERRUPTED)
        PERL_ASYNC_CHECK();
    if (r < 0)
        throw_failure(aTHX_ handle, r);
    if (r != NEARCALL_RESIDENT_RUN)
        return NULL;
    renew_streams(aTHX);
    what = newHV();
    (void)hv_stores(what, "arguments", newRV_noinc((SV *)new_list(aTHX_ run.arguments, (size_t)run.arguments_count)));
    (void)hv_stores(what, "environment", newRV_noinc((SV *)new_list(aTHX_ run.environment, run.environment_count)));
    return what;
}

/* Assigning to $0 has made the name of the process of it, with its directories. */
void ncp_resident_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    (void)prctl(PR_SET_NAME, slash ? slash + 1 : path);
}
