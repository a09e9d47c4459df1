package client_test

import (
	"bytes"
	"context"
	"os"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nearcall/nearcall/client"
	"github.com/nearcall/nearcall/internal/wire"
	"github.com/nearcall/nearcall/status"
)

const (
	storeHead   = 4096
	storeSeals  = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_SEAL
	peersValues = 16 << 20
	// Larger than a frame of the peer's.
	peersValue = 6 << 20
)

// storePeer returns a server that offers stores, which the test plays.
func storePeer(t *testing.T) *peer {
	p := newPeer(t)
	p.welcome.Accepted |= wire.FeatureStores
	p.welcome.ValueBytesMax = peersValues
	return p
}

func (p *peer) serveStores() *peerConn {
	p.t.Helper()
	conn := p.serve()
	conn.parser.Features = p.welcome.Accepted
	return conn
}

// memoryFile returns a file in memory with a size and seals.
func memoryFile(t *testing.T, size int64, seals int) *os.File {
	t.Helper()
	fd, err := unix.MemfdCreate("test", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	must(t, err)
	file := os.NewFile(uintptr(fd), "test")
	t.Cleanup(func() { file.Close() })
	must(t, file.Truncate(size))
	_, err = unix.FcntlInt(file.Fd(), unix.F_ADD_SEALS, seals)
	must(t, err)
	return file
}

func goodStore(t *testing.T) *os.File { return memoryFile(t, storeHead+2*peersValue, storeSeals) }

// storedReply sends a reply whose payload lies in a store, with files or without.
func (c *peerConn) storedReply(to wire.Frame, said wire.Stored, files ...*os.File) {
	c.t.Helper()
	frame := replyTo(to, nil)
	frame.Descriptors = uint8(len(files))
	frame.Extensions = wire.AppendStored(nil, said)
	if to.Type == wire.Store {
		frame.FunctionID = 0
	}
	c.writeWith(frame.Append(nil), files...)
}

func (c *peerConn) writeWith(data []byte, files ...*os.File) {
	c.t.Helper()
	var numbers []int
	for _, file := range files {
		numbers = append(numbers, int(file.Fd()))
	}
	_, _, err := c.WriteMsgUnix(data, syscall.UnixRights(numbers...), nil)
	must(c.t, err)
}

func (c *peerConn) expectRelease(said wire.Stored, forget bool) {
	c.t.Helper()
	release, err := wire.ParseStoreRelease(c.expect(wire.Release).Payload)
	must(c.t, err)
	if release.Place != said.Place || release.Serial != said.Serial || release.Forget != forget {
		c.t.Fatalf("released %+v", release)
	}
}

// A large call by hand: the store is asked for, filled, named, and the reply's is given back.
func TestStoresOfACaller(t *testing.T) {
	p := storePeer(t)
	c := p.client(client.WithValueBytesMax(peersValues))
	data := pattern(peersValue, 1)
	for round := range 2 {
		done := begin(context.Background(), c, "echo", data)
		var conn *peerConn
		if conn = p.serveStores(); conn.hello.Offered&wire.FeatureStores == 0 || conn.hello.ValueBytesMax != peersValues {
			t.Fatalf("the hello offers %x, and accepts %d", conn.hello.Offered, conn.hello.ValueBytesMax)
		}
		ask := conn.expect(wire.Store)
		if wire.ParseStoreAsk(ask.Payload) != peersValue {
			t.Fatalf("it asks for %v", ask.Payload)
		}
		file, answer := goodStore(t), goodStore(t)
		given, replied := wire.Stored{Place: 1, Serial: 7, Bytes: peersValue}, wire.Stored{Place: 3, Serial: 9, Bytes: peersValue}
		conn.storedReply(ask, given, file)
		request := conn.expect(wire.Request)
		if said, found, valid := wire.FindStored(&request); !found || !valid || said != given {
			t.Fatalf("round %d: the request names %+v", round, said)
		}
		got := make([]byte, peersValue)
		_, err := file.ReadAt(got, storeHead)
		must(t, err)
		if !bytes.Equal(got, data) {
			t.Fatal("the store has something else")
		}
		_, err = answer.WriteAt(got, storeHead)
		must(t, err)
		_, err = answer.WriteAt([]byte{9}, 0)
		must(t, err)
		conn.storedReply(request, replied, answer)
		expectReply(t, wait(t, done), string(data))
		conn.expectRelease(replied, false)
		conn.end()
	}
}

// badStores are stores into which no request can be written: it is not sent, and the server is
// told whether the store can be used again.
var badStores = map[string]struct {
	said   wire.Stored
	files  func(*testing.T) []*os.File
	forget bool
}{
	"without seals": {wire.Stored{Serial: 1}, func(t *testing.T) []*os.File { return []*os.File{memoryFile(t, storeHead+peersValue, 0)} }, true},
	"that may shrink": {wire.Stored{Serial: 1}, func(t *testing.T) []*os.File {
		return []*os.File{memoryFile(t, storeHead+peersValue, unix.F_SEAL_GROW)}
	}, true},
	"a plain file": {wire.Stored{Serial: 1}, plainFile, true},
	"a pipe":       {wire.Stored{Serial: 1}, pipeEnd, true},
	"empty":        {wire.Stored{Serial: 1}, func(t *testing.T) []*os.File { return []*os.File{memoryFile(t, 0, storeSeals)} }, true},
	"too small":    {wire.Stored{Serial: 1}, func(t *testing.T) []*os.File { return []*os.File{memoryFile(t, storeHead+peersValue-1, storeSeals)} }, false},
	"not writable": {wire.Stored{Serial: 1}, func(t *testing.T) []*os.File {
		return []*os.File{memoryFile(t, storeHead+peersValue, storeSeals|unix.F_SEAL_WRITE)}
	}, false},
	"without a file":    {wire.Stored{Serial: 1}, func(*testing.T) []*os.File { return nil }, true},
	"a place for reply": {wire.Stored{Place: 2, Serial: 1}, func(t *testing.T) []*os.File { return []*os.File{goodStore(t)} }, false},
}

func plainFile(t *testing.T) []*os.File {
	file, err := os.CreateTemp(t.TempDir(), "f")
	must(t, err)
	t.Cleanup(func() { file.Close() })
	must(t, file.Truncate(storeHead+peersValue))
	return []*os.File{file}
}

func pipeEnd(t *testing.T) []*os.File {
	reader, writer, err := os.Pipe()
	must(t, err)
	t.Cleanup(func() { reader.Close(); writer.Close() })
	return []*os.File{writer}
}

func TestStoresThatCannotBeWritten(t *testing.T) {
	for name, bad := range badStores {
		t.Run(name, func(t *testing.T) {
			p := storePeer(t)
			files := bad.files(t)
			before := openDescriptors(t)
			c := p.client()
			done := begin(context.Background(), c, "echo", make([]byte, peersValue))
			conn := p.serveStores()
			conn.storedReply(conn.expect(wire.Store), bad.said, files...)
			for count := 0; len(files) == 0 && count < wire.StoresPerDirection; count++ {
				// It may have been closed because nobody used it.
				conn.expectRelease(bad.said, true)
				conn.storedReply(conn.expect(wire.Store), bad.said)
			}
			expectFailure(t, wait(t, done).err, status.ResourceExhausted, status.OutcomeNotExecuted)
			conn.expectRelease(bad.said, bad.forget)
			small := begin(context.Background(), c, "echo", []byte("small"))
			conn.reply(conn.expect(wire.Request), []byte("small"))
			expectReply(t, wait(t, small), "small")
			must(t, c.Close())
			conn.end()
			eventually(t, func() bool { return openDescriptors(t) <= before }, func() string { return "descriptors are left open" })
		})
	}
}

// badReplies are replies that say that they lie where they do not.
var badReplies = map[string]struct {
	said   wire.Stored
	serial byte
	files  func(*testing.T) []*os.File
	code   status.Code
	forget bool
}{
	"taken back":       {wire.Stored{Place: 2, Serial: 5, Bytes: peersValue}, 0, nil, status.Unavailable, false},
	"used again":       {wire.Stored{Place: 2, Serial: 5, Bytes: peersValue}, 6, nil, status.Unavailable, false},
	"more than it has": {wire.Stored{Place: 2, Serial: 5, Bytes: 2*peersValue + 1}, 5, nil, status.ResourceExhausted, false},
	"too large":        {wire.Stored{Place: 2, Serial: 5, Bytes: peersValues + 1}, 5, nil, status.ResourceExhausted, false},
	"without a file":   {wire.Stored{Place: 2, Serial: 5, Bytes: peersValue}, 5, func(*testing.T) []*os.File { return nil }, status.ResourceExhausted, true},
	"without seals": {wire.Stored{Place: 2, Serial: 5, Bytes: peersValue}, 5,
		func(t *testing.T) []*os.File { return []*os.File{memoryFile(t, storeHead+peersValue, 0)} }, status.ResourceExhausted, true},
}

func TestRepliesThatCannotBeRead(t *testing.T) {
	for name, bad := range badReplies {
		t.Run(name, func(t *testing.T) {
			p := storePeer(t)
			var files []*os.File
			if bad.files != nil {
				files = bad.files(t)
			} else {
				files = []*os.File{goodStore(t)}
				_, err := files[0].WriteAt([]byte{bad.serial}, 0)
				must(t, err)
			}
			before := openDescriptors(t)
			c := p.client(client.WithValueBytesMax(peersValues))
			done := begin(context.Background(), c, "make", nil)
			conn := p.serveStores()
			conn.storedReply(conn.expect(wire.Request), bad.said, files...)
			expectFailure(t, wait(t, done).err, bad.code, status.OutcomeExecutedResultLost)
			conn.expectRelease(bad.said, bad.forget)
			must(t, c.Close())
			conn.end()
			eventually(t, func() bool { return openDescriptors(t) <= before }, func() string { return "descriptors are left open" })
		})
	}
}

// Whatever happens before the request is sent, the function was not executed; afterwards it may
// have been.
func TestStoresOfCallsThatFail(t *testing.T) {
	t.Run("refused", func(t *testing.T) {
		p := storePeer(t)
		done := begin(context.Background(), p.client(), "echo", make([]byte, peersValue))
		conn := p.serveStores()
		conn.fail(conn.expect(wire.Store), status.ResourceExhausted, status.OutcomeNotExecuted)
		expectFailure(t, wait(t, done).err, status.ResourceExhausted, status.OutcomeNotExecuted)
	})
	t.Run("crowded at first", func(t *testing.T) {
		p := storePeer(t)
		done := begin(context.Background(), p.client(), "echo", make([]byte, peersValue))
		conn := p.serveStores()
		crowded := &status.Error{Code: status.ResourceExhausted, Outcome: status.OutcomeNotExecuted, Message: "later",
			Details: []status.Detail{{Type: "nearcall.limit", Value: "stores_per_direction"}}}
		for range 3 {
			conn.send(failureOf(conn.expect(wire.Store), crowded))
		}
		conn.storedReply(conn.expect(wire.Store), wire.Stored{Serial: 4}, goodStore(t))
		conn.reply(conn.expect(wire.Request), []byte("small"))
		expectReply(t, wait(t, done), "small")
	})
	t.Run("all closed", func(t *testing.T) {
		p := storePeer(t)
		done := begin(context.Background(), p.client(), "echo", make([]byte, peersValue))
		conn := p.serveStores()
		for place := range uint32(wire.StoresPerDirection) {
			// The caller has not used it for a while, and the server does not know that.
			closed := wire.Stored{Place: place, Serial: 4 + place}
			conn.storedReply(conn.expect(wire.Store), closed)
			conn.expectRelease(closed, true)
		}
		conn.storedReply(conn.expect(wire.Store), wire.Stored{Serial: 9}, goodStore(t))
		conn.reply(conn.expect(wire.Request), []byte("small"))
		expectReply(t, wait(t, done), "small")
	})
	t.Run("late", func(t *testing.T) {
		p := storePeer(t)
		done := begin(shortContext(t), p.client(), "echo", make([]byte, peersValue))
		conn := p.serveStores()
		ask := conn.expect(wire.Store)
		expectFailure(t, wait(t, done).err, status.DeadlineExceeded, status.OutcomeNotExecuted)
		conn.expect(wire.Cancel)
		conn.storedReply(ask, wire.Stored{Place: 1, Serial: 3}, goodStore(t))
		conn.expectRelease(wire.Stored{Place: 1, Serial: 3}, false)
	})
	t.Run("gone before", func(t *testing.T) {
		p := storePeer(t)
		done := begin(context.Background(), p.client(client.WithAttempts(1)), "echo", make([]byte, peersValue))
		conn := p.serveStores()
		conn.expect(wire.Store)
		conn.end()
		expectFailure(t, wait(t, done).err, status.Unavailable, status.OutcomeNotExecuted)
	})
	t.Run("gone afterwards", func(t *testing.T) {
		p := storePeer(t)
		done := begin(context.Background(), p.client(), "echo", make([]byte, peersValue))
		conn := p.serveStores()
		conn.storedReply(conn.expect(wire.Store), wire.Stored{Serial: 4}, goodStore(t))
		conn.expect(wire.Request)
		conn.end()
		expectFailure(t, wait(t, done).err, status.Unavailable, status.OutcomeUnknown)
	})
}

// A server that breaks the format loses the connection.
func TestBrokenRepliesInStores(t *testing.T) {
	broken := map[string]func(conn *peerConn, request wire.Frame){
		"no such place": func(conn *peerConn, request wire.Frame) {
			conn.storedReply(request, wire.Stored{Place: 4, Serial: 1, Bytes: 1}, goodStore(conn.t))
		},
		"two descriptors": func(conn *peerConn, request wire.Frame) {
			conn.storedReply(request, wire.Stored{Place: 2, Serial: 1, Bytes: 1}, goodStore(conn.t), goodStore(conn.t))
		},
		"a descriptor alone": func(conn *peerConn, request wire.Frame) {
			frame := replyTo(request, nil)
			frame.Descriptors, frame.Extensions = 1, wire.AppendMetadata(nil, "a", "b")
			conn.writeWith(frame.Append(nil), goodStore(conn.t))
		},
		"a payload too": func(conn *peerConn, request wire.Frame) {
			frame := replyTo(request, []byte("x"))
			frame.Extensions = wire.AppendStored(nil, wire.Stored{Place: 2, Serial: 1, Bytes: 1})
			conn.send(frame)
		},
	}
	for name, send := range broken {
		t.Run(name, func(t *testing.T) {
			p := storePeer(t)
			c := p.client(client.WithValueBytesMax(peersValues), client.WithAttempts(1))
			done := begin(context.Background(), c, "make", nil)
			conn := p.serveStores()
			send(conn, conn.expect(wire.Request))
			if failure := status.FromError(wait(t, done).err); failure == nil || failure.Code != status.Internal {
				t.Errorf("%v", failure)
			}
		})
	}
}

// A server that names stores to calls that have ended, and reads no RELEASE, loses the connection
// before much waits for it.
func TestStoresThatNobodyReleases(t *testing.T) {
	// Far more than may wait, and than sockets hold.
	const replies = 1 << 17
	p := storePeer(t)
	c := p.client(client.WithValueBytesMax(peersValues))
	done := begin(context.Background(), c, "echo", []byte("small"))
	conn := p.serveStores()
	request := conn.expect(wire.Request)
	conn.reply(request, []byte("small"))
	expectReply(t, wait(t, done), "small")
	again := replyTo(request, nil)
	again.Extensions = wire.AppendStored(nil, wire.Stored{Place: 2, Serial: 1, Bytes: 1})
	many := bytes.Repeat(again.Append(nil), 1<<10)
	for range replies >> 10 {
		if _, err := conn.Write(many); err != nil {
			return
		}
	}
	t.Errorf("%d replies were taken", replies)
}
