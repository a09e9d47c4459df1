package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"github.com/nearcall/nearcall/resident"
)

type command = func(context.Context, *resident.Invocation) int

func commands() map[string]command {
	return map[string]command{
		"report": report, "twice": twice, "pid": pid, "cat": cat, "write": write,
		"exit": exit, "leave": leave, "panic": fail, "goexit": goexit, "kill": kill,
		"close": closeOutput, "goroutine": goroutine, "child": child,
		"wait": wait, "ignore": ignore, "signals": signals, "execute": execute,
		"command": runCommand, "umask": umask, "root": root, "limits": limits, "terminal": terminal,
		"once": once, "quiet": quiet, "writeat": writeAt, "ignoreall": ignoreAll, "late": late, "limit": limit, "chdir": chdir,
		"become": become,
	}
}

// A Report is what a run sees, by its Invocation and by the process.
type Report struct {
	Args, OSArgs []string
	Dir, OSDir   string
	Umask        int
	Who, OSWho   string
	Variables    int
	Peer         int
	Resident     bool
}

func report(_ context.Context, inv *resident.Invocation) int {
	directory, _ := os.Getwd()
	r := Report{
		Args: inv.Args, OSArgs: os.Args, Dir: inv.Dir, OSDir: directory, Umask: inv.Umask,
		Who: inv.Getenv("WHO"), OSWho: os.Getenv("WHO"), Variables: len(inv.Env), Peer: int(inv.Peer.ProcessID), Resident: inv.Resident,
	}
	text, err := json.Marshal(r)
	if err != nil {
		return 1
	}
	_, _ = fmt.Fprintf(inv.Stdout, "%s\n", text)
	return 0
}

// twice reports, and once more when its input has ended.
func twice(ctx context.Context, inv *resident.Invocation) int {
	report(ctx, inv)
	_, _ = io.Copy(io.Discard, inv.Stdin)
	return report(ctx, inv)
}

func pid(_ context.Context, inv *resident.Invocation) int {
	_, _ = fmt.Fprintln(inv.Stdout, os.Getpid())
	return 0
}

func cat(_ context.Context, inv *resident.Invocation) int {
	if _, err := io.Copy(inv.Stdout, inv.Stdin); err != nil {
		_, _ = fmt.Fprintln(inv.Stderr, err)
		return 1
	}
	return 0
}

// write writes until nobody reads.
func write(_ context.Context, inv *resident.Invocation) int {
	for {
		if _, err := fmt.Fprintln(inv.Stdout, "line"); err != nil {
			return 1
		}
	}
}

func number(inv *resident.Invocation) int {
	n, _ := strconv.Atoi(inv.Args[len(inv.Args)-1])
	return n
}

func exit(_ context.Context, inv *resident.Invocation) int {
	os.Exit(number(inv))
	return 0
}

func leave(_ context.Context, inv *resident.Invocation) int {
	func() {
		defer func() { _, _ = fmt.Fprintln(inv.Stdout, "deferred") }()
		inv.Exit(number(inv))
	}()
	return 0
}

func fail(context.Context, *resident.Invocation) int { panic("deliberately") }

func goexit(context.Context, *resident.Invocation) int {
	runtime.Goexit()
	return 0
}

func kill(_ context.Context, inv *resident.Invocation) int {
	if self, err := os.FindProcess(os.Getpid()); err == nil {
		_ = self.Signal(syscall.Signal(number(inv)))
	}
	select {}
}

func closeOutput(_ context.Context, inv *resident.Invocation) int {
	_, _ = inv.Stdout.Close(), os.Stdout.Close()
	_, err := fmt.Fprintln(inv.Stdout, "nobody reads this")
	_, _ = fmt.Fprintln(inv.Stderr, err != nil)
	return 5
}

// goroutine leaves one behind that writes for ever, or until it cannot.
func goroutine(_ context.Context, inv *resident.Invocation) int {
	_, _ = fmt.Fprintln(inv.Stdout, "first")
	go func() {
		<-inv.Signals() // never
		_, _ = fmt.Fprintln(os.Stdout, "late")
	}()
	go func() {
		for {
			if _, err := inv.Stderr.WriteString("."); err != nil {
				return
			}
		}
	}()
	return 0
}

