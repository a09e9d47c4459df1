#!/usr/bin/perl
# timesheet [--by=person|week] [FILE...]: hours from lines "person,day,hours", of the
# files or of standard input, as a report. It loads more than two hundred modules
# before it reads one line, once for all runs that its resident serves.
use strict;
use warnings;

package Entry {
    use Moose;
    use DateTime;

    has person => (is => 'ro', isa => 'Str', required => 1);
    has day    => (is => 'ro', isa => 'DateTime', required => 1);
    has hours  => (is => 'ro', isa => 'Num', required => 1);

    sub parse {
        my ($class, $person, $day, $hours) = @_;
        my ($year, $month, $number) = ($day // '') =~ /\A(\d{4})-(\d\d)-(\d\d)\z/
            or die 'no day as 2026-01-02: ' . ($day // '') . "\n";
        return $class->new(person => $person, hours => $hours,
            day => DateTime->new(year => $year, month => $month, day => $number));
    }

    sub week { return sprintf '%04d-W%02d', $_[0]->day->week }

    __PACKAGE__->meta->make_immutable;
}

package main;

use Getopt::Long qw(GetOptionsFromArray);
use List::Util qw(sum);
use Nearcall::Resident;
use Template;
use Text::CSV;

my $report = <<'END';
[% FOREACH group IN groups -%]
[% group.name | format('%-12s') %] [% group.hours | format('%6.2f') %] h on [% group.days %] days
[% END -%]
END

sub entries {
    my @files = @_;
    my $csv = Text::CSV->new({ binary => 1 });
    my @entries;
    for my $file (@files ? @files : '-') {
        my $lines = \*STDIN;
        if ($file ne '-') {
            open $lines, '<', $file or die "$file: $!\n";
        }
        while (my $line = $csv->getline($lines)) {
            push @entries, eval { Entry->parse(@$line) } // die "$file, line $.: $@";
        }
    }
    return @entries;
}

sub main {
    my @arguments = @_;
    my $by = 'person';
    GetOptionsFromArray(\@arguments, 'by=s' => \$by) && $by =~ /\A(?:person|week)\z/
        or die "timesheet [--by=person|week] [FILE...]\n";
    my %groups;
    push @{ $groups{ $_->$by } }, $_ for entries(@arguments);
    my @groups = map {
        my %days = map { $_->day->ymd => 1 } @{ $groups{$_} };
        { name => $_, hours => sum(map { $_->hours } @{ $groups{$_} }), days => scalar keys %days };
    } sort keys %groups;
    my $template = Template->new;
    $template->process(\$report, { groups => \@groups }) or die $template->error, "\n";
    return 0;
}

# Without Nearcall this would be: exit main(@ARGV);
resident { exit main(@ARGV) };
