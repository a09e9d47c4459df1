use strict;
use warnings;

# Arguments whose own code changes, drops or never ends what is being encoded. Each is
# sent by a child of its own, which shall neither crash nor hang: xt/memory.t runs this file
# again under valgrind, and xt/sanitizers.t with a binding that is compiled for the sanitizers.

use Test::More;
use FindBin ();
use lib "$FindBin::Bin/lib";
use TestServer;
use TestTools qw(error_of in_child);
use Hostile qw(text truth list_of hash_of tied_value tied_list tied_hash litter);

use POSIX ();
use Scalar::Util qw(weaken);
use Time::HiRes qw(time);
use Variable::Magic ();

use Nearcall;

my $server = TestServer->start( arguments => ['-files'] );
my $go;

# What a block returns in a child that has a handle of its own and a minute.
sub outcome(&) {
    my ($block) = @_;
    return in_child {
        alarm 60;
        $go = Nearcall->new( $server->address, timeout => 30 );
        my $said = eval { $block->() };
        return $said // ( ref $@ ? $@->name . ': ' . $@->message : "died: $@" );
    };
}

sub sorted { my ($hash) = @_; return join ' ', map {"$_=$hash->{$_}"} sort keys %$hash }

subtest 'a hash with magic that tells of each key' => sub {
    my %did = (
        'empties it'  => sub { %{ $_[0] } = (); litter() },
        'drops it'    => sub { undef $_[1]{hash}; litter() },
        'deletes'     => sub { delete $_[0]{tags}; litter() },
        'calls'       => sub { $go->upper('another request') },
        'closes'      => sub { $go->close },
        'ends itself' => sub { die "of its own\n" },
    );
    for my $what ( sort keys %did ) {
        my $said = outcome {
            my $held = { hash => { name => 'Ann', age => 7, tags => [ 'x', 'y' ] } };
            my $is_inside = 0;
            my $run = sub { $did{$what}->( $_[0], $held ) if !$is_inside++; $is_inside--; return };
            Variable::Magic::cast( %{ $held->{hash} }, Variable::Magic::wizard( fetch => $run, exists => $run ) );
            return $go->greet( $held->{hash} );
        };
        is( $said, 'Hello, Ann, 7 [x,y]', "code that $what is not run" );
    }
};

subtest 'a hash that is walked while its values run' => sub {
    my %did = (
        'counts its keys' => sub { my @keys = keys %{ $_[0] } },
        'walks it'        => sub { my ($hash) = @_; while ( my ($key) = each %$hash ) { } },
        'empties it'      => sub { %{ $_[0] } = (); litter() },
        'undoes it'       => sub { undef %{ $_[0] }; litter() },
        'deletes from it' => sub { my ($hash) = @_; delete @$hash{ grep { $_ ne 'x' } keys %$hash }; litter() },
        'deletes itself'  => sub { delete $_[0]{x}; litter() },
        'makes it larger' => sub { my ($hash) = @_; $hash->{"new $_"} = $_ for 1 .. 2000; delete $hash->{"new $_"} for 1 .. 2000; litter() },
        'restricts it'    => sub { require Hash::Util; Hash::Util::lock_ref_keys( $_[0] ) },
        'ties it'         => sub { require Tie::Hash; tie %{ $_[0] }, 'Tie::StdHash'; litter() },
    );
    for my $what ( sort keys %did ) {
        my $said = outcome {
            my %hash = map { $_ => $_ } 'a' .. 'h';
            $hash{x} = text( sub { $did{$what}->( \%hash ); 'text' } );
            return sorted( $go->identity( \%hash ) );
        };
        like( $said, qr/\A(?:\w=\w )*x=text\z/, "a value that $what" );
        is( $said, 'a=a b=b c=c d=d e=e f=f g=g h=h x=text', 'nothing is lost' )
            if $what =~ /counts|walks|larger|restricts/;
    }
};

