use strict;
use warnings;

# Arguments that cost time and hardly any bytes, or memory and no bytes at all: what encoding them
# takes is the call's time, and signals' handlers run meanwhile.

use Test::More;
use FindBin ();
use lib "$FindBin::Bin/lib";
use TestServer;
use TestTools qw(error_of in_child peak_kib rss_kib timed);
use Hostile qw(text truth list_of hash_of tied_value tied_hash litter);

use Hash::Util ();
use IO::Socket::UNIX ();
use Time::HiRes qw(time setitimer ITIMER_REAL);

use Nearcall;

my $server = TestServer->start( arguments => [ '-generation', 1 ] );
my $go;

# What a block returns in a child with a handle of its own, behind the seconds of this child's
# processor that it took, which a busy machine does not add to.
sub outcome(&) {
    my ($block) = @_;
    my $said = in_child {
        alarm 120;
        $go = Nearcall->new( $server->address, timeout => 60 );
        $go->one;
        return $block->();
    };
    return $said;
}

sub name_of(&) {
    my ($block) = @_;
    my ( $user, $system ) = times;
    my $said = eval { $block->(); 'sent' } // ( ref $@ ? $@->name . ' ' . $@->outcome_text : $@ );
    my ( $user_after, $system_after ) = times;
    my $took = $user_after + $system_after - $user - $system;
    return $took < 4 ? $said : "$said, after $took seconds of the processor";
}

sub emptied {
    my %hash = map { $_ => 1 } 1 .. 300_000;
    %hash = ();
    return \%hash;
}

sub restricted {
    my %hash = map { $_ => 1 } 1 .. 100_000;
    Hash::Util::lock_keys(%hash);
    delete @hash{ keys %hash };
    return \%hash;
}

# Elements that are one and the same variable.
sub aliases { return \@_ }

my $zeros = '0' x 2e6 . '1';

# Several seconds of work each.
my %costs = (
    'a hash that was large'            => sub { my $hash = emptied(); return $_[0]->identity( [ ($hash) x 20_000 ] ) },
    'a map that was large'             => sub { my $hash = emptied(); return $_[0]->identity( { map { $_ => $hash } 1 .. 20_000 } ) },
    'keys that a hash may have'        => sub { my $hash = restricted(); return $_[0]->identity( [ ($hash) x 20_000 ] ) },
    'arguments that are long numbers'  => sub { return $_[0]->sum( ($zeros) x 4000 ) },
    'a list of long numbers'           => sub { return $_[0]->total( aliases( ($zeros) x 4000 ) ) },
    'long numbers with a point'        => sub { return $_[0]->sum( ("$zeros.0") x 1500 ) },
    'truths behind references'         => sub { my $truth = $zeros; return $_[0]->identity( [ ( \$truth ) x 4000 ] ) },
);

subtest 'the deadline' => sub {
    for my $what ( sort keys %costs ) {
        is( outcome {
            my $quick = $go->with( timeout => 0.3 );
            return name_of { $costs{$what}->($quick) };
        }, 'DEADLINE_EXCEEDED not executed', $what );
    }
};

# By the most memory that the process has had at once.
subtest 'what cannot be given back in time is not copied' => sub {
    is( outcome {
        my @list = ( text( sub { die "asked\n" } ), (1) x 4_000_000 );
        open my $peak, '>', '/proc/self/clear_refs' or die "/proc/self/clear_refs: $!";
        print {$peak} '5';
        close $peak or die "/proc/self/clear_refs: $!";
        my $before = peak_kib();
        my $said = name_of { $go->with( timeout => 0.1 )->identity( \@list ) };
        my $more = peak_kib() - $before;
        return $more < 10_000 ? $said : "$said, and took $more KiB";
    }, 'DEADLINE_EXCEEDED not executed', 'a list' );
};

subtest 'copies for an argument are given back behind it' => sub {
    is( outcome {
        my $element = text( sub { 'a' } );
        my @list = ($element) x 1000;
        my $references;
        $go->bag( \@list, { number => text( sub { $references = Internals::SvREFCNT(%$element); 5 } ) } );
        return $references < 1100 ? 'those of the program' : $references;
    }, 'those of the program', 'before the next is encoded' );
};

