package front

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/nearcall/nearcall/cmd/nearcall/internal/front/config"
	"github.com/nearcall/nearcall/handoff"
	"github.com/nearcall/nearcall/internal/transport/unixsocket"
)

// aside is what a front serves besides its clients: successors and Prometheus.
type aside struct {
	front  *Front
	config *config.Config
	ctx    context.Context
	stop   context.CancelFunc
	// successors are told when the addresses are free.
	successors chan *os.File
	draining   sync.Once

	mutex   sync.Mutex
	control *handoff.Listener
	metrics *http.Server
}

// asideRetry is between two attempts to get the addresses of a front that ends.
const asideRetry = 100 * time.Millisecond

// serveAside opens the addresses of successors and Prometheus. shared: another front
// has the same listeners and probably these addresses, until it ends; then they are
// opened later.
func (f *Front) serveAside(c *config.Config, shared bool) (*aside, error) {
	ctx, stop := context.WithCancel(f.ctx)
	a := &aside{front: f, config: c, ctx: ctx, stop: stop, successors: make(chan *os.File, 1)}
	err := a.open()
	switch {
	case err == nil:
	case shared:
		f.log.Warn("another front has an address; waiting for it", "error", err)
		go a.openLater()
	default:
		a.close()
		return nil, err
	}
	return a, nil
}

func (a *aside) openLater() {
	ticker := time.NewTicker(asideRetry)
	defer ticker.Stop()
	for {
		select {
		case <-a.ctx.Done():
			return
		case <-ticker.C:
		}
		if a.open() == nil {
			a.front.log.Info("has the addresses of the front before")
			return
		}
	}
}

// open opens what is not open yet.
func (a *aside) open() error {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	if err := a.ctx.Err(); err != nil {
		return err
	}
	return errors.Join(a.openControl(), a.openMetrics())
}

func (a *aside) openControl() error {
	if a.config.Control == "" || a.control != nil {
		return nil
	}
	control, err := handoff.Listen(a.config.Control, handoff.WithListeners(a.front.offered), handoff.WithLogger(a.front.log))
	if err != nil {
		return fmt.Errorf("control.address %s: %w", a.config.Control, err)
	}
	a.control = control
	go a.listenToSuccessors(control)
	return nil
}

func (a *aside) openMetrics() error {
	if a.config.Metrics == "" || a.metrics != nil {
		return nil
	}
	socket, err := open(a.ctx, config.Listen{Address: a.config.Metrics})
	if err != nil {
		return fmt.Errorf("metrics.address %s: %w", a.config.Metrics, err)
	}
	const headTimeout = 10 * time.Second
	server := &http.Server{Handler: a.front.metrics.handler(a.front), ReadHeaderTimeout: headTimeout}
	a.metrics = server
	go func() {
		if err := server.Serve(careful{socket}); !errors.Is(err, http.ErrServerClosed) {
			a.front.log.Error("metrics are served no more", "error", err)
		}
	}()
	return nil
}

// A careful listener's connections end with the first descriptor that comes on them, where
// the kernel cannot refuse it, and whoever reads does not wait until that is closed.
type careful struct{ net.Listener }

func (l careful) Accept() (net.Conn, error) {
	accepted, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return unixsocket.Transport{}.Wrap(accepted), nil
}

// listenToSuccessors drains the front when one of them has its listeners.
func (a *aside) listenToSuccessors(control *handoff.Listener) {
	for {
		file, meta, err := control.AcceptFile(a.ctx)
		if err != nil {
			return
		}
		if meta.Name != drainName {
			a.front.log.Warn("a file that nobody asked for was closed", "name", meta.Name)
			file.Close()
			continue
		}
		select {
		case a.successors <- file:
			a.draining.Do(func() { close(a.front.drain) })
		default:
			file.Close()
		}
	}
}

// close frees the addresses, and tells the successor so.
func (a *aside) close() {
	a.stop()
	a.mutex.Lock()
	defer a.mutex.Unlock()
	if a.control != nil {
		a.control.Close()
	}
	if a.metrics != nil {
		a.metrics.Close()
	}
	select {
	case successor := <-a.successors:
		successor.Close()
	default:
	}
}
