// Command runner holds servers and clients to the vectors of conformance/.
// conformance/README.md tells how vectors, testees and this program fit.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"sort"
	"strings"
	"time"
)

// options are the command line.
type options struct {
	root     string
	vectors  string
	known    string
	show     string
	pattern  *regexp.Regexp
	server   string
	address  string
	listen   string
	testees  testeeFlags
	asJSON   bool
	badInput bool
	hostile  time.Duration
	seed     uint64
	// growthMiB bounds what the server's memory may grow by under -hostile:
	// lingering connections hold what they have sent.
	growthMiB uint
}

// testeeFlags are "name=command", as often as there are clients.
type testeeFlags map[string]string

func (t testeeFlags) String() string { return "" }

func (t testeeFlags) Set(text string) error {
	name, command, ok := strings.Cut(text, "=")
	if !ok || name == "" || command == "" {
		return errors.New("say NAME=COMMAND")
	}
	t[name] = command
	return nil
}

func parseOptions(arguments []string) (*options, error) {
	o := &options{testees: testeeFlags{}}
	flags := flag.NewFlagSet("runner", flag.ContinueOnError)
	flags.StringVar(&o.root, "root", ".", "the repository")
	flags.StringVar(&o.vectors, "vectors", "", "folder of vectors (default ROOT/conformance/vectors)")
	flags.StringVar(&o.known, "known-failures", "", "folder of the lists (default ROOT/conformance/known-failures)")
	flags.StringVar(&o.show, "show", "", "print what this vector sends, in hexadecimal")
	flags.StringVar(&o.server, "server", "", "command of a server to start; gets -address ADDRESS and says \"ready ADDRESS\"")
	flags.StringVar(&o.address, "address", "", "address of a server that runs already")
	flags.StringVar(&o.listen, "listen", "", "address that -server is started on, such as tcp:127.0.0.1:0 (default: a local socket)")
	flags.Var(o.testees, "testee", "NAME=COMMAND of a program around a client; may be repeated")
	flags.BoolVar(&o.asJSON, "json", false, "one line of JSON for each verdict")
	flags.BoolVar(&o.badInput, "bad-input", false, "measure how soon bad input is refused")
	flags.DurationVar(&o.hostile, "hostile", 0, "for that long, send mutated frames to the server")
	flags.Uint64Var(&o.seed, "seed", 0, "seed of -hostile; 0 draws one")
	flags.UintVar(&o.growthMiB, "growth-mib", 128, "by how much the server may grow under -hostile")
	pattern := flags.String("run", "", "only vectors whose name matches this regular expression")
	if err := flags.Parse(arguments); err != nil {
		return nil, err
	}
	if o.vectors == "" {
		o.vectors = filepath.Join(o.root, "conformance", "vectors")
	}
	if o.known == "" {
		o.known = filepath.Join(o.root, "conformance", "known-failures")
	}
	if o.show == "" && o.server == "" && o.address == "" && len(o.testees) == 0 {
		return nil, errors.New("nothing to hold: say -server, -address or -testee")
	}
	var err error
	o.pattern, err = regexp.Compile(*pattern)
	return o, err
}

// runner is one run over all subjects.
type runner struct {
	*options
	spec    *specification
	vectors []*vector
	report  *report
	folder  string // private, for sockets and logs
}

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "runner:", err)
		os.Exit(1)
	}
}

func run(arguments []string, out io.Writer) error {
	o, err := parseOptions(arguments)
	if err != nil {
		return err
	}
	r := &runner{options: o, report: &report{out: out, asJSON: o.asJSON}}
	if r.spec, err = readSpecification(filepath.Join(o.root, "spec")); err != nil {
		return err
	}
	if r.vectors, err = readVectors(o.vectors); err != nil {
		return err
	}
	if r.show != "" {
		return r.showVector(r.show)
	}
	if r.folder, err = os.MkdirTemp("", "conformance-"); err != nil {
		return err
	}
	if err := r.all(); err != nil {
		return err
	}
	return os.RemoveAll(r.folder)
}

// all runs what was asked for, and fails when anything did.
func (r *runner) all() error {
	if r.server != "" || r.address != "" {
		if err := r.serverModes(); err != nil {
			return err
		}
	}
	if r.badInput || r.hostile > 0 {
		return nil
	}
	names := make([]string, 0, len(r.testees))
	for name := range r.testees {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		if err := r.holdCaller(name, r.testees[name]); err != nil {
			return err
		}
	}
	return r.report.finish()
}

func (r *runner) serverModes() error {
	switch {
	case r.badInput:
		return r.measureBadInput()
	case r.hostile > 0:
		return r.attack()
	}
	return r.holdServer()
}

// local reports whether the trials of a side run over a local socket. What only
// local sockets have is not tried over others.
func (r *runner) local(side string) bool {
	at := r.address + r.listen
	return side == "caller" || at == "" || strings.HasPrefix(at, "unix:")
}

// starts reports whether what is judged runs on the kernel that a trial is for.
func (r *runner) starts(side string) bool { return side == "caller" || r.server != "" }

// trialsOf lists the trials for one side that -run names, and the known
// failures among them. A list that names no trial at all is stale.
func (r *runner) trialsOf(side, subject string) ([]trial, map[string]bool, error) {
	known, err := readKnownFailures(filepath.Join(r.known, subject+".txt"))
	if err != nil {
		return nil, nil, err
	}
	exist := map[string]bool{}
	var chosen []trial
	for _, v := range r.vectors {
		if v.Side != side {
			continue
		}
		wanted := !v.Local || r.local(side)
		for _, t := range v.trials() {
			exist[t.name] = true
			if wanted && (!t.oldKernel || r.starts(side)) && r.pattern.MatchString(t.name) {
				chosen = append(chosen, t)
			}
		}
	}
	for name := range known {
		if !exist[name] {
			return nil, nil, fmt.Errorf("known-failures/%s.txt names %s, which is no trial", subject, name)
		}
	}
	return chosen, known, nil
}

// eachKernel plays the trials for this kernel, and those for old ones.
func eachKernel(trials []trial, known map[string]bool, play func(trials []trial, known map[string]bool, oldKernel bool) error) (failure error) {
	for _, oldKernel := range []bool{false, true} {
		var there []trial
		for _, t := range trials {
			if t.oldKernel == oldKernel {
				there = append(there, t)
			}
		}
		if len(there) > 0 {
			failure = errors.Join(failure, play(there, known, oldKernel))
		}
	}
	return failure
}

// attempts is how often a trial is tried whose only fault was to be late, or
// which depends on a window of time that a loaded machine can miss.
const attempts = 10

func (t trial) try(play func() error) error {
	var late *lateError
	var err error
	for range attempts {
		if err = play(); err == nil || !t.Timed && !errors.As(err, &late) {
			return err
		}
	}
	return err
}
