package Nearcall::Error;

use strict;
use warnings;

use Nearcall::Codes ();

our $VERSION = 'v0.1.0';

use overload
    '""'     => sub { $_[0]->as_string },
    'bool'   => sub { 1 },
    fallback => 1;

sub code     { $_[0]{code} }
sub name     { $_[0]{name} }
sub outcome  { $_[0]{outcome} }
sub function { $_[0]{function} }
sub message  { $_[0]{message} }
sub details  { $_[0]{details} }
sub file     { $_[0]{file} }
sub line     { $_[0]{line} }

sub outcome_text {
    my ($self) = @_;
    return $Nearcall::Codes::OUTCOME_TEXTS{ $self->outcome } // 'unknown';
}

sub is {
    my ( $self, @wanted ) = @_;
    for my $wanted (@wanted) {
        return 1 if $wanted =~ /\A[0-9]+\z/ ? $wanted == $self->code : $wanted eq $self->name;
    }
    return !1;
}

sub not_executed { $_[0]->outcome == Nearcall::Codes::OUTCOME_NOT_EXECUTED() }
sub unknown      { $_[0]->outcome == Nearcall::Codes::OUTCOME_UNKNOWN() }
sub result_lost  { $_[0]->outcome == Nearcall::Codes::OUTCOME_EXECUTED_RESULT_LOST() }
sub executed     { $_[0]->outcome == Nearcall::Codes::OUTCOME_EXECUTED() }

sub as_string {
    my ($self) = @_;
    my $function = $self->function;
    return sprintf '%s%s: %s (%s) at %s line %s.' . "\n",
        defined $function ? "$function: " : '', $self->name, $self->message,
        $self->outcome_text, $self->file, $self->line;
}

sub throw { die $_[0] }

1;

__END__

=encoding utf-8

=head1 NAME

Nearcall::Error - why a call failed, and whether the function ran

=head1 SYNOPSIS

    use Nearcall;

    my $sum = eval { $go->add( 1, 2 ) };
    if ( my $error = $@ ) {
        die $error unless ref $error && $error->isa('Nearcall::Error');
        if    ( $error->not_executed )           { try_again_later() }
        elsif ( $error->is('DEADLINE_EXCEEDED') ) { warn "late: $error" }
        else                                     { die $error }
    }

=head1 DESCRIPTION

Every call that fails throws an object of this class. Its code says what went wrong, and
its outcome says whether the function ran. Test those two; the message is for people and
may change in any version.

As a string the object shows the function, the name of the code, the message, the outcome,
and the file and line of the call:

    ack: OUT_OF_RANGE: m is at most 3 (executed) at worker.pl line 12.

As a boolean it is always true.

=head1 METHODS

=head2 code

The number of the code. L<Nearcall::Codes> lists all of them.

=head2 name

The name of the code, such as C<DEADLINE_EXCEEDED>.

=head2 is

    $error->is('UNAVAILABLE', 'DEADLINE_EXCEEDED')

Whether the code is one of those listed, by name or by number.

=head2 outcome

The number of the outcome: one of the C<OUTCOME_> constants of L<Nearcall::Codes>.

=head2 outcome_text

The outcome in words: C<not executed>, C<unknown>, C<executed, result lost> or
C<executed>.

=head2 not_executed

True if the function did not run and will not run: the call may be made again.

=head2 unknown

True if the function ran once, is running now, or did not run. Only the application
can tell whether the call may be made again.

=head2 result_lost

True if the function ran to its end and its result did not arrive.

=head2 executed

True if the function ran and returned this error itself.

=head2 message

A sentence for people.

=head2 details

A reference to an array of details, each C<[ $type, $value ]>. It is empty if there are
none.

=head2 function

The name of the function that was called, or C<undef> if no call had begun.

=head2 file

The file that contains the call.

=head2 line

The line of the call in that file.

=head2 as_string

Returns the object as a string.

=head2 throw

Dies with the object again, unchanged.

=head1 SEE ALSO

L<Nearcall>, L<Nearcall::Codes>

=head1 LICENSE

Apache License, Version 2.0.

=cut