// child leaves a process behind that holds the streams.
func child(ctx context.Context, inv *resident.Invocation) int {
	c := inv.Command(context.WithoutCancel(ctx), "sleep", "1000")
	if err := c.Start(); err != nil {
		_, _ = fmt.Fprintln(inv.Stderr, err)
		return 1
	}
	_, _ = fmt.Fprintln(inv.Stdout, c.Process.Pid)
	return 0
}

func wait(ctx context.Context, inv *resident.Invocation) int {
	done := ctx.Done()
	_, _ = fmt.Fprintln(inv.Stdout, "waiting")
	<-done
	_, _ = fmt.Fprintln(inv.Stdout, context.Cause(ctx))
	if len(inv.Args) > 2 {
		select {}
	}
	return 4
}

func ignore(_ context.Context, inv *resident.Invocation) int {
	_, _ = fmt.Fprintln(inv.Stdout, "waiting")
	select {}
}

func signals(_ context.Context, inv *resident.Invocation) int {
	received := inv.Signals()
	_, _ = fmt.Fprintln(inv.Stdout, "waiting")
	for s := range received {
		_, _ = fmt.Fprintln(inv.Stdout, s)
		if s == syscall.SIGTERM {
			break
		}
	}
	return 6
}

func execute(ctx context.Context, inv *resident.Invocation) int {
	code, err := inv.Execute(ctx, inv.Args[2:]...)
	_, _ = fmt.Fprintln(inv.Stdout, code, err)
	return 0
}

func runCommand(ctx context.Context, inv *resident.Invocation) int {
	if err := inv.Command(ctx, inv.Args[2], inv.Args[3:]...).Run(); err != nil {
		_, _ = fmt.Fprintln(inv.Stderr, err)
		return 1
	}
	return 0
}

// become makes the process another program's.
func become(_ context.Context, inv *resident.Invocation) int {
	_, _ = fmt.Fprintln(inv.Stderr, syscall.Exec(inv.Args[2], inv.Args[2:], os.Environ()))
	return 1
}

// umask makes a file, and asks a command for its umask.
func umask(ctx context.Context, inv *resident.Invocation) int {
	err := inv.WithUmask(func() {
		if err := os.WriteFile(inv.Path("made"), nil, 0o666); err != nil {
			_, _ = fmt.Fprintln(inv.Stderr, err)
		}
	})
	if err == nil {
		err = inv.Command(ctx, "sh", "-c", "umask").Run()
	}
	if err != nil {
		_, _ = fmt.Fprintln(inv.Stderr, err)
		return 1
	}
	return 0
}

// root reads a file that its argument names.
func root(_ context.Context, inv *resident.Invocation) int {
	r, err := inv.Root()
	if err == nil {
		var text []byte
		if text, err = r.ReadFile(inv.Args[2]); err == nil {
			_, _ = inv.Stdout.Write(text)
			return 0
		}
	}
	_, _ = fmt.Fprintln(inv.Stderr, err)
	return 1
}

// limits are those of a command that the run starts.
func limits(_ context.Context, inv *resident.Invocation) int {
	text, err := exec.Command("sh", "-c", "ulimit -c; ulimit -Sn; ulimit -Hn").Output()
	_, _ = fmt.Fprintln(inv.Stdout, strings.Fields(string(text)), err)
	return 0
}

func terminal(_ context.Context, inv *resident.Invocation) int {
	_, _ = fmt.Fprintf(inv.Stdout, "%+v\n", inv.Terminal)
	return 0
}

// once makes a file that must not be there.
func once(_ context.Context, inv *resident.Invocation) int {
	file, err := os.OpenFile(inv.Args[2], os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		_, _ = fmt.Fprintln(inv.Stdout, err)
		return 1
	}
	_ = file.Close()
	_, _ = fmt.Fprintln(inv.Stdout, "done", inv.Args[3])
	return 7
}
