/* Options of single calls, which with() gives. They hang on an SV of their own, so that views, functions and
 * calls share them, and perl frees and clones them. */
#include "limits_gen.h"
#include "nearcall_perl.h"

typedef struct ncp_options {
    nearcall_view *view;
    U32 attempts_max;   /* 0: the handle's */
    bool retries_unknown; /* a call may be sent again when nobody knows whether it ran */
    bool gives_packed;  /* lists of numbers are returned as strings */
    SV *reply_metadata; /* a reference to the scalar that the metadata of replies go to; NULL: nowhere */
} ncp_options;

static int options_free(pTHX_ SV *holder, MAGIC *magic)
{
    ncp_options *options = (ncp_options *)magic->mg_ptr;

    PERL_UNUSED_ARG(holder);
    if (!options)
        return 0;
    nearcall_view_free(options->view);
    SvREFCNT_dec(options->reply_metadata);
    Safefree(options);
    return 0;
}

static int options_dup(pTHX_ MAGIC *magic, CLONE_PARAMS *params);

static const MGVTBL options_magic = { .svt_free = options_free, .svt_dup = options_dup };

static ncp_options *options_of(const SV *holder)
{
    const MAGIC *magic = holder ? mg_findext(holder, PERL_MAGIC_ext, &options_magic) : NULL;

    return magic ? (ncp_options *)magic->mg_ptr : NULL;
}

#ifdef USE_ITHREADS

/* A view may be used by all threads; each has one of its own to free. */
static nearcall_view *another(nearcall_view *view)
{
    nearcall_client *client = NULL;
    nearcall_view *same = NULL;

    if (nearcall_open(&client, "unix:/", NULL) == NEARCALL_OK)
        (void)nearcall_view_new(client, view, NULL, &same);
    nearcall_close(client);
    return same;
}

static int options_dup(pTHX_ MAGIC *magic, CLONE_PARAMS *params)
{
    const ncp_options *from = (const ncp_options *)magic->mg_ptr;
    ncp_options *to;

    if (!from)
        return 0;
    Newxz(to, 1, ncp_options);
    to->view = another(from->view);
    to->attempts_max = from->attempts_max;
    to->retries_unknown = from->retries_unknown;
    to->gives_packed = from->gives_packed;
    to->reply_metadata = sv_dup_inc(from->reply_metadata, params);
    magic->mg_ptr = (char *)to;
    return 0;
}

#else

static int options_dup(pTHX_ MAGIC *magic, CLONE_PARAMS *params)
{
    PERL_UNUSED_ARG(params);
    magic->mg_ptr = NULL;
    return 0;
}

#endif

/* ---- Making them ---- */

/* The pairs of an array of keys and values, in memory of a temporary. */
static nearcall_metadata *pairs_of(pTHX_ AV *list, size_t *ret_count)
{
    size_t count = (size_t)(av_len(list) + 1) / 2;
    SV *memory = sv_2mortal(newSV(count * sizeof(nearcall_metadata) + 1));
    nearcall_metadata *pairs = (nearcall_metadata *)SvPVX(memory);
    size_t i;

    for (i = 0; i < count; i++) {
        STRLEN bytes;
        pairs[i].key = ncp_c_text(aTHX_ *av_fetch(list, (SSize_t)(2 * i), 0), "a key of metadata");
        pairs[i].value = SvPVbyte(*av_fetch(list, (SSize_t)(2 * i + 1), 0), bytes);
        pairs[i].value_bytes = bytes;
    }
    *ret_count = count;
    return pairs;
}

static SV *options_new(pTHX_ const ncp_view *former, nearcall_call_options *given, SV *reply_metadata,
                       bool gives_packed)
{
    nearcall_client *client = ncp_view_client(aTHX_ former);
    const ncp_options *before = options_of(former->options);
    SV *holder = sv_2mortal(newSV_type(SVt_PVMG));
    ncp_options *options;

    Newxz(options, 1, ncp_options);
    sv_magicext(holder, NULL, PERL_MAGIC_ext, &options_magic, (char *)options, 0)->mg_flags |= MGf_DUP;
    former->handle->requests++;
    if (nearcall_view_new(client, before ? before->view : NULL, given, &options->view) != NEARCALL_OK)
        ncp_throw(aTHX_ ncp_error_from_client(aTHX_ client, NULL, NULL));
    options->attempts_max = given->attempts_max ? given->attempts_max : before ? before->attempts_max : 0;
    options->retries_unknown = (given->flags & NEARCALL_CALL_RETRY_UNKNOWN) || (before && before->retries_unknown);
    options->gives_packed = gives_packed || (before && before->gives_packed);
    if (SvOK(reply_metadata))
        options->reply_metadata = newSVsv(reply_metadata);
    else if (before)
        options->reply_metadata = SvREFCNT_inc(before->reply_metadata);
    return holder;
}

static SV *given_at(pTHX_ AV *given, SSize_t index)
{
    return *av_fetch(given, index, 0);
}

