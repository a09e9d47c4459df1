package generate_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nearcall/nearcall/server"
)

// The server that stubs are generated from, one that changed incompatibly, and one that grew.
func before(s *server.Server) {
	s.Register("transfer", func(src, dst string) string { return src + " to " + dst }, server.Params("src", "dst"))
}

func swapped(s *server.Server) {
	s.Register("transfer", func(dst, src string) string { return src + " to " + dst }, server.Params("dst", "src"))
}

func grown(s *server.Server) {
	s.Register("transfer", func(src, dst string, note *string) string { return src + " to " + dst }, server.Params("src", "dst", "note"))
}

const changedC = `#include "shop.h"
#include <stdio.h>
int main(int count, char **arguments)
{
    nearcall_client *client;
    shop_text done;
    (void)count;
    int r = nearcall_open(&client, arguments[1], NULL);
    for (int i = 0; i < 2 && r == NEARCALL_OK; i++) {
        r = shop_transfer(client, "alice", 5, "bob", 3, 0, &done);
        if (r == NEARCALL_OK)
            printf("%.*s\n", (int)done.bytes, done.data);
        else
            printf("%s: %s, %s\n", nearcall_code_name(r), nearcall_outcome_text(nearcall_error_outcome(client)), nearcall_error_message(client));
    }
    nearcall_close(client);
    return 0;
}
`

const changedPerl = `use strict; use warnings; use Shop;
my $shop = Shop->new( $ARGV[0], changes => $ARGV[1], nonblocking => $ARGV[2] eq 'loop' );
local $SIG{__WARN__} = sub { print "warning: $_[0]" };
sub watched { my $call = shift; until ( grep { $_ == $call } $shop->client->process ) { } return $call }
my %forms = (
# line 5
    call => sub { $shop->transfer( 'alice', 'bob' ) },
# line 5
    begin => sub { $shop->begin( transfer => 'alice', 'bob' )->wait },
# line 5
    loop => sub { watched( $shop->begin( transfer => 'alice', 'bob' ) )->wait },
);
for ( 1 .. 2 ) {
    my $done = eval { $forms{ $ARGV[2] }->() };
    print defined $done ? "$done\n" : $@->name . ': ' . $@->outcome_text . ', ' . $@->message . ' at line ' . $@->line . "\n";
}
`

const changedPython = `import asyncio, importlib, sys, warnings
import nearcall
from shop import AsyncShop, Shop
options = {"changes": sys.argv[2]} if len(sys.argv) > 2 else {}
place = importlib.import_module(sys.argv[3]).Client(sys.argv[1]) if len(sys.argv) > 3 else sys.argv[1]
warnings.showwarning = lambda message, category, file, line, *rest: print("warning:", message, "at line", line)
def failed(error):
    print(f"{error.code.name}: {error.outcome.name.lower().replace('_', ' ')}, {error.message}")
def main():
    with Shop(place, **options) as shop:
        try:
            print(shop.transfer("alice", "bob"))
        except nearcall.NearcallError as error:
            failed(error)
async def main_async():
    async with AsyncShop(sys.argv[1], **options) as shop:
        try:
            print(await shop.transfer("alice", "bob"))
        except nearcall.NearcallError as error:
            failed(error)
main()
asyncio.run(main_async())
`

// A stub runs the program of its language, with what becomes of changes, and returns what
// it printed.
type stub func(address, changes string) string

