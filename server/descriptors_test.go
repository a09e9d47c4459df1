package server_test

import (
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nearcall/nearcall/internal/rights/rightstest"
	"github.com/nearcall/nearcall/internal/wire"
	"github.com/nearcall/nearcall/server"
	"github.com/nearcall/nearcall/status"
)

// fileArgument is a payload of one argument, the frame's first descriptor.
var fileArgument = []byte{0x91, 0xD4, 1, 0}

func fileServer(t testing.TB, options ...server.Option) *server.Server {
	s := newServer(t, append([]server.Option{server.WithFileDescriptors(nil)}, options...)...)
	register(t, s, "read", func(file *os.File) ([]byte, error) {
		defer file.Close()
		return io.ReadAll(file)
	})
	register(t, s, "open", func(path string) (*os.File, error) { return os.Open(path) })
	register(t, s, "one", func() int64 { return 1 })
	return s
}

func connectWithFiles(t testing.TB, path string) *caller {
	t.Helper()
	c := dial(t, path)
	offer := hello()
	offer.Offered |= wire.FeatureDescriptors
	c.greet(offer)
	c.parser = wire.Parser{From: wire.ServerSide, FrameBytesMax: wire.FrameBytesMaxCeiling, Features: c.welcome.Accepted}
	return c
}

func (c *caller) request(name string, announced uint8, payload []byte) []byte {
	c.lastID++
	frame := wire.Frame{
		Header:     wire.Header{Type: wire.Request, Codec: wire.CodecMessagePack, CallID: c.lastID, Descriptors: announced},
		Extensions: wire.AppendExtension(nil, wire.ExtensionFunctionName, name),
		Payload:    payload,
	}
	return frame.Append(nil)
}

func (c *caller) sendWith(data []byte, files ...*os.File) {
	c.t.Helper()
	if err := c.trySendWith(data, files...); err != nil {
		c.t.Fatal(err)
	}
}

// sendMoreWith is sendWith for what follows a breach, which may have ended the
// connection already.
func (c *caller) sendMoreWith(data []byte, files ...*os.File) {
	c.t.Helper()
	if err := c.trySendWith(data, files...); err != nil && !errors.Is(err, unix.EPIPE) {
		c.t.Fatal(err)
	}
}

func (c *caller) trySendWith(data []byte, files ...*os.File) error {
	var list []int
	for _, file := range files {
		list = append(list, int(file.Fd()))
	}
	var rights []byte
	if len(list) > 0 {
		rights = unix.UnixRights(list...)
	}
	_, _, err := c.conn.WriteMsgUnix(data, rights, nil)
	return err
}

func textFile(t testing.TB, text string) *os.File {
	t.Helper()
	path := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close() })
	return file
}

// wantNoneLeft waits until no more descriptors are open than before.
func wantNoneLeft(t testing.TB, before int) {
	t.Helper()
	for until := time.Now().Add(testTimeout); openDescriptors(t) > before; time.Sleep(time.Millisecond) {
		if time.Now().After(until) {
			t.Fatalf("%d descriptors are open, %d before", openDescriptors(t), before)
		}
	}
}

func (c *caller) wantText(want string) {
	c.t.Helper()
	if _, value, failure := c.result(); failure != nil || string(value.([]byte)) != want {
		c.t.Errorf("got %q, %v", value, failure)
	}
}

// Frames are told apart however they lie in messages: behind others, in two
// pieces, and with a payload behind which the next begins.
func TestDescriptorsFindTheirFrame(t *testing.T) {
	c := connectWithFiles(t, start(t, fileServer(t)))
	before := openDescriptors(t)
	one := c.request("one", 0, []byte{0x90})
	c.send(one)
	c.sendWith(c.request("read", 1, fileArgument), textFile(t, "behind another"))
	if _, value, _ := c.result(); value != int64(1) {
		t.Errorf("got %v", value)
	}
	c.wantText("behind another")

	pieces := c.request("read", 1, fileArgument)
	c.sendWith(pieces[:5], textFile(t, "in pieces"))
	c.send(pieces[5:20])
	time.Sleep(time.Millisecond)
	rest := pieces[20:]
	c.send(rest[:3])
	second := c.request("read", 1, fileArgument)
	c.send(rest[3:])
	c.sendWith(second, textFile(t, "and the next"))
	texts := map[string]bool{}
	for range 2 {
		_, value, failure := c.result()
		if failure != nil {
			t.Fatal(failure)
		}
		texts[string(value.([]byte))] = true
	}
	if !texts["in pieces"] || !texts["and the next"] {
		t.Error(texts)
	}
	wantNoneLeft(t, before+4)
}

