package handoff

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/nearcall/nearcall/internal/wire"
)

const variableNotifySocket = "NOTIFY_SOCKET"

// storeTimeout is what systemd's own sd_notify_barrier waits by default.
const storeTimeout = 5 * time.Second

// StoreFDs makes systemd keep descriptors for the next start of this service, whether
// it is restarted or has crashed: Inherited then returns them under their names.
// StoreFDs returns when systemd has read all of them. The items stay open here and
// still belong to the caller. A Unix listener that was stored no longer removes its
// socket file when it is closed.
//
// The unit needs FileDescriptorStoreMax= above 0; systemd does not say when it throws
// descriptors away. Storing an item under a name that is in use adds to it: to replace
// what is stored, call RemoveFDs first. Without NOTIFY_SOCKET, and on other systems
// than Linux, the error is errors.ErrUnsupported.
func StoreFDs(items ...Item) error {
	return notifyManager("store", func(n *notifier) error {
		for _, item := range items {
			if err := n.store(item); err != nil {
				return fmt.Errorf("%q: %w", item.Name, err)
			}
		}
		return nil
	})
}

// RemoveFDs makes systemd close what it keeps under these names.
func RemoveFDs(names ...string) error {
	return notifyManager("remove", func(n *notifier) error {
		for _, name := range names {
			if err := checkStoredName(name); err != nil {
				return err
			}
			if err := n.send("FDSTOREREMOVE=1\nFDNAME=" + name); err != nil {
				return fmt.Errorf("%q: %w", name, err)
			}
		}
		return nil
	})
}

func notifyManager(op string, tell func(*notifier) error) error {
	address := os.Getenv(variableNotifySocket)
	n, err := openNotifier(address)
	if err == nil {
		defer n.close()
		if err = tell(n); err == nil {
			err = n.barrier()
		}
	}
	if err != nil {
		return &Error{Op: op, Address: address, Err: err}
	}
	return nil
}

// A notifier sends messages to the service manager, as sd_notify(3) describes.
type notifier struct{ socket *net.UnixConn }

func openNotifier(address string) (*notifier, error) {
	switch {
	case address == "":
		return nil, fmt.Errorf("%w: %s is not set; the service is not started by systemd, or its unit has NotifyAccess=none",
			errors.ErrUnsupported, variableNotifySocket)
	case address[0] != '/' && address[0] != '@':
		return nil, fmt.Errorf("%w: %s=%s is no Unix socket, so descriptors cannot travel", errors.ErrUnsupported, variableNotifySocket, address)
	}
	socket, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: address, Net: "unixgram"})
	if err != nil {
		return nil, err
	}
	return &notifier{socket}, socket.SetDeadline(time.Now().Add(storeTimeout))
}

func (n *notifier) close() { _ = n.socket.Close() }

func (n *notifier) send(text string) error {
	_, err := n.socket.Write([]byte(text))
	return err
}

func (n *notifier) store(item Item) error {
	text := "FDSTORE=1"
	if item.Name != "" {
		if err := checkStoredName(item.Name); err != nil {
			return err
		}
		text += "\nFDNAME=" + item.Name
	}
	source, err := storedSource(item)
	if err != nil {
		return err
	}
	raw, err := source.SyscallConn()
	if err != nil {
		return err
	}
	// File and Fd will not do: they would put the socket into blocking mode for
	// everybody.
	var failure error
	err = raw.Control(func(fd uintptr) { failure = n.sendDescriptor(text, fd) })
	return errors.Join(err, failure)
}

// storedSource returns the object that holds the item's descriptor.
func storedSource(item Item) (syscall.Conn, error) {
	switch {
	case item.File != nil:
		return item.File, nil
	case item.Listener == nil:
		return nil, errors.New("the item has neither a listener nor a file")
	}
	if listener, ok := item.Listener.(*net.UnixListener); ok {
		listener.SetUnlinkOnClose(false)
	}
	source, ok := item.Listener.(syscall.Conn)
	if !ok {
		return nil, fmt.Errorf("%w: a %T has no descriptor", errors.ErrUnsupported, item.Listener)
	}
	return source, nil
}

// barrier waits until the manager has read all that was sent before. It gives the
// manager one end of a pipe, which the manager closes when it comes to it.
func (n *notifier) barrier() error {
	ours, theirs, err := os.Pipe()
	if err != nil {
		return err
	}
	defer ours.Close()
	raw, err := theirs.SyscallConn()
	if err != nil {
		return errors.Join(err, theirs.Close())
	}
	var failure error
	err = raw.Control(func(fd uintptr) { failure = n.sendDescriptor("BARRIER=1", fd) })
	if err := errors.Join(err, failure, theirs.Close(), ours.SetReadDeadline(time.Now().Add(storeTimeout))); err != nil {
		return err
	}
	if _, err := ours.Read(make([]byte, 1)); errors.Is(err, os.ErrDeadlineExceeded) {
		return fmt.Errorf("the service manager has not read it yet: %w", err)
	}
	return nil
}

// checkStoredName refuses names that systemd would drop without a word.
func checkStoredName(name string) error {
	printable := func(r rune) bool { return r >= ' ' && r < 0x7f && r != ':' }
	bad := strings.IndexFunc(name, func(r rune) bool { return !printable(r) })
	if name == "" || len(name) > wire.HandoffNameBytesMax || bad >= 0 {
		return fmt.Errorf("%q cannot be stored: a name has 1 to %d printable ASCII characters and no colon", name, wire.HandoffNameBytesMax)
	}
	return nil
}