func stubs(t *testing.T) map[string]stub {
	_, document := serve(t, before)
	c, perl := write(t, "c", document, "shop", "shop.h"), write(t, "perl", document, "Shop", "Shop.pm")
	python := write(t, "python", document, "shop", "shop.py")
	library := filepath.Dir(built(t, "lib/libnearcall.a", "build-c"))
	blib := filepath.Join(root(t), "build", "perl", "blib")
	interpreter := built(t, "venv/bin/python", "build-python")
	for path, text := range map[string]string{c + "/main.c": changedC, perl + "/main.pl": changedPerl, python + "/main.py": changedPython} {
		must(t, os.WriteFile(path, []byte(text), 0o600))
	}
	compile := func(binary, compares string) {
		output(t, nil, "gcc", "-std=c11", "-Wall", "-Wextra", "-Werror", "-Dshop_COMPARES="+compares, "-I"+filepath.Join(root(t), "libnearcall", "include"),
			"-I"+c, "-o", c+"/"+binary, c+"/main.c", filepath.Join(library, "libnearcall.a"))
	}
	compile("error", "1")
	compile("ignore", "0")
	runPerl := func(form string) stub {
		return func(address, changes string) string {
			return output(t, nil, "/usr/bin/perl", "-I"+perl, "-I"+blib+"/lib", "-I"+blib+"/arch", perl+"/main.pl", address, changes, form)
		}
	}
	runPython := func(arguments ...string) stub {
		return func(address, changes string) string {
			return output(t, []string{"PYTHONDONTWRITEBYTECODE=1", "PYTHONPATH=" + python}, interpreter,
				append([]string{"-W", "ignore:::nearcall.eventlet", python + "/main.py", address, changes}, arguments...)...)
		}
	}
	output(t, nil, filepath.Join(root(t), "tools", "python-foreign"))
	return map[string]stub{
		"c":               func(address, changes string) string { return output(t, nil, c+"/"+changes, address) },
		"perl":            runPerl("call"),
		"perl begin":      runPerl("begin"),
		"perl loop":       runPerl("loop"),
		"python":          runPython(),
		"python client":   runPython("nearcall"),
		"python gevent":   runPython("nearcall.gevent"),
		"python eventlet": runPython("nearcall.eventlet"),
	}
}

const (
	right   = "alice to bob\n"
	wrong   = "bob to alice\n"
	changed = "transfer has changed since this code was generated: "
)

func TestStubsAreComparedWithTheServer(t *testing.T) {
	if testing.Short() {
		t.Skip("it installs the software of others")
	}
	all := stubs(t)
	same, _ := serve(t, before)
	other, _ := serve(t, swapped)
	more, _ := serve(t, grown)
	for language, run := range all {
		if got := run(same, "error"); got != right+right {
			t.Errorf("%s, the same server: %s", language, got)
		}
		if got := run(more, "error"); got != right+right {
			t.Errorf("%s, a compatible server: %s", language, got)
		}
		if got := run(other, "ignore"); got != wrong+wrong {
			t.Errorf("%s, ignoring: %s", language, got)
		}
		checkRefused(t, language, run(other, "error"))
		if language != "c" {
			checkWarned(t, language, run(other, "warn"))
		}
	}
}

func checkRefused(t *testing.T, language, printed string) {
	t.Helper()
	lines := strings.SplitAfter(strings.TrimSuffix(printed, "\n"), "\n")
	for _, line := range lines {
		if !strings.HasPrefix(line, "FAILED_PRECONDITION: not executed, "+changed) {
			t.Errorf("%s, a changed server: %s", language, printed)
		}
	}
	if strings.HasPrefix(language, "perl") && !strings.Contains(printed, "at line 5\n") {
		t.Errorf("the error does not name the caller's line: %s", printed)
	}
}

func checkWarned(t *testing.T, language, printed string) {
	t.Helper()
	if !strings.HasPrefix(printed, "warning: "+changed) || strings.Count(printed, wrong) != 2 {
		t.Errorf("%s, warning: %s", language, printed)
	}
	named := map[string][]string{"perl": {" line 5."}, "perl begin": {" line 5."}}[language]
	if strings.HasPrefix(language, "python") {
		named = []string{"at line 12\n", "at line 18\n"}
	}
	for _, line := range named {
		if !strings.Contains(printed, line) {
			t.Errorf("%s: no warning names the caller's %s: %s", language, line, printed)
		}
	}
}
