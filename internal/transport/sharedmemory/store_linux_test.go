package sharedmemory_test

import (
	"bytes"
	"errors"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nearcall/nearcall/internal/transport/sharedmemory"
	"github.com/nearcall/nearcall/internal/wire"
)

const testStoreBytes = 3 << 20

// storePair returns a store and the peer's view of it.
func storePair(t *testing.T, trusted, peerWrites bool) (made, attached *sharedmemory.Store) {
	t.Helper()
	made, err := sharedmemory.CreateStore(testStoreBytes, trusted)
	if err != nil {
		t.Fatal(err)
	}
	send := made.SendToRead
	if peerWrites {
		send = made.Send
	}
	err = send(func(descriptor int) error {
		duplicate, err := unix.FcntlInt(uintptr(descriptor), unix.F_DUPFD_CLOEXEC, 0)
		if err == nil {
			attached, err = sharedmemory.AttachStore(duplicate, peerWrites, trusted)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		made.Close()
		attached.Close()
	})
	return made, attached
}

// What one side writes the other reads, by system calls and by mappings, for the first time and later.
func TestStoresHoldWhatIsWritten(t *testing.T) {
	for _, trusted := range []bool{false, true} {
		for _, peerWrites := range []bool{false, true} {
			checkStore(t, trusted, peerWrites)
		}
	}
}

func checkStore(t *testing.T, trusted, peerWrites bool) {
	t.Helper()
	from, to := storePair(t, trusted, peerWrites)
	if peerWrites {
		from, to = to, from
	}
	for round := range 3 {
		data := bytes.Repeat([]byte{byte(round + 1)}, testStoreBytes-round)
		for at := 0; at < len(data); at += 1 << 20 {
			if err := from.Write(int64(at), data[at:min(at+1<<20, len(data))]); err != nil {
				t.Error(err)
				return
			}
		}
		got := make([]byte, len(data))
		view, err := to.View(int64(len(data)))
		if err == nil {
			err = to.Read(0, got)
		}
		if err != nil || !bytes.Equal(got, data) || !bytes.Equal(view, data) {
			t.Errorf("trusted %v, the peer writes %v, round %d: %v", trusted, peerWrites, round, err)
			return
		}
	}
}

func TestStoresHaveBounds(t *testing.T) {
	made, attached := storePair(t, true, false)
	for _, at := range []int64{-1, made.Bytes() - 1, made.Bytes(), 1 << 40} {
		if made.Write(at, []byte("xx")) == nil || attached.Read(at, make([]byte, 2)) == nil {
			t.Errorf("place %d is in a store of %d", at, made.Bytes())
		}
	}
	if _, err := made.View(made.Bytes() + 1); err == nil {
		t.Error("a view of more than the store has")
	}
}

// A store that is destroyed is empty for a peer that still has it, and says so.
func TestDestroyedStoresSaySo(t *testing.T) {
	made, attached := storePair(t, true, false)
	data := bytes.Repeat([]byte{7}, testStoreBytes)
	if err := errors.Join(made.Write(0, data), made.SetSerial(5)); err != nil {
		t.Fatal(err)
	}
	if serial, err := attached.Serial(); serial != 5 || err != nil {
		t.Errorf("serial %d, %v", serial, err)
	}
	if err := made.Destroy(); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, testStoreBytes)
	if err := attached.Read(0, got); err != nil || !bytes.Equal(got, make([]byte, testStoreBytes)) {
		t.Errorf("it holds %v, %v", got[:4], err)
	}
	if serial, err := attached.Serial(); serial != 0 || err != nil {
		t.Errorf("serial %d, %v", serial, err)
	}
	if err := made.Write(0, data); !errors.Is(err, sharedmemory.ErrStoreClosed) {
		t.Errorf("writing: %v", err)
	}
}

// Closing waits for nobody, and whoever reads meanwhile gets an error and no signal.
func TestStoresAreClosedWhileTheyAreRead(t *testing.T) {
	for range 20 {
		made, attached := storePair(t, true, false)
		if err := made.Write(0, make([]byte, testStoreBytes)); err != nil {
			t.Fatal(err)
		}
		var readers sync.WaitGroup
		for range 3 {
			readers.Go(func() {
				for into := make([]byte, testStoreBytes); attached.Read(0, into) == nil; {
				}
			})
		}
		if err := attached.Close(); err != nil {
			t.Error(err)
		}
		readers.Wait()
	}
}

func TestSizesOfStores(t *testing.T) {
	for payload, want := range map[int64]int64{1: 1 << 20, 1 << 20: 1 << 20, 1<<20 + 1: 2 << 20, 64 << 20: 64 << 20, 64<<20 + 1: 80 << 20,
		wire.ValueBytesMaxCeiling: wire.ValueBytesMaxCeiling} {
		if got := sharedmemory.StoreBytes(payload) - 4096; got != want {
			t.Errorf("a store for %d has %d, want %d", payload, got, want)
		}
	}
}