subtest 'the iterator of a hash is its owner\'s' => sub {
    is( outcome {
        my %hash = map { $_ => 1 } 1 .. 50;
        my $seen = 0;
        while ( my ($key) = each %hash ) { $go->identity( \%hash ); last if ++$seen > 50 }
        return $seen;
    }, 50, 'each goes on behind a call' );
    is( outcome {
        my %person = ( name => 'Ada', age => 36 );
        my $seen = 0;
        while ( my ($key) = each %person ) { $go->greet( \%person ); last if ++$seen > 2 }
        return $seen;
    }, 2, 'of a struct' );
    is( outcome {
        my %person = ( name => 'Ada', nmae => 'Ada', aeg => 3 );
        my $seen = 0;
        while ( my ($key) = each %person ) { eval { $go->greet( \%person ) }; last if ++$seen > 3 }
        return $seen;
    }, 3, 'of a struct that is refused' );
};

subtest 'an array that is walked while its elements run' => sub {
    my %did = (
        'empties it'      => sub { @{ $_[0] } = (); litter() },
        'undoes it'       => sub { undef @{ $_[0] }; litter() },
        'shifts it'       => sub { shift @{ $_[0] } for 1 .. 3; litter() },
        'splices it'      => sub { splice @{ $_[0] }, 0, 2, map {"new $_"} 1 .. 5000; litter() },
        'makes it larger' => sub { push @{ $_[0] }, ("new") x 100_000; litter() },
        'sorts it'        => sub { @{ $_[0] } = reverse @{ $_[0] }; litter() },
        'replaces itself' => sub { $_[0][2] = 'new'; litter() },
        'ties it'         => sub { require Tie::Array; tie @{ $_[0] }, 'Tie::StdArray'; litter() },
    );
    my %magic = (
        'without magic'         => sub { },
        'with a weak reference' => sub { weaken( $_[1] = $_[0] ) },
        'with magic of others'  => sub { Variable::Magic::cast( @{ $_[0] }, Variable::Magic::wizard( clear => sub { }, len => sub { 1 } ) ) },
    );
    for my $what ( sort keys %did ) {
        for my $magic ( sort keys %magic ) {
            my $said = outcome {
                my @list = ( 'a', 'b', undef, 'd', [ 'e', 'f' ] );
                $list[2] = text( sub { $did{$what}->( \@list ); 'text' } );
                $magic{$magic}->( \@list, my $reference );
                my $back = $go->identity( \@list );
                return join ' ', map { ref ? "[@$_]" : $_ // 'undef' } @$back;
            };
            is( $said, 'a b text d [e f]', "an element that $what, $magic" );
        }
    }
};

subtest 'containers that are dropped' => sub {
    is( outcome {
        my $outer = { list => [ { deep => [ 1, undef, 'x' x 50 ] }, 'after' ], z => 'last' };
        $outer->{list}[0]{deep}[1] = text( sub { undef $outer; litter(); 'text' } );
        my $back = $go->identity($outer);
        return join ' ', @{ $back->{list}[0]{deep} }[ 0, 1 ], $back->{list}[1], $back->{z};
    }, '1 text after last', 'all of them' );
    is( outcome {
        my $inner = [ undef, 'after' ];
        my $list  = [ list_of( sub { $inner } ), 'end' ];
        $inner->[0] = text( sub { undef $inner; @$list = (); litter(); 'text' } );
        my $back = $go->identity( { a => [ [ 1, 2 ], $list->[1] ] } );
        return join ' ', map { ref ? @$_ : $_ } @{ $go->call( sum => 1, 2 ) ? $back->{a} : [] };
    }, '1 2 end', 'an object that is not asked' );
    is( outcome {
        my $inner = ['a'];
        my $person = { name => 'Ada', tags => list_of( sub { $inner } ) };
        push @$inner, text( sub { undef $inner; undef $person; litter(); 'b' } ), 'c';
        return $go->greet($person);
    }, 'Hello, Ada [a,b,c]', 'a list that an object gave' );
    is( outcome {
        my $person = { age => 1, tags => ['x'] };
        $person->{name} = text( sub { delete @$person{qw(age tags)}; litter(); 'Ada' } );
        return $go->greet($person);
    }, 'Hello, Ada, 1 [x]', 'fields of a struct' );
    is( outcome {
        our $kept = { name => 'Ada', tags => [ undef, 'y' ] };
        my $person = hash_of( sub : lvalue { $kept } );
        $kept->{tags}[0] = text( sub { undef $kept; litter(); 'x' } );
        return $go->greet($person);
    }, 'Hello, Ada [x,y]', 'a hash that was lent' );
};

subtest 'arguments that are dropped' => sub {
    is( outcome {
        my @numbers = ( 1, 20, 300, 4000 );
        unshift @numbers, text( sub { @numbers = (); litter(); 50000 } );
        return $go->sum(@numbers);
    }, 54321, 'by another that overloads' );
    is( outcome {
        our @numbers = ( 0, 20, 300, 4000 );
        tied_value( $numbers[0], sub { @numbers = (); litter(); 1 } );
        return $go->sum(@numbers);
    }, 4321, 'by a tied one' );
    is( outcome {
        our @words;
        @words = ( text( sub { @words = (); undef *words; litter(); 'abc' } ), [ 1, 2 ] );
        my $error = error_of { $go->upper(@words) };
        return $error->name;
    }, 'INVALID_ARGUMENT', 'where there are too many' );
    is( outcome {
        my $call = do { my @list = ( [ 'a', undef ], 'rest' ); my $list = \@list;
            $list[0][1] = text( sub { @$list = (); litter(); 'b' } );
            $go->begin( identity => $list[0] ) };
        return join ' ', @{ $call->wait };
    }, 'a b', 'of a call in flight' );
};

subtest 'truth' => sub {
    my $truths = sub { $go->kinds( $_[0], 0, 0, 0, 0, 0, 0, '', '' )->[0] ? 'true' : 'false' };
    is( outcome {
        my @list;
        @list = ( truth( sub { @list = (); litter(); 0 } ) );
        $truths->( $list[0] );
    }, 'false', 'an object' );
    is( outcome {
        tied_value( my $inner, sub { undef $go; litter(); 1 } );
        $truths->( \$inner );
    }, "true", 'a tied variable behind a reference, which drops the handle' );
    is( outcome {
        my $inner = truth( sub { $go->close; 1 } );
        $truths->( \$inner );
    }, 'INVALID_ARGUMENT: argument 1 (b): its own code used the handle that it is an argument for; '
        . 'compute the value before the call', 'an object behind a reference, which closes it' );
};

subtest 'what never ends' => sub {
    plan( skip_all => 'too slow where only memory is looked at' ) if $ENV{HOSTILE_QUICK};
    my $large = qr/\ARESOURCE_EXHAUSTED: /;
    like( outcome { $go->identity( tied_list( size => sub { 2**30 }, fetch => sub { 1 } ) ) }, $large, 'a tied array of 2**30 elements' );
    like( outcome { $go->identity( tied_list( size => sub { 2**22 }, fetch => sub { 'x' x 1000 } ) ) }, $large, 'of 4 GB' );
    my $number = 0;
    like( outcome { $go->identity( tied_hash( next => sub { 'k' x 100 . $number++ }, fetch => sub { 1 } ) ) }, $large, 'a tied hash that always has another key' );
    like( outcome { $go->identity( tied_hash( next => sub { 'same' }, fetch => sub { 1 } ) ) }, $large, 'the same key for ever' );
    like( outcome { $go->greet( tied_hash( next => sub { 'name' }, fetch => sub { 1 } ) ) }, $large, 'a struct' );
    my $laughs = 'laughs' x 10;
    $laughs = [ ($laughs) x 8 ] for 1 .. 28;
    like( outcome { $go->identity($laughs) }, $large, 'a list of lists of the same lists' );
    my $hash = { a => 'x' };
    $hash = { map { $_ => $hash } 'a' .. 'h' } for 1 .. 28;
    like( outcome { $go->identity($hash) }, $large, 'a hash of them' );
    my $self = [];
    @$self = ( $self, $self );
    like( outcome { $go->identity($self) }, qr/\AINVALID_ARGUMENT: argument 1 \(value\).{1,200} deeper than 32 levels/, 'a list that contains itself' );
    weaken( $self->[0] );
    weaken( $self->[1] );
};

subtest 'user code has the time of the call' => sub {
    for my $value ( text( sub { my $end = time + 0.3; 1 while time < $end; 'late' } ),
        tied_list( size => sub { 1e6 }, fetch => sub { my $end = time + 0.05; 1 while time < $end; 1 } ),
        tied_hash( next => sub { my $end = time + 0.05; 1 while time < $end; 'key' }, fetch => sub { 1 } ) )
    {
        like( outcome {
            my $error = error_of { $go->with( timeout => 0.2 )->identity($value) };
            return join ' ', $error->name, $error->outcome_text;
        }, qr/\ADEADLINE_EXCEEDED not executed\z/, ref $value );
    }
};

subtest 'whatever the call is made by' => sub {
    my %made = (
        'begin'                  => sub { $_[0]->begin( upper => $_[1] ) },
        'begin of a function'    => sub { $_[0]->function('upper')->begin( $_[1] ) },
        'begin in an event loop' => sub { Nearcall->new( $server->address, nonblocking => 1, timeout => 0.2 )->begin( upper => $_[1] ) },
        'call_raw'               => sub { $_[0]->call_raw( echo => $_[1] ) },
        'a name to call'         => sub { $_[0]->call( $_[1] => 'x' ) },
        'a name to begin'        => sub { $_[0]->begin( $_[1] => 'x' ) },
        'a name for call_raw'    => sub { $_[0]->call_raw( $_[1] => 'x' ) },
    );
    for my $what ( sort keys %made ) {
        my $whose = $what =~ /name/ ? "the function's name" : 'the arguments';
        like( outcome {
            $go->upper('x');
            tied_value( my $tied, sub { my $end = time + 0.3; 1 while time < $end; 'upper' } );
            my $error = error_of { $made{$what}->( $go->with( timeout => 0.2 ), $tied ) };
            return join ' ', $error->name, $error->outcome_text, $error->message;
        }, qr/\ADEADLINE_EXCEEDED not executed code that belongs to $whose took/, $what );
    }
    like( outcome {
        my $asked = 0;
        my @tied = (0) x 10;
        tied_value( $_, sub { $asked++; my $end = time + 0.15; 1 while time < $end; 1 } ) for @tied;
        my $error = error_of { $go->with( timeout => 0.2 )->begin( sum => @tied ) };
        return $error->name . " after $asked";
    }, qr/\ADEADLINE_EXCEEDED after [012]\z/, 'no more of them are asked then' );
};

subtest 'user code and the handle' => sub {
    my $used = qr/\AINVALID_ARGUMENT: argument 1 \(value\), "a".*: its own code used the handle/;
    like( outcome { $go->identity( { a => text( sub { $go->one } ) } ) }, $used, 'calls' );
    like( outcome { $go->identity( { a => text( sub { $go->close; litter(); 1 } ) } ) }, $used, 'closes it' );
    like( outcome { $go->greet( { name => text( sub { $go->close; litter(); 1 } ) } ) },
        qr/\AINVALID_ARGUMENT: argument 1 \(person\), "name": its own code used the handle/, 'closes it in a struct' );
    is( outcome {
        my $error = error_of { $go->greet( { name => text( sub { $go->close; litter(); 1 } ) } ) };
        return $error->function;
    }, 'greet', 'the function is known' );
    is( outcome { $go->identity( { a => text( sub { undef $go; litter(); 'text' } ) } )->{a} }, 'text', 'drops it' );
    is( outcome { $go->identity( { a => text( sub { $go = Nearcall->new( $server->address )->one } ) } )->{a} }, '1', 'replaces it' );
    is( outcome {
        my $again = 0;
        my $value = text( sub { my ($self) = @_; $again++; eval { $go->identity($self) } // $@->name } );
        eval { $go->identity($value) };
        return $again < 1000 ? 'ends' : 'does not end';
    }, 'ends', 'calls with itself' );
    like( outcome {
        my $value = text( sub { my $pid = fork // die; if ( !$pid ) { POSIX::_exit(0) } waitpid $pid, 0; 'text' } );
        $go->identity( [ $value, 'after' ] )->[1];
    }, qr/\Aafter\z/, 'forks' );
};

subtest 'names and timeouts with code' => sub {
    my $name = text( sub { undef $go; litter(); 'one' } );
    is( outcome { $go->call($name) }, 1, 'call' );
    is( outcome { $go->begin($name)->wait }, 1, 'begin' );
    is( outcome { my $one = $go->function($name); $one->() }, 1, 'function' );
    is( outcome { my $echo = text( sub { undef $go; litter(); 'echo' } ); $go->call_raw( $echo, 'x' ) }, 'x', 'call_raw' );
    is( outcome { tied_value( my $data, sub { undef $go; litter(); 'x' } ); $go->call_raw( echo => $data ) }, 'x', 'its argument' );
    is( outcome { tied_value( my $timeout, sub { undef $go; litter(); 5 } ); $go->with( timeout => $timeout )->one }, 1, 'with' );
    is( outcome { tied_value( my $word, sub { undef $go; litter(); 'timeout' } ); $go->with( $word => 5 )->one }, 1, 'its option' );
    is( outcome {
        our @list = (5);
        tied_value( my $word, sub { @list = (); litter(); 'timeout' } );
        return $go->with( $word => $list[0] )->one;
    }, 1, 'which drops the other' );
    is( outcome {
        our @list = ('abc');
        tied_value( my $name, sub { @list = (); litter(); 'upper' } );
        return $go->call( $name => $list[0] );
    }, 'ABC', 'a name that drops the argument' );
    is( outcome {
        our @list = ('abc');
        tied_value( my $name, sub { @list = (); litter(); 'echo' } );
        return $go->call_raw( $name => $list[0] );
    }, 'abc', 'of call_raw' );
    is( outcome {
        our @list = ('abc');
        tied_value( my $name, sub { @list = (); litter(); 'upper' } );
        return $go->begin( $name => $list[0] )->wait;
    }, 'ABC', 'of begin' );
};

subtest 'temporaries whose end runs code' => sub {
    sub Hostile::Ends::DESTROY { $_[0]{code}->() }
    is( outcome {
        my @list = ( undef, 'b', 'c' );
        $list[0] = list_of( sub { my $ends = bless { code => sub { @list = (); litter() } }, 'Hostile::Ends'; return [ 'a', $ends ? 'x' : () ] } );
        my $back = eval { $go->call( identity => { a => [ 'p', 'q' ], b => 1 } ) };
        my $said = $go->greet( { name => 'Ada', tags => $list[0] } );
        return $said;
    }, 'Hello, Ada [a,x]', 'of a list' );
    is( outcome {
        my $person = { tags => [ 'x', 'y' ], age => 1 };
        $person->{name} = text( sub { my $ends = bless { code => sub { %$person = (); litter() } }, 'Hostile::Ends'; 'Ada' } );
        return $go->greet($person);
    }, 'Hello, Ada, 1 [x,y]', 'of a text' );
};

subtest 'tied containers that change' => sub {
    is( outcome {
        my @list;
        tie @list, 'Hostile::TiedList', size => sub { 4 }, fetch => sub { my ($i) = @_; if ( $i == 1 ) { untie @list; litter() } "e$i" };
        my $back = $go->identity( \@list );
        return join ' ', map { $_ // 'undef' } @$back;
    }, 'e0 e1 e2 e3', 'an array that is untied' );
    is( outcome {
        my @keys = qw(a b c d);
        my ( %hash, $inside );
        tie %hash, 'Hostile::TiedHash', next => sub {
            my @inner = $inside++ ? () : keys %hash;
            $inside--;
            return shift @keys;
        },
            fetch => sub { untie %hash; litter(); "v$_[0]" };
        my $back = $go->identity( \%hash );
        return sorted($back);
    }, '', 'a hash that is untied and walked by itself' );
    like( outcome { $go->identity( tied_list( size => sub { -1 }, fetch => sub { 1 } ) ) }, qr/negative/, 'a size below zero' );
    is( outcome { join ' ', sort keys %{ $go->identity( \%+ ) } if 'ab' =~ /(?<one>a)(?<two>b)/ }, 'one two', 'named captures' );
    is( outcome { 'ab' =~ /(a)(b)/; join ' ', @{ $go->identity( \@- ) } }, '0 0 1', 'offsets of captures' );
    is( outcome { local $ENV{HOSTILE} = 'h'; $go->identity( \%ENV )->{HOSTILE} }, 'h', 'the environment' );
};

subtest 'values that Perl keeps in other ways' => sub {
    is( outcome { my $text = 'abc'; $text =~ /b/g; $go->identity( pos $text ) }, 2, 'pos' );
    is( outcome { my @list = ( 1, 2 ); $go->identity( [ $#list ] )->[0] }, 1, 'the last index' );
    is( outcome { my $text = 'abcdef'; my $part = \substr( $text, 1, 2 ); $text = 'x'; no warnings; $go->identity( [ 'a', $$part ] )->[0] }, 'a', 'substr behind the end' );
    is( outcome { my $bits = "\xff"; $go->identity( [ vec $bits, 0, 4 ] )->[0] }, 15, 'vec' );
    is( outcome { my @list; sub { $go->identity( [ $_[0] ] )->[0] // 'undef' }->( $list[3] ) }, 'undef', 'an element to come' );
    is( outcome { my @list; $list[3] = 'd'; join ' ', map { $_ // 'undef' } @{ $go->identity( \@list ) } }, 'undef undef undef d', 'an array with holes' );
    for my $value ( \*STDIN, sub { }, qr/x/, *STDOUT{IO}, \\'x', \v1.2 ) {
        like( outcome { $go->identity( [$value] ); 'sent' }, qr/\A(?:INVALID_ARGUMENT: argument 1 \(value\), element 0: (?:expected any \(.*\), got|any takes a reference to a scalar only)|sent\z)/, ref \$value . ' ' . ref $value );
    }
};

subtest 'code that dies' => sub {
    sub Hostile::False::name { 'false' }
    { package Hostile::False; use overload 'bool' => sub { 0 }, '""' => sub { '' }, fallback => 1 }
    is( outcome {
        my $loop = Nearcall->new( $server->address, timeout => 30, nonblocking => 1 );
        my $call = $loop->begin( identity => [ text( sub { die bless [], 'Hostile::False' } ) ] );
        $loop->process until $call->ready;
        eval { $call->wait; 1 } and return 'nothing was thrown';
        return ref $@;
    }, 'Hostile::False', 'with an object that is false, in an event loop' );
    is( outcome {
        my $loop = Nearcall->new( $server->address, timeout => 30, nonblocking => 1 );
        my $call = $loop->begin( identity => [ text( sub { undef $loop; litter(); 'text' } ) ] );
        until ( $call->ready ) { $loop->process if $loop }
        return $call->wait->[0];
    }, 'text', 'and one that drops the loop\'s handle' );
    is( outcome {
        local $SIG{__DIE__} = sub { $go->close if $go; litter() };
        eval { $go->greet( { name => 'Ada', tags => [ [] ] } ) };
        return $@->name;
    }, 'INVALID_ARGUMENT', 'a handler of errors that closes the handle' );
    is( outcome {
        local $SIG{__DIE__} = sub { undef $go; litter() };
        eval { $go->fail( 5, 'x' ) };
        return $@->name;
    }, 'NOT_FOUND', 'and one that drops it' );
    is( outcome {
        local $SIG{USR1} = sub { $go->close; litter() };
        my $error = error_of { $go->identity( text( sub { kill USR1 => $$; 1 } ) ) };
        return $error->function;
    }, 'identity', 'a handler of signals that closes it while a value runs' );
};

subtest 'code that leaves by last, next or goto' => sub {
    no warnings 'exiting';
    our $leave;
    { package Hostile::Moment; sub epoch { 1 } sub nanosecond { $main::leave->() } }
    my $object = sub {
        my ($method) = @_;
        no strict 'refs';
        *{"Hostile::Leaving_${method}::$method"} = sub { $leave->() };
        return bless { _own => 1 }, "Hostile::Leaving_$method";
    };
    my $calls = 0;
    my %sent = (
        epoch      => sub { $go->later( $object->('epoch'), 1 ) },
        nanosecond => sub { $go->later( bless( {}, 'Hostile::Moment' ), 1 ) },
        TO_JSON    => sub { $go->identity( $object->('TO_JSON') ) },
        attribute  => sub { $go->greet( $object->('name') ) },
        fileno     => sub { $go->file_read( $object->('fileno') ) },
        FIRSTKEY   => sub { $go->identity( tied_hash( next => sub { $leave->() }, fetch => sub { 1 } ) ) },
        NEXTKEY    => sub { $go->identity( tied_hash( next => sub { $calls++ % 2 ? $leave->() : 'a' }, fetch => sub { 1 } ) ) },
        hashes     => sub { $go->greet( tied_hash( next => sub { 'name' }, fetch => sub { $leave->() } ) ) },
        lists      => sub { $go->identity( tied_list( size => sub { 1 }, fetch => sub { $leave->() } ) ) },
        text       => sub { $go->upper( text( sub { $leave->() } ) ) },
        truth      => sub { $go->identity( [ truth( sub { $leave->() } ) ] ) },
        list_of    => sub { $go->greet( { tags => list_of( sub { $leave->() } ) } ) },
        scalars    => sub { tied_value( my $value, sub { $leave->() } ); $go->upper($value) },
    );
    for my $what ( sort keys %sent ) {
        for my $way ( [ last => sub { last } ], [ next => sub { next } ], [ goto => sub { goto OUT } ] ) {
            my ( $name, $code ) = @$way;
            like( outcome {
                $leave = $code;
                for my $once (1) { eval { $sent{$what}->(); 1 } or return "$@: then " . $go->one }
              OUT: return 'left';
            }, qr/\A(?:Can't "(?:last|next)" outside a loop block|Can't find label OUT) at .*: then 1\z/s, "$what, $name" );
        }
    }
    like( outcome {
        local @INC = ( sub { last if $_[1] eq 'IO/Socket/IP.pm'; return }, @INC );
        for my $once (1) { eval { $go->connection_greet( *STDIN{IO}, '' ); 1 } or return "$@: then " . $go->one }
        return 'left';
    }, qr/\ACan't "last" outside a loop block at .*: then 1\z/s, 'a hook of @INC' );
};

subtest 'code that asks for its own call' => sub {
    my %asked = (
        ready   => [ sub { $_[0]->ready ? 'over' : '' }, '3 2' ],
        process => [ sub { $_[1]->process; '' }, '3 2' ],
        error   => [ sub { $_[0]->error // '' }, '3 2' ],
        wait    => [ sub { $_[0]->wait; '' }, qr/waits for the call that it is an argument of/ ],
        'wait, and goes on' => [ sub { eval { $_[0]->wait }; $@ =~ /waits for the call/ ? '' : "said: $@" }, '3 2' ],
        cancel => [ sub { $_[0]->cancel; '' }, qr/\ACANCELLED/ ],
        close  => [ sub { $_[1]->close; '' }, qr/\ACANCELLED/ ],
    );
    for my $what ( sort keys %asked ) {
        my ( $asks, $expected ) = @{ $asked{$what} };
        my $said = outcome {
            my $loop = Nearcall->new( $server->address, timeout => 30, nonblocking => 1 );
            my $call;
            my $asking = text( sub { my $said = $asks->( $call, $loop ); litter(); $said || 17 } );
            $call = $loop->begin( divmod => $asking, 5 );
            eval { $loop->process } until $call->ready;
            return join ' ', $call->wait;
        };
        ref $expected ? like( $said, $expected, $what ) : is( $said, $expected, $what );
    }
    is( outcome {
        my $loop = Nearcall->new( $server->address, timeout => 30, nonblocking => 1 );
        my $call;
        $call = $loop->begin( divmod => text( sub { $call->cancel; litter(); 17 } ), 5 );
        $loop->process until $call->ready;
        eval { $call->wait };
        $loop->process;
        return $@->name . ' ' . $@->outcome_text;
    }, 'CANCELLED not executed', 'a call that is cancelled there is not sent' );
};

subtest 'values that are changed in place' => sub {
    is( outcome {
        my @list;
        @list = ( text( sub { $_ = 'changed' for @list[ 1 .. 3 ]; 'text' } ), 'a', [ 'b' ], 'x' x 5000 );
        return join ' ', map { ref ? "[@$_]" : substr $_, 0, 1 } @{ $go->identity( \@list ) };
    }, 't a [b] x', 'elements' );
    is( outcome {
        my %hash = map { $_ => $_ } 'a' .. 'h';
        $hash{$_} = text( sub { $_ .= ' changed' for grep { !ref } values %hash; 'text' } ) for 'x' .. 'z';
        return sorted( $go->identity( \%hash ) );
    }, 'a=a b=b c=c d=d e=e f=f g=g h=h x=text y=text z=text', 'of a hash' );
    is( outcome {
        my %person = ( age => 7, tags => ['x'] );
        $person{name} = text( sub { $person{age} = 99; push @{ $person{tags} = ['y'] }, 'z'; 'Ada' } );
        return $go->greet( \%person );
    }, 'Hello, Ada, 7 [x]', 'fields' );
    is( outcome {
        my $person = bless { age => 7, tags => ['x'] }, 'Hostile::Person';
        { no strict 'refs'; *{'Hostile::Person::name'} = sub { $_[0]{age} = 99; $_[0]{tags} = ['y']; 'Ada' } }
        return $go->greet($person);
    }, 'Hello, Ada, 7 [x]', 'keys of an object, by its methods' );
    is( outcome {
        my $person = bless { name => text( sub { 'Ada' } ), age => 7 }, 'Hostile::Untagged';
        { no strict 'refs'; *{'Hostile::Untagged::tags'} = sub { ['x'] } }
        $person->{name} = text( sub { $person->{age} = 99; 'Ada' } );
        return $go->greet($person);
    }, 'Hello, Ada, 7 [x]', 'and by another of its attributes' );
    for my $name ( 'call', 'begin' ) {
        my $sum = sub { my $said = $go->$name( sum => @_ ); return ref $said ? $said->wait : $said };
        is( outcome {
            my ( $first, $last ) = ( 1, 5 );
            my $code = text( sub { $first = 100; $last = 500; 10 } );
            return $sum->( $first, $code, $last );
        }, 16, "arguments, $name" );
        is( outcome {
            my ( $first, $last ) = ( 1, 5 );
            tied_value( my $code, sub { $first = 100; $last = 500; 10 } );
            return $sum->( $first, $code, $last );
        }, 16, 'by a tied one' );
        is( outcome {
            '20 x' =~ /(\d+)/;
            return $sum->( text( sub { '30' =~ /(\d+)/; my $read = $1; 10 } ), $1 );
        }, 30, 'a capture that is another meanwhile' );
        is( outcome {
            my ( $first, $last ) = ( 1, 5 );
            my $code = text( sub { $first = 100; $last = 500; 'sum' } );
            my $said = $go->$name( $code, $first, $last );
            return ref $said ? $said->wait : $said;
        }, 6, 'by the name' );
    }
};

subtest 'a handler of warnings' => sub {
    my $former = '{"name":"identity","params":[],"results":[]}';
    my $generated = sub { return $go->_generated( identity => '0' x 64, $former, 'warn' ) };
    like( outcome {
        local $SIG{__WARN__} = sub { $go->close; litter() };
        return $generated->()->('text');
    }, qr/\Adied: Nearcall: the handle was closed by a handler of warnings/, 'that closes the handle' );
    like( outcome {
        local $SIG{__WARN__} = sub { undef $go; litter() };
        return $generated->()->('text');
    }, qr/\Atext\z/, 'that drops it' );
    like( outcome {
        local $SIG{__WARN__} = sub { $go->identity('warned'); litter() };
        return $generated->()->('text');
    }, qr/\Atext\z/, 'that calls by it' );
    like( outcome {
        local $SIG{__WARN__} = sub { die "$_[0]\n" };
        return $generated->()->('text');
    }, qr/\Adied: identity has changed/, 'that dies' );
    is( outcome {
        my ( $identity, @said, @warned ) = $generated->();
        for ( 1 .. 2 ) {
            local $SIG{__WARN__} = sub { die "$_[0]\n" };
            push @said, eval { $identity->('text') } // 'died';
        }
        local $SIG{__WARN__} = sub { push @warned, @_ };
        push @said, map { $identity->('text') } 1 .. 3;
        return join ' ', @said, scalar @warned;
    }, 'died died text text text 1', 'that dies each time, until one lets the call go on' );
    like( outcome {
        my $loop = Nearcall->new( $server->address, timeout => 30, nonblocking => 1 );
        local $SIG{__WARN__} = sub { $loop->close; litter() };
        my $begun = $loop->_generated( identity => '0' x 64, $former, 'warn' )->begin('text');
        $loop->process until $begun->ready;
        return $begun->wait;
    }, qr/\ACANCELLED: .*its handle closed/, 'that closes it in an event loop' );
};

done_testing;
