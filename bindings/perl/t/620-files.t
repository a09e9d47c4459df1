use strict;
use warnings;

use Test::More;
use FindBin ();
use lib "$FindBin::Bin/lib";
use TestServer;
use TestTools qw(error_of in_child);

use Fcntl qw(F_GETFD FD_CLOEXEC O_NONBLOCK F_GETFL F_SETFL SEEK_SET);
use File::Temp ();
use IO::File ();
use IO::Socket::INET ();

use Nearcall;

my $server = TestServer->start( arguments => ['-files'] );
my $go = Nearcall->new( $server->address, timeout => 10 );

sub file_with {
    my ($text) = @_;
    my $file = File::Temp->new;
    $file->print($text);
    $file->flush;
    seek $file, 0, SEEK_SET;
    return $file;
}

sub descriptors {
    opendir my $directory, '/proc/self/fd' or die "/proc/self/fd: $!";
    return scalar( () = readdir $directory );
}

subtest 'files go' => sub {
    my $file = file_with('in the file');
    is( $go->call( file_read => $file ), 'in the file', 'an object' );
    seek $file, 0, SEEK_SET;
    open my $plain, '<', $file->filename or die $!;
    is( $go->call( file_read => $plain ), 'in the file', 'a handle of open()' );
    open BAREWORD, '<', $file->filename or die $!;
    is( $go->call( file_read => *BAREWORD ),  'in the file', 'a glob' );
    seek BAREWORD, 0, SEEK_SET;
    is( $go->call( file_read => \*BAREWORD ), 'in the file', 'a reference to a glob' );
    seek BAREWORD, 0, SEEK_SET;
    is( $go->call( file_read => *BAREWORD{IO} ), 'in the file', 'an IO object' );
    close BAREWORD;
    {
        package WithFileno;
        sub fileno { fileno $_[0]{handle} }
    }
    seek $plain, 0, SEEK_SET;
    is( $go->call( file_read => bless { handle => $plain }, 'WithFileno' ), 'in the file', 'what has fileno' );
    is( $go->call( file_join => [ map { file_with($_) } qw(a b c) ] ), 'abc', 'several in a list' );
};

subtest 'buffers' => sub {
    my $file = file_with("first line\nsecond line\n");
    is( scalar readline($file), "first line\n", 'one line is read' );
    is( $go->call( file_read => $file ), "second line\n", 'the function goes on behind it' );
    pipe my $reader, my $writer or die $!;
    print {$writer} 'before, ';
    is( $go->call( file_write => $writer, 'and after' ), 9, 'a pipe' );
    close $writer;
    is( do { local $/; readline $reader }, 'before, and after', 'what was printed is there first' );
};

# A layer that runs code when a file is opened with it, or asked for its descriptor.
{
    package PerlIO::via::Hostile;
    our ( $does, $says ) = ( sub { }, sub { 0 } );
    sub PUSHED { my ($class) = @_; $does->(); return bless {}, $class }
    sub FILL { my ( undef, $below ) = @_; return scalar readline $below }
    sub FILENO { return $says->() }
    $INC{'PerlIO/via/Hostile.pm'} = __FILE__;
}

subtest 'layers of the program are code of arguments' => sub {
    is( in_child {
        alarm 60;
        my $own = Nearcall->new( $server->address, timeout => 30 );
        open my $handle, '<:via(Hostile)', $0 or die $!;
        local $PerlIO::via::Hostile::says = sub { $own->close; 0 };
        return error_of { $own->call( file_bundle => { name => 'a', file => $handle } ) }->message;
    }, 'argument 1 (bundle), "file": its own code used the handle that it is an argument for; compute the value before the call',
        'one that closes the handle' );
};