SV *ncp_view_with(pTHX_ const ncp_view *former, HV *stash, AV *given)
{
    enum { TIMEOUT_MS, ATTEMPTS, FIRST_US, MOST_US, WAIT_FOR_READY, RETRY_UNKNOWN, TRACEPARENT, KEY, PAIRS, PLACE, PACKED };
    nearcall_call_options options = NEARCALL_CALL_OPTIONS_INIT;
    SV *traceparent = given_at(aTHX_ given, TRACEPARENT), *key = given_at(aTHX_ given, KEY);
    int64_t timeout_ms = SvIV(given_at(aTHX_ given, TIMEOUT_MS));
    STRLEN bytes = NEARCALL_IDEMPOTENCY_KEY_BYTES;

    PL_curcop = (COP *)ncp_caller(aTHX); /* whose mistakes these are; the next statement has its own */
    options.attempts_max = (uint32_t)SvUV(given_at(aTHX_ given, ATTEMPTS));
    options.backoff_first_us = SvIV(given_at(aTHX_ given, FIRST_US));
    options.backoff_most_us = SvIV(given_at(aTHX_ given, MOST_US));
    options.flags = (SvTRUE(given_at(aTHX_ given, WAIT_FOR_READY)) ? NEARCALL_CALL_WAIT_FOR_READY : 0)
                    | (SvTRUE(given_at(aTHX_ given, RETRY_UNKNOWN)) ? NEARCALL_CALL_RETRY_UNKNOWN : 0);
    if (SvOK(traceparent))
        options.trace_parent = ncp_c_text(aTHX_ traceparent, "traceparent");
    if (SvOK(key))
        options.idempotency_key = (const uint8_t *)SvPVbyte(key, bytes);
    if (bytes != NEARCALL_IDEMPOTENCY_KEY_BYTES)
        croak("Nearcall: idempotency_key has %lu bytes, 16 are expected", (unsigned long)bytes);
    options.metadata = pairs_of(aTHX_ (AV *)SvRV(given_at(aTHX_ given, PAIRS)), &options.metadata_count);
    return ncp_view_new(aTHX_ stash, former->handle, timeout_ms ? timeout_ms : former->timeout_ms,
                        options_new(aTHX_ former, &options, given_at(aTHX_ given, PLACE),
                                    SvTRUE(given_at(aTHX_ given, PACKED))));
}

/* Few programs need what makes plain values of all that one may give. */
SV *ncp_with_options(pTHX_ I32 ax, I32 items)
{
    static const char file[] = "Nearcall/CallOptions.pm";
    SV *view;
    I32 i;

    if (!ncp_is_loaded(aTHX_ file))
        ncp_load(aTHX_ file);
    {
        dSP;
        ENTER;
        PUSHMARK(SP);
        EXTEND(SP, items);
        for (i = 0; i < items; i++)
            PUSHs(ST(i));
        PUTBACK;
        call_pv("Nearcall::CallOptions::with", G_SCALAR);
        SPAGAIN;
        view = newSVsv(POPs);
        PUTBACK;
        LEAVE;
    }
    return view;
}

/* ---- Calls through them ---- */

U32 ncp_attempts_max(const ncp_invocation *call)
{
    const ncp_options *options = options_of(call->options);

    return options && options->attempts_max ? options->attempts_max : call->handle->attempts_max;
}

bool ncp_retries_unknown(const SV *holder)
{
    const ncp_options *options = options_of(holder);

    return options && options->retries_unknown;
}

bool ncp_gives_packed(const SV *holder)
{
    const ncp_options *options = UNLIKELY(holder != NULL) ? options_of(holder) : NULL;

    return options && options->gives_packed;
}

void ncp_use_options(const ncp_invocation *call)
{
    const ncp_options *options = UNLIKELY(call->options != NULL) ? options_of(call->options) : NULL;
    nearcall_view *view = options ? options->view : NULL;

    if (LIKELY(call->handle->view == view))
        return;
    if (nearcall_use_view(call->handle->client, view) == NEARCALL_OK)
        call->handle->view = view; /* which the library holds from now on */
}

static SV *metadata_of(pTHX_ const nearcall_client *client)
{
    HV *metadata = NULL;
    nearcall_metadata pair;
    size_t position = 0;

    while (nearcall_reply_metadata(client, NULL, &position, &pair)) {
        SV **values;

        if (!metadata)
            metadata = newHV();
        values = hv_fetch(metadata, pair.key, (I32)strlen(pair.key), 1);
        if (!SvROK(*values))
            sv_setsv(*values, sv_2mortal(newRV_noinc((SV *)newAV())));
        av_push((AV *)SvRV(*values), newSVpvn(pair.value, pair.value_bytes));
    }
    return metadata ? newRV_noinc((SV *)metadata) : newSV(0);
}

/* What the scalar had lives to the end of the statement: code of it must not run while the reply is still to be
 * read. One that has become read-only since it was given keeps what it has: the function has run, and how the call
 * ended counts for more. */
void ncp_take_metadata(pTHX_ const SV *holder, const nearcall_client *client)
{
    const ncp_options *options = UNLIKELY(holder != NULL) ? options_of(holder) : NULL;
    SV *place, *former;

    if (LIKELY(!options || !options->reply_metadata))
        return;
    place = SvRV(options->reply_metadata);
    if (UNLIKELY(SvREADONLY(place)))
        return;
    former = ncp_mortal_copy(aTHX_ place);
    PERL_UNUSED_VAR(former);
    sv_setsv_flags(place, sv_2mortal(metadata_of(aTHX_ client)), 0);
}
