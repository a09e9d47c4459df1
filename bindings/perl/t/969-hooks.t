use strict;
use warnings;

# Code of the program's that runs where perl itself does something for the encoder: handlers of warnings,
# and the truth of what overload.pm is given as fallback. Lists of options are walked as arguments are.

use Test::More;
use FindBin ();
use lib "$FindBin::Bin/lib";
use TestServer;
use TestTools qw(error_of in_child);
use Hostile qw(text litter);

use Encode ();
use Hash::Util ();
use Hash::Util::FieldHash qw(fieldhash);
use Scalar::Util qw(reftype);
use mro ();

use Nearcall;

my $server = TestServer->start;
my $go;

# What a block returns in a child, which may crash, with a handle of its own.
sub outcome(&) {
    my ($block) = @_;
    return in_child {
        alarm 120;
        $go = Nearcall->new( $server->address, timeout => 30 );
        $go->identity('');
        $go->greet( {} );
        my $said = eval { $block->() };
        return $said // ( ref $@ ? $@->name . ' ' . $@->outcome_text : "died: $@" );
    };
}

my $refused = 'INVALID_ARGUMENT not executed';
{
    package Hostile::Plain;
    our @ISA = ('Hostile::Plain::Parent');
    sub Hostile::Plain::Parent::TO_JSON { return 'data' }
}

# Classes that inherit from one that nobody has loaded: perl warns of that where it looks for a method.
my $orphans = 0;

sub orphan {
    my ($content) = @_;
    my $class = 'Orphan' . ++$orphans;
    no strict 'refs';
    @{"${class}::ISA"} = ('Never::Loaded');
    return bless $content // {}, $class;
}

subtest 'handlers of warnings, where a method is looked up' => sub {
    my %drops = (
        'drops the container' => sub { my ($container) = @_; reftype $container eq 'HASH' ? %$container = () : ( @$container = () ) },
        'closes the handle'   => sub { $go->close },
    );
    for my $what ( sort keys %drops ) {
        my $sends = sub {
            my ( $container, $name ) = @_;
            return outcome {
                local $SIG{__WARN__} = sub { $drops{$what}->($container); litter() };
                $go->$name($container);
                return 'sent';
            };
        };
        is( $sends->( [ orphan(), map { "text $_" } 1 .. 50 ], 'identity' ), $refused, "$what: a list" );
        is( $sends->( { o => orphan(), map { $_ => "text $_" } 1 .. 50 }, 'identity' ), $refused, "$what: a map" );
        is( $sends->( { name => orphan(), tags => ['x'] }, 'greet' ), $refused, "$what: a struct" );
        is( $sends->( orphan( { name => 'Ada', tags => ['x'] } ), 'greet' ), $refused, "$what: an object" );
    }
};

# Perl asks them for their text where it searches the class as C3 does, for any method.
subtest 'objects and tied variables in @ISA' => sub {
    my $does = sub { };
    no strict 'refs';
    no warnings;
    local $SIG{__WARN__} = sub { };
    @Named::By::Object::ISA = ( text( sub { $does->(); 'Never::Loaded' } ) );
    @Named::By::Tie::ISA    = ('Never::Loaded');
    Hostile::tied_value( $Named::By::Tie::ISA[0], sub { $does->(); 'Never::Loaded' } );
    @Named::By::Parent::ISA = ('Named::By::Object');
    for my $class ( map {"Named::By::$_"} qw(Object Tie Parent) ) {
        mro::set_mro( $class, 'c3' );
        *{"${class}::TO_JSON"} = sub {'data'};
        *{"${class}::age"} = sub {7};
        my %sends = (
            'a list'    => sub { my $list = [ bless( [], $class ), map {"text $_"} 1 .. 2000 ]; $does = sub { undef @$list; litter() }; $go->identity($list) },
            'a map'     => sub { my $map = { map { $_ => bless [], $class } 1 .. 50 }; $does = sub { undef %$map; litter() }; $go->by_number($map) },
            'a struct'  => sub { my $person = { name => bless( [], $class ), tags => ['x'] }; $does = sub { undef %$person; litter() }; $go->greet($person) },
            'an object' => sub { my $person = bless { name => 'Ada', tags => ['x'] }, $class; $does = sub { undef %$person; litter() }; $go->greet($person) },
            'truth'     => sub { $does = sub { $go->close; litter() }; $go->kinds( bless( [], $class ), 0, 0, 0, 0, 0, 0, '', '' ) },
        );
        for my $what ( sort keys %sends ) {
            is( outcome { $sends{$what}->(); 'sent' }, $refused, "$what, $class" );
        }
    }
    # What has died has left perl without a list of the classes, so it searches when it is next asked for one.
    my $kept;    # because perl searches for what it frees, too
    for my $name ( 'echo_numbers', 'transpose' ) {
        is( outcome {
            mro::set_mro( 'Named::Late', 'c3' );
            my $list = bless [], 'Named::Late';
            $kept = $name eq 'transpose' ? [ $list, map { [ 1, 2 ] } 1 .. 50 ] : $list;
            $does = sub { die "not yet\n" };
            eval { @Named::Late::ISA = ( text( sub { $does->(); 'Never::Loaded' } ) ) };
            $does = sub { @$kept = (); litter(); die "the class was searched\n" };
            $go->$name($kept);
            return 'sent';
        }, $refused, "in place of a list of numbers, $name" );
    }
    is( outcome { $does = sub { }; ref $go->identity( [ bless {}, 'Hostile::Plain' ] ) }, 'ARRAY', 'names are what classes have there' );
};

