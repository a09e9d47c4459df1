/* Nearcall::Handoff objects: a handle of libnearcall as magic, as those of calls have. */
#include "nearcall_perl.h"

#include <errno.h>
#include <fcntl.h>

/* Ends the waits of the library. A handler that perl runs at once may close the object there. */
static int must_return(void *argument)
{
    const ncp_handoff *self = argument;

    return self->is_closed || self->has_signal(self->signal_argument);
}

static bool is_still_given(const ncp_handoff *self)
{
    Stat_t now;

    return self->given_fd >= 0 && PerlLIO_fstat(self->given_fd, &now) == 0 && now.st_dev == self->given.st_dev
        && now.st_ino == self->given.st_ino;
}

/* Only a handler for a signal can come while the library is inside the handle. Where none runs, no
 * function of the handle is to go on: if it is inside one, a handler that died has left that. */
static void abandon(pTHX_ ncp_handoff *self)
{
    if (UNLIKELY(ncp_runs_handler(aTHX)) || LIKELY(nearcall_handoff_abandon(self->handle) <= 0))
        return;
    if (is_still_given(self))
        PerlLIO_close(self->given_fd);
    self->given_fd = -1;
}

/* Closing it does nothing then. It is never so while it is opened, which does not wait. */
static bool is_inside(pTHX_ ncp_handoff *self)
{
    abandon(aTHX_ self);
    return self->has_signal && ncp_runs_handler(aTHX)
        && nearcall_handoff_interruptible_check(self->handle, must_return, self) == NEARCALL_E_MISUSE;
}

/* Closing must leave $! alone: it runs wherever an object goes out of scope. What a handler has
 * interrupted goes on; the next use of the handle, or its end, closes it. */
void ncp_handoff_close(pTHX_ ncp_handoff *self)
{
    nearcall_handoff *handle = self->handle;
    dSAVE_ERRNO;

    self->is_closed = true;
    if (handle && !is_inside(aTHX_ self)) {
        self->handle = NULL;
        nearcall_handoff_close(handle);
    }
    RESTORE_ERRNO;
}

static int handoff_free(pTHX_ SV *object, MAGIC *magic)
{
    ncp_handoff *self = (ncp_handoff *)magic->mg_ptr;

    PERL_UNUSED_ARG(object);
    if (self) {
        ncp_handoff_close(aTHX_ self);
        Safefree(self);
    }
    return 0;
}

static int not_cloned(pTHX_ MAGIC *magic, CLONE_PARAMS *params)
{
    PERL_UNUSED_CONTEXT;
    PERL_UNUSED_ARG(params);
    magic->mg_ptr = NULL;
    return 0;
}

static const MGVTBL handoff_magic = { .svt_free = handoff_free, .svt_dup = not_cloned };

SV *ncp_handoff_new(pTHX_ HV *stash, ncp_handoff **ret_handoff)
{
    SV *body = newSV_type(SVt_PVMG);

    Newxz(*ret_handoff, 1, ncp_handoff);
    (*ret_handoff)->given_fd = -1;
    sv_magicext(body, NULL, PERL_MAGIC_ext, &handoff_magic, (char *)*ret_handoff, 0)->mg_flags |= MGf_DUP;
    return sv_bless(newRV_noinc(body), stash);
}

ncp_handoff *ncp_handoff_of(pTHX_ SV *object)
{
    MAGIC *magic = NULL;

    if (SvROK(object) && SvTYPE(SvRV(object)) >= SVt_PVMG)
        magic = mg_findext(SvRV(object), PERL_MAGIC_ext, &handoff_magic);
    if (!magic || !magic->mg_ptr)
        croak("Nearcall::Handoff: this is not an object that Nearcall::Handoff->new returned, in this thread");
    return (ncp_handoff *)magic->mg_ptr;
}

/* A handler that perl runs at once may have closed the object meanwhile. */
static void close_if_asked(pTHX_ ncp_handoff *self)
{
    if (UNLIKELY(self->is_closed))
        ncp_handoff_close(aTHX_ self);
}

nearcall_handoff *ncp_handoff_handle(pTHX_ ncp_handoff *self)
{
    if (self->handle)
        abandon(aTHX_ self);
    close_if_asked(aTHX_ self);
    if (self->is_closed)
        croak("Nearcall::Handoff: it is closed; make another with Nearcall::Handoff->new");
    return self->handle;
}

void ncp_handoff_check(pTHX_ ncp_handoff *self, int r)
{
    SV *message;

    close_if_asked(aTHX_ self);
    if (r == NEARCALL_OK)
        return;
    if (self->is_closed)
        (void)ncp_handoff_handle(aTHX_ self);
    if (r == NEARCALL_E_MISUSE && ncp_runs_handler(aTHX))
        ncp_throw(aTHX_ ncp_error_busy(aTHX_ NEARCALL_OUTCOME_NOT_EXECUTED, NULL));
    message = newSVpv(nearcall_handoff_error_message(self->handle), 0);
    if (is_utf8_string((const U8 *)SvPVX(message), SvCUR(message)))
        SvUTF8_on(message);
    ncp_throw(aTHX_ ncp_error_new(aTHX_ r, NEARCALL_OUTCOME_NOT_EXECUTED, NULL, message, NULL));
}

