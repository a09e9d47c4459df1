use strict;
use warnings;

# Makes the distribution, unpacks it elsewhere, builds it from what is inside, and
# runs its tests: what a user of CPAN does.

use Test::More;
use Cwd qw(getcwd);
use File::Copy ();
use File::Find ();
use File::Temp ();

use CPAN::Meta;
use Test::Kwalitee ();

my $here = getcwd();
die "run this in the build folder: tools/test-perl does\n" unless -f 'Makefile';

sub run {
    my ($command) = @_;
    my $output = `( $command ) 2>&1`;
    ok( $? == 0, $command ) or diag $output;
    return $output;
}

run('make dist');
my ($archive) = glob 'Nearcall-*.tar.gz';
ok( $archive, 'there is an archive' ) or BAIL_OUT('no archive');

my $elsewhere = File::Temp->newdir;
File::Copy::copy( $archive, "$elsewhere/$archive" ) or die "copy: $!";
unlink $archive, 'MANIFEST' or die "unlink: $!";
chdir $elsewhere or die "chdir: $!";
run("tar xf $archive");
( my $name = $archive ) =~ s/\.tar\.gz\z//;
chdir $name or die "chdir $name: $!";

ok( -e $_, "it holds $_" )
    for qw(LICENSE MANIFEST META.json META.yml Changes README Makefile.PL typemap
    lib/Nearcall/Codes.pm libnearcall/include/nearcall.h t/lib/TestServer.pm);
ok( ( grep { -s } glob 'libnearcall/src/*/*.c' ), 'and the C client' );

my $missing = join "\n", grep { !-e } map { /\A(\S+)/ } do { open my $list, '<', 'MANIFEST' or die; readline $list };
is( $missing, '', 'all that MANIFEST lists is there' );

my %listed = map { /\A(\S+)/ ? ( $1 => 1 ) : () } do { open my $list, '<', 'MANIFEST' or die; readline $list };
my @unlisted;
File::Find::find( { no_chdir => 1, wanted => sub { -f and push @unlisted, s{\A\./}{}r } }, '.' );
is( join( "\n", grep { !$listed{$_} } @unlisted ), '', 'and all that is there is listed' );

my $meta = eval { CPAN::Meta->load_file('META.json') };
ok( $meta, 'META.json is valid' ) or diag $@;
is( ( $meta->license )[0], 'apache_2_0', 'licence' );
is( $meta->version, 'v0.1.0', 'version' );
ok( $meta->resources->{repository}, 'where the source is' );

Test::Kwalitee::kwalitee_ok(qw(-has_separate_license_file -use_strict));

{
    delete local $ENV{NEARCALL_TESTSERVER};
    delete local $ENV{PERL5LIB};
    run("$^X Makefile.PL");
    run('make -j2');
    like( run('make test'), qr/Result: PASS/, 'tests without a server pass' );
    run("make install DESTDIR=$elsewhere/root");
}
chdir $here;

done_testing;
