#!/usr/bin/perl
# Testee for the Perl binding: a command a line on stdin, an answer a line on
# stdout. conformance/README.md describes the protocol.
use strict;
use warnings;

use JSON::PP ();
use Nearcall ();

my $json = JSON::PP->new->ascii->canonical->allow_nonref;
my $go;

my %commands = (
    connect => sub {
        my ($command) = @_;
        $go = Nearcall->new(
            $command->{address},
            attempts        => $command->{attempts_max},
            frame_bytes_max => $command->{frame_bytes_max},
        );
        return {};
    },
    call => sub {
        my ($command) = @_;
        my $handle = $go->with( timeout => $command->{timeout_ms} / 1000 );
        if ( $command->{codec} eq 'raw' ) {
            my $data = $handle->call_raw( $command->{name}, pack 'H*', $command->{payload_hex} );
            return { payload_hex => unpack 'H*', $data };
        }
        return { value => scalar $handle->call( $command->{name}, @{ $command->{arguments} } ) };
    },
    ping => sub {
        my ($command) = @_;
        $go->with( timeout => $command->{timeout_ms} / 1000 )->ping;
        return {};
    },
    close => sub {
        $go->close if $go;
        undef $go;
        return {};
    },
);

sub answer {
    my ($command) = @_;
    my $result = eval { $commands{ $command->{do} }->($command) };
    return { ok => JSON::PP::true, %$result } if $result;
    my $error = $@;
    die $error unless ref $error && $error->isa('Nearcall::Error');
    return {
        ok      => JSON::PP::false,
        code    => $error->name,
        outcome => $error->outcome_text,
        message => $error->message,
    };
}

# Hex digits need no escapes, and JSON::PP takes its time with megabytes.
sub encode {
    my ($answer) = @_;
    return $json->encode($answer) unless defined $answer->{payload_hex};
    return qq({"ok":true,"payload_hex":"$answer->{payload_hex}"});
}

local $| = 1;
while ( my $line = <STDIN> ) {
    print encode( answer( $json->decode($line) ) ), "\n";
}
