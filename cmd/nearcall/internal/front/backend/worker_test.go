package backend_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/nearcall/nearcall/cmd/nearcall/internal/front/backend"
	"github.com/nearcall/nearcall/cmd/nearcall/internal/front/config"
	"github.com/nearcall/nearcall/handoff"
)

// A worker does one thing at a time, as those of prefork servers do: while it serves a
// connection it reads nothing of its channels, accepts none, and answers no ping. This is
// spec/handoff.md by hand, for a process in Go would answer pings meanwhile.
type worker struct {
	t        *testing.T
	listener *net.UnixListener
	// serves is how long it takes for each connection.
	serves func() time.Duration

	mutex   sync.Mutex
	channel *net.UnixConn
	served  int
	refuses bool // as one that lacks descriptors
	ended   bool
}

const (
	frameBytes  = 32
	typeGive    = 1
	typeTaken   = 2
	typeRefused = 3
	typePing    = 8
	typePong    = 9
)

func (f *fixture) worker(name string, serves func() time.Duration) *worker {
	f.t.Helper()
	address := &net.UnixAddr{Net: "unix", Name: strings.TrimPrefix(f.address(name), "unix:")}
	l, err := net.ListenUnix("unix", address)
	must(f.t, err)
	w := &worker{t: f.t, listener: l, serves: serves}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		w.run()
	}()
	f.t.Cleanup(func() {
		w.end()
		<-ended
	})
	return w
}

func (w *worker) end() {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	w.ended = true
	w.listener.Close()
	if w.channel != nil {
		w.channel.Close()
	}
}

func (w *worker) isRefusing() bool {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	return w.refuses
}

func (w *worker) count() int {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	return w.served
}

// run serves one channel at a time.
func (w *worker) run() {
	for {
		channel, err := w.listener.AcceptUnix()
		if err != nil {
			return
		}
		w.mutex.Lock()
		w.channel = channel
		if w.ended {
			channel.Close()
		}
		w.mutex.Unlock()
		if w.greet(channel) == nil {
			for w.turn(channel) == nil {
			}
		}
		channel.Close()
	}
}

func (w *worker) greet(channel *net.UnixConn) error {
	const helloBytes = 40
	hello := make([]byte, helloBytes)
	if _, err := io.ReadFull(channel, hello); err != nil {
		return err
	}
	binary.LittleEndian.PutUint16(hello[12:], 1)
	binary.LittleEndian.PutUint16(hello[14:], 1)
	binary.LittleEndian.PutUint32(hello[20:], 1)
	binary.LittleEndian.PutUint32(hello[24:], 64)
	_, err := channel.Write(hello)
	return err
}

// turn reads all that has come, answers it, takes one connection, and serves that.
func (w *worker) turn(channel *net.UnixConn) error {
	frames, descriptors, err := receive(channel)
	if err != nil {
		return err
	}
	var gifts []uint64
	for frame := range frames {
		id := binary.LittleEndian.Uint64(frame[8:])
		switch frame[4] {
		case typeGive:
			gifts = append(gifts, id)
		case typePing:
			err = answer(channel, typePong, id, 0)
		}
		if err != nil {
			return err
		}
	}
	for i, descriptor := range descriptors {
		must(w.t, syscall.Close(descriptor))
		if w.isRefusing() {
			const noDescriptor = 2
			if err := answer(channel, typeRefused, gifts[i], noDescriptor); err != nil {
				return err
			}
			continue
		}
		if err := answer(channel, typeTaken, gifts[i], 0); err != nil {
			return err
		}
		w.mutex.Lock()
		w.served++
		w.mutex.Unlock()
		time.Sleep(w.serves()) // It is what a worker does.
	}
	return nil
}

// receive returns what one read has: whole frames, for all that is sent here is short.
func receive(channel *net.UnixConn) (frames func(func([]byte) bool), descriptors []int, err error) {
	const room = 1 << 16
	text, control := make([]byte, room), make([]byte, syscall.CmsgSpace(4*64))
	n, controlBytes, _, _, err := channel.ReadMsgUnix(text, control)
	if err != nil || n == 0 {
		return nil, nil, io.EOF
	}
	messages, err := syscall.ParseSocketControlMessage(control[:controlBytes])
	if err != nil {
		return nil, nil, err
	}
	for i := range messages {
		more, err := syscall.ParseUnixRights(&messages[i])
		if err != nil {
			return nil, nil, err
		}
		descriptors = append(descriptors, more...)
	}
	return func(yield func([]byte) bool) {
		for rest := bytes.NewBuffer(text[:n]); rest.Len() >= frameBytes; {
			frame := rest.Next(frameBytes)
			rest.Next(int(binary.LittleEndian.Uint32(frame)))
			if !yield(frame) {
				return
			}
		}
	}, descriptors, nil
}

