# The functions of package shop as a program in Perl calls them. What they are given is the same in
# ../gocaller/shop.go.
package Shop;
use v5.26;
use warnings;

use JSON::PP ();
use List::Util qw(sum);
use Nearcall::Packed;

use constant {PICTURE_BYTES => 30 << 10, BEGIN_S => 1_793_534_400, BETWEEN_S => 1.5}; # 2026-11-01T12:00:00Z

sub order {
    my @lines = map { +{sku => 'sku-' . (1000 + $_), quantity => 1 + 2 * $_, unit_cents => 199 + 100 * $_, weight_kg => 0.25 * (1 + $_)} } 0 .. 7;
    return {customer => 'c-1042', country => 'DE', lines => \@lines, coupon => {code => 'WINTER10', percent => 10}};
}

sub session {
    return {
        user => 'u-1042', visits => 41, basket => ['sku-1000', 'sku-1004'], pages => ['/', '/lamps'],
        preferences => {currency => 'EUR', newsletter => JSON::PP::true}, theme => 'dark', score => 0.75, campaign => undef,
    };
}

sub event {
    my ($i) = @_;
    my $kind = (qw(view view search view add))[$i % 5];
    return {kind => $kind, at => BEGIN_S + $i * BETWEEN_S, properties => {page => '/p/' . $i % 4, campaign => 'winter', browser => 'firefox'}};
}

# How each function is called.
my %calls = (
    price => sub {
        my ($go, $order) = ($_[0], order());
        return sub { $go->call(price_order => $order) };
    },
    search => sub {
        my ($go) = @_;
        return sub { $go->call(search => 'Blue Oak', 20) };
    },
    session => sub {
        my ($go, $session) = ($_[0], session());
        return sub { $go->call(visit => $session, '/lamps/17') };
    },
    events => sub {
        my ($go, $events) = ($_[0], [map { event($_) } 0 .. 19]);
        return sub { $go->call(summarise => $events) };
    },
    thumbnail => sub {
        my ($go, $payload_of) = @_;
        my ($pixels, $options) = ($payload_of->(PICTURE_BYTES), {width => 128, new_width => 32, new_height => 20, grey => 0});
        return sub { $go->call(thumbnail => $pixels, $options) };
    },
    forecast => sub {
        my ($go) = @_;
        my $history = Nearcall::Packed->new('d*', pack 'd*', map { 100.25 + $_ * 37 % 50 } 0 .. 729);
        return sub { $go->call(forecast => $history, 28) };
    },
);

# What all values of an answer come to, and what that has to be.
my %answers = (
    price => [sub { join ' ', sum(map { $_->{cents} } $_[0]{lines}->@*), $_[0]->@{qw(discount_cents shipping_cents tax_cents total_cents)} },
        '41959 4195 9225 8927 55916'],
    search => [sub { join ' ', sum(map { $_->{id} } $_[0]->@*), sum(map { $_->{price_cents} + $_->{rating} + $_->{in_stock} } $_[0]->@*),
            $_[0][0]{name}, $_[0][-1]{tags}->@* }, '2610 198664.5 blue oak box oak table'],
    session => [sub { join ' ', $_[0]{visits}, $_[0]{pages}->@*, $_[0]{basket}->@*, $_[0]{preferences}{currency}, scalar keys $_[0]->%* },
        '42 / /lamps /lamps/17 sku-1000 sku-1004 EUR 8'],
    events => [sub { join ' ', $_[0]{last} - $_[0]{first}, $_[0]{kinds}->@{qw(view search add)}, $_[0]{pages}->@{map {"/p/$_"} 0 .. 3} },
        '28.5 12 4 4 5 5 5 5'],
    thumbnail => [sub { join ' ', length $_[0], unpack '%32C*', $_[0] }, '1920 244194'],
    forecast => [sub { sprintf '%.4f %.4f %.4f %.4f %.4f', $_[0]->@{qw(level trend)}, map { sum($_->@*) } $_[0]->@{qw(expected least most)} },
        '127.3824 0.1557 3629.9089 187.1861 9088.7483'],
);

# An answer that is expected; what another one comes to is compared with it.
package Shop::Answer {
    use overload 'ne' => sub { my ($self, $answer) = @_; return $self->{sum}->($answer) ne $self->{text} }, '""' => sub { $_[0]{text} };
}

# Returns a way to call that function, and what it has to answer.
sub subject {
    my ($name, $go, $payload_of) = @_;
    my ($call, $answer) = ($calls{$name}, $answers{$name});
    die "no function $name, see shop.pl\n" if !$call;
    return ($call->($go, $payload_of), bless {sum => $answer->[0], text => $answer->[1]}, 'Shop::Answer');
}

1;
