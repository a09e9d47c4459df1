package generate_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// These take an address and how often a call is sent at most. For each line that they read they call, with much more
// than a frame holds where it says "large", and print what came of it.
const replacedC = `#include "shop.h"
#include <stdio.h>
#include <stdlib.h>
int main(int count, char **arguments)
{
    static char large[5 << 20];
    nearcall_options options = {.struct_size = sizeof(options), .attempts_max = (uint32_t)atoi(arguments[2])};
    nearcall_client *client;
    shop_text done;
    char line[16];
    (void)count;
    memset(large, 'b', sizeof(large));
    int r = nearcall_open(&client, arguments[1], &options);
    while (r == NEARCALL_OK && fgets(line, sizeof(line), stdin)) {
        int is_large = strcmp(line, "large\n") == 0;
        int called = shop_transfer(client, "alice", 5, is_large ? large : "bob", is_large ? sizeof(large) : 3, 0, &done);
        if (called == NEARCALL_OK)
            printf("%.*s\n", (int)done.bytes, done.data);
        else
            puts(nearcall_code_name(called));
        fflush(stdout);
    }
    nearcall_close(client);
    return 0;
}
`

const replacedPerl = `use strict; use warnings; use Shop;
$| = 1;
my $shop = Shop->new( $ARGV[0], attempts => $ARGV[1] );
while ( my $line = <STDIN> ) {
    my $done = eval { $shop->transfer( 'alice', $line eq "large\n" ? 'b' x ( 5 << 20 ) : 'bob' ) };
    print $done // $@->name, "\n";
}
`

const replacedPython = `import asyncio, sys
import nearcall
from shop import AsyncShop, Shop
options = {"attempts": int(sys.argv[2])}
def arguments(line):
    return "alice", "b" * (5 << 20) if line == "large\n" else "bob"
def main():
    with Shop(sys.argv[1], **options) as shop:
        for line in sys.stdin:
            try:
                print(shop.transfer(*arguments(line)), flush=True)
            except nearcall.NearcallError as error:
                print(error.code.name, flush=True)
async def main_async():
    async with AsyncShop(sys.argv[1], **options) as shop:
        for line in sys.stdin:
            try:
                print(await shop.transfer(*arguments(line)), flush=True)
            except nearcall.NearcallError as error:
                print(error.code.name, flush=True)
main() if sys.argv[3] == "sync" else asyncio.run(main_async())
`

// A caller is a program that calls for each line that it is given.
type caller struct {
	t       *testing.T
	input   io.WriteCloser
	printed *bufio.Reader
}

func startCaller(t *testing.T, cmd *exec.Cmd) caller {
	input, err := cmd.StdinPipe()
	must(t, err)
	printed, err := cmd.StdoutPipe()
	must(t, err)
	cmd.Stderr = os.Stderr
	must(t, cmd.Start())
	late := time.AfterFunc(time.Minute, func() { cmd.Process.Kill() })
	t.Cleanup(func() {
		input.Close()
		must(t, cmd.Wait())
		late.Stop()
	})
	return caller{t, input, bufio.NewReader(printed)}
}

// call returns what came of a call, once it is not for the server that went.
func (c caller) call(line string) string {
	c.t.Helper()
	const triesMax = 4
	for range triesMax {
		_, err := io.WriteString(c.input, line+"\n")
		must(c.t, err)
		done, err := c.printed.ReadString('\n')
		must(c.t, err)
		if done != "ABORTED\n" && done != "UNAVAILABLE\n" {
			return strings.TrimSuffix(done, "\n")
		}
	}
	return fmt.Sprintf("no outcome after %d calls", triesMax)
}

// What is known of a stub is of the server's description that it was compared with. It is of no use for another one
// that comes in its place, or comes back.
func TestStubsDoNotTrustAnotherServersComparison(t *testing.T) {
	own, document := serve(t, before)
	other, _ := serve(t, swapped)
	more, _ := serve(t, grown)
	done := strings.TrimSuffix(right, "\n")
	for language, command := range commands(t, document, sources{replacedC, replacedPerl, replacedPython}) {
		for _, attempts := range []string{"1", "3"} {
			t.Run(language+" attempts "+attempts, func(t *testing.T) {
				t.Parallel()
				relay := newLateRelay(t, other)
				c := startCaller(t, command(relay.address, attempts))
				for i, step := range []struct {
					server, line, want string
					times              int
				}{
					{other, "call", "FAILED_PRECONDITION", 2},
					{own, "large", "RESOURCE_EXHAUSTED", 1}, // compared, and not sent
					{other, "call", "FAILED_PRECONDITION", 2},
					{more, "large", "RESOURCE_EXHAUSTED", 1},
					{other, "call", "FAILED_PRECONDITION", 2},
					{own, "call", done, 2},
					{more, "call", done, 2},
					{other, "call", "FAILED_PRECONDITION", 2},
					{more, "call", done, 2},
				} {
					relay.moveTo(step.server)
					for range step.times {
						if got := c.call(step.line); got != step.want {
							t.Errorf("step %d, %s: %s, want %s", i, step.line, got, step.want)
						}
					}
				}
			})
		}
	}
}
