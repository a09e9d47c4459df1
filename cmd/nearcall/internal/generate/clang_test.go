package generate_test

import (
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nearcall/nearcall/internal/schema"
	"github.com/nearcall/nearcall/server"
)

// compileC compiles a program with the functions of a server, and returns it.
func compileC(t *testing.T, document *schema.Document, program string, flags ...string) (binary string) {
	t.Helper()
	directory := write(t, "c", document, "shop", "shop.h")
	source, binary := filepath.Join(directory, "main.c"), filepath.Join(directory, "main")
	must(t, os.WriteFile(source, []byte(program), 0o600))
	output(t, nil, "gcc", append(flags, "-std=c11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-I"+filepath.Join(root(t), "libnearcall", "include"),
		"-o", binary, source, built(t, "lib/libnearcall.a", "build-c"))...)
	return binary
}

const warnedC = `#include "shop.h"
#include <stdio.h>
static void show(void *unused, int level, const char *text)
{
    (void)unused;
    if (level == NEARCALL_LOG_WARNING)
        printf("warning: %s\n", text);
}
int main(int count, char **arguments)
{
    nearcall_client *client;
    shop_text done;
    (void)count;
    int r = nearcall_open(&client, arguments[1], NULL);
    nearcall_on_log(client, show, NULL);
    for (int i = 0; i < 3 && r == NEARCALL_OK; i++) {
        r = shop_transfer(client, "alice", 5, "bob", 3, 0, &done);
        printf("%.*s\n", r ? 0 : (int)done.bytes, r ? "" : done.data);
    }
    if (r)
        puts(nearcall_error_message(client));
    nearcall_close(client);
    return 0;
}
`

// A program in C can be warned of a change, once, instead of failing.
func TestStubsOfCWarn(t *testing.T) {
	_, document := serve(t, before)
	other, _ := serve(t, swapped)
	more, _ := serve(t, grown)
	program := compileC(t, document, warnedC, "-Dshop_COMPARES=2")
	printed := output(t, nil, program, other)
	if !strings.HasPrefix(printed, "warning: "+changed) || strings.Count(printed, "warning: ") != 1 || !strings.HasSuffix(printed, wrong+wrong+wrong) {
		t.Errorf("a changed server: %s", printed)
	}
	if printed := output(t, nil, program, more); printed != right+right+right {
		t.Errorf("a compatible server: %s", printed)
	}
}

const interruptedC = `#include <signal.h>
#include <stdio.h>
#include <sys/time.h>
static volatile sig_atomic_t has_come;
static int times;
static void come(int signal)
{
    (void)signal;
    has_come = 1;
}
static int go_on(void)
{
    times += has_come;
    has_come = 0;
    return 1;
}
#define shop_GOES_ON(client) go_on()
#include "shop.h"
int main(int count, char **arguments)
{
    nearcall_options options = {.struct_size = sizeof(options), .flags = NEARCALL_INTERRUPTIBLE};
    struct itimerval often = {{0, 10000}, {0, 10000}};
    struct sigaction action = {.sa_handler = come};
    nearcall_client *client;
    shop_bytes bytes;
    int64_t slept;
    (void)count;
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &often, NULL);
    int r = nearcall_open(&client, arguments[1], &options);
    if (r == NEARCALL_OK)
        r = shop_nap(client, 300, 0, &slept);
    if (r == NEARCALL_OK)
        r = shop_doze(client, "a", 1, 0, &bytes);
    printf("%s, %d, %s\n", r ? nearcall_error_message(client) : "OK", r ? 0 : (int)slept + (int)bytes.bytes, times > 1 ? "went on" : "no signal came");
    nearcall_close(client);
    return 0;
}
`

// Signals end no call of a program that says how to go on, and none is made twice.
func TestStubsOfCGoOn(t *testing.T) {
	var naps atomic.Int64
	sleep := func() { naps.Add(1); time.Sleep(300 * time.Millisecond) }
	address, document := serve(t, func(s *server.Server) {
		s.Register("nap", func(ms int64) int64 { sleep(); return ms }, server.Params("ms"))
		s.Register("doze", func(data []byte) []byte { sleep(); return data })
	})
	if printed := output(t, nil, compileC(t, document, interruptedC), address); printed != "OK, 301, went on\n" {
		t.Error(printed)
	}
	if naps.Load() != 2 {
		t.Errorf("%d calls ran, 2 were made", naps.Load())
	}
}
