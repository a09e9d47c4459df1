use strict;
use warnings;

# The real Starlet serves connections that were handed over, asked by the real curl.

use Test::More;
use File::Temp ();
use FindBin ();
use lib "$FindBin::Bin/lib";
use POSIX ();
use TestGiver;
use TestTools qw(wait_until);

my $directory = File::Temp->newdir( 'nearcall-perl-XXXXXXXX', TMPDIR => 1 );
alarm 300;

my $application = "$directory/app.psgi";
open my $file, '>', $application or die "$application: $!";
print {$file} <<'PSGI';
sub {
    my ($env) = @_;
    my $length = 0;
    if ( $env->{CONTENT_LENGTH} ) {
        while ( my $read = $env->{'psgi.input'}->read( my $buffer, 65536 ) ) { $length += $read }
    }
    if ( $env->{PATH_INFO} eq '/copy' ) {
        my $copy = fork // die "fork: $!";
        return [ 200, [], ["kept by $copy"] ] if $copy;
        sleep 30;    # with a copy of the connection
        kill 'KILL', $$;
    }
    select undef, undef, undef, 0.05 if $env->{PATH_INFO} eq '/slow';
    my $text = join ' ', $env->{PATH_INFO}, $env->{REMOTE_ADDR}, $env->{REMOTE_PORT} > 0, $length, $$,
        $env->{'nearcall.connection'}->name;
    return [ 200, [ 'Content-Type' => 'text/plain', 'Content-Length' => length $text ], [$text] ];
};
PSGI
close $file or die "$application: $!";

sub start_plack {
    my (@arguments) = @_;
    my $pid = fork // die "fork: $!";
    return $pid if $pid;
    exec $^X, ( map { "-I$_" } @INC ), '-MPlack::Runner', '-e',
        'my $r = Plack::Runner->new; $r->parse_options(@ARGV); $r->run', '--',
        '-s', 'Nearcall', '-E', 'deployment', @arguments, $application
        or POSIX::_exit(127);
}

sub stop { kill 'TERM', $_[0]; waitpid $_[0], 0; return $? }

sub curl {
    my (@arguments) = @_;
    open my $run, '-|', 'curl', '--silent', '--show-error', '--max-time', 30, @arguments or die "curl: $!";
    local $/;
    return scalar readline $run;
}

for my $prefix ( 0, 10, 40 ) {
    subtest "a prefix of $prefix bytes" => sub {
        my $pid = start_plack( '--handoff', "unix:$directory/worker-%n.sock", '--max-workers', 3,
            '--max-keepalive-reqs', 10 );
        my @sockets = map { "unix:$directory/worker-$_.sock" } 1 .. 3;
        ok( wait_until { !grep { !-S s/\Aunix://r } @sockets }, 'every worker listens' );
        my $giver = TestGiver->start( addresses => \@sockets, prefix => $prefix, name => 'shop' );
        my $body = "$directory/body";
        open my $out, '>', $body or die "$body: $!";
        print {$out} 'x' x 300_000;
        close $out or die "$body: $!";
        like( curl( $giver->url . '/get' ), qr{\A/get 127\.0\.0\.1 1 0 [0-9]+ shop\z}, 'GET' );
        like( curl( '--data-binary', "\@$body", $giver->url . '/post' ), qr{\A/post 127\.0\.0\.1 1 300000 }, 'POST' );
        like( curl( '-H', 'Transfer-Encoding: chunked', '--data-binary', "\@$body", $giver->url . '/chunked' ),
            qr{\A/chunked 127\.0\.0\.1 1 300000 }, 'chunked' );
        my $two = curl( '--verbose', '--stderr', '-', map { $giver->url . "/$_" } 'a', 'b' );
        like( $two, qr/Re-using existing connection/, 'a second request by the same connection' );
        like( $two, qr{/b 127\.0\.0\.1}, 'is answered' );
        my %workers;
        my @runs = map {
            open my $run, '-|', 'curl', '--silent', '--max-time', 30, $giver->url . '/slow' or die "curl: $!";
            $run
        } 1 .. 12;
        for my $run (@runs) {
            my ( undef, undef, undef, undef, $worker ) = split / /, readline($run) // '';
            $workers{ $worker // 'none' }++;
        }
        ok( !$workers{none}, 'many at once are all answered' );
        is( scalar keys %workers, 3, 'by every worker' );
        is( stop($pid), 0, 'it ends well' );
    };
}

subtest 'one address' => sub {
    my $address = "unix:$directory/only.sock";
    my $pid = start_plack( '--handoff', $address, '--max-workers', 1 );
    my $giver = TestGiver->start( addresses => [$address] );
    like( curl( $giver->url . '/x' ), qr{\A/x }, 'GET' );
    my $client = $giver->connect;
    my $began = time;
    syswrite $client, "GET /copy HTTP/1.0\r\n\r\n";
    my $answer = do { local $/; readline $client };
    cmp_ok( time - $began, '<', 20, 'a connection that another process has a copy of ends' );
    my ($copy) = $answer =~ /kept by ([0-9]+)/;
    ok( $copy && kill( 'KILL', $copy ), 'and it had one' );
    is( stop($pid), 0, 'it ends well' );
};

subtest 'workers that end leave nothing unanswered' => sub {
    my $pid = start_plack( '--handoff', "unix:$directory/short-%n.sock", '--max-workers', 2, '--max-reqs-per-child', 3 );
    my $giver = TestGiver->start( addresses => [ map { "unix:$directory/short-$_.sock" } 1 .. 2 ] );
    my $answered = grep { curl( $giver->url . "/$_" ) =~ m{\A/$_ } } 1 .. 30;
    is( $answered, 30, 'thirty requests to workers of three each' );
    is( stop($pid), 0, 'it ends well' );
};

subtest 'workers that are killed' => sub {
    my $pid = start_plack( '--handoff', "unix:$directory/kill-%n.sock", '--max-workers', 2 );
    my $giver = TestGiver->start( addresses => [ map { "unix:$directory/kill-$_.sock" } 1 .. 2 ] );
    for ( 1 .. 5 ) {
        my ($worker) = curl( $giver->url . '/k' ) =~ m{\A/k \S+ \S+ \S+ ([0-9]+)};
        ok( $worker && kill( 'KILL', $worker ), 'one is killed' );
        wait_until { !kill 0, $worker };
        like( curl( $giver->url . '/after' ), qr{\A/after }, 'the next request is served' );
    }
    is( stop($pid), 0, 'it ends well' );
};

done_testing;