/* The handle is made first of all, and has the descriptor: whatever ends the program's
 * accept from here on, as a signal's handler that dies, closes it. It is flushed after each
 * print, as IO::Socket's accept has it; IO::Handle's autoflush would select it for a while,
 * and a handler that dies then may leave it selected. */
static HV *describe(pTHX_ const nearcall_handoff_item *item)
{
    SV *socket = ncp_new_file(aTHX_ item->fd, NULL);
    HV *what = newHV();

    IoFLAGS(GvIOp((GV *)SvRV(socket))) |= IOf_FLUSH;

    (void)hv_stores(what, "socket", socket);
    (void)hv_stores(what, "channel", newSVuv(item->channel));
    (void)hv_stores(what, "process_id", newSVuv(item->process_id));
    (void)hv_stores(what, "user_id", newSVuv(item->user_id));
    (void)hv_stores(what, "name", newSVpv(item->name, 0));
    (void)hv_stores(what, "local", newSVpv(item->local, 0));
    (void)hv_stores(what, "remote", newSVpv(item->remote, 0));
    (void)hv_stores(what, "message", newSVpvn((const char *)item->message, item->message_bytes));
    (void)hv_stores(what, "prefix", newSVpvn((const char *)item->prefix, item->prefix_bytes));
    return what;
}

/* From here on the handle's waits end for signals that came just before. */
void ncp_handoff_opened(pTHX_ ncp_handoff *self, int r)
{
    ncp_handoff_check(aTHX_ self, r);
    self->signal_argument = ncp_signal_check(aTHX_ &self->has_signal);
    ncp_handoff_check(aTHX_ self, nearcall_handoff_interruptible_check(self->handle, must_return, self));
}

HV *ncp_handoff_accept(pTHX_ ncp_handoff *self, int64_t timeout_ms)
{
    nearcall_handoff_item item;
    int r = nearcall_handoff_accept(ncp_handoff_handle(aTHX_ self), timeout_ms, &item);
    HV *what = r == NEARCALL_OK ? describe(aTHX_ &item) : NULL;

    close_if_asked(aTHX_ self);
    if (what)
        return what;
    if (r == NEARCALL_E_INTERRUPTED)
        PERL_ASYNC_CHECK(); /* may die, and may close the handle */
    if (r != NEARCALL_E_INTERRUPTED && r != NEARCALL_E_AGAIN && r != NEARCALL_E_DEADLINE_EXCEEDED)
        ncp_handoff_check(aTHX_ self, r);
    errno = r == NEARCALL_E_INTERRUPTED ? EINTR : r == NEARCALL_E_AGAIN ? EAGAIN : ETIMEDOUT;
    return NULL;
}

static const char *text_in(pTHX_ HV *what, const char *key)
{
    SV **value = hv_fetch(what, key, (I32)strlen(key), 0);

    return value && SvOK(*value) ? ncp_c_text(aTHX_ *value, key) : "";
}

/* A handler that dies within leaves the descriptor to abandon(). It may also give by the same object, which the
 * library refuses: what was being given before is as it was. */
static int give(ncp_handoff *self, UV channel, const nearcall_handoff_item *item, int64_t timeout_ms)
{
    Stat_t former = self->given;
    int former_fd = self->given_fd, r;

    self->given_fd = PerlLIO_fstat(item->fd, &self->given) == 0 ? item->fd : -1;
    r = nearcall_handoff_give(self->handle, channel, item, timeout_ms);
    self->given = former;
    self->given_fd = former_fd;
    return r;
}

void ncp_handoff_give(pTHX_ ncp_handoff *self, int fd, HV *what, SV *prefix, int64_t timeout_ms)
{
    nearcall_handoff_item item = {.kind = NEARCALL_HANDOFF_CONNECTION};
    SV **message = hv_fetchs(what, "message", 0);
    SV **channel = hv_fetchs(what, "channel", 0);
    STRLEN bytes;
    int r;

    if (!channel || !message)
        croak("Nearcall::Handoff: this connection did not come by it");
    item.name = text_in(aTHX_ what, "name");
    item.local = text_in(aTHX_ what, "local");
    item.remote = text_in(aTHX_ what, "remote");
    item.message = (const uint8_t *)SvPVbyte(*message, bytes);
    item.message_bytes = bytes;
    item.prefix = (const uint8_t *)SvPVbyte(prefix, bytes);
    item.prefix_bytes = bytes;
    (void)ncp_handoff_handle(aTHX_ self);
    /* A copy is given, and closed: perl closes its own. */
    item.fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (item.fd < 0)
        croak("Nearcall::Handoff: the connection cannot be handed back: %s", Strerror(errno));
    r = give(self, SvUV(*channel), &item, timeout_ms);
    if (r != NEARCALL_OK)
        PerlLIO_close(item.fd);
    ncp_handoff_check(aTHX_ self, r);
}
