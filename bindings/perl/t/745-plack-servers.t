use strict;
use warnings;

# Real web servers of Perl: prefork ones, whose workers share a handle that was opened and used
# before they were forked, and Twiggy, which has many requests under way in one process.

use Test::More;
use File::Temp ();
use FindBin ();
use lib "$FindBin::Bin/lib";
use HttpLoad qw(free_port answers);
use POSIX ();
use TestServer;
use TestTools qw(stops wait_until);

my $server = TestServer->start;
my $directory = File::Temp->newdir( 'nearcall-perl-XXXXXXXX', TMPDIR => 1 );
alarm 300;

my %application = (
    waiting => <<'PSGI',
use Nearcall;
my $go = Nearcall->new( $ENV{ADDRESS}, timeout => 20 );
$go->one;
sub { return [ 200, [ 'Content-Type' => 'text/plain' ], [ $go->sum( 40, 2 ) ] ] };
PSGI
    event_loop => <<'PSGI',
use AnyEvent;
use Nearcall;
my $go = Nearcall->new( $ENV{ADDRESS}, timeout => 20, nonblocking => 1 );
my ( %answers, $watch, $timer );

sub turn {
    for my $call ( $go->process ) { ( delete $answers{$call} )->[1]->() }
    my $due = $go->timeout;
    $timer = defined $due ? AnyEvent->timer( after => $due, cb => \&turn ) : undef;
}

sub {
    return sub {
        my ($respond) = @_;
        $watch //= AnyEvent->io( fh => $go->fd, poll => 'r', cb => \&turn );
        my $call = $go->begin( sleep => 42 );
        $answers{$call} = [ $call, sub { $respond->( [ 200, [ 'Content-Type' => 'text/plain' ], [ $call->wait ] ] ) } ];
        turn();
    };
};
PSGI
);

sub start_plack {
    my ( $name, $application, $port, @arguments ) = @_;
    my $path = "$directory/$application.psgi";
    open my $file, '>', $path or die "$path: $!";
    print {$file} $application{$application};
    close $file or die "$path: $!";
    my $pid = fork // die "fork: $!";
    return $pid if $pid;
    setpgrp;
    $ENV{ADDRESS} = $server->address;
    exec $^X, ( map {"-I$_"} @INC ), '-MPlack::Runner', '-e',
        'my $r = Plack::Runner->new; $r->parse_options(@ARGV); $r->run', '--',
        '-s', $name, '-E', 'deployment', '--host', '127.0.0.1', '--port', $port, @arguments, $path
        or POSIX::_exit(127);
}

my @servers = (
    [ 'Twiggy',  'event_loop', 150 ],
    [ 'Starman', 'waiting',    20, '--workers', 4 ],
    [ 'Starlet', 'waiting',    20, '--max-workers', 4 ],
);
for (@servers) {
    my ( $name, $application, $at_a_time, @arguments ) = @$_;
    my $port = free_port();
    my $pid = start_plack( $name, $application, $port, @arguments );
    ok( wait_until { answers($port) }, "$name answers" );
    my %came = HttpLoad::run( port => $port, requests => 300, at_a_time => $at_a_time );
    is_deeply( \%came, { '200 42' => 300 }, "300 of 300 requests, $at_a_time at a time" );
    ok( stops($pid), "$name ends" );
}

done_testing;
