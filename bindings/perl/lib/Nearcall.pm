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
    timeout connect_timeout name attempts frame_bytes_max
    server_users any_server_user allow_abstract nonblocking
    shared_memory spin block_signals booleans calls_in_flight_max
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
        ( map { _number32( "Nearcall->new: $_", $option{$_} // 0 ) } qw(frame_bytes_max attempts calls_in_flight_max) ),
        _user_ids( $option{server_users} ),
        defined $option{name} ? "$option{name}" : undef,
        _json_booleans( $option{booleans} // 'json' ),
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

sub _flags {
    my ($option) = @_;
    my $flags = 0;
    $flags |= _ALLOW_ABSTRACT()  if $option->{allow_abstract};
    $flags |= _ANY_SERVER_USER() if $option->{any_server_user};
    $flags |= _NONBLOCKING()     if $option->{nonblocking};
    $flags |= _BLOCK_SIGNALS()   if $option->{block_signals};
    $flags |= _NO_SHARED_MEMORY() unless $option->{shared_memory} // 1;
    return $flags | _spin( $option->{spin} // 'auto' );
}

sub _spin {
    my ($spin) = @_;
    return 0                 if $spin eq 'auto';
    return _SPIN_OFF()       if $spin eq 'off';
    return _SPIN_DEDICATED() if $spin eq 'dedicated';
    Carp::croak("Nearcall->new: spin is auto, off or dedicated, not $spin");
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
    return pack 'L*', map { _user_id($_) } @$users;
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

A Nearcall server is a program, in Go as a rule, that offers functions on a
socket. This module calls them. The server describes its functions, and values
travel as that description says: C<"10"> arrives as a number where a number is
wanted and as text where text is wanted, bytes stay bytes and characters
characters, and a number that does not fit is refused before anything is sent.

A handle works across C<fork>: each process gets a connection of its own when it
first calls, and no process disturbs another's, not even at exit. It has no
threads, and it installs no signal handlers; yours run while a call waits.

=head1 CONSTRUCTOR

=head2 new

    my $go = Nearcall->new( $address, %options );

The address is C<unix:/path>, C<unix:@name> (with C<allow_abstract>),
C<tcp:host:port>, or C<embed:/path/of/library.so>: see L</GO IN THE SAME PROCESS>.
Nothing is connected before the first call. Throws a L<Nearcall::Error> for an
address that cannot be understood and for a library that cannot be loaded, and
croaks for an option that does not exist. The options:

=over 4

=item timeout => $seconds

How long a call may take in all: encoding its arguments, connecting, sending, waiting. Fractions are
fine, C<'inf'> means no limit. Default: 30.

=item connect_timeout => $seconds

Bounds connecting within a call. Default: only the call's own timeout does.

=item name => $text

What this program calls itself, for the server's log.

=item attempts => $number

How often a call that was certainly not executed is sent in all, as while a server is replaced. Default: 3; with 1
it is never sent again. Arguments that are encoded anew, when a server has come that takes others, are sent anew, too.

=item calls_in_flight_max => $number

How many calls of C<begin> may be unfinished, or finished and neither waited for nor returned by
C<process>. Default: 1024, at most 16384. More fail with C<RESOURCE_EXHAUSTED>, not executed.
What a server does not take at once waits in line within its deadline.

=item frame_bytes_max => $bytes

The largest reply that is accepted. Default: 4 MiB, at most 16777215 bytes. The server has a limit
of its own for requests, the same by default (in Go C<server.WithFrameBytesMax>).

=item server_users => [ $user, ... ]

Further users, by name or id, that the server may run as, besides root, this
process's own user and the owner of the socket's directory.

=item any_server_user => 1

Talks to a server of any user.

=item allow_abstract => 1

Accepts C<unix:@name>. Any user of the machine can take such a name.

=item nonblocking => 1

For event loops: C<begin> and C<process> never wait. A handle has one connection: when its
server stops, calls that are begun then wait until those in flight are answered, and go
to the next server after that. Slow calls hold up no others on a handle of their own.

=item shared_memory => 0

Calls over the socket only, as C<?shm=off> behind the address. Otherwise a busy
connection on this machine uses memory that it shares with the server, which changes
nothing but the speed: results are copies, and a forked child gets memory of its own.

=item spin => 'auto'

How to wait for shared memory: C<auto> looks at it for some microseconds before
it sleeps where that is faster, C<off> sleeps at once, C<dedicated> never sleeps.
With C<dedicated> a signal does not end a wait: Perl's handlers run when the reply
has come or the timeout has passed. C<?spin=off> and C<?spin=dedicated> behind the
address are the same. Of an option and an address, what switches more off wins.

=item booleans => 'json'

What results of type C<bool>, and true and false within C<any>, are: with C<json>, the
default, objects of L<JSON::PP::Boolean>, as JSON modules make them, which print as 1 and 0
and which every JSON module writes as C<true> and C<false>. With C<perl> they are perl's own
true and false, of which only perl 5.36 and later know that they are no numbers, and only
recent JSON modules.

=item block_signals => 1

For C<embed:>. Signals wait while a function runs in this process, since Go's stacks
have no room for handlers like Perl's. That is done anyway, in each call, while C<%SIG>
has a handler; say it for a handler that C<%SIG> does not show, because a module installed
it in C after the library was loaded and without C<SA_ONSTACK>. The price is two system
calls a call.

=back

=head1 CALLING

=head2 call

    my $result  = $go->call( $name => @arguments );
    my @results = $go->call( $name => @arguments );

Calls a function and returns its results. A function with one result returns
it; one with none returns the empty list, C<undef> in scalar context; one with
several returns them as a list, in scalar context as a reference to an array.
Throws a L<Nearcall::Error> when the call fails.

The first call of a function asks the server for its description: one round
trip more.

=head2 Proxies

    my $result = $go->ack( 2, 3 );

Every function of the server is a method, unless its name is one of this
module's own methods, which are all that this page names, or C<AUTOLOAD>,
C<DESTROY>, C<can>, C<DOES>, C<import>, C<isa>, C<unimport>,
C<VERSION>, or begins with an underscore. Such functions, and those with a dot
in their name, are reached by C<call>.

=head2 function

    my $ack = $go->function('ack');
    my $result = $ack->( 2, 3 );

A function as a code reference, for places that call it often or hand it on.
It keeps the handle open and the timeout of the object it was made from. Nothing
is sent before it is first called. C<< $ack->begin( 2, 3 ) >> does not wait, as L</begin>.

=head2 call_raw

    my $bytes = $go->call_raw( $name => $bytes );

Calls a function of bytes to bytes without asking for its description.

=head2 with

    my $quick = $go->with( timeout => 0.5 );

The same handle with another timeout. Cheap: make one for one call.

=head2 ping

    my $seconds = $go->ping;

Asks the server for a sign of life and returns how long it took.

=head2 connect

Connects now, to find out early whether a server is there. Optional.

=head2 disconnect

Drops the connection; the next call opens another.

=head2 close

Closes the handle for every object that shares it. It is also closed when the
last of them goes out of scope.

=head2 transport

    print $go->transport;

How calls travel now: C<shared memory>, C<unix socket>, C<tcp>, C<same process>, or
the empty string when there is no connection.

=head2 server_process_id

The server's process id as it says itself; 0 when not connected.

=head1 SEVERAL CALLS IN FLIGHT

=head2 begin

    my $call = $go->begin( $name => @arguments );

Sends a call and returns without waiting. At most 1024 calls may be unfinished on
a handle. Replies come in any order. A call that is sent this way is not sent again by itself
after C<UNAVAILABLE>. Where a server has come that describes the function otherwise it is encoded
once more, if its arguments are plain scalars; with references among them, whose data are yours again
when C<begin> has returned, it ends C<ABORTED>, not executed, and may be begun anew. With
C<nonblocking> the first call of a function is encoded when its description has come: leave its
data alone until it is over. The returned object has these methods:

=over 4

=item $call->ready

Whether the call is over. Does not wait.

=item $call->wait

Waits for the call, and returns or throws as C<call> does. It can be asked again: the list of
results, or the error, is new each time, and references in it lead to the same data. An argument's
own code cannot wait for the call that it is an argument of; that dies.

=item $call->cancel

Gives the call up. That happens by itself when the object goes out of scope. The outcome is
C<not executed> while its function was still looked up, and unknown otherwise.

=item $call->error

The L<Nearcall::Error> of a call that is over and failed, else C<undef>.

=back

=head1 EVENT LOOPS

With C<< nonblocking => 1 >> nothing waits: watch C<fd> for C<events>, for
C<timeout> at most, then C<process>, in any loop. C<fd> and C<events> stay; ask for C<timeout>
again after each C<begin>, C<process> and C<cancel>.

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

The constants come from L<IO::Poll>. L<EV>, L<AnyEvent> and other loops take the number of
a descriptor as it is; a loop that wants a file handle must not be given one that closes
the descriptor.

=head2 fd

The number of the descriptor to watch: one for the life of the handle, whatever becomes of
its connections. A child of a fork asks before it waits.

=head2 events

What to watch it for: C<POLLIN>, C<POLLOUT> or both, as numbers of L<poll(2)>.

=head2 timeout

The seconds until C<process> is due even if nothing happens; C<undef>: never.

=head2 process

    my @finished = $go->process;

Reads, writes, and times calls out, without waiting. Returns the objects of
calls that are over and were not returned before; in scalar context how many.

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

=item Strings

Text comes back as characters. Print it through an C<:encoding(UTF-8)> layer, as
any text. Where a function takes C<string>, decode your input first.

=item Whole numbers

Have their full range: no detour through floating point, also where they are written as
C<"1e3"> or C<"5.0">. Text that the program has used as a number is read as text all the same.

=item Floating point

A number that is written as text, or is an object that reads as such, as Math::BigFloat's, is sent
where the float64, written out, is that number again. One with more digits, as
C<"0.10000000000000001">, is refused (send C<0 + $text> if they do not matter), and so is one that
is too large or too small, as C<"1e400"> and C<"1e-400">, and a whole number that no float64 is, as
C<9007199254740993>. For C<any> a Math::BigFloat is refused. Infinity is sent where the
program has it. Text that the program has used as a number is looked at as text all the same.

=item Maps

Keys of a map are text or whole numbers, in any form of a number. Two keys that are the same number,
as C<1> and C<"01">, are refused, and so is a tied hash that gives a key twice.

=item Times and durations

Are numbers, so they have a number's 53 bits: a time of these years is exact to
a quarter of a microsecond, a duration below 100 days to 2 nanoseconds. Of objects,
C<epoch> and, where there is one, C<nanosecond> are asked: L<Time::Piece>,
L<DateTime>, and their like.

=item Structs

A field that a hash leaves out has the zero value of its type, so C<{}> is the struct of
zero values. A key that is no field is refused, by name, before anything is sent. An object
is looked at more strictly: every field must be one of its keys, also where its hash is tied, or be
answered by the method of that name, unless the field is optional; its other keys must begin with an
underscore. Methods that every class has, as C<import> and C<VERSION>, count where its own class
defines them.

=item Objects with TO_JSON

Are what that method returns, as with JSON modules, where a C<list>, C<map>, C<struct> or
C<any> is wanted, or where the object does not overload. An object with C<epoch> is a time.

=item Any

References to arrays and hashes, C<undef>, numbers, strings, true and false are sent
as such. What was made as a string remains one, even if it was used as a number
since; before Perl 5.36 a number that was printed counts as a string, and only
JSON::PP's booleans are seen as booleans. Strings are sent as text. A reference to a scalar
is a boolean if that is 1, 0 or a boolean; another, as C<\"text">, is refused.

=item Files and connections

Are passed on open, to and from servers on this machine that allow it. The function gets a
duplicate, so close yours when you like; both share the position in the file. What
Perl has buffered is written before, and what it has read ahead of you is given back where
the file can be positioned; where it cannot, use C<sysread>. What a layer that decodes, as
C<:encoding(UTF-8)>, has taken to decode it is not: C<sysseek> to where the function is to begin. A connection that you pass on is
no longer yours to use. What you get blocks, as other handles do, and is closed when you drop it.

=item Shared variables

Of L<threads::shared> are sent as others are, value by value: C<lock> what other threads change
meanwhile.

=item Tied variables and overloaded objects

Are asked once: where a server has come that describes the function otherwise, what a tied
argument gave is encoded again, and with other code among the arguments the call ends C<ABORTED>, not
executed, and can be made anew. Their code may use the handle that it is
an argument for only if it is a tied argument itself, not one deeper inside. What it changes of the
arguments, and of the containers that it lies in, comes too late: the values that were there before
are sent. Containers beside it whose turn has not come are sent as they are then, because
nothing is copied deeply. It runs on the call's time, and is ended by nothing else: it may die, but
not leave by C<last>, C<next> or C<goto>.

=back

=head1 ERRORS

A failed call throws a L<Nearcall::Error>: it has a code, says whether the function
ran, and stringifies with the file and line of the call. Mistakes in using this
module, such as an option that does not exist or a handle that was closed, croak with
a plain string.

=head1 SIGNALS

Perl runs the program's signal handlers while a call waits, also for a signal that came just
before (20 ms later at most), and between the values of its arguments. The call goes on with the deadline it had. A handler may die, as in the usual

    my $result = eval {
        local $SIG{ALRM} = sub { die "too late\n" };
        alarm 2;
        $go->ack( 3, 10 );
    };
    alarm 0;

and the handle can be used afterwards; the call that was left is cancelled. A handler that
calls through the same handle makes the call that it interrupted fail with C<CANCELLED>: give
handlers a handle of their own.

=head1 FORK AND THREADS

A handle that was opened before C<fork> works in parent and child. The child's first call
opens the child's own connection. What the child does with objects it inherited, letting them go
and exiting included, sends nothing on the parent's connection. Calls that were in flight belong to
the parent; waiting for one in the child throws C<UNAVAILABLE>, outcome unknown.

A new thread (L<threads>, or mod_perl under a threaded MPM) has copies of all objects, which open
a connection of their own when they are first used; no thread disturbs another's. Calls that
were in flight belong to the thread that began them; waiting for a copy throws C<UNAVAILABLE>, outcome
unknown. L<Nearcall::Handoff> objects stay with their thread: in another they are C<undef>.

=head1 GO IN THE SAME PROCESS

    my $go = Nearcall->new('embed:/srv/app/libdemo.so');

C<new> loads a Go library, made by C<nearcall build>, and quick functions run in this process
at the price of a function call. Functions that have proved slow, and C<begin>, go over a socket
within the process. All methods and errors are the same, and C<transport> is C<same process>.

Children that are forked later call the process that loaded the library, by the same handle or one
they open for the same file, and all see one state. So open it before the fork, and stay alive: when
that process ends, calls of its children fail with C<UNAVAILABLE>. A program that makes itself a
daemon opens the handle when it has done so. With C<?children=own> behind the address the library is
loaded at the first call instead, by each process that had no loaded library when it was forked.

A process can load one Go library, and never lets go of it. With it come the threads of the
Go runtime. C<%SIG> works as without it; while a function runs in this process, signals wait.

=head1 SEE ALSO

L<Nearcall::Error>, L<Nearcall::Codes>

=head1 LICENSE

Apache License, Version 2.0.

=cut
