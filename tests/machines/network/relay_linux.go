package network

import (
	"errors"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// A frame of Ethernet, and of the kernel's segments before they are cut up.
	frameBytesMax = 65_536 + 18
	// Frames that are on their way in one direction. What comes beyond them is lost, as at a
	// router.
	framesMax = 4096
)

// A relay passes frames between two TAP devices, that of a host and that of the switch. Frames
// of such devices have whole checksums, other than those of virtual Ethernet.
type relay struct {
	devices [2]*os.File
	passing sync.WaitGroup

	mu            sync.Mutex
	least, spread time.Duration
	held          chan struct{} // nil: frames pass; otherwise closed when they pass again
}

func newRelay(own, bridge *space, port string) (*relay, error) {
	r := new(relay)
	err := all(
		func() error { return own.do(func() error { return r.open(0, "eth0") }) },
		func() error { return bridge.do(func() error { return r.open(1, port) }) },
	)
	if err != nil {
		r.close()
		return nil, err
	}
	r.passing.Go(func() { r.pass(r.devices[0], r.devices[1]) })
	r.passing.Go(func() { r.pass(r.devices[1], r.devices[0]) })
	return r, nil
}

// open makes a device in the thread's namespace. It is there until it is closed.
func (r *relay) open(i int, name string) error {
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return &os.PathError{Op: "open", Path: "/dev/net/tun", Err: err}
	}
	request, err := unix.NewIfreq(name)
	if err == nil {
		request.SetUint16(unix.IFF_TAP | unix.IFF_NO_PI)
		err = unix.IoctlIfreq(fd, unix.TUNSETIFF, request)
	}
	if err != nil {
		unix.Close(fd)
		return &os.PathError{Op: "make", Path: name, Err: err}
	}
	r.devices[i] = os.NewFile(uintptr(fd), name)
	return nil
}

func (r *relay) close() {
	r.hold(false)
	for _, device := range r.devices {
		if device != nil {
			device.Close()
		}
	}
	r.passing.Wait()
}

func (r *relay) delay(least, spread time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.least, r.spread = least, spread
}

func (r *relay) hold(wanted bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case wanted && r.held == nil:
		r.held = make(chan struct{})
	case !wanted && r.held != nil:
		close(r.held)
		r.held = nil
	}
}

// due returns when a frame that has come now is to go on.
func (r *relay) due() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	after := r.least
	if r.spread > 0 {
		after += rand.N(r.spread)
	}
	return time.Now().Add(after)
}

// A frame that is on its way.
type frame struct {
	bytes []byte
	due   time.Time
}

// pass passes frames on until a device is closed.
func (r *relay) pass(from, to *os.File) {
	frames := make(chan frame, framesMax)
	defer close(frames)
	r.passing.Go(func() { r.deliver(frames, to) })
	buffer := make([]byte, frameBytesMax)
	for {
		count, err := from.Read(buffer)
		if err != nil && errors.Is(err, os.ErrClosed) {
			return
		}
		if err != nil {
			// A device that is down has nothing to read, and says so by EIO or EBADFD.
			time.Sleep(time.Millisecond)
			continue
		}
		select {
		case frames <- frame{append([]byte(nil), buffer[:count]...), r.due()}:
		default:
		}
	}
}

func (r *relay) deliver(frames <-chan frame, to *os.File) {
	for next := range frames {
		if wait := time.Until(next.due); wait > 0 {
			time.Sleep(wait)
		}
		r.mu.Lock()
		held := r.held
		r.mu.Unlock()
		if held != nil {
			<-held
		}
		// A device that is down takes none: the frame is lost.
		to.Write(next.bytes)
	}
}
