/* Files and connections: handles of Perl into descriptors, and back. */
#include "encode.h"

#include <fcntl.h>
#include <sys/stat.h>

/* ---- Into a request ---- */

static IO *io_of(pTHX_ SV *value)
{
    SV *target = SvROK(value) ? SvRV(value) : value;

    if (isGV_with_GP(target))
        return GvIO((GV *)target);
    return SvTYPE(target) == SVt_PVIO ? (IO *)target : NULL;
}

/* What Perl has buffered is written, or given back to the file, so that the function
 * finds the file where the program is with it. Layers may run user code. */
static int descriptor_of_io(pTHX_ ncp_encoder *e, IO *io)
{
    PerlIO *file;
    int fd;

    if (!IoIFP(io) && !IoOFP(io))
        return -1;
    (void)sv_2mortal(SvREFCNT_inc_simple_NN((SV *)io));
    ncp_own(aTHX_ e);
    if (IoOFP(io))
        PerlIO_flush(IoOFP(io));
    if (IoIFP(io) && IoIFP(io) != IoOFP(io))
        PerlIO_flush(IoIFP(io));
    file = IoIFP(io) ? IoIFP(io) : IoOFP(io);
    fd = file ? PerlIO_fileno(file) : -1;
    ncp_user_code_ran(aTHX_ e);
    return fd;
}

static int descriptor_of_object(pTHX_ ncp_encoder *e, SV *object)
{
    SV *number = ncp_call_object(aTHX_ e, object, "fileno", NULL);

    ncp_whole descriptor;

    if (!ncp_whole_of(aTHX_ number, &descriptor) || descriptor.negative || descriptor.magnitude > INT_MAX)
        return -1;
    return (int)descriptor.magnitude;
}

void ncp_encode_file(pTHX_ ncp_encoder *e, const ncp_type *type, SV *value)
{
    IO *io = io_of(aTHX_ value);
    int fd = -1;

    if (io)
        fd = descriptor_of_io(aTHX_ e, io);
    else if (ncp_object_can(aTHX_ e, value, "fileno"))
        fd = descriptor_of_object(aTHX_ e, value);
    else
        ncp_refuse(aTHX_ e, type, value);
    if (fd < 0)
        ncp_refuse_because(aTHX_ e, "the handle is closed, or none of the operating system's");
    nearcall_put_file(e->client, fd);
}

/* ---- Out of a reply ---- */

/* Without the layers that `use open` has for the scope of the call: their code would run while
 * the reply is read, and that scope is not where the file was opened. */
static PerlIO *stream(pTHX_ int fd, const char *mode)
{
    static const char none_but_defaults[] = ":";

    return PerlIO_openn(aTHX_ none_but_defaults, mode, fd, 0, 0, NULL, 0, NULL);
}

/* Perl's own open() does the same: what can be written and not be positioned has a
 * stream for each direction. */
static void open_streams(pTHX_ IO *io, int fd, int access, bool is_socket)
{
    static const char types[] = { [O_RDONLY] = IoTYPE_RDONLY, [O_WRONLY] = IoTYPE_WRONLY,
                                  [O_RDWR] = IoTYPE_RDWR };
    static const char *const modes[] = { [O_RDONLY] = "r", [O_WRONLY] = "w", [O_RDWR] = "r+" };
    bool both = access == O_RDWR && lseek(fd, 0, SEEK_CUR) < 0;

    IoTYPE(io) = is_socket ? IoTYPE_SOCKET : types[access];
    IoIFP(io) = stream(aTHX_ fd, both ? "r" : modes[access]);
    if (both)
        IoOFP(io) = stream(aTHX_ fd, "w");
    else if (access != O_RDONLY)
        IoOFP(io) = IoIFP(io);
}

/* Its giver has closed its own, so whether it blocks is ours to say: handles of Perl
 * do. Takes the descriptor over. */
SV *ncp_new_file(pTHX_ int fd, const char *class_name)
{
    GV *glob = (GV *)newSV(0);
    HV *stash = class_name ? gv_stashpv(class_name, 0) : NULL;
    int flags = fcntl(fd, F_GETFL);
    struct stat status;
    SV *result;

    gv_init_pvn(glob, gv_stashpvs("Nearcall", GV_ADD), "file", 4, 0);
    if (flags & O_NONBLOCK)
        (void)fcntl(fd, F_SETFL, flags & ~O_NONBLOCK);
    open_streams(aTHX_ GvIOn(glob), fd, flags & O_ACCMODE,
                 fstat(fd, &status) == 0 && S_ISSOCK(status.st_mode));
    result = newRV_noinc((SV *)glob);
    return stash ? sv_bless(result, stash) : result;
}

/* Results of type connection are objects of this class. */
bool ncp_load_sockets(pTHX_ ncp_encoder *e)
{
    if (LIKELY(ncp_is_loaded(aTHX_ NCP_SOCKET_FILE)))
        return false;
    ncp_own(aTHX_ e);
    ncp_load(aTHX_ NCP_SOCKET_FILE);
    ncp_user_code_ran(aTHX_ e);
    return true;
}
