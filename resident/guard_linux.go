package resident

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/nearcall/nearcall/internal/peercred"
	"github.com/nearcall/nearcall/resident/internal/channel"
	"github.com/nearcall/nearcall/resident/internal/request"
)

// readOnce are the variables that Go and the dynamic linker read at a program's start.
func readOnce() []string {
	return []string{"LD_PRELOAD", "LD_LIBRARY_PATH", "TZ", "GODEBUG", "GOGC", "GOMAXPROCS", "GOMEMLIMIT", "GOTRACEBACK"}
}

// A guard says which requests this process may take.
type guard struct {
	surroundings channel.Surroundings
	fixed        []string        // names of variables
	start        []string        // the environment at the start
	changes      changes         // that the program has made to it since
	limits       *resourceLimits // that runs share; nil: each has its own
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

// keepChanges is called before the first run, when the program has prepared all of them. From
// there on callers must have of what it changed what the resident was started with: what
// the program made of it may come from that.
func (g *guard) keepChanges() {
	g.changes = changesSince(g.start)
	g.fixed = append(g.fixed, g.changes.names...)
}

// A plainlyError is why the launcher is to run the program itself.
type plainlyError string

func (e plainlyError) Error() string { return string(e) }

// A passed is a request to run, with what came along.
type passed struct {
	request.Request
	descriptors []int // owned
	peer        peercred.Credentials
}

func (p *passed) directory() int { return p.descriptors[request.Descriptors-1] }

func (p *passed) close() { closeDescriptors(p.descriptors) }

// knows tells whether the other end is of this process's user.
func knows(conn *channel.Conn) (peercred.Credentials, bool) {
	peer, err := conn.Peer()
	return peer, err == nil && int(peer.UserID) == os.Geteuid()
}

// receive returns the request, or a plainlyError, or what ends the connection.
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
		p.close()
		return nil, plainlyError(why)
	}
	if err := g.limits.allow(peer); err != nil {
		p.close()
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
			return fmt.Sprintf("the variable %s is read only once and has another value than at the resident's start", strings.ToValidUTF8(name, "?"))
		}
	}
	return ""
}

// names returns the variables that are read once, with those here and at the start
// that a name with a star means.
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
