package main

import (
	"fmt"
	"strings"
)

func perlModule(list errorList) string {
	var t text
	t.line("package Nearcall::Codes;\n# %s\n\nuse strict;\nuse warnings;\n\nuse Exporter 'import';\n", marker("errors.json"))
	perlConstants(&t, list)
	t.line("our %%NAMES = (")
	for _, c := range list.Codes {
		t.line("    %d => '%s',", c.Number, c.Name)
	}
	t.line(");\n\nour %%OUTCOME_TEXTS = (")
	for _, o := range list.Outcomes {
		t.line("    %d => '%s',", o.Number, o.Text)
	}
	t.line(");\n")
	t.WriteString(perlExports)
	perlManual(&t, list)
	return t.String()
}

func perlConstants(t *text, list errorList) {
	width := len("OUTCOME_") + widest(list.Outcomes, func(o outcome) string { return o.Name })
	t.line("my %%codes;\nmy %%outcomes;\n\nBEGIN {\n    %%codes = (")
	for _, c := range list.Codes {
		t.line("        %-*s => %d,", width, c.Name, c.Number)
	}
	t.line("    );\n    %%outcomes = (")
	for _, o := range list.Outcomes {
		t.line("        %-*s => %d,", width, "OUTCOME_"+o.Name, o.Number)
	}
	t.line("    );\n}\n\nuse constant \\%%codes;\nuse constant \\%%outcomes;\n")
}

const perlExports = `our %EXPORT_TAGS = (
    codes    => [ sort keys %codes ],
    outcomes => [ sort keys %outcomes ],
);
our @EXPORT_OK = ( map { @$_ } values %EXPORT_TAGS );
push @EXPORT_OK, qw(%NAMES %OUTCOME_TEXTS);
$EXPORT_TAGS{all} = [@EXPORT_OK];

1;

__END__

=encoding utf-8

=head1 NAME

Nearcall::Codes - status codes and outcomes of Nearcall

=head1 SYNOPSIS

    use Nearcall::Codes qw(:codes :outcomes %NAMES);

    my $reply = eval { $go->call( ack => 3, 4 ) };
    if ( my $error = $@ ) {
        retry() if $error->outcome == OUTCOME_NOT_EXECUTED;
        die $error unless $error->code == DEADLINE_EXCEEDED;
        warn "late: $NAMES{ $error->code }";
    }

=head1 DESCRIPTION

Nothing is exported unless asked for: by name, or by the tags C<:codes>,
C<:outcomes> and C<:all>. Numbers and names are the same in every language and
never change.

`

func perlManual(t *text, list errorList) {
	t.line("=head1 CODES\n\n=over 4\n")
	for _, c := range list.Codes {
		perlItem(t, c.Name, c.Number, c.Meaning)
	}
	t.line("=back\n\n=head1 OUTCOMES\n\nWhether the function of a failed call ran.\n\n=over 4\n")
	for _, o := range list.Outcomes {
		perlItem(t, "OUTCOME_"+o.Name, o.Number, fmt.Sprintf("%q: %s", o.Text, o.Meaning))
	}
	t.line("=back\n\n=head1 TABLES\n\n=over 4\n\n=item %%NAMES\n\nA code's name by its number.\n")
	t.line("=item %%OUTCOME_TEXTS\n\nThe words for an outcome by its number.\n\n=back\n\n=cut")
}

func perlItem(t *text, name string, number int, meaning string) {
	t.line("=item %s (%d)\n", name, number)
	t.line("%s.\n", strings.ToUpper(meaning[:1])+meaning[1:])
}
