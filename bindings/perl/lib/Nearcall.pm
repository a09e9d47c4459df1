package Nearcall;

use strict;
use warnings;

use Carp ();
use Nearcall::Error ();
use XSLoader ();

our $VERSION = 'v0.1.0';

XSLoader::load( __PACKAGE__, $VERSION );

# XSLoader leaves it behind, and it would hide a function of that name.
delete $Nearcall::{bootstrap};

my %OPTIONS = map { $_ => 1 } qw(
    timeout connect_timeout name attempts frame_bytes_max value_bytes_max
    server_users any_server_user allow_abstract nonblocking
    shared_memory spin block_signals booleans calls_in_flight_max
    tls_authorities tls_certificate tls_key tls_server_name silence plain_tcp
);

# No function may be imported into this package: its name would hide the
# server's function of that name.
sub new {
    my ( $class, $address, @pairs ) = @_;
    Carp::croak('Nearcall->new needs an address, as unix:/run/demo/nearcall.sock')
        unless defined $address && length $address;
    my %option = _options( 'Nearcall->new', \%OPTIONS, @pairs );
    # By goto, so that an error has the place of the call to new.
    @_ = (
        $class, "$address",
        _milliseconds( timeout         => $option{timeout} ),
        _milliseconds( connect_timeout => $option{connect_timeout} ),
        _flags( \%option ),
        ( map { _number32( "Nearcall->new: $_", $option{$_} // 0 ) } qw(frame_bytes_max attempts calls_in_flight_max value_bytes_max) ),
        _user_ids( $option{server_users} ),
        defined $option{name} ? "$option{name}" : undef,
        _json_booleans( $option{booleans} // 'json' ),
        ( map { defined $option{$_} ? "$option{$_}" : undef } qw(tls_authorities tls_certificate tls_key tls_server_name) ),
        _silence( $option{silence} ),
    );
    goto &_open;
}

sub _options {
    my ( $taker, $known, @pairs ) = @_;
    Carp::croak( "$taker takes its options as name => value, and one of the two is missing; it has "
            . join ' ', sort keys %$known )
        if @pairs % 2;
    my %option = @pairs;
    my @unknown = grep { !$known->{$_} } sort keys %option;
    Carp::croak("$taker has no option $unknown[0]; it has @{[ sort keys %$known ]}") if @unknown;
    return %option;
}

sub _milliseconds {
    my ( $option, $seconds ) = @_;
    return 0 unless defined $seconds;
    my $milliseconds = eval { _timeout_ms($seconds) };
    return $milliseconds if defined $milliseconds;
    ( my $reason = $@ ) =~ s/ at \S+ line \d+\.?\n\z//;
    $reason =~ s/\ba timeout\b/$option/;
    Carp::croak($reason);
}

# No infinity stands for the lack of a limit here.
sub _silence {
    my ($seconds) = @_;
    local $@;
    my $milliseconds = eval { _milliseconds( silence => $seconds ) } // -1;
    return $milliseconds if $milliseconds >= 0;
    Carp::croak("Nearcall: silence is $seconds; it is a positive and finite number of seconds, such as 2");
}

sub _flags {
    my ($option) = @_;
    my $flags = 0;
    $flags |= _ALLOW_ABSTRACT()  if $option->{allow_abstract};
    $flags |= _ANY_SERVER_USER() if $option->{any_server_user};
    $flags |= _NONBLOCKING()     if $option->{nonblocking};
    $flags |= _BLOCK_SIGNALS()   if $option->{block_signals};
    $flags |= _NO_SHARED_MEMORY() unless $option->{shared_memory} // 1;
    $flags |= _plain_tcp( $option->{plain_tcp} // 'warn' );
    return $flags | _spin( $option->{spin} // 'auto' );
}

sub _spin {
    my ($spin) = @_;
    return 0                 if $spin eq 'auto';
    return _SPIN_OFF()       if $spin eq 'off';
    return _SPIN_DEDICATED() if $spin eq 'dedicated';
    Carp::croak("Nearcall->new: spin is auto, off or dedicated, not $spin");
}

sub _plain_tcp {
    my ($plain) = @_;
    return 0               if $plain eq 'warn';
    return _NO_PLAIN_TCP() if $plain eq 'refuse';
    Carp::croak("Nearcall->new: plain_tcp is warn or refuse, not $plain");
}

sub _json_booleans {
    my ($booleans) = @_;
    return 0 if $booleans eq 'perl';
    Carp::croak("Nearcall->new: booleans is json or perl, not $booleans") if $booleans ne 'json';
    _load('JSON/PP/Boolean.pm');
    return 1;
}

# Perl would not try again what has died halfway, as of a hook in @INC, nor what that needs.
sub _require {
    my ($file) = @_;
    my %failed = map { $_ => 1 } grep { $_ ne $file && !defined $INC{$_} } keys %INC;
    delete $INC{$file} unless defined $INC{$file};    ## no critic (RequireLocalizedPunctuationVars)
    my $error = _failure_of($file) // return;
    delete @INC{ grep { !defined $INC{$_} && !$failed{$_} } keys %INC };
    die $error;
}

# No block around it, which a hook could leave by last.
sub _failure_of {
    my ($file) = @_;
    local ( $@, $SIG{__DIE__} );
    return eval { require $file; 1 } ? undef : $@;
}

# A number as C's uint32_t, into which others would be cut.
sub _number32 {
    my ( $name, $number ) = @_;
    my $digits = "$number";    # once, should it have code
    Carp::croak("$name is $digits: it is out of range")
        unless $digits =~ /\A[0-9]+\z/ && $digits <= 0xFFFF_FFFF;
    return $digits;
}

# The ids as an array of C's uint32_t, which is how they are handed over.
sub _user_ids {
    my ($users) = @_;
    return '' unless defined $users;
    Carp::croak('Nearcall->new: server_users is a reference to an array of users')
        unless ref $users eq 'ARRAY';
    return pack 'L*', map { _user_id($_) } _copied($users);
}

# For code of a value's own, which may change the list: perl does not hold what map walks.
sub _copied {
    my ($list) = @_;
    my @own;
    push @own, $_ for @$list;
    return @own;
}

sub _user_id {
    my ($user) = @_;
    my $name = defined $user ? "$user" : 'undef';
    return _number32( 'Nearcall->new: a user of server_users', $name ) if $name =~ /\A[0-9]+\z/;
    # Behind a NUL getpwnam would see nothing.
    my $id = defined $user && $name !~ /\0/ ? getpwnam $name : undef;
    Carp::croak("Nearcall->new: there is no user $name") unless defined $id;
    return $id;
}

# Without it AUTOLOAD would be asked. What must be freed is freed by magic.
sub DESTROY { }

1;

__END__

=encoding utf-8

=head1 NAME

Nearcall - call functions of a Go program on this machine as if they were your own

=head1 SYNOPSIS

    use Nearcall;

    my $go = Nearcall->new( 'unix:/run/demo/nearcall.sock', timeout => 1.5 );

    print $go->ack( 2, 3 );                        # a method for every function
    print $go->call( greet => { name => 'Ada' } ); # or by name
    my ( $quotient, $rest ) = $go->divmod( 7, 2 ); # several results

    my $ack = $go->function('ack');                # for loops
    print $ack->( 1, $_ ) for 1 .. 10;

    my $slow = $go->begin( sleep => 200 );         # without waiting
    print $go->upper('meanwhile');
    print $slow->wait;

    my $sum = eval { $go->with( timeout => 0.05 )->add( 1, 2 ) };
    if ( my $error = $@ ) {
        warn $error if $error->is('DEADLINE_EXCEEDED');
        try_again() if $error->not_executed;
    }

=head1 DESCRIPTION

A Nearcall server is a program, usually written in Go, that offers functions on a socket. This module calls them. The
server describes its functions, and values are sent as that description says: C<"10"> arrives as a number where the
function takes a number and as text where it takes text, bytes stay bytes and characters stay characters, and a number
that does not fit is refused before anything is sent.

A handle works across C<fork>: each process gets a connection of its own when it makes
its first call, and no process disturbs another's, not even at exit. The module starts no
threads and installs no signal handlers; yours run while a call waits.

=head1 CONSTRUCTOR

=head2 new

    my $go = Nearcall->new( $address, %options );

The address is C<unix:/path>, C<unix:@name> (with C<allow_abstract>), C<tcp:host:port>, C<tls:host:port>: see L</TLS>,
or C<embed:/path/of/library.so>: see L</GO IN THE SAME PROCESS>. It may have several endpoints, such as
C<unix:/run/shop.sock | tls:b:7000,c:7000>, of which a call uses the nearest one that works; F<docs/guides/endpoints.md>
says how. Nothing is connected before the first call. C<new>
throws a L<Nearcall::Error> for an address that it cannot understand and for a library that cannot be loaded, and
croaks for an option that does not exist. The options are:

=over 4

=item timeout => $seconds

How long a call may take in all: to encode its arguments, connect, send, and wait. Fractions are
allowed, and C<'inf'> means no limit. The default is 30.

=item connect_timeout => $seconds

Bounds the time that a call may spend on connecting. By default only the call's own timeout does.

=item name => $text

The name by which this program introduces itself, for the server's log.

=item attempts => $number

How many times a call is sent in all, as long as it was certainly not executed, for example while a
server is being replaced. The default is 3; with 1 it is never sent again. Sending a call whose arguments
were encoded anew, because another server describes its function differently, counts too.

=item calls_in_flight_max => $number

How many calls of C<begin> may be unfinished, or finished and neither waited for nor returned by
C<process>. The default is 1024, the most is 16384. Further calls fail with C<RESOURCE_EXHAUSTED>, not
executed. Calls that the server does not accept at once wait in line, within their deadlines.

=item frame_bytes_max => $bytes, value_bytes_max => $bytes

C<frame_bytes_max> is the size of the largest reply that is accepted: by default 4 MiB, at most 16777215 bytes. The server
has a limit of its own for requests (in Go C<server.WithFrameBytesMax>). With C<value_bytes_max>, larger requests and replies,
up to so many bytes and 1 GiB, travel on local sockets through files in memory, if C<server.WithValueBytesMax> allows it.

=item server_users => [ $user, ... ]

Further users, by name or id, as which the server may run, besides root, this
process's own user and the owner of the directory with the socket.

=item any_server_user => 1

Accepts a server that runs as any user.

=item allow_abstract => 1

Accepts C<unix:@name>. Any user of the machine can take such a name.

=item nonblocking => 1

For event loops: C<begin> and C<process> never wait. A handle has one connection. When its server
stops, calls that are begun after that wait until those in flight are answered, and then go to the
next server. Put slow calls on a handle of their own if they must not hold up others.

=item shared_memory => 0

Makes all calls go over the socket, as C<?shm=off> at the end of the address does. By default a busy
connection on this machine uses memory that it shares with the server. That changes nothing but the
speed: results are copies, and a forked child gets memory of its own.

=item spin => 'auto'

How to wait on shared memory. C<auto> looks at it for some microseconds before it sleeps if that is faster, C<off>
sleeps at once, and C<dedicated> never sleeps. With C<dedicated> a signal does not end a wait: Perl's handlers run
when the reply has come or the timeout has passed. C<?spin=off> and C<?spin=dedicated> at the end of the address do
the same. If an option and the address differ, the one that switches more off wins.

=item tls_authorities => $path, tls_certificate => $path, tls_key => $path, tls_server_name => $host

For C<tls:>, see L</TLS>.

=item silence => $seconds

For C<tcp:> and C<tls:>: from 0.1 to 300 seconds. A server from which nothing comes for so long while a call waits, although it
is asked for a sign of life, is taken for gone. A function may take longer, because its server answers meanwhile. By default
only a server that leaves bytes unanswered for 30 seconds is taken for gone, or, if the address has several endpoints, one that is silent for a
second. C<?silence=MILLISECONDS> at the end of the address does the same.

=item plain_tcp => 'warn'

What is done about C<tcp:> to another machine, where everybody on the way can read and change what is sent. C<refuse>
makes such calls fail with C<FAILED_PRECONDITION> before anything is sent. With C<warn>, the default, they are made, and the first
warns, as C<warn> does. C<?plain=quiet> at the end of the address says that the way is safe.

=item booleans => 'json'

What results of type C<bool> are, and true and false within C<any>. With C<json>, the default, they
are objects of L<JSON::PP::Boolean>, as JSON modules make them, which print as 1 and 0 and which every
JSON module writes as C<true> and C<false>. With C<perl> they are Perl's own true and false. Only Perl
5.36 and later, and only recent JSON modules, know that those are not numbers.

=item block_signals => 1

For C<embed:>. Makes signals wait while a function runs in this process, because Go's stacks have no
room for handlers like Perl's. That is done anyway, for each call, while C<%SIG> has a handler. Set the
option for a handler that C<%SIG> does not show, because a module has installed it in C, without
C<SA_ONSTACK>, after the library was loaded. It costs two system calls for each call.

=back

=head1 CALLING

=head2 call

    my $result  = $go->call( $name => @arguments );
    my @results = $go->call( $name => @arguments );

Calls a function and returns its results. A function with one result returns it. A function without results returns
the empty list, or C<undef> in scalar context. A function with several results returns them as a list, or in scalar
context as a reference to an array. C<call> throws a L<Nearcall::Error> when the call fails.

The first call of a function takes one more round trip, to ask the server for its description.

=head2 Proxies

    my $result = $go->ack( 2, 3 );

Every function of the server is a method, unless its name begins with an underscore or is that of one of this module's
own methods. These are the ones that this page names, and C<AUTOLOAD>, C<DESTROY>, C<can>, C<DOES>, C<import>, C<isa>,
C<unimport> and C<VERSION>. Use C<call> for such functions, and for those with a dot in their name.

=head2 function

    my $ack = $go->function('ack');
    my $result = $ack->( 2, 3 );

Returns a function as a code reference, for code that calls it often or passes it on. The reference keeps
the handle open, and has the timeout of the object that it was made from. Nothing is sent before it is first
called. C<< $ack->begin( 2, 3 ) >> does not wait, like L</begin>.

=head2 call_raw

    my $bytes = $go->call_raw( $name => $bytes );

Calls a function that takes and returns bytes, without asking for its description.

=head2 with

    my $quick = $go->with( timeout => 0.5 );

Returns the same handle with another timeout, or with metadata and other options for its calls: see
L<Nearcall::CallOptions>. This is cheap enough to do it for a single call.

=head2 ping

    my $seconds = $go->ping;

Asks the server for a sign of life and returns how long the answer took.

=head2 connect

Connects now, to find out early whether there is a server. It is optional.

=head2 disconnect

Drops the connection. The next call opens another one.

=head2 close

Closes the handle for all objects that share it. The handle is also closed when the last of them goes out of scope.

=head2 transport

    print $go->transport;

How calls travel at present: C<shared memory>, C<unix socket>, C<tcp>, C<tls>, C<same process>, or the
empty string if there is no connection.

=head2 endpoint

    print $go->endpoint;

The endpoint that the handle is connected to, as the address has it, or the empty string if there is no connection. It
matters for an address that has several.

=head2 server_process_id

The process id of the server, as the server states it; 0 if there is no connection.

=head1 SEVERAL CALLS IN FLIGHT

=head2 begin

    my $call = $go->begin( $name => @arguments );

Sends a call and returns without waiting. At most C<calls_in_flight_max> calls may be unfinished on a
handle. Replies come in any order. The module does not send such a call again after C<UNAVAILABLE>.

If the server was replaced by one that describes the function differently, the call is encoded once more,
provided that its arguments are plain scalars. If there are references among them, whose data you may
change again once C<begin> has returned, the call ends with C<ABORTED>, not executed, and may be begun
anew. With C<nonblocking>, the first call of a function is encoded only when its description has arrived:
do not change its data until the call is over.

The returned object has these methods:

=over 4

=item $call->ready

Whether the call is over. It does not wait.

=item $call->wait

Waits for the call, and returns or throws as C<call> does. You may use it more than once: the list of
results, or the error, is new each time, but references in it lead to the same data. Code that runs for an
argument dies if it waits for the call that it is an argument of.

=item $call->cancel

Gives the call up, which also happens when the object goes out of scope. The outcome is
C<not executed> if the function was still being looked up, and C<unknown> otherwise.

=item $call->error

The L<Nearcall::Error> of a call that is over and has failed, otherwise C<undef>.

=back

=head1 EVENT LOOPS

With C<< nonblocking => 1 >> nothing waits. In any loop, watch C<fd> for C<events>, for at most
C<timeout>, and then call C<process>. C<fd> and C<events> stay the same; ask for C<timeout> again
after each C<begin>, C<process> and C<cancel>.

    my $call = $go->begin( ack => 2, 3 );
    until ( $call->ready ) {
        my ( $read, $write ) = ( '', '' );
        if ( ( my $fd = $go->fd ) >= 0 ) {
            vec( $read,  $fd, 1 ) = 1 if $go->events & POLLIN;
            vec( $write, $fd, 1 ) = 1 if $go->events & POLLOUT;
        }
        select $read, $write, undef, $go->timeout;
        $go->process;
    }
    print $call->wait;

The constants come from L<IO::Poll>. L<EV>, L<AnyEvent> and other loops take the number of a
descriptor. If a loop wants a file handle, do not give it one that closes the descriptor.

=head2 fd

The number of the descriptor to watch. A handle has one for as long as it lives, whatever happens to
its connections. A forked child must ask for it before it waits.

=head2 events

What to watch the descriptor for: C<POLLIN>, as the number of L<poll(2)>.

=head2 timeout

The number of seconds after which C<process> should be called even if nothing happens, or C<undef> for never.

=head2 process

    my @finished = $go->process;

Reads, writes, and ends calls whose time is over, without waiting. Returns the objects of calls that
are over and were not returned before, or their number in scalar context.

=head1 VALUES

    description        Perl
    bool               anything, by its truth; JSON::PP's and \1, \0 too. Returned: JSON::PP's
    int8 ... uint64    a whole number or a string of one; anything else is refused
    float32, float64   a number or a string of one
    string             characters; numbers are printed
    bytes              bytes; a string with a character above 255 is refused
    time               seconds since 1970, an object with an epoch method, or text
                       of RFC 3339, as 2026-01-31T12:00:00Z
    duration           seconds
    any                the value as Perl sees it
    file               a handle, a glob, or an object with a fileno method. Returned: a handle
    connection         the same for a connected TCP socket. Returned: an IO::Socket::IP
    list               a reference to an array
    map, struct        a reference to a hash
    optional           the value, or undef

=over 4

=item Lists of numbers

They travel as one block if the server takes blocks, so they are cheap to receive. To send one that C<pack> has made,
or a module such as PDL keeps in memory, without a scalar for each element, pass a L<Nearcall::Packed>. With
C<< $go->with( packed => 1 ) >>, results are such strings as well.

=item Strings

Text is returned as characters. Print it through an C<:encoding(UTF-8)> layer, like any text. If a
function takes C<string>, decode your input first.

=item Whole numbers

Whole numbers have their full range. They do not pass through floating point, not even if they are
written as C<"1e3"> or C<"5.0">. Text that the program has used as a number is still read as text.

=item Floating point

A number that is written as text, or is an object that reads as text, like those of Math::BigFloat, is
accepted if there is a float64 that, written out, is the same number. One with more digits, such as
C<"0.10000000000000001">, is refused; send C<0 + $text> if these digits do not matter. So is a number that
is too large or too small, such as C<"1e400"> and C<"1e-400">, and a whole number that is not a float64, such
as C<9007199254740993>. For C<any>, a Math::BigFloat is refused. Infinity is sent if the program has it. Text
that the program has used as a number is still looked at as text.

=item Maps

The keys of a map are text or whole numbers, in any form of a number. Two keys that are the same number, such
as C<1> and C<"01">, are refused, and so is a tied hash that returns a key twice.

=item Times and durations

These are numbers, with the 53 bits of a number: a time of our years is exact to a quarter of a microsecond, and
a duration below 100 days to 2 nanoseconds. A time can also be text of RFC 3339, as
C<2026-01-31T12:00:00.123456789Z>, which is exact, and refused if it has digits below a nanosecond. For an object, its methods C<epoch> and, if there is one,
C<nanosecond> are called: those of L<Time::Piece>, L<DateTime>, and their like.

=item Structs

A field that is missing from a hash has the zero value of its type, so C<{}> is the struct of zero values. A key
that is not a field is refused, by name, before anything is sent. The rules for objects are stricter. Every field
that is not optional must be one of the object's keys, even if its hash is tied, or have a method of that name.
Keys that are not fields must begin with an underscore. Methods that every class has, such as C<import> and
C<VERSION>, count only if the object's own class defines them.

=item Objects with TO_JSON

As with JSON modules, such an object stands for what its method TO_JSON returns, where a C<list>, C<map>,
C<struct> or C<any> is wanted, or if the object has no overloading. An object with C<epoch> is a time.

=item Any

References to arrays and hashes, C<undef>, numbers, strings, true and false are sent as such. What was made as a
string stays one, even if it was used as a number since. Before Perl 5.36 a number that was printed counts as a
string, and only the booleans of JSON::PP are recognised. Strings are sent as text. A reference to a scalar is a
boolean if the scalar is 1, 0 or a boolean; any other, such as C<\"text">, is refused.

=item Files and connections

These are passed on open, to and from servers on this machine that allow it. The function gets a duplicate, so you
may close yours at any time; both share the position in the file. What Perl has buffered for writing is written
first. What Perl has read ahead of you is given back if the file can be positioned; if it cannot, use C<sysread>.
What a decoding layer such as C<:encoding(UTF-8)> has taken in is not given back: use C<sysseek> to go to the place
where the function is to begin. After passing a connection on, do not use it any more. Handles that you get are
blocking, as others are, and are closed when you drop them.

=item Shared variables

Variables of L<threads::shared> are sent like others, value by value. C<lock> them if other threads may change them.

=item Tied variables and overloaded objects

Their code is called once for each value. If the server was replaced by one that describes the function differently,
what a tied argument has returned is encoded again. With other code among the arguments the call ends with
C<ABORTED>, not executed, and can be made anew.

The code may use the handle whose call it is an argument of only if it belongs to a tied argument itself, not to
something inside one. If it changes the arguments, or the containers in which it lies, that comes too late: the
values that were there before are sent. Other containers whose turn has not come are sent as they are by then,
because nothing is copied deeply. The code runs within the time of the call, and nothing else ends it. It may die,
but not leave by C<last>, C<next> or C<goto>.

=back

=head1 ERRORS

A call that fails throws a L<Nearcall::Error>, which has a code, says whether the function ran, and turns into a
string with the file and line of the call. Mistakes in the use of this module, such as an option that does not
exist or a handle that was closed, croak with a plain string.

=head1 SIGNALS

Perl runs the program's signal handlers while a call waits, and between the values of its arguments. A signal that
arrived just before the wait is handled at most 20 ms late. The call then goes on with its deadline. A handler may
die, as in the usual

    my $result = eval {
        local $SIG{ALRM} = sub { die "too late\n" };
        alarm 2;
        $go->ack( 3, 10 );
    };
    alarm 0;

The handle can be used afterwards, and the call that was left is cancelled. If a handler makes a call through the
same handle, the call that it has interrupted fails with C<CANCELLED>. So use another handle in signal handlers.
Perl runs handlers of L<POSIX/sigaction> at once, in the middle of the library, unless they have
C<< $action->safe(1) >>. If one dies there, the handle closes its connection when it is next used, and opens another:
calls of C<begin> that had been sent then fail with C<UNAVAILABLE>, outcome unknown. If one calls through the handle
that it has interrupted, it gets C<MISUSE>, not executed.

=head1 FORK AND THREADS

A handle that was opened before C<fork> works in parent and child. The child's first call opens a connection of its
own. Whatever the child does with objects that it has inherited, even if it drops them or exits, nothing is sent on the
parent's connection. Calls in flight are the parent's: in the child, waiting throws C<UNAVAILABLE>, outcome unknown.

A new thread (L<threads>, or mod_perl under a threaded MPM) has copies of all objects, which open a connection of
their own when they are first used. No thread disturbs another's. Calls in flight belong to the thread that began them;
waiting for a copy throws C<UNAVAILABLE>, outcome unknown. In another thread, L<Nearcall::Handoff> objects are C<undef>.

=head1 GO IN THE SAME PROCESS

    my $go = Nearcall->new('embed:/srv/app/libdemo.so');

C<new> loads a Go library that was built by C<nearcall build>. Quick functions then run in this process, at the price
of a function call. Functions that have proved to be slow, and calls of C<begin>, go over a socket within the process.
All methods and errors are the same, and C<transport> is C<same process>.

Children that are forked later call the process that loaded the library, through the same handle or through one that
they open for the same file, and see the same state. So open the handle before the fork and keep the process alive:
when it ends, calls of its children fail with C<UNAVAILABLE>. A daemon must open the handle when it has become one.
With C<?children=own> at the end of the address, a process without a loaded library loads its own at its first call.

A process can load only one Go library, whose runtime brings threads, and never unloads it. C<%SIG> works as usual,
but while a function runs in this process signals wait.

=head1 TLS

    my $go = Nearcall->new(
        'tls:shop.example.com:7000',
        tls_authorities => '/etc/shop/ca.pem',
        tls_certificate => '/etc/shop/worker.pem',
        tls_key         => '/etc/shop/worker.key',
    );

C<tls:> is TCP with TLS 1.3. C<tls_authorities> is a PEM file with the authorities of which one has signed the server's
certificate; without it, those that the system trusts. C<tls_certificate> and C<tls_key> are this program's own, for a
server that asks who calls; without C<tls_key> the key is in the
file of the certificate. The key must not need a passphrase. C<tls_server_name> is for whom the server's certificate
has to be made out, if that is not the host of the address. The four can also stand in the address, as
C<?ca=PATH&cert=PATH&key=PATH&name=HOST>. Files that change are read again before the next connection.

A server that is not accepted, or that does not accept this program, is an error with the code C<UNAUTHENTICATED>, not
executed. C<new> loads OpenSSL 3 (C<libssl.so.3>) for such an address, and fails with C<INVALID_ARGUMENT> if it is
missing. L<Net::SSLeay> may be used beside it. A program with threads that uses OpenSSL in several of them must not fork
workers: a child could wait for ever for a lock of OpenSSL.

=head1 SEE ALSO

L<Nearcall::Error>, L<Nearcall::Codes>, L<Nearcall::CallOptions>, L<Nearcall::Handoff>, L<Nearcall::Resident>

=head1 LICENSE

Apache License, Version 2.0.

=cut
