/* XSUBs: they convert and call; the logic is in the C files beside this one. */
#include "limits_gen.h"
#include "nearcall_perl.h"

/* The invocation for an XSUB whose arguments begin at a stack position. */
static ncp_invocation invocation(pTHX_ const ncp_view *view, SV *object, SV *name, I32 first_argument, I32 arguments_count)
{
    ncp_invocation call = {
        .handle = view->handle, .object = object, .timeout_ms = view->timeout_ms, .name = name,
        .first_argument = first_argument, .arguments_count = arguments_count, .options = view->options,
    };

    ncp_keep_object(aTHX_ object);
    if (UNLIKELY(view->options != NULL)) /* user code may drop the view */
        (void)sv_2mortal(SvREFCNT_inc_simple_NN(view->options));
    (void)ncp_view_client(aTHX_ view);
    return call;
}

static void invoke_and_return(pTHX_ I32 ax, ncp_invocation *call)
{
    nearcall_reply reply;

    ncp_invoke(aTHX_ call, &reply);
    ncp_return_reply(aTHX_ ax, call, &reply);
}

/* The body of every function object: the function is found once and kept. */
XS_INTERNAL(call_callable)
{
    dXSARGS;
    ncp_callable *callable = ncp_callable_of(cv);
    ncp_invocation call = invocation(aTHX_ &callable->view, (SV *)cv, callable->name, ax, items);

    call.origin = callable->origin;
    call.function = callable->function;
    if (UNLIKELY(!call.function)) {
        ncp_find(aTHX_ &call);
        callable->function = call.function;
    }
    invoke_and_return(aTHX_ ax, &call);
}

/* The body of every proxy method: its own name is the function's. */
XS_INTERNAL(call_proxy)
{
    dXSARGS;
    GV *glob = CvGV(cv);
    ncp_view *view;
    ncp_invocation call;
    SV **known;

    if (items < 1)
        croak_xs_usage(cv, "self, ...");
    view = ncp_view_of(aTHX_ ST(0));
    call = invocation(aTHX_ view, SvRV(ST(0)), NULL, ax + 1, items - 1);
    known = (SV **)hv_common(call.handle->functions, NULL, GvNAME(glob), GvNAMELEN(glob),
                             GvNAMEUTF8(glob) ? HVhek_UTF8 : 0,
                             HV_FETCH_JUST_SV, NULL, HEK_HASH(GvNAME_HEK(glob)));
    if (LIKELY(known != NULL)) {
        call.function = INT2PTR(ncp_function *, SvIVX(*known));
        call.name = call.function->name;
    } else {
        call.name = newSVpvn_flags(GvNAME(glob), GvNAMELEN(glob),
                                   SVs_TEMP | (GvNAMEUTF8(glob) ? SVf_UTF8 : 0));
    }
    invoke_and_return(aTHX_ ax, &call);
}

/* A function that the server has becomes a method; nothing else does. */
static void install_proxy(pTHX_ SV *name)
{
    SV *method = sv_2mortal(newSVpvf("Nearcall::%" SVf, SVfARG(name)));

    if (!ncp_is_run_by_perl(SvPV_nolen(name)))
        newXS_flags(SvPV_nolen(method), call_proxy, __FILE__, NULL, SvUTF8(method));
}

MODULE = Nearcall    PACKAGE = Nearcall

PROTOTYPES: DISABLE

SV *
_open(SV *class, const char *address, SV *timeout_ms, SV *connect_timeout_ms, U32 flags, U32 frame_bytes_max, U32 attempts_max, UV calls_in_flight_max, UV value_bytes_max, SV *server_users, SV *name, bool json_booleans, SV *authorities, SV *certificate, SV *key, SV *server_name, SV *silence_ms)
  PREINIT:
    nearcall_options options = NEARCALL_OPTIONS_INIT;
    ncp_handle *handle;
  CODE:
    options.timeout_ms = SvIV(timeout_ms) ? SvIV(timeout_ms) : NC_CALL_TIMEOUT_MS;
    options.connect_timeout_ms = SvIV(connect_timeout_ms);
    options.flags = flags | NEARCALL_INTERRUPTIBLE;
    options.frame_bytes_max = frame_bytes_max;
    options.attempts_max = attempts_max;
    options.calls_in_flight_max = calls_in_flight_max;
    options.value_bytes_max = value_bytes_max;
    options.server_user_ids = (const uint32_t *)SvPV_nolen(server_users);
    options.server_user_ids_count = (uint32_t)(SvCUR(server_users) / sizeof(uint32_t));
    if (SvOK(name)) {
        (void)ncp_c_text(aTHX_ name, "name");
        options.name = SvPVutf8_nolen(name);
    }
    ncp_tls_options(aTHX_ &options, authorities, certificate, key, server_name);
    options.silence_ms = SvIV(silence_ms);
    handle = ncp_handle_new(aTHX);
    RETVAL = ncp_view_new(aTHX_ gv_stashsv(class, GV_ADD), handle, options.timeout_ms, NULL);
    sv_2mortal(RETVAL);
    handle->json_booleans = json_booleans;
    ncp_handle_open(aTHX_ handle, address, &options);
    SvREFCNT_inc_simple_void_NN(RETVAL);
  OUTPUT:
    RETVAL

