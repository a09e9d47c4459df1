/* Handles and the objects that share them. An object carries its C struct as
 * magic: it cannot be forged, and is freed without any Perl code, whatever the
 * program does with DESTROY. */
#include "limits_gen.h"
#include "nearcall_perl.h"

#include <math.h>

/* ---- Handles ---- */

ncp_handle *ncp_handle_new(pTHX)
{
    ncp_handle *handle;

    Newxz(handle, 1, ncp_handle);
    return handle;
}

#define TEXTS 5

static void find_texts(nearcall_options *options, const char **ret_texts[TEXTS])
{
    ret_texts[0] = &options->name;
    ret_texts[1] = &options->tls_authorities;
    ret_texts[2] = &options->tls_certificate;
    ret_texts[3] = &options->tls_key;
    ret_texts[4] = &options->tls_server_name;
}

void ncp_opening_own(pTHX_ ncp_opening *opening)
{
    nearcall_options *options = &opening->options;
    uint32_t *users = NULL;
    const char **texts[TEXTS];
    int i;

    opening->address = savepv(opening->address);
    find_texts(options, texts);
    for (i = 0; i < TEXTS; i++)
        *texts[i] = *texts[i] ? savepv(*texts[i]) : NULL;
    if (options->server_user_ids_count) {
        Newx(users, options->server_user_ids_count, uint32_t);
        Copy(options->server_user_ids, users, options->server_user_ids_count, uint32_t);
    }
    options->server_user_ids = users;
}

/* NULL for undef. */
static const char *optional_text(pTHX_ SV *value, const char *what)
{
    return SvOK(value) ? ncp_c_text(aTHX_ value, what) : NULL;
}

void ncp_tls_options(pTHX_ nearcall_options *options, SV *authorities, SV *certificate, SV *key, SV *server_name)
{
    options->tls_authorities = optional_text(aTHX_ authorities, "tls_authorities");
    options->tls_certificate = optional_text(aTHX_ certificate, "tls_certificate");
    options->tls_key = optional_text(aTHX_ key, "tls_key");
    options->tls_server_name = optional_text(aTHX_ server_name, "tls_server_name");
}

static void opening_free(ncp_opening *opening)
{
    const char **texts[TEXTS];
    int i;

    if (!opening)
        return;
    find_texts(&opening->options, texts);
    for (i = 0; i < TEXTS; i++)
        Safefree(*texts[i]);
    Safefree(opening->address);
    Safefree(opening->options.server_user_ids);
    Safefree(opening);
}

static int has_pending_signal(void *interpreter)
{
    dTHXa(interpreter);

    PERL_UNUSED_VAR(interpreter);
    return PL_sig_pending != 0;
}

void *ncp_signal_check(pTHX_ int (**ret_check)(void *))
{
    *ret_check = has_pending_signal;
#ifdef MULTIPLICITY
    return aTHX;
#else
    return NULL;
#endif
}

static void open_client(pTHX_ ncp_handle *handle)
{
    int (*check)(void *);
    void *argument = ncp_signal_check(aTHX_ &check);
    int r = nearcall_open(&handle->client, handle->opening->address, &handle->opening->options);

    handle->view = NULL;
    if (r == NEARCALL_OK)
        r = nearcall_interruptible_check(handle->client, check, argument);

    if (!handle->functions)
        handle->functions = newHV();
    if (r != NEARCALL_OK)
        ncp_throw(aTHX_ ncp_error_from_client(aTHX_ handle->client, NULL, NULL));
}

void ncp_handle_open(pTHX_ ncp_handle *handle, const char *address, const nearcall_options *options)
{
    Newxz(handle->opening, 1, ncp_opening);
    handle->opening->address = (char *)address;
    handle->opening->options = *options;
    ncp_opening_own(aTHX_ handle->opening);
    handle->attempts_max = options->attempts_max ? options->attempts_max : NC_ATTEMPTS_MAX;
    handle->nonblocking = (options->flags & NEARCALL_NONBLOCKING) != 0;
    handle->warns_of_plain = strstr(address, "tcp:") && (options->flags & NEARCALL_NO_PLAIN_TCP) == 0;
    handle->embedded = strnEQ(address, "embed:", 6);
    handle->block_signals = (options->flags & NEARCALL_BLOCK_SIGNALS) != 0;
    open_client(aTHX_ handle);
}

/* Made when the first comes, by when the program has loaded what defines their class. */
SV *ncp_boolean(pTHX_ ncp_handle *handle, bool truth)
{
    SV **boolean = &handle->booleans[truth];

    if (UNLIKELY(!*boolean)) {
        SV *value = newSViv(truth);
        *boolean = sv_bless(newRV_noinc(value), gv_stashpvs("JSON::PP::Boolean", GV_ADD));
        SvREADONLY_on(value);
    }
    return *boolean;
}

