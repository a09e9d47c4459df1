/* Nearcall::Handoff objects: a handle of libnearcall as magic, as those of calls have. */
#include "nearcall_perl.h"

#include <errno.h>
#include <fcntl.h>

/* Closing must leave $! alone: it runs wherever an object goes out of scope. */
void ncp_handoff_close(ncp_handoff *self)
{
    nearcall_handoff *handle = self->handle;
    int before = errno;

    self->handle = NULL;
    nearcall_handoff_close(handle);
    errno = before;
}

static int handoff_free(pTHX_ SV *object, MAGIC *magic)
{
    ncp_handoff *self = (ncp_handoff *)magic->mg_ptr;

    PERL_UNUSED_CONTEXT;
    PERL_UNUSED_ARG(object);
    if (self) {
        ncp_handoff_close(self);
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

nearcall_handoff *ncp_handoff_handle(pTHX_ const ncp_handoff *self)
{
    if (!self->handle)
        croak("Nearcall::Handoff: it is closed; make another with Nearcall::Handoff->new");
    return self->handle;
}

void ncp_handoff_check(pTHX_ const ncp_handoff *self, int r)
{
    SV *message;

    if (r == NEARCALL_OK)
        return;
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
void ncp_handoff_opened(pTHX_ const ncp_handoff *self, int r)
{
    int (*check)(void *);
    void *argument = ncp_signal_check(aTHX_ &check);

    if (r == NEARCALL_OK)
        r = nearcall_handoff_interruptible_check(self->handle, check, argument);
    ncp_handoff_check(aTHX_ self, r);
}

HV *ncp_handoff_accept(pTHX_ const ncp_handoff *self, int64_t timeout_ms)
{
    nearcall_handoff_item item;
    int r = nearcall_handoff_accept(ncp_handoff_handle(aTHX_ self), timeout_ms, &item);

    if (r == NEARCALL_OK)
        return describe(aTHX_ &item);
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

void ncp_handoff_give(pTHX_ const ncp_handoff *self, int fd, HV *what, SV *prefix, int64_t timeout_ms)
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
    r = nearcall_handoff_give(self->handle, SvUV(*channel), &item, timeout_ms);
    if (r != NEARCALL_OK)
        PerlLIO_close(item.fd);
    ncp_handoff_check(aTHX_ self, r);
}