void
_load(const char *file)
  CODE:
    if (!ncp_is_loaded(aTHX_ file))
        ncp_load(aTHX_ file);

IV
_timeout_ms(SV *seconds)
  CODE:
    RETVAL = (IV)ncp_timeout_ms(aTHX_ seconds);
  OUTPUT:
    RETVAL

void
call(ncp_view *self, SV *name, ...)
  PPCODE:
    ncp_invocation call = invocation(aTHX_ self, SvRV(ST(0)), name, ax + 2, items - 2);
    invoke_and_return(aTHX_ ax, &call);
    return;

void
call_raw(ncp_view *self, SV *name, SV *data)
  PREINIT:
    SV *result;
  PPCODE:
    ncp_invocation call = invocation(aTHX_ self, SvRV(ST(0)), name, ax + 2, 1);
    PERL_UNUSED_VAR(data);
    result = ncp_invoke_raw(aTHX_ &call);
    SP = PL_stack_base + ax - 1;
    PUSHs(result);

SV *
begin(ncp_view *self, SV *name, ...)
  CODE:
    ncp_invocation call = invocation(aTHX_ self, SvRV(ST(0)), name, ax + 2, items - 2);
    RETVAL = SvREFCNT_inc(ncp_call_begin(aTHX_ &call));
  OUTPUT:
    RETVAL

SV *
with(ncp_view *self, ...)
  PREINIT:
    HV *stash;
    I32 i;
  CODE:
    stash = SvSTASH(SvRV(ST(0)));
    ncp_keep_object(aTHX_ SvRV(ST(0)));
    ST(0) = sv_2mortal(newRV_inc(SvRV(ST(0)))); /* code of one argument may drop all others */
    for (i = 1; i < items; i++)
        ST(i) = sv_2mortal(ncp_copy_of(aTHX_ ST(i)));
    if (items == 3 && strEQ(ncp_c_text(aTHX_ ST(1), "an option's name"), "timeout"))
        RETVAL = ncp_view_new(aTHX_ stash, self->handle, ncp_timeout_ms(aTHX_ ST(2)), self->options);
    else
        RETVAL = ncp_with_options(aTHX_ ax, items);
  OUTPUT:
    RETVAL

SV *
_view(ncp_view *self, AV *given)
  CODE:
    RETVAL = ncp_view_with(aTHX_ self, SvSTASH(SvRV(ST(0))), given);
  OUTPUT:
    RETVAL

SV *
function(ncp_view *self, SV *name)
  CODE:
    (void)ncp_view_client(aTHX_ self);
    ncp_keep_object(aTHX_ SvRV(ST(0)));
    RETVAL = ncp_callable_new(aTHX_ self, name, call_callable);
  OUTPUT:
    RETVAL

SV *
_generated(ncp_view *self, SV *name, SV *hash, SV *description, const char *changes)
  PREINIT:
    bool ignores;
  CODE:
    ignores = strEQ(changes, "ignore");
    if (!ignores && strNE(changes, "warn") && strNE(changes, "error"))
        croak("changes is error, warn or ignore, not \"%s\"", changes);
    (void)ncp_c_text(aTHX_ hash, "hash");
    (void)ncp_c_text(aTHX_ description, "description");
    (void)ncp_view_client(aTHX_ self);
    RETVAL = ncp_callable_new(aTHX_ self, name, call_callable);
    if (!ignores)
        ncp_callable_compares(aTHX_ RETVAL, hash, description, strEQ(changes, "warn"));
  OUTPUT:
    RETVAL

NV
ping(ncp_view *self)
  CODE:
    ncp_invocation call = invocation(aTHX_ self, SvRV(ST(0)), NULL, ax, 0);
    RETVAL = ncp_ping(aTHX_ &call);
  OUTPUT:
    RETVAL