/* What %SIG had before, as a word or undef, stays in perl's table. */
static bool is_handler(const SV *value)
{
    if (!value)
        return false;
    if (SvROK(value) || isGV_with_GP(value))
        return true;
    return SvPOK(value) && SvCUR(value) > 0 && strNE(SvPVX_const(value), "DEFAULT")
           && strNE(SvPVX_const(value), "IGNORE");
}

static bool has_handlers(pTHX)
{
    static SV *const none[SIG_SIZE];
    int number;

    /* Nearly always there is none, and all are looked at before each call. */
    if (LIKELY(memEQ(&PL_psig_ptr[1], &none[1], (SIG_SIZE - 1) * sizeof none[0])))
        return false;
    for (number = 1; number < SIG_SIZE; number++)
        if (is_handler(PL_psig_ptr[number]))
            return true;
    return false;
}

/* Go's stacks have no room for handlers that do not ask for a stack of their own,
 * and those of perl do not. Where %SIG has none there is nothing to block, and nothing
 * to pay for it. */
void ncp_protect_stack(pTHX_ const ncp_handle *handle)
{
    if (UNLIKELY(handle->embedded))
        nearcall_block_signals(handle->client, handle->block_signals || has_handlers(aTHX));
}

static void functions_free(pTHX_ HV *functions)
{
    HE *entry;

    hv_iterinit(functions);
    while ((entry = hv_iternext(functions)) != NULL) {
        ncp_function *function = INT2PTR(ncp_function *, SvIV(HeVAL(entry)));
        ncp_plan_free(aTHX_ function->plan);
        SvREFCNT_dec(function->name);
        Safefree(function);
    }
    hv_clear(functions);
}

bool ncp_runs_handler(pTHX)
{
    const PERL_SI *stack;

    for (stack = PL_curstackinfo; stack; stack = stack->si_prev)
        if (stack->si_type == PERLSI_SIGNAL)
            return true;
    return false;
}

/* Only a handler for a signal can come while the library is inside the handle. Where none runs, no
 * function of the handle is to go on: if it is inside one, a handler that died has left that. */
void ncp_handle_abandon(pTHX_ ncp_handle *handle)
{
    if (UNLIKELY(ncp_runs_handler(aTHX)) || LIKELY(nearcall_abandon(handle->client) <= 0))
        return;
    handle->requests++;
    handle->fetches++;
}

/* Closing it does nothing then. */
static bool is_inside(pTHX_ ncp_handle *handle)
{
    int (*check)(void *);
    void *argument = ncp_signal_check(aTHX_ &check);

    ncp_handle_abandon(aTHX_ handle);
    return ncp_runs_handler(aTHX)
        && nearcall_interruptible_check(handle->client, check, argument) == NEARCALL_E_MISUSE;
}

/* Closing must leave $! alone: it runs wherever an object goes out of scope. What a handler has
 * interrupted goes on; the next use of the handle, or its end, closes it. */
void ncp_handle_close(pTHX_ ncp_handle *handle)
{
    nearcall_client *client = handle->client;
    dSAVE_ERRNO;

    handle->is_closed = true;
    if (!client)
        return;
    ncp_calls_closed(aTHX_ handle);
    if (is_inside(aTHX_ handle)) {
        RESTORE_ERRNO;
        return;
    }
    handle->client = NULL;
    handle->requests++;
    nearcall_close(client);
    handle->last_function = NULL;
    functions_free(aTHX_ handle->functions);
    RESTORE_ERRNO;
}

void ncp_handle_release(pTHX_ ncp_handle *handle)
{
    if (--handle->references > 0)
        return;
    ncp_handle_close(aTHX_ handle);
    opening_free(handle->opening);
    SvREFCNT_dec((SV *)handle->functions);
    SvREFCNT_dec(handle->booleans[false]);
    SvREFCNT_dec(handle->booleans[true]);
    Safefree(handle);
}

/* ---- Views: Nearcall objects ---- */

static int view_free(pTHX_ SV *object, MAGIC *magic)
{
    ncp_view *view = (ncp_view *)magic->mg_ptr;

    PERL_UNUSED_ARG(object);
    if (view) {
        ncp_handle_release(aTHX_ view->handle);
        SvREFCNT_dec(view->options);
        Safefree(view);
    }
    return 0;
}

static const MGVTBL view_magic = { .svt_free = view_free, .svt_dup = ncp_view_dup };

SV *ncp_view_new(pTHX_ HV *stash, ncp_handle *handle, int64_t timeout_ms, SV *options)
{
    SV *body = newSV_type(SVt_PVMG);
    ncp_view *view;

    Newx(view, 1, ncp_view);
    view->handle = handle;
    view->timeout_ms = timeout_ms;
    view->options = SvREFCNT_inc(options);
    handle->references++;
    sv_magicext(body, NULL, PERL_MAGIC_ext, &view_magic, (char *)view, 0)->mg_flags |= MGf_DUP;
    return sv_bless(newRV_noinc(body), stash);
}