// forbidden is what a caller must not do; it costs the connection.
var forbidden = map[string]func(c *caller, file *os.File){
	"none where one is announced": func(c *caller, _ *os.File) { c.send(c.request("read", 1, fileArgument)) },
	"two where one is announced":  func(c *caller, file *os.File) { c.sendWith(c.request("read", 1, fileArgument), file, file) },
	"one where none is announced": func(c *caller, file *os.File) { c.sendWith(c.request("one", 0, []byte{0x90}), file) },
	"in the middle of a frame": func(c *caller, file *os.File) {
		request := c.request("read", 1, fileArgument)
		c.send(request[:wire.HeaderBytes])
		time.Sleep(10 * time.Millisecond) // so that it is read alone
		c.sendWith(request[wire.HeaderBytes:], file)
	},
	"with the middle as well": func(c *caller, file *os.File) {
		request := c.request("read", 1, fileArgument)
		c.sendWith(request[:wire.HeaderBytes], file)
		c.sendMoreWith(request[wire.HeaderBytes:], file)
	},
	"with each byte": func(c *caller, file *os.File) {
		for _, b := range c.request("read", 1, fileArgument)[:5] {
			c.sendMoreWith([]byte{b}, file)
		}
	},
	"with CANCEL": func(c *caller, file *os.File) {
		frame := wire.Frame{Header: wire.Header{Type: wire.Cancel, CallID: 1, Descriptors: 1}}
		c.sendWith(frame.Append(nil), file)
	},
	"more than the limit announced": func(c *caller, file *os.File) {
		c.send(c.request("read", wire.FileDescriptorsPerFrameMax+1, fileArgument))
	},
}

func TestForbiddenDescriptors(t *testing.T) {
	for name, break1 := range forbidden {
		t.Run(name, func(t *testing.T) {
			path := start(t, fileServer(t))
			file := textFile(t, "")
			before := openDescriptors(t)
			c := connectWithFiles(t, path)
			break1(c, file)
			_, _, failure := c.result()
			wantFailure(t, failure, status.InvalidArgument, status.OutcomeNotExecuted)
			c.wantEnd()
			c.conn.Close()
			wantNoneLeft(t, before)
		})
	}
}

func TestDescriptorsThatWereNotAgreedTo(t *testing.T) {
	if !rightstest.OnOldKernel(t) {
		return
	}
	for name, connect := range map[string]func(testing.TB, string) *caller{"not offered": connect, "not allowed": connectWithFiles} {
		t.Run(name, func(t *testing.T) {
			asked := new(atomic.Int64)
			path := start(t, fileServer(t, server.WithFileDescriptors(func(peer server.Peer) bool {
				asked.Add(1)
				return name == "not offered" && peer.Local && peer.UserID == uint32(os.Geteuid())
			})))
			before := openDescriptors(t)
			c := connect(t, path)
			if c.welcome.Accepted&wire.FeatureDescriptors != 0 {
				t.Fatal("the feature was accepted")
			}
			_, failure := c.call("open", os.DevNull)
			want := status.PermissionDenied
			if name == "not offered" {
				want = status.FailedPrecondition
			}
			wantFailure(t, failure, want, status.OutcomeNotExecuted)
			c.sendWith(c.request("one", 0, []byte{0x90}), os.Stderr)
			_, _, failure = c.result()
			wantFailure(t, failure, status.InvalidArgument, status.OutcomeNotExecuted)
			c.wantEnd()
			c.conn.Close()
			wantNoneLeft(t, before)
			if asked.Load() == 0 {
				t.Error("nobody asked whether the peer may")
			}
		})
	}
}

func TestFilesNotInJSON(t *testing.T) {
	path := start(t, fileServer(t))
	c := connectWithFiles(t, path)
	frame := wire.ParseHeader(c.request("read", 1, nil))
	frame.Codec = wire.CodecJSON
	request := wire.Frame{Header: frame, Extensions: wire.AppendExtension(nil, wire.ExtensionFunctionName, "read"), Payload: []byte(`[0]`)}
	c.sendWith(request.Append(nil), textFile(t, ""))
	_, _, failure := c.result()
	wantFailure(t, failure, status.InvalidArgument, status.OutcomeNotExecuted)
	simple, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer simple.Close()
	body := `{"f":"open","a":["/dev/null"]}`
	simple.Write(append([]byte{0, 0, 0, byte(len(body))}, body...))
	answer := make([]byte, 4096)
	n, err := simple.Read(answer)
	if err != nil || n < 20 || string(answer[4:14]) != `{"ok":fals` {
		t.Errorf("%q, %v", answer[:n], err)
	}
}

