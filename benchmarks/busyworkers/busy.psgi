# The same for Starlet.
use strict;
use warnings;

sub {
    my ($env) = @_;
    my ($ms) = $env->{PATH_INFO} =~ /([0-9]+)/;
    select undef, undef, undef, $ms / 1000 if $ms;
    return [ 200, [ 'Content-Length' => 5 ], ["here\n"] ];
};
