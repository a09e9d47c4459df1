# A web application that calls Go in every request.
use v5.26;
use warnings;

use Nearcall;

my $address = $ENV{NEARCALL_ADDRESS} // die "NEARCALL_ADDRESS is not set, as unix:/tmp/hello/nearcall.sock\n";

# Once, before Starlet forks. Each worker gets a connection of its own when it
# first calls; this one remains the parent's. With an embed: address the parent
# loads the library here, and the workers call the parent.
my $go = Nearcall->new($address, timeout => 2, name => 'prefork-perl');
print STDERR $go->greet('parent'), "\n";

my $application = sub {
    my ($env)  = @_;
    my $page   = $env->{PATH_INFO};
    my $status = 200;
    my $text   = eval { sprintf "%s Visit %d, served by %d.\n", $go->greet($page), $go->visit($page), $$ };
    if (!defined $text) {
        # The error says what went wrong and whether the function ran.
        $env->{'psgi.errors'}->print("nearcall error: $@");
        ($status, $text) = (503, "Go does not answer.\n");
    }
    utf8::encode($text);
    return [$status, ['Content-Type' => 'text/plain', 'Content-Length' => length $text], [$text]];
};
