package client_test

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nearcall/nearcall/client"
	"github.com/nearcall/nearcall/internal/wire"
	"github.com/nearcall/nearcall/status"
)

// A nameServer answers questions for the addresses of hosts. It stands in for the system's.
type nameServer struct {
	mu    sync.Mutex
	hosts map[string][]net.IP
	asked int
	// nap is how long it takes for an answer.
	nap time.Duration
}

// newNameServer makes the resolver of package net ask a name server of the test.
func newNameServer(t *testing.T, hosts map[string][]net.IP) *nameServer {
	t.Helper()
	n := &nameServer{hosts: hosts}
	socket, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	must(t, err)
	former := net.DefaultResolver
	// Package net may go on with a lookup that was cancelled, when the test is over. The dialer has a
	// resolver of its own, so that it does not look at the one that is put back then.
	dialer := net.Dialer{Resolver: new(net.Resolver)}
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return dialer.DialContext(ctx, "udp", socket.LocalAddr().String())
	}}
	t.Cleanup(func() {
		net.DefaultResolver = former
		socket.Close()
	})
	go n.serve(socket)
	return n
}

func (n *nameServer) serve(socket *net.UDPConn) {
	question := make([]byte, 1500)
	for {
		bytes, from, err := socket.ReadFromUDP(question)
		if err != nil {
			return
		}
		answer := n.answer(question[:bytes])
		n.mu.Lock()
		nap := n.nap
		n.mu.Unlock()
		time.AfterFunc(nap, func() { _, _ = socket.WriteToUDP(answer, from) })
	}
}

func (n *nameServer) set(host string, answers ...net.IP) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.hosts[host] = answers
}

func (n *nameServer) slowDown(nap time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.nap = nap
}

func (n *nameServer) count() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.asked
}

const (
	dnsHeaderBytes  = 12
	dnsAnswer       = 0x8180
	dnsNoSuchName   = 3
	dnsTypeA        = 1
	dnsTypeAAAA     = 28
	dnsNameOfBefore = 0xc00c
)

// answer makes the answer to one question, as RFC 1035 has it.
func (n *nameServer) answer(question []byte) []byte {
	at := dnsHeaderBytes
	var labels []string
	for question[at] != 0 {
		length := int(question[at])
		labels = append(labels, string(question[at+1:at+1+length]))
		at += 1 + length
	}
	kind := binary.BigEndian.Uint16(question[at+1:])
	n.mu.Lock()
	answers, known := n.hosts[strings.ToLower(strings.Join(labels, "."))]
	n.asked++
	n.mu.Unlock()
	flags := uint16(dnsAnswer)
	if !known {
		flags |= dnsNoSuchName
	}
	var records []byte
	count := uint16(0)
	for _, ip := range answers {
		bytes, of := []byte(ip.To4()), uint16(dnsTypeA)
		if bytes == nil {
			bytes, of = ip, dnsTypeAAAA
		}
		if of != kind {
			continue
		}
		records = binary.BigEndian.AppendUint16(records, dnsNameOfBefore)
		records = binary.BigEndian.AppendUint16(records, of)
		records = append(records, 0, 1, 0, 0, 0, 0)
		records = binary.BigEndian.AppendUint16(records, uint16(len(bytes)))
		records = append(records, bytes...)
		count++
	}
	b := append([]byte(nil), question[:2]...)
	for _, number := range []uint16{flags, 1, count, 0, 0} {
		b = binary.BigEndian.AppendUint16(b, number)
	}
	return append(append(b, question[dnsHeaderBytes:at+5]...), records...)
}

// newPlacesAt returns servers that listen on the same port of different addresses of this host.
func newPlacesAt(t *testing.T, hosts ...string) (places []*place, port string) {
	t.Helper()
	first := newPlace(t, "tcp:"+hosts[0]+":0")
	_, port, err := net.SplitHostPort(strings.TrimPrefix(first.address, "tcp:"))
	must(t, err)
	places = append(places, first)
	for _, host := range hosts[1:] {
		places = append(places, newPlace(t, "tcp:"+host+":"+port))
	}
	return places, port
}

func parseIPs(texts ...string) (all []net.IP) {
	for _, text := range texts {
		all = append(all, net.ParseIP(text))
	}
	return all
}

// A name with several answers counts as several endpoints.
func TestNameWithSeveralAnswers(t *testing.T) {
	hosts := []string{"127.0.0.11", "127.0.0.12", "127.0.0.13"}
	places, port := newPlacesAt(t, hosts...)
	names := newNameServer(t, map[string][]net.IP{"shop.test": parseIPs(hosts...)})
	c := newClient(t, "tcp:shop.test:"+port)
	work(t, c, 300)
	for _, p := range places {
		if count := p.executed.Swap(0); count < 30 {
			t.Errorf("%s has %d of 300 calls", p.address, count)
		}
	}
	if all := c.Statistics().Endpoints; len(all) != 3 || all[0].Address != places[0].address && all[1].Address != places[0].address && all[2].Address != places[0].address {
		t.Errorf("statistics: %+v", all)
	}
	asked := names.count()
	places[1].end()
	work(t, c, 100)
	// The name is asked for again soon, because one of its addresses has failed.
	names.set("shop.test", parseIPs(hosts[0], hosts[2])...)
	eventually(t, func() bool { work(t, c, 1); return len(c.Statistics().Endpoints) == 2 }, func() string { return "an address that is gone stays" })
	if names.count() == asked {
		t.Error("nobody has asked again")
	}
}