void
connect(ncp_view *self)
  CODE:
    ncp_invocation call = invocation(aTHX_ self, SvRV(ST(0)), NULL, ax, 0);
    ncp_connect(aTHX_ &call);

void
disconnect(ncp_view *self)
  CODE:
    ncp_keep_object(aTHX_ SvRV(ST(0)));
    self->handle->requests++;
    nearcall_disconnect(ncp_view_client(aTHX_ self));

void
close(ncp_view *self)
  CODE:
    ncp_keep_object(aTHX_ SvRV(ST(0)));
    ncp_handle_close(aTHX_ self->handle);

const char *
transport(ncp_view *self)
  ALIAS:
    endpoint = 1
  CODE:
    RETVAL = ( ix ? nearcall_endpoint : nearcall_transport )(ncp_view_client(aTHX_ self));
  OUTPUT:
    RETVAL

IV
fd(ncp_view *self)
  ALIAS:
    events = 1
    server_process_id = 2
  PREINIT:
    nearcall_client *client;
  CODE:
    client = ncp_view_client(aTHX_ self);
    RETVAL = ix == 0 ? nearcall_fd(client)
        : ix == 1 ? nearcall_events(client)
        : (IV)nearcall_server_process_id(client);
  OUTPUT:
    RETVAL

SV *
timeout(ncp_view *self)
  CODE:
    int64_t ms = nearcall_timeout_ms(ncp_view_client(aTHX_ self));
    RETVAL = ms < 0 ? newSV(0) : newSVnv((NV)ms / 1000);
  OUTPUT:
    RETVAL

void
process(ncp_view *self)
  PREINIT:
    AV *finished;
    SSize_t count, i;
  PPCODE:
    (void)ncp_view_client(aTHX_ self);
    ncp_keep_object(aTHX_ SvRV(ST(0)));
    finished = ncp_process(aTHX_ self->handle);
    count = av_len(finished) + 1;
    SPAGAIN;
    SP = PL_stack_base + ax - 1;
    if (GIMME_V != G_ARRAY)
        XSRETURN_IV(count);
    EXTEND(SP, count);
    for (i = 0; i < count; i++)
        PUSHs(sv_mortalcopy(*av_fetch(finished, i, 0)));

void
AUTOLOAD(...)
  PREINIT:
    SV *name;
    ncp_view *view;
  PPCODE:
    /* Perl leaves the method's name in the string of an AUTOLOAD that is an XSUB. */
    name = newSVpvn_flags(SvPVX(cv), SvCUR(cv), SVs_TEMP | SvUTF8(cv));
    if (items < 1 || !sv_isobject(ST(0)))
        croak("Nearcall has no class method or function \"%" SVf "\"; functions of the server "
              "are methods of an object that Nearcall->new returned", SVfARG(name));
    view = ncp_view_of(aTHX_ ST(0));
    ncp_invocation call = invocation(aTHX_ view, SvRV(ST(0)), name, ax + 1, items - 1);
    ncp_find(aTHX_ &call);
    install_proxy(aTHX_ name);
    invoke_and_return(aTHX_ ax, &call);
    return;

const char *
_library_version()
  CODE:
    RETVAL = nearcall_version();
  OUTPUT:
    RETVAL

void
_unread(PerlIO *handle, SV *bytes)
  PREINIT:
    STRLEN count;
    const char *start;
  CODE:
    start = SvPVbyte(bytes, count);
    (void)PerlIO_unread(handle, start, count);

MODULE = Nearcall    PACKAGE = Nearcall::Function

SV *
begin(ncp_callable *self, ...)
  CODE:
    ncp_invocation call = invocation(aTHX_ &self->view, SvRV(ST(0)), self->name, ax + 1, items - 1);
    call.origin = self->origin;
    call.function = self->function;
    RETVAL = SvREFCNT_inc(ncp_call_begin(aTHX_ &call));
  OUTPUT:
    RETVAL

MODULE = Nearcall    PACKAGE = Nearcall::Call

bool
ready(ncp_call *self)
  CODE:
    RETVAL = ncp_call_ready(aTHX_ self);
  OUTPUT:
    RETVAL

void
wait(ncp_call *self)
  PREINIT:
    AV *results;
  PPCODE:
    results = ncp_call_wait(aTHX_ self);
    ncp_return_list(aTHX_ ax, results, true);
    return;

void
cancel(ncp_call *self)
  CODE:
    ncp_call_cancel(aTHX_ self);

