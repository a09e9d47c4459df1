package handoff_test

import (
	"errors"
	"io"
	"net"
	"testing"

	"github.com/nearcall/nearcall/handoff"
)

func awaitOffer(t *testing.T, done <-chan error) error {
	t.Helper()
	select {
	case err := <-done:
		return err
	case <-testContext(t).Done():
		t.Fatal("the offer is not settled")
		return nil
	}
}

// What is offered is taken as what is sent, and closed here then.
func TestOffer(t *testing.T) {
	l, address := listen(t)
	client, served := tcpPair(t)
	conns := accepted(l)
	done := make(chan error, 1)
	if _, offered := dial(t, address).OfferConn(served, handoff.Meta{Name: "shop"}, func(err error) { done <- err }); !offered {
		t.Fatal("it was not offered")
	}
	must(t, awaitOffer(t, done))
	if _, err := served.Write([]byte("x")); !errors.Is(err, net.ErrClosed) {
		t.Errorf("the giver writes to it: %v", err)
	}
	c := <-conns
	if name := c.Meta().Name; name != "shop" {
		t.Errorf("its name is %q", name)
	}
	_, err := c.Write([]byte("here"))
	must(t, err)
	must(t, c.Close())
	if text, err := io.ReadAll(client); err != nil || string(text) != "here" {
		t.Errorf("the client reads %q, %v", text, err)
	}
}

// What nobody takes comes back when it is asked for, and when the channel ends; it can be
// offered to another then.
func TestOfferThatIsNotTaken(t *testing.T) {
	for name, end := range map[string]func(peer *handoff.Peer, recall func()){
		"recalled":          func(_ *handoff.Peer, recall func()) { recall() },
		"the channel ended": func(peer *handoff.Peer, _ func()) { _ = peer.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			_, address := listen(t)
			other, otherAddress := listen(t)
			client, served := tcpPair(t)
			peer := dial(t, address)
			done := make(chan error, 1)
			recall, offered := peer.OfferConn(served, handoff.Meta{}, func(err error) { done <- err })
			if !offered {
				t.Fatal("it was not offered")
			}
			end(peer, recall)
			if err := awaitOffer(t, done); err == nil {
				t.Fatal("it was taken")
			}
			if peer.Pending() != 0 {
				t.Errorf("%d are pending", peer.Pending())
			}
			conns := accepted(other)
			must(t, dial(t, otherAddress).SendConn(testContext(t), served, handoff.Meta{}))
			c := <-conns
			_, err := c.Write([]byte("here"))
			must(t, err)
			must(t, c.Close())
			if text, err := io.ReadAll(client); err != nil || string(text) != "here" {
				t.Errorf("the client reads %q, %v", text, err)
			}
		})
	}
}

// Where giving would have to wait nothing is done.
func TestOfferWithoutRoom(t *testing.T) {
	_, address := listen(t, handoff.WithWindow(1))
	peer := dial(t, address)
	_, first := tcpPair(t)
	done := make(chan error, 1)
	if _, offered := peer.OfferConn(first, handoff.Meta{}, func(err error) { done <- err }); !offered {
		t.Fatal("the first was not offered")
	}
	client, second := tcpPair(t)
	if _, offered := peer.OfferConn(second, handoff.Meta{}, func(error) { t.Error("it was settled") }); offered {
		t.Fatal("the window has room for one")
	}
	must(t, peer.Close())
	if err := awaitOffer(t, done); err == nil {
		t.Error("the first was taken")
	}
	if _, offered := peer.OfferConn(second, handoff.Meta{}, func(error) { t.Error("it was settled") }); offered {
		t.Fatal("the channel has ended")
	}
	_, err := second.Write([]byte("mine"))
	must(t, err)
	must(t, second.Close())
	if text, err := io.ReadAll(client); err != nil || string(text) != "mine" {
		t.Errorf("the client reads %q, %v", text, err)
	}
}

// A channel may end at the moment in which something is offered.
func TestOfferWhileTheChannelEnds(t *testing.T) {
	_, address := listen(t)
	for range 200 {
		_, served := tcpPair(t)
		peer := dial(t, address)
		begin, closed := make(chan struct{}), make(chan struct{})
		go func() {
			<-begin
			_ = peer.Close()
			close(closed)
		}()
		done := make(chan error, 1)
		close(begin)
		if _, offered := peer.OfferConn(served, handoff.Meta{}, func(err error) { done <- err }); offered {
			if err := awaitOffer(t, done); err == nil {
				t.Error("it was taken")
			}
		}
		<-closed
		must(t, served.Close())
	}
}