// Addresses of the family that the system does not prefer wait for the others to fail.
func TestNameWithBothFamilies(t *testing.T) {
	places, port := newPlacesAt(t, "127.0.0.1")
	newNameServer(t, map[string][]net.IP{"both.test": parseIPs("127.0.0.1", "::1")})
	c := newClient(t, "tcp:both.test:"+port)
	work(t, c, 20)
	expectShare(t, map[*place]int64{places[0]: 20})
}

// A name with several answers has other endpoints, so silence of one ends its connection soon.
func TestSilenceOfOneAnswer(t *testing.T) {
	p := newRemotePeer(t, "tcp")
	_, port, err := net.SplitHostPort(strings.TrimPrefix(p.address, "tcp:"))
	must(t, err)
	newNameServer(t, map[string][]net.IP{"two.test": parseIPs("127.0.0.1", "127.0.0.31")})
	c := newClient(t, "tcp:two.test:"+port, client.WithAttempts(1))
	done := begin(context.Background(), c, "echo", nil)
	conn := p.serve()
	conn.expect(wire.Request)
	expectFailure(t, wait(t, done).err, status.Unavailable, status.OutcomeUnknown)
}

// A certificate must be for the name that the address has, not for what that stands for.
func TestNamesOverTLS(t *testing.T) {
	p := newRemotePeer(t, "tls")
	_, port, err := net.SplitHostPort(strings.TrimPrefix(p.address, "tls:"))
	must(t, err)
	newNameServer(t, map[string][]net.IP{"server.example.org": parseIPs("127.0.0.1"), "other.test": parseIPs("127.0.0.1")})
	n := newNotebook()
	c := newClient(t, "unix:/nonexistent/s | tls:server.example.org:"+port, append(p.options, client.WithObserver(n.observer()), client.WithAttempts(1))...)
	done := begin(context.Background(), c, "echo", nil)
	conn := p.serve()
	conn.reply(conn.expect(wire.Request), []byte("x"))
	expectReply(t, wait(t, done), "x")
	if c.Transport() != "tls" {
		t.Errorf("calls travel by %q", c.Transport())
	}
	expectLines(t, n.take(), "began echo 0 OK", "refused 0 unix socket UNAVAILABLE", "opened 1 tls", "started echo 1 OK", "ended echo 1 OK")
	must(t, c.Close())
	c = newClient(t, "tls:other.test:"+port, append(p.options, client.WithAttempts(1))...)
	done = begin(context.Background(), c, "echo", nil)
	_, _ = p.accept().Read(make([]byte, 1))
	expectFailure(t, wait(t, done).err, status.Unauthenticated, status.OutcomeNotExecuted)
}

// A lookup that takes longer than connecting may is no reason to give the host up.
func TestSlowNameServer(t *testing.T) {
	const limit = 50 * time.Millisecond
	places, port := newPlacesAt(t, "127.0.0.1")
	names := newNameServer(t, map[string][]net.IP{"slow.test": parseIPs("127.0.0.1")})
	names.slowDown(5 * limit)
	work(t, newClient(t, "tcp:slow.test:"+port, client.WithEndpointConnectTimeout(limit), client.WithAttempts(1)), 2)
	expectShare(t, map[*place]int64{places[0]: 2})
}

// Close ends a call that waits for a lookup, and later ones look nothing up.
func TestCloseWhileANameIsLookedUp(t *testing.T) {
	names := newNameServer(t, map[string][]net.IP{"slow.test": parseIPs("127.0.0.1")})
	names.slowDown(patience)
	c := newClient(t, "tcp:slow.test:1")
	done := begin(context.Background(), c, "work", nil)
	eventually(t, func() bool { return names.count() > 0 }, func() string { return "nobody asks" })
	must(t, c.Close())
	failure := expectFailure(t, wait(t, done).err, status.Cancelled, status.OutcomeNotExecuted)
	if !errors.Is(failure, client.ErrClosed) {
		t.Errorf("%v does not say that the client was closed", failure)
	}
	asked := names.count()
	failure = expectFailure(t, c.With(client.WaitForReady()).Call(context.Background(), "work", nil), status.FailedPrecondition, status.OutcomeNotExecuted)
	if !errors.Is(failure, client.ErrClosed) || names.count() != asked {
		t.Errorf("after Close: %v, %d questions", failure, names.count()-asked)
	}
}

// A host that nobody knows is an endpoint that fails, and is tried again.
func TestUnknownName(t *testing.T) {
	places, port := newPlacesAt(t, "127.0.0.1")
	names := newNameServer(t, map[string][]net.IP{})
	c := newClient(t, "tcp:none.test:"+port, client.WithAttempts(1))
	failure := expectFailure(t, c.Call(context.Background(), "work", nil), status.Unavailable, status.OutcomeNotExecuted)
	if !strings.Contains(failure.Message, "none.test") {
		t.Errorf("%q does not name the host", failure.Message)
	}
	names.set("none.test", net.IPv4(127, 0, 0, 1))
	eventually(t, func() bool { return c.Call(context.Background(), "work", nil) == nil }, func() string { return "the name stays unknown" })
	expectShare(t, map[*place]int64{places[0]: 1})
	must(t, c.Close())
	// Beside an endpoint that works nobody notices.
	both := newClient(t, "tcp:gone.test:"+port+" | "+places[0].address)
	work(t, both, 20)
}