SV *
error(ncp_call *self)
  CODE:
    RETVAL = ncp_call_error(aTHX_ self);
  OUTPUT:
    RETVAL

void
_send(ncp_call *self)
  CODE:
    ncp_call_send(aTHX_ self);

void
_find(ncp_call *self)
  CODE:
    ncp_call_find(aTHX_ self);

MODULE = Nearcall    PACKAGE = Nearcall::Handoff

SV *
_open(SV *class, SV *address, IV fd, U32 mode, U32 window, U32 prefix_bytes_max, U32 message_bytes_max, U32 channels_max, SV *users)
  PREINIT:
    nearcall_handoff_options options = NEARCALL_HANDOFF_OPTIONS_INIT;
    ncp_handoff *handoff;
  CODE:
    options.flags = NEARCALL_HANDOFF_INTERRUPTIBLE;
    options.mode = mode;
    options.window = window;
    options.prefix_bytes_max = prefix_bytes_max;
    options.message_bytes_max = message_bytes_max;
    options.channels_max = channels_max;
    options.peer_user_ids = (const uint32_t *)SvPV_nolen(users);
    options.peer_user_ids_count = (uint32_t)(SvCUR(users) / sizeof(uint32_t));
    RETVAL = sv_2mortal(ncp_handoff_new(aTHX_ gv_stashsv(class, GV_ADD), &handoff));
    ncp_handoff_opened(aTHX_ handoff,
                       SvOK(address)
                           ? nearcall_handoff_listen(&handoff->handle, ncp_c_text(aTHX_ address, "address"), &options)
                           : nearcall_handoff_listen_fd(&handoff->handle, (int)fd, &options));
    SvREFCNT_inc_simple_void_NN(RETVAL);
  OUTPUT:
    RETVAL

SV *
_accept(ncp_handoff *self, IV timeout_ms)
  PREINIT:
    HV *what;
  CODE:
    what = ncp_handoff_accept(aTHX_ self, timeout_ms);
    RETVAL = what ? newRV_noinc((SV *)what) : newSV(0);
  OUTPUT:
    RETVAL

void
_give(ncp_handoff *self, int fd, HV *what, SV *prefix, IV timeout_ms)
  CODE:
    ncp_handoff_give(aTHX_ self, fd, what, prefix, timeout_ms);

bool
_refuse(ncp_handoff *self, int reason, const char *text)
  PREINIT:
    int r;
  CODE:
    r = nearcall_handoff_wait(ncp_handoff_handle(aTHX_ self), 0);
    if (r == NEARCALL_OK)
        r = nearcall_handoff_refuse(ncp_handoff_handle(aTHX_ self), reason, text);
    if (r != NEARCALL_E_AGAIN && r != NEARCALL_E_INTERRUPTED)
        ncp_handoff_check(aTHX_ self, r);
    RETVAL = r == NEARCALL_OK;
  OUTPUT:
    RETVAL

void
drain(ncp_handoff *self, SV *text = NULL)
  PREINIT:
    const char *said;
  CODE:
    ncp_keep_object(aTHX_ SvRV(ST(0)));
    said = text ? ncp_c_text(aTHX_ text, "text") : "";
    ncp_handoff_check(aTHX_ self, nearcall_handoff_drain(ncp_handoff_handle(aTHX_ self), said));

IV
fileno(ncp_handoff *self)
  CODE:
    RETVAL = nearcall_handoff_fd(ncp_handoff_handle(aTHX_ self));
  OUTPUT:
    RETVAL

SV *
timeout(ncp_handoff *self)
  PREINIT:
    int64_t ms;
  CODE:
    ms = nearcall_handoff_timeout_ms(ncp_handoff_handle(aTHX_ self));
    RETVAL = ms < 0 ? newSV(0) : newSVnv((NV)ms / 1000);
  OUTPUT:
    RETVAL

void
close(ncp_handoff *self)
  CODE:
    ncp_handoff_close(aTHX_ self);

MODULE = Nearcall    PACKAGE = Nearcall::Resident

bool
_started(const char *first_argument)
  CODE:
    RETVAL = nearcall_resident_started(first_argument);
  OUTPUT:
    RETVAL

nearcall_resident *
_open(const char *program, U32 workers, IV idle_ms, AV *names)
  CODE:
    RETVAL = ncp_resident_open(aTHX_ program, workers, idle_ms, names);
  OUTPUT:
    RETVAL

bool
_watch(nearcall_resident *handle, const char *path)
  CODE:
    RETVAL = nearcall_resident_watch(handle, path) == NEARCALL_OK;
  OUTPUT:
    RETVAL