subtest 'handlers of warnings, where a key only claims to hold characters' => sub {
    my $key = "\xC3A";
    Encode::_utf8_on($key);
    is( outcome {
        local $SIG{__WARN__} = sub { $go->close; litter() };
        $go->greet( { name => 'Ada', $key => 1 } );
    }, $refused, 'of a hash' );
    is( outcome {
        fieldhash my %hash;
        %hash = ( name => 'Ada', $key => 1 );
        local $SIG{__WARN__} = sub { %hash = (); litter() };
        $go->greet( \%hash );
    }, $refused, 'of a hash with magic' );
};

subtest 'an object as fallback of overloading' => sub {
    { package Hostile::Sum; our $truth = bless [], 'Hostile::Fallback'; use overload '+' => sub { 1 }, fallback => $truth }
    {
        package Hostile::Fallback;
        our ( $does, $is_asked );
        use overload 'bool' => sub { $is_asked = 1; $does->() if $does; 1 };
    }
    { no strict 'refs'; ${'Hostile::Sum::()'} = $Hostile::Sum::truth }
    for my $name ( 'identity', 'greet' ) {
        is( outcome {
            my $object = bless {}, 'Hostile::Sum';
            my $list = [ $object, map { "text $_" } 1 .. 50 ];
            $Hostile::Fallback::does = sub { @$list = (); undef $object; litter() };
            my $said = error_of { $go->$name( $name eq 'greet' ? { name => 'Ada', tags => $list } : $list ) };
            return 'not asked' if !$Hostile::Fallback::is_asked;
            return $said->name . ' ' . $said->outcome_text;
        }, $refused, $name );
    }
};

{
    package Hostile::Evaluates;
    sub DESTROY { eval { 1 } }
}

# As in destructors that were written before perl kept the exception from them.
subtest 'destructors that clear the exception' => sub {
    my %refuses = (
        'dies'               => sub { die "of its own\n" },
        'is refused'         => sub { [] },
        'calls by the handle' => sub { $_[0]->begin('one'); 'text' },
    );
    for my $what ( sort keys %refuses ) {
        like( outcome {
            my $loop = Nearcall->new( $server->address, timeout => 30, nonblocking => 1 );
            my $list;
            $list = [ text( sub { @$list = (); $refuses{$what}->($loop) } ), bless [], 'Hostile::Evaluates' ];
            my $call = $loop->begin( identity => $list );
            $loop->process until $call->ready || !defined $loop->timeout;
            return $call->ready ? $call->error : 'never over';
        }, qr/\A(?:of its own|identity: INVALID_ARGUMENT: )/, "code that $what" );
    }
};

subtest 'lists of options' => sub {
    is( outcome {
        my @values;
        @values = ( text( sub { @values = (); litter(); 'first' } ), map { "value$_" } 1 .. 3 );
        return $go->with( metadata => { key => \@values } )->metadata_seen;
    }, ' map["key":["first" "value1" "value2" "value3"]] []', 'metadata' );
    is( outcome {
        my @users;
        @users = ( text( sub { @users = (); litter(); 'root' } ), 'daemon' );
        return Nearcall->new( $server->address, server_users => \@users )->one;
    }, 1, 'users' );
    is( outcome {
        my ( $steps, %metadata ) = ( 0, map { +"key$_" => $_ } 1 .. 3 );
        while ( my ($key) = each %metadata ) {
            $go->with( metadata => \%metadata )->one;
            last if ++$steps > 3;
        }
        return $steps;
    }, 3, 'a walk through metadata goes on' );
    is( outcome {
        my %metadata = ( a => 1, b => 2 );
        Hash::Util::lock_keys(%metadata);
        delete $metadata{b};
        return $go->with( metadata => \%metadata )->metadata_seen;
    }, ' map["a":["1"]] []', 'a restricted hash' );
};

subtest 'a variable for metadata that has become read-only' => sub {
    my %ways = (
        call  => sub { $_[0]->count },
        begin => sub { $_[0]->begin('count')->wait },
    );
    for my $way ( sort keys %ways ) {
        is( outcome {
            my $metadata = 'as it was';
            my $view = $go->with( reply_metadata => \$metadata );
            Internals::SvREADONLY( $metadata, 1 );
            my $before = $go->count;
            return join ' ', $ways{$way}->($view) - $before, $metadata;
        }, '1 as it was', $way );
    }
};

done_testing;
