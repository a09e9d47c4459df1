package transporttest

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/nearcall/nearcall/internal/transport"
)

// carrier holds the carriers that are made of the subject's connections to the contract
// of transport.Carrier.
func (s suite) carrier(t *testing.T) {
	t.Run("BuffersArriveInOrder", s.buffersInOrder)
	t.Run("BuffersSayWhatWasTaken", s.buffersTaken)
	t.Run("EndSaysWhatIsCertain", s.certainty)
	t.Run("OfferDoesNotWait", s.offerDoesNotWait)
	t.Run("OfferEndsAtTheDeadline", s.offerDeadline)
	t.Run("OfferGoesOnWhenThereIsRoom", s.offerGoesOn)
}

// carriers returns both ends of a connection, each of them in its turn first.
func (s suite) carriers(t *testing.T, test func(t *testing.T, one, other transport.Carrier)) {
	t.Helper()
	for i, name := range []string{"caller", "server"} {
		t.Run(name, func(t *testing.T) {
			caller, server := s.pair(t)
			ends := [2]transport.Carrier{transport.Carry(caller), transport.Carry(server)}
			test(t, ends[i], ends[1-i])
		})
	}
}

// offering is carriers for those that offer room.
func (s suite) offering(t *testing.T, test func(t *testing.T, one transport.OfferingCarrier, other transport.Carrier)) {
	t.Helper()
	s.carriers(t, func(t *testing.T, one, other transport.Carrier) {
		if offering, ok := one.(transport.OfferingCarrier); ok {
			test(t, offering, other)
			return
		}
		if _, parks := s.subject.(transport.ParkingTransport); !parks {
			t.Fatalf("%T offers no room, which callers need", one)
		}
	})
}

// pattern returns bytes of which no two pieces that are one after the other are alike.
func pattern(count int) []byte {
	block := make([]byte, 8191)
	for i := range block {
		block[i] = byte(i * 7 >> 3)
	}
	return bytes.Repeat(block, count/len(block)+1)[:count]
}

// moreThanFits is more than a connection takes when nobody reads.
const moreThanFits = 24 << 20

func (s suite) buffersInOrder(t *testing.T) {
	s.carriers(t, func(t *testing.T, one, other transport.Carrier) {
		data := pattern(3 << 20)
		sent := make(chan error, 1)
		go func() {
			n, err := one.WriteBuffers(net.Buffers{bytes.Clone(data[:100]), nil, bytes.Clone(data[100 : 1<<20]), bytes.Clone(data[1<<20:])})
			if err == nil && n != int64(len(data)) {
				err = errors.New("not all was taken")
			}
			sent <- err
		}()
		got := make([]byte, len(data))
		if _, err := io.ReadFull(other, got); err != nil || !bytes.Equal(got, data) {
			t.Fatalf("what was read is not what was written: %v", err)
		}
		if err := <-sent; err != nil {
			t.Fatal(err)
		}
	})
}

// The bytes that were taken are exactly those that arrive.
func (s suite) buffersTaken(t *testing.T) {
	s.carriers(t, func(t *testing.T, one, other transport.Carrier) {
		data := pattern(moreThanFits)
		one.SetWriteDeadline(time.Now().Add(20 * time.Millisecond))
		n, err := one.WriteBuffers(net.Buffers{bytes.Clone(data[:1000]), bytes.Clone(data[1000:])})
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("write to a peer that does not read: %v, want the deadline", err)
		}
		go one.Close()
		got, err := io.ReadAll(other)
		if err != nil || !bytes.Equal(got, data[:n]) {
			t.Errorf("%d bytes arrived (%v), and %d were taken", len(got), err, n)
		}
	})
}

func (s suite) certainty(t *testing.T) {
	for name, unread := range map[string]bool{"Unread": true, "Read": false} {
		t.Run(name, func(t *testing.T) {
			s.carriers(t, func(t *testing.T, one, other transport.Carrier) {
				want := error(io.EOF)
				if unread {
					want = syscall.ECONNRESET
				}
				if one.Certainty() != transport.UnreadReported {
					return // nothing is promised
				}
				if _, err := one.Write([]byte("xy")); err != nil {
					t.Fatal(err)
				}
				got := make([]byte, 2)
				if unread {
					got = got[:1]
				}
				if _, err := io.ReadFull(other, got); err != nil {
					t.Fatal(err)
				}
				other.Close()
				if _, err := one.Read(make([]byte, 1)); !errors.Is(err, want) {
					t.Errorf("the stream ends with %v, want %v", err, want)
				}
			})
		})
	}
}

// fill offers bytes until there is no more room, and returns how many were taken.
func fill(t *testing.T, one transport.OfferingCarrier, data []byte) (taken int) {
	t.Helper()
	err := one.Offer(func(room transport.Room) bool {
		for {
			n, err := room.WriteNow(data[taken:])
			if err != nil {
				t.Error(err)
			}
			taken += n
			if n == 0 || err != nil {
				return true
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return taken
}

func (s suite) offerDoesNotWait(t *testing.T) {
	s.offering(t, func(t *testing.T, one transport.OfferingCarrier, other transport.Carrier) {
		data := pattern(moreThanFits)
		taken := fill(t, one, data)
		if taken == 0 || taken == len(data) {
			t.Fatalf("%d bytes of %d were taken", taken, len(data))
		}
		go one.Close()
		if got, err := io.ReadAll(other); err != nil || !bytes.Equal(got, data[:taken]) {
			t.Errorf("%d bytes arrived (%v), and %d were taken", len(got), err, taken)
		}
	})
}

func (s suite) offerDeadline(t *testing.T) {
	s.offering(t, func(t *testing.T, one transport.OfferingCarrier, _ transport.Carrier) {
		fill(t, one, pattern(moreThanFits))
		one.SetWriteDeadline(time.Now().Add(20 * time.Millisecond))
		if err := one.Offer(func(transport.Room) bool { return false }); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("offered to a peer that does not read: %v, want the deadline", err)
		}
	})
}

// Each time the peer has made room, more is asked for, and nothing is left out.
func (s suite) offerGoesOn(t *testing.T) {
	s.offering(t, func(t *testing.T, one transport.OfferingCarrier, other transport.Carrier) {
		data := pattern(8 << 20)
		sent := make(chan error, 1)
		go func() {
			taken := 0
			sent <- one.Offer(func(room transport.Room) bool {
				n, err := 1, error(nil)
				for n > 0 && err == nil && taken < len(data) {
					n, err = room.WriteNow(data[taken:])
					taken += n
				}
				return taken == len(data) || err != nil
			})
		}()
		got := make([]byte, len(data))
		if _, err := io.ReadFull(other, got); err != nil || !bytes.Equal(got, data) {
			t.Fatalf("what was read is not what was offered: %v", err)
		}
		if err := <-sent; err != nil {
			t.Fatal(err)
		}
	})
}
