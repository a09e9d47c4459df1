package resident

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/nearcall/nearcall/internal/peercred"
	"github.com/nearcall/nearcall/internal/rights"
	"github.com/nearcall/nearcall/resident/internal/channel"
	"github.com/nearcall/nearcall/resident/internal/request"
)

// readOnce are the variables that Go and the dynamic linker read when a program starts.
func readOnce() []string {
	return []string{"LD_PRELOAD", "LD_LIBRARY_PATH", "TZ", "GODEBUG", "GOGC", "GOMAXPROCS", "GOMEMLIMIT", "GOTRACEBACK"}
}

// A guard decides which requests this process may take.
type guard struct {
	surroundings channel.Surroundings
	fixed        []string        // names of variables that are read once
	start        []string        // the environment when the process started
	changes      changes         // what the program has changed in it since
	limits       *resourceLimits // those that all runs share; nil if each run has its own
	watched      watched
	reads        reads
}

func newGuard(o Options, w watched) (*guard, error) {
	surroundings, err := channel.OwnSurroundings()
	if err != nil {
		return nil, err
	}
	shared, err := sharedLimits(o.Mode)
	if err != nil {
		return nil, err
	}
	looked, err := newReads(o)
	if err != nil {
		return nil, err
	}
	g := &guard{reads: looked, limits: shared, surroundings: surroundings, fixed: append(readOnce(), o.Environment...), start: startEnvironment(), watched: w}
	if err := hideEnvironment(); err != nil {
		o.logger().Warn("the environment stays in /proc/PID/environ", "reason", err)
	}
	return g, nil
}

// keepChanges is called before the first run, when the program has prepared everything.
// Of the variables that the program has changed, callers must from then on have the
// values with which the resident was started: what the program made of them may depend
// on these.
func (g *guard) keepChanges() {
	g.changes = changesSince(g.start)
	g.fixed = append(g.fixed, g.changes.names...)
}

// A plainlyError is a reason for the launcher to run the program itself.
type plainlyError string

func (e plainlyError) Error() string { return string(e) }

// A passed is a request to run, with everything that came along.
type passed struct {
	request.Request
	descriptors []int // these belong to it
	peer        peercred.Credentials
}

func (p *passed) directory() int { return p.descriptors[request.Descriptors-1] }

func (p *passed) close() { closeDescriptors(p.descriptors) }

// refuse closes them without waiting: a launcher whose run is not begun may have kept none of
// them, and they may be such that closing them waits.
func (p *passed) refuse() { rights.Close(p.descriptors...) }

// knows reports whether the process at the other end runs as this process's user.
func knows(conn *channel.Conn) (peercred.Credentials, bool) {
	peer, err := conn.Peer()
	return peer, err == nil && int(peer.UserID) == os.Geteuid()
}

// receive returns the request. If it returns a plainlyError the launcher is to run the
// program itself; any other error ends the connection.
func (g *guard) receive(conn *channel.Conn, h request.Header, peer peercred.Credentials) (*passed, error) {
	r, descriptors, err := conn.Receive(h)
	if err != nil {
		if err == channel.ErrDescriptors {
			err = plainlyError(err.Error())
		}
		return nil, err
	}
	p := &passed{Request: r, descriptors: descriptors, peer: peer}
	why := g.surroundings.Difference(conn, peer, r.Keyring)
	if why == "" {
		why = g.variables(r.Variables)
	}
	var directory unix.Stat_t
	if unix.Fstat(p.directory(), &directory) != nil || directory.Mode&unix.S_IFMT != unix.S_IFDIR {
		why = "the caller's directory is none"
	}
	if why == "" {
		why = g.reads.refusal(p)
	}
	if path := g.watched.changed(); path != "" {
		why = path + " has changed since the resident's start"
	}
	if why != "" {
		p.refuse()
		return nil, plainlyError(why)
	}
	if err := g.limits.allow(peer); err != nil {
		p.refuse()
		return nil, err
	}
	p.Variables = g.changes.apply(p.Variables)
	return p, nil
}

func (g *guard) variables(theirs []string) string {
	for _, name := range g.names(theirs) {
		value, set := lookup(theirs, name)
		ours, ourSet := lookup(g.start, name)
		if value != ours || set != ourSet {
			return g.otherValue(name)
		}
	}
	return ""
}

// otherValue says of a variable what it was before the run that callers may not have another of.
func (g *guard) otherValue(name string) string {
	does := "the variable %s is read before the run, and the resident was started with another value"
	if slices.Contains(g.changes.names, name) {
		does = "the program changes the variable %s before the run, and the resident was started with another value"
	}
	return fmt.Sprintf(does, strings.ToValidUTF8(name, "?"))
}

// names returns the variables that are read only once. A name with a star stands for
// all variables with that beginning, those of the caller and those of the start.
func (g *guard) names(theirs []string) []string {
	var names []string
	for _, name := range g.fixed {
		beginning, open := strings.CutSuffix(name, "*")
		if !open {
			names = append(names, name)
			continue
		}
		for _, variables := range [][]string{theirs, g.start} {
			for _, variable := range variables {
				if strings.HasPrefix(variable, beginning) {
					before, _, _ := strings.Cut(variable, "=")
					names = append(names, before)
				}
			}
		}
	}
	return names
}
