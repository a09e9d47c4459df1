package generate_test

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nearcall/nearcall/internal/schema"
)

// Answers come so much later, and a call may take no longer than this: welcome, description, comparison and its own
// description fit within it, one more answer does not.
const (
	answersLater = 200 * time.Millisecond
	callWithin   = 900 * time.Millisecond
)

// A late relay hands on what servers answer later, when it is told to.
type lateRelay struct {
	address string
	isLate  atomic.Bool
	mutex   sync.Mutex
	target  string
	open    []net.Conn
}

func newLateRelay(t *testing.T, target string) *lateRelay {
	directory, err := os.MkdirTemp("", "nc")
	must(t, err)
	path := filepath.Join(directory, "s")
	listener, err := net.Listen("unix", path)
	must(t, err)
	r := &lateRelay{address: "unix:" + path + "?shm=off", target: target}
	t.Cleanup(func() {
		listener.Close()
		r.moveTo(target)
		os.RemoveAll(directory)
	})
	go r.accept(listener)
	return r
}

func (r *lateRelay) accept(listener net.Listener) {
	for {
		caller, err := listener.Accept()
		if err != nil {
			return
		}
		r.mutex.Lock()
		target, err := net.Dial("unix", strings.TrimPrefix(r.target, "unix:"))
		r.open = append(r.open, caller)
		r.mutex.Unlock()
		if err != nil {
			caller.Close()
			continue
		}
		go func() {
			io.Copy(target, caller)
			target.Close()
		}()
		go r.answer(caller, target)
	}
}

func (r *lateRelay) answer(caller, target net.Conn) {
	defer caller.Close()
	bytes := make([]byte, 1<<16)
	for {
		n, err := target.Read(bytes)
		if r.isLate.Load() {
			time.Sleep(answersLater)
		}
		if _, lost := caller.Write(bytes[:n]); err != nil || lost != nil {
			return
		}
	}
}

// moveTo has another server in the place of the former.
func (r *lateRelay) moveTo(target string) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.target = target
	for _, caller := range r.open {
		caller.Close()
	}
	r.open = nil
}

// These take an address and a time limit in milliseconds, and "warm" where they are to call before, say so, and wait for a line.
const lateC = `#include "shop.h"
#include <stdio.h>
#include <stdlib.h>
int main(int count, char **arguments)
{
    nearcall_client *client;
    shop_text done;
    int r = nearcall_open(&client, arguments[1], NULL);
    if (r == NEARCALL_OK && count > 3) {
        r = shop_transfer(client, "alice", 5, "bob", 3, 0, &done);
        puts("warm");
        fflush(stdout);
        getchar();
    }
    if (r == NEARCALL_OK)
        r = shop_transfer(client, "alice", 5, "bob", 3, atoi(arguments[2]), &done);
    puts(nearcall_code_name(r));
    nearcall_close(client);
    return 0;
}
`

const latePerl = `use strict; use warnings; use Shop;
$| = 1;
my $shop = Shop->new( $ARGV[0] );
if ( @ARGV > 2 ) { $shop->transfer( 'alice', 'bob' ); print "warm\n"; my $line = <STDIN> }
print eval { $shop->with( timeout => $ARGV[1] / 1000 )->transfer( 'alice', 'bob' ) } ? "OK\n" : $@->name . "\n";
`

const latePython = `import asyncio, sys
import nearcall
from shop import AsyncShop, Shop
def warm():
    print("warm", flush=True)
    sys.stdin.readline()
def main():
    with Shop(sys.argv[1]) as shop:
        if len(sys.argv) > 4:
            shop.transfer("alice", "bob")
            warm()
        shop.transfer("alice", "bob", timeout=int(sys.argv[2]) / 1000)
async def main_async():
    async with AsyncShop(sys.argv[1]) as shop:
        if len(sys.argv) > 4:
            await shop.transfer("alice", "bob")
            warm()
        await shop.transfer("alice", "bob", timeout=int(sys.argv[2]) / 1000)
try:
    main() if sys.argv[3] == "sync" else asyncio.run(main_async())
    print("OK")
except nearcall.NearcallError as error:
    print(error.code.name)
`

