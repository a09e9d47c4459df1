package Hostile;

# Values whose own code runs while they are encoded, and does what it likes.

use strict;
use warnings;

use Exporter 'import';

our @EXPORT_OK = qw(text truth list_of hash_of tied_value tied_list tied_hash litter);

{
    package Hostile::Text;
    use overload '""' => sub { $_[0]{code}->( $_[0] ) }, fallback => 1;
}
{
    package Hostile::Truth;
    use overload 'bool' => sub { $_[0]{code}->( $_[0] ) }, fallback => 1;
}
{
    package Hostile::List;
    use overload '@{}' => sub { $_[0]->() }, fallback => 1;
}
{
    package Hostile::Hash;
    use overload '%{}' => sub { $_[0]->() }, fallback => 1;
}
{
    package Hostile::TiedValue;
    sub TIESCALAR { my ( $class, $code ) = @_; return bless { code => $code }, $class }
    sub FETCH { return $_[0]{code}->() }
}
{
    package Hostile::TiedList;
    sub TIEARRAY { my ( $class, %code ) = @_; return bless {%code}, $class }
    sub FETCHSIZE { return $_[0]{size}->() }
    sub FETCH { return $_[0]{fetch}->( $_[1] ) }
}
{
    package Hostile::TiedHash;
    sub TIEHASH { my ( $class, %code ) = @_; return bless {%code}, $class }
    sub FIRSTKEY { return $_[0]{next}->() }
    sub NEXTKEY  { return $_[0]{next}->( $_[1] ) }
    sub EXISTS   { return 1 }
    sub FETCH    { return $_[0]{fetch}->( $_[1] ) }
}

sub text    { my ($code) = @_; return bless { code => $code }, 'Hostile::Text' }
sub truth   { my ($code) = @_; return bless { code => $code }, 'Hostile::Truth' }
sub list_of { my ($code) = @_; return bless $code, 'Hostile::List' }
sub hash_of { my ($code) = @_; return bless $code, 'Hostile::Hash' }

# Ties a variable, which is given as an alias.
sub tied_value { tie $_[0], 'Hostile::TiedValue', $_[1]; return }

sub tied_list { my (%code) = @_; tie my @list, 'Hostile::TiedList', %code; return \@list }
sub tied_hash { my (%code) = @_; tie my %hash, 'Hostile::TiedHash', %code; return \%hash }

# Takes what was freed just now into use again, so that who still reads it is seen to.
sub litter {
    our @litter = map { ( "litter $_" x 3, [$_], { $_ => "litter $_" } ) } 1 .. 100;
    return;
}

1;