subtest 'what refusing takes, where the server has been replaced by one that says nothing' => sub {
    for my $name ( 'call', 'begin' ) {
        my $gone = TestServer->start;
        my $path = $gone->directory . '/server.sock';
        is( in_child {
            alarm 120;
            my $handle = Nearcall->new( $gone->address, timeout => 3 );
            $handle->identity(1);
            my $silent;
            my $late = text( sub {
                kill 'KILL', $gone->pid;
                unlink $path;
                $silent = IO::Socket::UNIX->new( Local => $path, Listen => 8 ) // die "listen: $!";
                my $end = time + 2;
                1 while time < $end;
                'text';
            } );
            my $error;
            my $took = timed { $error = error_of { $handle->$name( identity => [ $late, sub { } ] ) } };
            return $error->name . ( $took < 4 ? '' : " after $took s" );
        }, 'INVALID_ARGUMENT', $name );
    }
};

subtest 'what took the time' => sub {
    my $message = sub {
        my ($person) = @_;
        $go->greet( {} );
        return error_of { $go->with( timeout => 0.01 )->greet($person) }->message;
    };
    my %person = ( name => 'Ada', tags => [], map { +"_$_" => 1 } 1 .. 300_000 );
    like( outcome { $message->( bless {%person}, 'Without::Code' ) }, qr/\Aencoding the arguments took/, 'encoding' );
    like( outcome { $message->( { name => text( sub { my $end = time + 0.1; 1 while time < $end; '' } ) } ) }, qr/\Acode that belongs to the arguments took/, 'code' );
};

subtest 'signals' => sub {
    for my $what ( sort keys %costs ) {
        is( outcome {
            local $SIG{ALRM} = sub { die "alarm\n" };
            my $said = name_of { setitimer( ITIMER_REAL, 0.3 ); $costs{$what}->($go) };
            return $said . $go->one;
        }, "alarm\n1", $what );
    }
    is( outcome {
        my ( $handled, $hash ) = ( 0, emptied() );
        # One after the other: perl ends a program for which too many wait, as behind one long operation.
        local $SIG{ALRM} = sub { $handled++; setitimer( ITIMER_REAL, 0.02 ) };
        setitimer( ITIMER_REAL, 0.02 );
        my $back = $go->identity( [ ($hash) x 1000 ] );
        setitimer( ITIMER_REAL, 0 );
        return @$back . ( $handled > 3 ? ' with handlers' : " with $handled handlers" );
    }, '1000 with handlers', 'a handler that returns lets the call go on' );
    # Keys that may be one are looked at before any is sent, and two that are end the call there.
    is( outcome {
        my ( $handled, %map ) = ( 0, map { +"+$_" => 'x' } 1 .. 200_000 );
        local $SIG{ALRM} = sub { $handled++; setitimer( ITIMER_REAL, 0.005 ) };
        setitimer( ITIMER_REAL, 0.005 );
        my $said = name_of { $go->by_number( { %map, 1 => 'y' } ) };
        setitimer( ITIMER_REAL, 0 );
        return $said . ( $handled > 3 ? ' with handlers' : " with $handled handlers" );
    }, 'INVALID_ARGUMENT not executed with handlers', 'keys that may be one' );
    is( outcome {
        my @sent;
        for my $delay_ms ( 1 .. 20 ) {
            my %map = map { +"+$_" => "text $_" } 1 .. 20_000;
            local $SIG{ALRM} = sub { $_ = 'changed' for values %map; undef %map; litter() };
            setitimer( ITIMER_REAL, $delay_ms / 1000 );
            my $back = $go->by_number( \%map );
            setitimer( ITIMER_REAL, 0 );
            my @wrong = grep { $back->{$_} ne "text $_" } keys %$back;
            push @sent, keys(%$back) . ' and ' . @wrong if @wrong || !grep { $_ == keys %$back } 0, 20_000;
        }
        return "@sent";
    }, '', 'a map whose keys may be one is sent as it was' );
    is( outcome {
        my $hash = emptied();
        local $SIG{ALRM} = sub { $go->one };
        setitimer( ITIMER_REAL, 0.1 );
        return name_of { $go->identity( [ ($hash) x 20_000 ] ) };
    }, 'CANCELLED not executed', 'one that calls by the handle gives the call up' );
    # Where the signal comes before the call, what is sent is empty.
    is( outcome {
        my ( $hash, @list ) = emptied();
        local $SIG{ALRM} = sub { $_ = 'changed' for @list; @list = (); litter() };
        my $back = [];
        until (@$back) {
            @list = ( ($hash) x 1000, 'end' );
            setitimer( ITIMER_REAL, 0.05 );
            $back = $go->identity( { list => \@list, other => 'x' } )->{list};
        }
        return @$back . $back->[-1] . @list;
    }, '1001end0', 'what a handler changes is sent as it was' );
    is( outcome {
        my ( $said, %person ) = 'Hello, ';
        local $SIG{ALRM} = sub { %person = (); litter() };
        while ( $said eq 'Hello, ' ) {
            %person = ( name => 'Ada', age => '0' x 16e6 . '7', tags => [ 'x', 'y' ] );
            setitimer( ITIMER_REAL, 0.005 );
            $said = $go->greet( \%person );
        }
        return $said . keys %person;
    }, 'Hello, Ada, 7 [x,y]0', 'of a struct, too' );
};