int
_next(nearcall_resident *handle)
  CODE:
    RETVAL = ncp_resident_next(aTHX_ handle);
  OUTPUT:
    RETVAL

void
_forked(nearcall_resident *handle, int process_id)
  CODE:
    (void)nearcall_resident_forked(handle, process_id);

void
_child(nearcall_resident *handle)
  CODE:
    ncp_resident_child(aTHX_ handle);

SV *
_accept(nearcall_resident *handle)
  PREINIT:
    HV *what;
  CODE:
    what = ncp_resident_accept(aTHX_ handle);
    RETVAL = what ? newRV_noinc((SV *)what) : newSV(0);
  OUTPUT:
    RETVAL

void
_ending(nearcall_resident *handle, int code)
  CODE:
    nearcall_resident_ending(handle, code);

void
_name(const char *path)
  CODE:
    ncp_resident_name(path);

void
_leave(int code)
  CODE:
    ncp_resident_leave(aTHX_ code);

bool
_reads(nearcall_resident *handle, int what, const char *name)
  CODE:
    RETVAL = nearcall_resident_reads(handle, what, name) == NEARCALL_OK;
  OUTPUT:
    RETVAL

MODULE = Nearcall    PACKAGE = Nearcall::Resident::Reads

void
_files()
  CODE:
    ncp_reads_files(aTHX);

void
_notice_files(bool notice)
  CODE:
    ncp_reads_notice(notice);

void
_pattern(SV *pattern)
  CODE:
    ncp_reads_pattern(aTHX_ pattern);

bool
_noticed_directory()
  ALIAS:
    _noticed_directory = NCP_READS_DIRECTORY
    _noticed_input = NCP_READS_INPUT
    _noticed_home = NCP_READS_HOME
    _noticed_variables = NCP_READS_VARIABLES
  CODE:
    RETVAL = ncp_reads_noticed(ix);
  OUTPUT:
    RETVAL

MODULE = Nearcall    PACKAGE = Nearcall::Resident::Notes

void
_begin()
  CODE:
    ncp_notes_begin(aTHX);

void
_enter(bool is_entered)
  CODE:
    ncp_notes_enter(is_entered);

void
_run()
  CODE:
    ncp_notes_run(aTHX);

void
_note(const char *kind, const char *by, const char *name)
  CODE:
    ncp_note(aTHX_ kind, by, name);

void
_found()
  PREINIT:
    AV *found = ncp_notes();
  PPCODE:
    for (SSize_t i = 0; found && i <= av_len(found); i++)
        XPUSHs(*av_fetch(found, i, 0));

BOOT:
{
    HV *resident = gv_stashpvs("Nearcall::Resident", GV_ADD);

    newCONSTSUB(resident, "_VARIABLE", newSViv(NEARCALL_RESIDENT_VARIABLE));
    newCONSTSUB(resident, "_DIRECTORY", newSViv(NEARCALL_RESIDENT_DIRECTORY));
    newCONSTSUB(resident, "_INPUT", newSViv(NEARCALL_RESIDENT_INPUT));
    newCONSTSUB(gv_stashpvs("Nearcall::Resident", GV_ADD), "_FORK", newSViv(NEARCALL_RESIDENT_FORK));
    newCONSTSUB(gv_stashpvs("Nearcall::Handoff", GV_ADD), "_BACK_MS", newSViv(NC_HANDOFF_BACK_MS));
    HV *stash = gv_stashpvs("Nearcall", GV_ADD);
    newCONSTSUB(stash, "_ALLOW_ABSTRACT", newSViv(NEARCALL_ALLOW_ABSTRACT));
    newCONSTSUB(stash, "_ANY_SERVER_USER", newSViv(NEARCALL_ANY_SERVER_USER));
    newCONSTSUB(stash, "_BLOCK_SIGNALS", newSViv(NEARCALL_BLOCK_SIGNALS));
    newCONSTSUB(stash, "_NONBLOCKING", newSViv(NEARCALL_NONBLOCKING));
    newCONSTSUB(stash, "_NO_SHARED_MEMORY", newSViv(NEARCALL_NO_SHARED_MEMORY));
    newCONSTSUB(stash, "_NO_PLAIN_TCP", newSViv(NEARCALL_NO_PLAIN_TCP));
    newCONSTSUB(stash, "_SPIN_OFF", newSViv(NEARCALL_SPIN_OFF));
    newCONSTSUB(stash, "_SPIN_DEDICATED", newSViv(NEARCALL_SPIN_DEDICATED));
}
