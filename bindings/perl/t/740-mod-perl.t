use strict;
use warnings;

# The real Apache with mod_perl: one handle, opened when the server starts, is used by all
# its children and all their threads.

use Test::More;
use File::Temp ();
use FindBin ();
use lib "$FindBin::Bin/lib";
use HttpLoad qw(free_port answers);
use POSIX ();
use TestServer;
use TestTools qw(is_bounded leads stops wait_until);

my $server = TestServer->start;
my $modules = '/usr/lib/apache2/modules';
is_bounded('Apache');

sub write_file {
    my ( $path, $text ) = @_;
    open my $file, '>', $path or die "$path: $!";
    print {$file} $text;
    close $file or die "$path: $!";
    return;
}

sub configure {
    my ( $directory, $model, $port ) = @_;
    my $include = join "\n", map {"PerlSwitches -I$_"} @INC;
    write_file( "$directory/startup.pl", <<"PERL" );
package Application;
use Apache2::RequestIO ();
use Apache2::RequestRec ();
use Nearcall;
our \$go = Nearcall->new( '@{[ $server->address ]}', timeout => 20 );
our \$ack = \$go->function('ack');
\$go->one;
sub handler {
    my (\$request) = \@_;
    \$request->content_type('text/plain');
    \$request->print( join ' ', \$go->sum( 40, 2 ), \$ack->( 2, 3 ) );
    return 0;
}
\$INC{'Application.pm'} = __FILE__;
1;
PERL
    write_file( "$directory/httpd.conf", <<"CONF" );
ServerName localhost
ServerRoot $directory
PidFile $directory/pid
ErrorLog $directory/errors
Listen 127.0.0.1:$port
LoadModule mpm_${model}_module $modules/mod_mpm_$model.so
LoadModule authz_core_module $modules/mod_authz_core.so
LoadModule perl_module $modules/mod_perl.so
StartServers 2
$include
PerlRequire $directory/startup.pl
SetHandler perl-script
PerlResponseHandler Application
CONF
    return;
}

for my $model (qw(event prefork)) {
    subtest "mod_perl under the $model MPM" => sub {
        my $directory = File::Temp->newdir( 'nearcall-perl-XXXXXXXX', TMPDIR => 1 );
        my $port = free_port();
        configure( $directory, $model, $port );
        my $pid = fork // die "fork: $!";
        if ( !$pid ) {
            setpgrp;    # it ends its whole group
            exec '/usr/sbin/apache2', '-D', 'FOREGROUND', '-f', "$directory/httpd.conf" or POSIX::_exit(127);
        }
        leads($pid);
        ok( wait_until { answers($port) }, 'Apache answers' );
        my %came = HttpLoad::run( port => $port, requests => 300, at_a_time => 20 );
        is_deeply( \%came, { '200 42 9' => 300 }, '300 of 300 requests' );
        ok( stops($pid), 'Apache ends' );
        open my $errors, '<', "$directory/errors" or die "errors: $!";
        is( join( '', grep {/\[perl:/} readline $errors ), '', 'and no error' );
    };
}

done_testing;