/* NULL: it has none. It comes first unless the program has given the object more. */
static const MAGIC *magic_of(const SV *body, const MGVTBL *kind)
{
    const MAGIC *first = SvMAGIC(body);

    return LIKELY(first && first->mg_virtual == kind) ? first
                                                      : mg_findext(body, PERL_MAGIC_ext, kind);
}

ncp_view *ncp_view_of(pTHX_ SV *object)
{
    const MAGIC *magic = NULL;

    if (LIKELY(SvROK(object) && SvTYPE(SvRV(object)) >= SVt_PVMG))
        magic = magic_of(SvRV(object), &view_magic);
    if (UNLIKELY(!magic || !magic->mg_ptr))
        croak("Nearcall: this is not an object that Nearcall->new returned");
    return (ncp_view *)magic->mg_ptr;
}

nearcall_client *ncp_view_client(pTHX_ const ncp_view *view)
{
    ncp_handle *handle = view->handle;

    if (UNLIKELY(handle->is_closed)) {
        ncp_handle_close(aTHX_ handle);
        croak("Nearcall: the handle is closed; make another with Nearcall->new");
    }
    if (UNLIKELY(!handle->client))
        open_client(aTHX_ handle);
    else
        ncp_handle_abandon(aTHX_ handle);
    return handle->client;
}

/* ---- Callables: Nearcall::Function objects ---- */

static int callable_free(pTHX_ SV *code, MAGIC *magic)
{
    ncp_callable *callable = (ncp_callable *)magic->mg_ptr;

    PERL_UNUSED_ARG(code);
    if (callable) {
        ncp_handle_release(aTHX_ callable->view.handle);
        SvREFCNT_dec(callable->view.options);
        SvREFCNT_dec(callable->name);
        if (callable->origin) {
            SvREFCNT_dec(callable->origin->hash);
            SvREFCNT_dec(callable->origin->description);
            Safefree(callable->origin);
        }
        Safefree(callable);
    }
    return 0;
}

static const MGVTBL callable_magic = { .svt_free = callable_free, .svt_dup = ncp_callable_dup };

SV *ncp_callable_new(pTHX_ const ncp_view *view, SV *name, XSUBADDR_t body)
{
    SV *text = ncp_plain_text(aTHX_ name);
    CV *code = newXS(NULL, body, __FILE__);
    ncp_callable *callable;

    Newxz(callable, 1, ncp_callable);
    callable->view = *view;
    callable->view.handle->references++;
    (void)SvREFCNT_inc(callable->view.options);
    callable->name = SvREFCNT_inc_simple_NN(text);
    sv_magicext((SV *)code, NULL, PERL_MAGIC_ext, &callable_magic, (char *)callable, 0)
        ->mg_flags |= MGf_DUP;
    return sv_bless(newRV_noinc((SV *)code), gv_stashpvs("Nearcall::Function", GV_ADD));
}

/* Through its magic, as perl clones nothing else of the code. */
ncp_callable *ncp_callable_of(const CV *code)
{
    return (ncp_callable *)magic_of((const SV *)code, &callable_magic)->mg_ptr;
}

ncp_callable *ncp_callable_of_object(pTHX_ SV *object)
{
    if (!SvROK(object) || SvTYPE(SvRV(object)) != SVt_PVCV
        || !mg_findext(SvRV(object), PERL_MAGIC_ext, &callable_magic))
        croak("Nearcall: this is not an object that function returned");
    return ncp_callable_of((CV *)SvRV(object));
}

void ncp_callable_compares(pTHX_ SV *object, SV *hash, SV *description, bool warns)
{
    ncp_callable *callable = ncp_callable_of((CV *)SvRV(object));

    Newxz(callable->origin, 1, ncp_origin);
    callable->origin->hash = newSVsv(hash);
    callable->origin->description = newSVsv(description);
    callable->origin->warns = warns;
    (void)SvPVutf8_nolen(callable->origin->description);
}

/* ---- Times ---- */

int64_t ncp_timeout_ms(pTHX_ SV *seconds)
{
    NV value;

    SvGETMAGIC(seconds);
    if (!SvOK(seconds) || !looks_like_number(seconds))
        croak("Nearcall: a timeout is a number of seconds, as 1.5, or 'inf' for none");
    value = SvNV_nomg(seconds);
    if (!(value > 0))
        croak("Nearcall: a timeout is more than 0 seconds; 'inf' means none");
    if (Perl_isinf(value))
        return NEARCALL_NO_TIMEOUT;
    if (value >= (NV)INT64_MAX / 1000)
        croak("Nearcall: a timeout of %" NVgf " seconds is too large; 'inf' means none", value);
    return (int64_t)ceil(value * 1000);
}