# Code of its own that does the same, as an object is code that was blessed.
sub another { my ($code) = @_; my $own = 1; return sub { $own++; $code->() } }

subtest 'objects that give another for ever' => sub {
    my %gives = (
        '@{}' => sub { my $next; $next = sub { list_of( another($next) ) }; $go->bag( $next->(), {} ) },
        '%{}' => sub { my $next; $next = sub { hash_of( another($next) ) }; $go->bag( [], $next->() ) },
        'of a struct' => sub { my $next; $next = sub { hash_of( another($next) ) }; $go->greet( $next->() ) },
        'bool' => sub { my $next; $next = sub { truth($next) }; $go->kinds( $next->(), 0, 0, 0, 0, 0, 0, '', '' ) },
        'bool behind a reference' => sub { my $next; $next = sub { truth($next) }; my $truth = $next->(); $go->kinds( \$truth, 0, 0, 0, 0, 0, 0, '', '' ) },
    );
    for my $what ( sort keys %gives ) {
        like( outcome { eval { $gives{$what}->() } // $@ },
            qr/: its overloading gave an object that overloads as well, 32 times in a row/, $what );
    }
    my $text; $text = sub { text($text) };
    my $again = qr/the text of an object is an object again and again, 32 times at most/;
    like( outcome { eval { $go->call( $text->(), 1 ) } // $@ }, $again, '"" of a name' );
    like( outcome { eval { $go->identity( tied_hash( next => $text, fetch => sub { 1 } ) ) } // $@ }, $again, 'and of a key' );
    my $itself; $itself = text( sub { $itself } );
    like( outcome { eval { $go->call( $itself, 1 ) } // $@ }, $again, 'one that gives itself' );
    my ( $list, $hash, $truth );
    my $steps = 0;
    $list = sub { $steps++ < 10 ? list_of( another($list) ) : [ 'a', 'b' ] };
    $hash = sub { $steps++ < 20 ? hash_of( another($hash) ) : { c => 1 } };
    is( outcome { $go->bag( $list->(), $hash->() ) }, '[a b] map[c:1]', 'some are what they lead to' );
    $truth = sub { $steps++ < 30 ? truth($truth) : 0 };
    is( outcome { $go->kinds( $truth->(), 0, 0, 0, 0, 0, 0, '', '' )->[0] ? 'true' : 'false' }, 'false', 'truth as well' );
};

subtest 'copies for code fit a frame' => sub {
    my $megabyte = 'x' x 2**20;
    my $large = qr/\ARESOURCE_EXHAUSTED not executed grew by \d{1,5} KiB\z/;
    my $grown = sub {
        my ($block) = @_;
        my $before = rss_kib();
        my $said = name_of { $block->() };
        return sprintf '%s grew by %d KiB', $said, rss_kib() - $before;
    };
    like( outcome { $grown->( sub { $go->sum( text( sub { 1 } ), ($megabyte) x 3000 ) } ) }, $large, 'arguments' );
    like( outcome { $grown->( sub { $go->begin( sum => ($megabyte) x 3000 ) } ) }, $large, 'of begin' );
    like( outcome {
        my $loop = Nearcall->new( $server->address, nonblocking => 1 );
        $grown->( sub { $loop->begin( sum => ($megabyte) x 3000 ) } );
    }, $large, 'of begin, by an event loop' );
    like( outcome { $grown->( sub { $go->identity( aliases( text( sub { 1 } ), ($megabyte) x 3000 ) ) } ) }, $large, 'elements' );
    like( outcome { $grown->( sub { $go->call( text( sub { 'sum' } ), ($megabyte) x 3000 ) } ) }, qr/\AINVALID_ARGUMENT not executed grew by \d{1,5} KiB\z/, 'beside a name' );
    like( outcome {
        my @tied = map { tied_value( my $value, sub { my $own = $megabyte; $own .= 'y'; $own } ); \$value } 1 .. 100;
        $grown->( sub { $go->sum( map { $$_ } @tied ) } );
    }, qr/\A(?:RESOURCE_EXHAUSTED|INVALID_ARGUMENT) not executed/, 'what tied ones give' );
    is( outcome {
        my $error = error_of { $go->sum( text( sub { 1 } ), ($megabyte) x 3000 ) };
        return $error->message;
    }, 'what the arguments hold is larger than the 16777215 bytes that any frame may have (limit frame_bytes_max)', 'it says why' );
    my $numbers = '0' x 2**20 . '1';
    is( outcome { $go->sum( text( sub { 5 } ), ($numbers) x 12 ) }, 17, 'what fits is sent' );
    is( outcome {
        my $begun = $go->begin( sum => text( sub { 5 } ), ($numbers) x 12 );
        return $begun->wait;
    }, 17, 'by begin, too' );
};

subtest 'what objects give is dropped once it is written' => sub {
    {
        package Numbered;
        our @grown;
        sub new { return bless {}, shift }
        sub TO_JSON { push @grown, main::rss_kib(); my $own = '0' x 2**20; $own .= '1'; return $own }
    }
    my %sent = (
        'arguments' => sub { $go->sum( map { Numbered->new } 1 .. 100 ) },
        'elements'  => sub { my @ones = $go->total( [ map { Numbered->new } 1 .. 100 ] ) =~ /1/g; return scalar @ones },
    );
    for my $what ( sort keys %sent ) {
        like( outcome { my $sum = $sent{$what}->(); return sprintf '%s grew by %d KiB', $sum, $Numbered::grown[-1] - $Numbered::grown[0] },
            qr/\A100 grew by -?\d{1,4} KiB\z/, $what );
    }
};

subtest 'what fits no frame is refused unread' => sub {
    my $latin = "\xe9" x 150e6;
    my $wide = "\xe9" x 75e6;
    utf8::upgrade($wide);
    my %sent = (
        'characters to be widened' => sub { $go->upper($latin) },
        'in a list'                => sub { $go->bag( [$latin], {} ) },
        'as any'                   => sub { $go->identity( [$latin] ) },
        'characters that are wide' => sub { $go->upper($wide) },
        'bytes to be narrowed'     => sub { $go->echo($wide) },
        'call_raw'                 => sub { $go->call_raw( echo => $wide ) },
        'call_raw, an alias'       => sub { $go->call_raw( echo => $latin ) },
    );
    for my $what ( sort keys %sent ) {
        like( outcome {
            my $before = rss_kib();
            my $said = name_of { $sent{$what}->() };
            return sprintf '%s grew by %d KiB', $said, rss_kib() - $before;
        }, qr/\ARESOURCE_EXHAUSTED not executed grew by \d{1,4} KiB\z/, $what );
    }
    like( outcome { my $before = rss_kib(); my $said = name_of { $go->call($latin) }; $said .= name_of { $go->function($latin)->() };
            return sprintf '%s grew by %d KiB', $said, rss_kib() - $before },
        qr/\A(?:INVALID_ARGUMENT not executed){2} grew by \d{1,6} KiB\z/, 'a name' );
    my $digits = '1' x 150e6;
    like( outcome { name_of { $go->sum($digits) } }, qr/\AINVALID_ARGUMENT not executed\z/, 'a number' );
    like( outcome {
        my $used = $digits;
        { no warnings; my $number = $used + 0 }
        return name_of { $go->kinds( 0, 0, 0, 0, 0, 0, $used, '', '' ) };
    }, qr/\AINVALID_ARGUMENT not executed\z/, 'one that was used as a number' );
    like( outcome { name_of { $go->later( $digits, 1 ) } }, qr/\AINVALID_ARGUMENT not executed\z/, 'a time' );
    like( outcome { name_of { $go->later( '2026-01-31T12:00:00.' . '0' x 2**24 . 'Z', 1 ) } }, qr/\AINVALID_ARGUMENT not executed\z/, 'a time with a fraction' );
};

done_testing;