// Values that name descriptors wrongly are refused, and what came is closed.
func TestWrongNumbers(t *testing.T) {
	s := fileServer(t)
	register(t, s, "two", func(a, b *os.File) error { panic("not to be run") })
	c := connectWithFiles(t, start(t, s))
	file := textFile(t, "")
	before := openDescriptors(t)
	for name, payload := range map[string][]byte{
		"the same twice": {0x92, 0xD4, 1, 0, 0xD4, 1, 0}, "beyond the last": {0x92, 0xD4, 1, 0, 0xD4, 1, 2},
		"another extension": {0x92, 0xD4, 2, 0, 0xD4, 1, 1}, "two bytes": {0x92, 0xD5, 1, 0, 0, 0xD4, 1, 1},
		"cut off": {0x92, 0xD4, 1, 0, 0xD4, 1}, "a number": {0x92, 0xD4, 1, 0, 1},
	} {
		c.sendWith(c.request("two", 2, payload), file, file)
		_, _, failure := c.result()
		wantFailure(t, failure, status.InvalidArgument, status.OutcomeNotExecuted)
		if t.Failed() {
			t.Fatal(name)
		}
	}
	wantNoneLeft(t, before)
}

// A server without room for one more descriptor refuses the call and goes on. It
// runs in a process of its own, because the limit is the process's.
func TestNoRoomForDescriptors(t *testing.T) {
	if path := os.Getenv("NEARCALL_TEST_NO_ROOM"); path != "" {
		serveWithoutRoom(t, path)
		return
	}
	path := filepath.Join(t.TempDir(), "s")
	child := exec.Command(os.Args[0], "-test.run=^TestNoRoomForDescriptors$")
	child.Env = append(os.Environ(), "NEARCALL_TEST_NO_ROOM="+path)
	child.Stderr = os.Stderr
	input, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	defer child.Wait()
	defer input.Close()
	for until := time.Now().Add(testTimeout); ; time.Sleep(time.Millisecond) {
		if _, err := os.Stat(path); err == nil {
			break
		}
		if time.Now().After(until) {
			t.Fatal("the server does not listen")
		}
	}
	c := connectWithFiles(t, path)
	if _, failure := c.call("fill"); failure != nil {
		t.Fatal(failure)
	}
	for range 3 {
		c.sendWith(c.request("read", 1, fileArgument), textFile(t, ""))
		_, _, failure := c.result()
		wantFailure(t, failure, status.ResourceExhausted, status.OutcomeNotExecuted)
	}
	if value, failure := c.call("give_back"); failure != nil || value != int64(1) {
		t.Fatal(value, failure)
	}
	c.sendWith(c.request("read", 1, fileArgument), textFile(t, "room again"))
	c.wantText("room again")
}

// serveWithoutRoom serves until its input ends.
func serveWithoutRoom(t *testing.T, path string) {
	s := fileServer(t)
	var held []int
	register(t, s, "fill", func() (int64, error) {
		limit := unix.Rlimit{Cur: 100, Max: 100}
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
			return 0, err
		}
		for {
			fd, err := unix.Dup(0)
			if err != nil {
				return int64(len(held)), nil
			}
			held = append(held, fd)
		}
	})
	register(t, s, "give_back", func() int64 {
		for _, fd := range held[:min(10, len(held))] {
			unix.Close(fd)
		}
		return 1
	})
	ctx := t.Context()
	listener, err := s.Listen(ctx, "unix:"+path)
	if err != nil {
		t.Fatal(err)
	}
	go s.Serve(ctx, listener)
	io.Copy(io.Discard, os.Stdin)
}

// A caller that does not read its files costs the server no more than its socket
// holds, and those that it never took are closed with the connection.
func TestCallerThatDoesNotReadFiles(t *testing.T) {
	s := fileServer(t, server.WithWriteTimeout(200*time.Millisecond))
	path := start(t, s)
	before := openDescriptors(t)
	c := connectWithFiles(t, path)
	for i := range 2000 {
		payload := append([]byte{0x91, 0xA0 | byte(len(os.DevNull))}, os.DevNull...)
		if _, err := c.conn.Write(c.request("open", 0, payload)); err != nil {
			t.Logf("closed after %s calls", strconv.Itoa(i))
			break
		}
	}
	c.conn.SetReadDeadline(time.Now().Add(testTimeout))
	for until := time.Now().Add(testTimeout); openDescriptors(t) > before+5 && time.Now().Before(until); {
		time.Sleep(10 * time.Millisecond)
	}
	c.conn.Close()
	wantNoneLeft(t, before)
}

// What a function takes is its own, also when it has returned.
func TestFunctionKeepsItsFile(t *testing.T) {
	s := fileServer(t)
	kept := make(chan *os.File, 1)
	register(t, s, "keep", func(file *os.File) { kept <- file })
	c := connectWithFiles(t, start(t, s))
	c.sendWith(c.request("keep", 1, fileArgument), textFile(t, "kept"))
	if _, _, failure := c.result(); failure != nil {
		t.Fatal(failure)
	}
	c.sendWith(c.request("one", 0, []byte{0x90}))
	c.result()
	file := <-kept
	defer file.Close()
	if text, err := io.ReadAll(file); string(text) != "kept" {
		t.Errorf("%q, %v", text, err)
	}
}