func answer(channel *net.UnixConn, kind byte, id uint64, reason byte) error {
	frame := make([]byte, frameBytes)
	frame[4], frame[6] = kind, reason
	binary.LittleEndian.PutUint64(frame[8:], id)
	_, err := channel.Write(frame)
	return err
}

func always(d time.Duration) func() time.Duration { return func() time.Duration { return d } }

// Workers that are busy are waited for, however long, and none is idle while a connection
// waits: the kernel would do as well with a listening socket that they share.
func TestBusyWorkers(t *testing.T) {
	f := newFixture(t)
	const each, count = 400 * time.Millisecond, 8
	one, two := f.worker("one", always(each)), f.worker("two", always(each))
	b := f.backend(2, each/2, "one", "two")
	began := time.Now()
	var results []<-chan error
	for range count {
		results = append(results, send(t, b))
	}
	for _, result := range results {
		must(t, <-result)
	}
	await(t, "all are served", func() bool { return one.count()+two.count() == count })
	// The last two are taken when the others are done. One worker would take twice as long,
	// and more; a busy machine takes some time as well.
	ideal := each * (count/2 - 1)
	if took := time.Since(began); took > ideal+2*each {
		t.Errorf("it took %v, want about %v", took, ideal)
	}
	if f.said("takes connections") != 2 {
		t.Error("a busy worker lost its channel")
	}
}

// A connection does not wait behind a long one while another worker is free.
func TestLongRequest(t *testing.T) {
	f := newFixture(t)
	var isLong atomic.Bool
	over := make(chan struct{})
	defer close(over)
	serves := func() time.Duration {
		if isLong.CompareAndSwap(true, false) {
			<-over
		}
		return 2 * time.Millisecond
	}
	f.worker("one", serves)
	f.worker("two", serves)
	b := f.backend(2, time.Minute, "one", "two")
	for range 100 { // so that both are known to be quick
		must(t, <-send(t, b))
	}
	isLong.Store(true)
	must(t, <-send(t, b))
	for range 100 {
		select {
		case err := <-send(t, b):
			must(t, err)
		case <-time.After(patience):
			t.Fatal("a short one waits behind the long one")
		}
	}
}

// A worker that dies while it is busy is gone at once, and what it had not taken goes to
// another.
func TestBusyWorkerDies(t *testing.T) {
	f := newFixture(t)
	one := f.worker("one", always(time.Second))
	b := f.backend(1, 20*time.Millisecond, "one")
	must(t, <-send(t, b))
	result := send(t, b)
	one.end()
	if err := <-result; err == nil || !strings.Contains(err.Error(), backend.ErrNobody.Error()) {
		t.Errorf("got %v", err)
	}
}

// A process that lacks descriptors is left alone for a while each time, and gets what waits
// when it has some.
func TestProcessThatRefuses(t *testing.T) {
	f := newFixture(t)
	w := f.worker("one", always(0))
	w.mutex.Lock()
	w.refuses = true
	w.mutex.Unlock()
	b := f.backend(1, time.Minute, "one")
	const count = 32
	var results []<-chan error
	for range count {
		results = append(results, send(t, b))
	}
	time.Sleep(time.Second) // How often it is asked in that time is the point.
	f.mutex.Lock()
	refused := len(f.refused)
	f.mutex.Unlock()
	if refused == 0 || refused > 20 {
		t.Errorf("%d were refused in a second", refused)
	}
	w.mutex.Lock()
	w.refuses = false
	w.mutex.Unlock()
	for _, result := range results {
		must(t, <-result)
	}
}

// A process that refuses all is none: after the waiting time the client is told.
func TestProcessThatRefusesForLong(t *testing.T) {
	f := newFixture(t)
	w := f.worker("one", always(0))
	w.mutex.Lock()
	w.refuses = true
	w.mutex.Unlock()
	b := f.backend(1, 200*time.Millisecond, "one")
	err := <-send(t, b)
	if !errors.Is(err, backend.ErrNobody) || !errors.Is(err, handoff.ErrNoDescriptor) {
		t.Errorf("got %v", err)
	}
}

// Weights say how much each process gets.
func TestWeights(t *testing.T) {
	f := newFixture(t)
	one, two := f.worker("one", always(0)), f.worker("two", always(0))
	c := config.Backend{Name: "b", Wait: time.Minute, Sockets: []string{f.address("one"), f.address("two")}, Weights: []int{3, 1}}
	b := f.apply(2, c)
	for range 100 { // so that both are known to be quick, and free each time
		must(t, <-send(t, b))
	}
	oneBefore, twoBefore := one.count(), two.count()
	for range 400 {
		must(t, <-send(t, b))
	}
	got, other := one.count()-oneBefore, two.count()-twoBefore
	if got < 250 || other < 70 {
		t.Errorf("they got %d and %d, want about 300 and 100", got, other)
	}
}