// sources are programs on generated code, for each language.
type sources struct{ c, perl, python string }

// commands are such programs for the functions of a document. The arguments are a program's own; that of Python is
// told in the third whether it is to be "sync" or "async".
func commands(t *testing.T, document *schema.Document, of sources) map[string]func(args ...string) *exec.Cmd {
	c, perl := write(t, "c", document, "shop", "shop.h"), write(t, "perl", document, "Shop", "Shop.pm")
	python := write(t, "python", document, "shop", "shop.py")
	for path, text := range map[string]string{c + "/main.c": of.c, perl + "/main.pl": of.perl, python + "/main.py": of.python} {
		must(t, os.WriteFile(path, []byte(text), 0o600))
	}
	output(t, nil, "gcc", "-std=c11", "-Wall", "-Wextra", "-Werror", "-I"+filepath.Join(root(t), "libnearcall", "include"), "-I"+c,
		"-o", c+"/main", c+"/main.c", built(t, "lib/libnearcall.a", "build-c"))
	blib, interpreter := filepath.Join(root(t), "build", "perl", "blib"), built(t, "venv/bin/python", "build-python")
	runPython := func(form string) func(args ...string) *exec.Cmd {
		return func(args ...string) *exec.Cmd {
			all := append([]string{python + "/main.py"}, args[:2]...)
			cmd := exec.Command(interpreter, append(append(all, form), args[2:]...)...)
			cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1", "PYTHONPATH="+python)
			return cmd
		}
	}
	return map[string]func(args ...string) *exec.Cmd{
		"c": func(args ...string) *exec.Cmd { return exec.Command(c+"/main", args...) },
		"perl": func(args ...string) *exec.Cmd {
			return exec.Command("/usr/bin/perl", append([]string{"-I" + perl, "-I" + blib + "/lib", "-I" + blib + "/arch", perl + "/main.pl"}, args...)...)
		},
		"python":       runPython("sync"),
		"python async": runPython("async"),
	}
}

// runLate runs a stub, which calls once before the answers are late if another server is to take the first one's place.
func runLate(t *testing.T, command func(args ...string) *exec.Cmd, relay *lateRelay, another string) string {
	args := []string{relay.address, fmt.Sprint(callWithin.Milliseconds())}
	if another != "" {
		args = append(args, "warm")
	}
	cmd := command(args...)
	input, err := cmd.StdinPipe()
	must(t, err)
	printed, err := cmd.StdoutPipe()
	must(t, err)
	cmd.Stderr = os.Stderr
	relay.isLate.Store(another == "")
	must(t, cmd.Start())
	ends := time.AfterFunc(time.Minute, func() { cmd.Process.Kill() })
	defer ends.Stop()
	if another != "" {
		line := make([]byte, len("warm\n"))
		if _, err := io.ReadFull(printed, line); err != nil {
			t.Errorf("it ended before it was warm: %v", err)
		}
		relay.moveTo(another)
		relay.isLate.Store(true)
		_, err = io.WriteString(input, "\n")
		must(t, err)
	}
	result, err := io.ReadAll(printed)
	must(t, err)
	must(t, cmd.Wait())
	return strings.TrimSpace(string(result))
}

// All that a stub asks before and around its call is within the call's one time limit.
func TestStubsHaveOneDeadline(t *testing.T) {
	_, document := serve(t, before)
	more, _ := serve(t, grown)
	first, _ := serve(t, before)
	for language, command := range commands(t, document, sources{lateC, latePerl, latePython}) {
		for name, at := range map[string]struct{ server, another string }{"compared": {more, ""}, "replaced": {first, more}} {
			t.Run(language+" "+name, func(t *testing.T) {
				t.Parallel()
				if got := runLate(t, command, newLateRelay(t, at.server), at.another); got != "DEADLINE_EXCEEDED" {
					t.Errorf("a call that may take %v ended by %s", callWithin, got)
				}
			})
		}
	}
}
