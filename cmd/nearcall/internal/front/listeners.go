package front

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"syscall"
	"time"

	"github.com/nearcall/nearcall/cmd/nearcall/internal/front/config"
	"github.com/nearcall/nearcall/handoff"
	"github.com/nearcall/nearcall/internal/address"
)

// openMissing opens the listeners of a configuration that are not there yet; those
// that were given are used first. All or none are returned, and what was given and
// is not wanted is closed.
func (f *Front) openMissing(c *config.Config, given []handoff.Item) (added []*listener, err error) {
	defer func() {
		if err != nil {
			for _, l := range added {
				l.close()
			}
			added = nil
		}
		f.closeUnused(given)
	}()
	for _, listen := range c.Listens {
		if f.has(listen.Address) {
			continue
		}
		socket := takeGiven(given, listen)
		if socket == nil {
			if socket, err = open(f.ctx, listen); err != nil {
				return added, fmt.Errorf("cannot listen on %s: %w%s", listen.Address, err, wayOut(err))
			}
		}
		l, err := newListener(socket, listen, f.metrics.accepted.WithLabelValues(listen.Name))
		if err != nil {
			return added, fmt.Errorf("cannot listen on %s: %w", listen.Address, err)
		}
		added = append(added, l)
	}
	return added, nil
}

// wayOut is what to do about an address that cannot be listened on.
func wayOut(err error) string {
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return "; another program listens there: end it, or, if it is a front with [control], take over from it with --takeover ADDRESS"
	case errors.Is(err, syscall.EACCES):
		return "; a port below net.ipv4.ip_unprivileged_port_start (1024) needs CAP_NET_BIND_SERVICE," +
			" as by AmbientCapabilities= or a socket unit of systemd; a path needs a directory that this user may write to"
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		return descriptorsShort
	}
	return ""
}

// takeGiven takes the listener that was given for an address, by name or by where it
// listens.
func takeGiven(given []handoff.Item, wanted config.Listen) net.Listener {
	for _, fits := range []func(handoff.Item) bool{
		func(item handoff.Item) bool { return item.Name == wanted.Name },
		func(item handoff.Item) bool { return sameAddress(item.Listener.Addr(), wanted.Address) },
	} {
		for i := range given {
			if given[i].Listener != nil && fits(given[i]) {
				socket := given[i].Listener
				given[i].Listener = nil
				return socket
			}
		}
	}
	return nil
}

// forgetMoved takes the names off the listeners of a predecessor whose address the
// configuration has changed. What a manager gives under a name is taken wherever it
// listens: there the manager has the say.
func forgetMoved(taken []handoff.Item, wanted []config.Listen) {
	for i := range taken {
		moved := func(listen config.Listen) bool {
			return listen.Name == taken[i].Name && !sameAddress(taken[i].Listener.Addr(), listen.Address)
		}
		if taken[i].Listener != nil && slices.ContainsFunc(wanted, moved) {
			taken[i].Name = ""
		}
	}
}

// sameAddress tells whether a listener is the one that an address asks for. Port 0
// asks for any.
func sameAddress(is net.Addr, wanted string) bool {
	parsed, err := address.Parse(wanted, false)
	if err != nil || parsed.Network != is.Network() {
		return false
	}
	if parsed.Network == "unix" {
		return is.String() == parsed.Target
	}
	want, err := net.ResolveTCPAddr("tcp", parsed.Target)
	if err != nil {
		return false
	}
	tcp, ok := is.(*net.TCPAddr)
	everywhere := len(want.IP) == 0 || want.IP.IsUnspecified()
	return ok && (tcp.Port == want.Port || want.Port == 0) && (tcp.IP.Equal(want.IP) || everywhere && tcp.IP.IsUnspecified())
}

// closeUnused closes what was given and not taken: a socket that is left open goes
// on getting connections that nobody accepts.
func (f *Front) closeUnused(given []handoff.Item) {
	for i, item := range given {
		if item.Listener != nil {
			f.log.Warn("a listener was given that the configuration does not have: it is closed", "name", item.Name, "address", item.Listener.Addr())
			item.Listener.Close()
			given[i].Listener = nil
		}
		if item.File != nil {
			item.File.Close()
			given[i].File = nil
		}
	}
}

func (f *Front) has(listenAddress string) bool {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	return f.listeners[listenAddress] != nil
}

// adopt begins to accept.
func (f *Front) adopt(added []*listener) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	for _, l := range added {
		f.listeners[l.config.Load().Address] = l
		f.log.Info("listening", "listener", l.config.Load().Name, "address", l.shared.Addr())
		f.acceptors.Go(func() { f.accept(l) })
	}
}

// complaintEach is how often the same trouble is told.
const complaintEach = 10 * time.Second

func (f *Front) accept(l *listener) {
	var told time.Time
	var first [firstBytes]byte
	l.accept(func(c *connection) {
		if v := f.visit(c, *l.config.Load(), nil); v != nil && !v.passOn(c, first[:]) {
			go v.run()
		}
	}, func(err error) {
		if time.Since(told) < complaintEach {
			return
		}
		told = time.Now()
		f.log.Error("cannot accept; trying again"+wayOut(err), "listener", l.config.Load().Name, "error", err, "held", f.guard.count())
	})
	if err := l.close(); err != nil {
		f.log.Error("closing a listener", "listener", l.config.Load().Name, "error", err)
	}
	close(l.closed)
}

// keepOnly closes the listeners that a configuration does not have, and applies it
// to the others.
func (f *Front) keepOnly(c *config.Config) error {
	wanted := map[string]config.Listen{}
	for _, listen := range c.Listens {
		wanted[listen.Address] = listen
	}
	f.mutex.Lock()
	var problems []error
	var leaving []*listener
	for where, l := range f.listeners {
		if listen, stays := wanted[where]; stays {
			problems = append(problems, l.use(listen))
			continue
		}
		l.stop(true)
		leaving = append(leaving, l)
		delete(f.listeners, where)
	}
	f.mutex.Unlock()
	for _, l := range leaving {
		<-l.closed
	}
	return errors.Join(problems...)
}

// stopAccepting stops all listeners. last: no other process accepts from them.
func (f *Front) stopAccepting(last bool) {
	f.mutex.Lock()
	f.draining = true
	for _, l := range f.listeners {
		l.stop(last)
	}
	f.listeners = map[string]*listener{}
	f.mutex.Unlock()
	f.acceptors.Wait()
}

func (f *Front) isDraining() bool {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	return f.draining
}

// offered are the listeners that a successor may have: the one of a name, or all.
func (f *Front) offered(name string) []handoff.Item {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	var offered []handoff.Item
	for _, l := range f.listeners {
		if its := l.config.Load().Name; name == "" || name == its {
			offered = append(offered, handoff.Item{Name: its, Listener: l.shared})
		}
	}
	return offered
}

// given collects the listeners of a predecessor and those that were inherited.
func (f *Front) given(ctx context.Context, c *config.Config, predecessor string) (items []handoff.Item, p *predecessorProcess, err error) {
	inherited, err := handoff.Inherited()
	if err != nil {
		return nil, nil, err
	}
	if predecessor == "" {
		return inherited, nil, nil
	}
	taken, p, err := f.takeOver(ctx, predecessor)
	if err != nil {
		f.closeUnused(inherited)
		return nil, nil, err
	}
	forgetMoved(taken, c.Listens)
	return append(taken, inherited...), p, nil
}