subtest 'layers of the program are not those of what comes' => sub {
    use open IO => ':via(Hostile)';
    my $asked = 0;
    local $PerlIO::via::Hostile::does = sub { $asked++; $go->call( echo => 'x' x 100_000 ) };
    open my $own, '<', $0 or die $!;
    is( $asked, 1, 'open() has them' );
    my ( $file, $bytes ) = $go->call( file_with => 50_000 );
    is( $bytes =~ tr/\0//c, 0, 'what comes beside a file is what it was' );
    is( length $bytes, 50_000, 'all of it' );
    $go->call('file_pipe');
    is( $asked, 1, 'no code runs while a result is read' );
};

subtest 'files come' => sub {
    my $file = file_with('opened there');
    my $got = $go->call( file_open => $file->filename );
    is( ref $got, 'GLOB', 'a handle' );
    is( $got->fileno, fileno $got, 'with methods' );
    ok( fcntl( $got, F_GETFD, 0 ) & FD_CLOEXEC, 'close-on-exec' );
    is( do { local $/; readline $got }, 'opened there', 'its text' );
    my ( $reader, $writer ) = $go->call('file_pipe');
    print {$writer} 'both ends';
    close $writer;
    ok( !( fcntl( $reader, F_GETFL, 0 ) & O_NONBLOCK ), 'it blocks' );
    is( do { local $/; readline $reader }, 'both ends', 'both ends of a pipe' );
    open my $both, '+<', $file->filename or die $!;
    my $same = $go->call( file_same => $both );
    seek $same, 0, SEEK_SET;
    print {$same} 'changed';
    seek $same, 0, SEEK_SET;
    is( scalar readline($same), 'changedthere', 'a file to read and write' );
    my $bundle = $go->call( file_bundle => { name => 'a', file => file_with('x'), spare => file_with('y') } );
    is( $bundle->{name}, 'A', 'a struct with files' );
    is( $bundle->{spare}, undef, 'an optional one that is not there' );
    is( scalar readline( $bundle->{file} ), 'y', 'and one that is' );
};

subtest 'numbers that are no descriptors' => sub {
    our $number;
    { package Own::Number; sub fileno { $main::number } }
    for ( 2**32, 2**32 + 1, -1, 2**31, '4294967296', 0.5, 'three', undef ) {
        $number = $_;
        my $error = error_of { $go->call( file_read => bless {}, 'Own::Number' ) };
        is( $error->name, 'INVALID_ARGUMENT', 'number ' . ( $number // 'undef' ) );
    }
    my $file = file_with('in the file');
    $number = fileno($file) . '';
    is( $go->call( file_read => bless {}, 'Own::Number' ), 'in the file', 'a number as text' );
};

subtest 'connections' => sub {
    my $listener = IO::Socket::INET->new( Listen => 1, LocalAddr => '127.0.0.1' ) or die $@;
    my $made = $go->call( connection_dial => '127.0.0.1:' . $listener->sockport );
    isa_ok( $made, 'IO::Socket::IP', 'a connection' );
    is( $made->peerport, $listener->sockport, 'its peer' );
    my $accepted = $listener->accept;
    $go->call( connection_greet => $accepted, "hello\n" );
    $accepted->close;
    is( scalar readline($made), "hello\n", 'greeted through it' );
    is( scalar readline($made), undef, 'and its end' );
    my $error = error_of { $go->call( connection_greet => file_with(''), 'x' ) };
    is( $error->name, 'INVALID_ARGUMENT', 'a file is no connection' );
    is( $error->outcome_text, 'not executed', 'and nothing ran' );
};

subtest 'refused' => sub {
    for my $wrong ( undef, 1, '/etc/passwd', [], {}, \'x' ) {
        my $error = error_of { $go->call( file_read => $wrong ) };
        is( $error->name, 'INVALID_ARGUMENT', 'no file: ' . ( $wrong // 'undef' ) );
        like( $error->message, qr/argument 1 \(file\): expected file/, 'which says so' );
    }
    my $closed = file_with('');
    close $closed;
    open my $memory, '<', \'text' or die $!;
    for my $none ( $closed, $memory ) {
        my $error = error_of { $go->call( file_read => $none ) };
        is( $error->name, 'INVALID_ARGUMENT', 'no descriptor' );
    }
    my $strict = TestServer->start;
    my $other  = Nearcall->new( $strict->address );
    my $error = error_of { $other->call( identity => \*STDOUT ) };
    is( $error->name, 'INVALID_ARGUMENT', 'any takes no file' );
};

subtest 'in flight' => sub {
    my @calls = map { $go->begin( file_same => file_with("number $_") ) } 1 .. 20;
    is( scalar readline( $calls[ $_ - 1 ]->wait ), "number $_", "call $_" ) for reverse 1 .. 20;
};

subtest 'nothing is left' => sub {
    my $file   = file_with('x');
    my $rounds = sub {
        for ( 1 .. $_[0] ) {
            $go->call( file_same => $file );
            $go->begin( file_same => $file )->cancel;
            error_of { $go->call( file_join => [ $file, $file, 7 ] ) };
            error_of { $go->call( connection_greet => $file, '' ) };
            error_of { $go->call( file_many => 17 ) };
            my @many = @{ $go->call( file_many => 16 ) };
        }
    };
    $rounds->(20);
    my ( $here, $there ) = ( descriptors(), $go->call('descriptors_open') );
    $rounds->(300);
    my $tries = 0;
    while ( $go->call('descriptors_open') > $there && $tries++ < 1000 ) {
        select undef, undef, undef, 0.01;
    }
    cmp_ok( $go->call('descriptors_open'), '<=', $there, 'in the server' );
    is( descriptors(), $here, 'in this process' );
};

subtest 'fork' => sub {
    my $file = file_with("for both\n");
    my $got  = $go->call( file_same => $file );
    my $pid  = fork // die "fork: $!";
    if ( !$pid ) {
        my $own = $go->call( file_same => $got );
        my $ok = readline($own) eq "for both\n";
        require POSIX;
        POSIX::_exit( $ok ? 0 : 1 );
    }
    waitpid $pid, 0;
    is( $?, 0, 'a child passes on what its parent was given' );
    seek $got, 0, SEEK_SET;
    is( scalar readline($got), "for both\n", 'and the parent still has it' );
};

done_testing;
