package pipe_test

import (
	"bufio"
	"io"
	"net"
	"os"
	"syscall"
	"testing"

	"golang.org/x/sys/windows"

	"github.com/nearcall/nearcall/handoff/internal/pipe"
)

func TestFileToAnotherProcess(t *testing.T) {
	listener, name := listen(t)
	conn, _ := start(t, listener, name, "file")
	file := temporaryFile(t, "of the parent\n")
	duplicate, err := pipe.DuplicateFile(file, conn.Process())
	if err != nil {
		t.Fatal(err)
	}
	duplicate.Keep()
	expect(t, conn, duplicate.Resource, "of the parent\n")
}

// What is withdrawn cannot be opened any more by the process that was to have it.
func TestFileIsWithdrawn(t *testing.T) {
	duplicate, err := pipe.DuplicateFile(temporaryFile(t, "kept"), uint32(os.Getpid()))
	if err != nil {
		t.Fatal(err)
	}
	if err := duplicate.Withdraw(); err != nil {
		t.Fatal(err)
	}
	if file, err := pipe.OpenFile(duplicate.Resource, "withdrawn"); err == nil {
		_ = file.Close()
		t.Error("it can be opened")
	}
}

// The socket here is a bare one: what package net makes of it needs Windows.
func TestSocketToAnotherProcess(t *testing.T) {
	listener, name := listen(t)
	conn, _ := start(t, listener, name, "socket")
	ours, accepted := connectRaw(t)
	resource, err := pipe.DuplicateSocket(ours, conn.Process())
	if err != nil {
		t.Fatal(err)
	}
	expect(t, conn, resource, "sent\n")
	got := make([]byte, len("from the child"))
	if _, err := io.ReadFull(accepted, got); string(got) != "from the child" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
}

// Go's own connections: the completion port must be unbound before, which Wine
// cannot do.
func TestConnectionToAnotherProcess(t *testing.T) {
	onlyOnWindows(t, "net.TCPConn.File unbinds the completion port")
	listener, name := listen(t)
	conn, _ := start(t, listener, name, "socket")
	ours, theirs := connect(t)
	file, err := ours.File()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	resource, err := pipe.DuplicateSocket(file, conn.Process())
	if err != nil {
		t.Fatal(err)
	}
	expect(t, conn, resource, "sent\n")
	got := make([]byte, len("from the child"))
	if _, err := io.ReadFull(theirs, got); string(got) != "from the child" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestWrongResources(t *testing.T) {
	for _, bytes := range []int{0, pipe.SocketResourceBytes - 1, pipe.SocketResourceBytes, pipe.SocketResourceBytes + 1} {
		if socket, err := pipe.OpenSocket(make([]byte, bytes)); err == nil {
			_ = windows.Closesocket(socket)
			t.Errorf("%d bytes of zero opened a socket", bytes)
		}
	}
	for _, bytes := range []int{0, pipe.FileResourceBytes - 1, pipe.FileResourceBytes, pipe.FileResourceBytes + 1} {
		if file, err := pipe.OpenFile(make([]byte, bytes), "none"); err == nil {
			_ = file.Close()
			t.Errorf("%d bytes of zero opened a file", bytes)
		}
	}
}

// temporaryFile is open for reading from its beginning. testing's own directory
// cannot be removed under Wine, which lacks the call that Go removes files with.
func temporaryFile(t *testing.T, content string) *os.File {
	t.Helper()
	file, err := os.CreateTemp("", "nearcall-test-*")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = file.Close()
		_ = os.Remove(file.Name())
	})
	if _, err := io.WriteString(file, content); err != nil {
		t.Fatal(err)
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		t.Fatal(err)
	}
	return file
}

// expect sends a resource and reads the line that answers it.
func expect(t *testing.T, conn *pipe.Conn, resource []byte, answer string) {
	t.Helper()
	if _, err := conn.Write(resource); err != nil {
		t.Fatal(err)
	}
	if got, err := bufio.NewReader(conn).ReadString('\n'); got != answer || err != nil {
		t.Fatalf("the child answered %q, %v", got, err)
	}
}

// A rawSocket is a socket that no completion port is bound to.
type rawSocket struct{ handle windows.Handle }

func (s rawSocket) SyscallConn() (syscall.RawConn, error) { return s, nil }

func (s rawSocket) Control(use func(uintptr)) error { use(uintptr(s.handle)); return nil }
func (s rawSocket) Read(func(uintptr) bool) error   { return syscall.EWINDOWS }
func (s rawSocket) Write(func(uintptr) bool) error  { return syscall.EWINDOWS }

func connectRaw(t *testing.T) (rawSocket, net.Conn) {
	t.Helper()
	tcp, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tcp.Close() }()
	handle, err := windows.WSASocket(windows.AF_INET, windows.SOCK_STREAM, windows.IPPROTO_TCP, nil, 0,
		windows.WSA_FLAG_OVERLAPPED|windows.WSA_FLAG_NO_HANDLE_INHERIT)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = windows.Closesocket(handle) })
	to := &windows.SockaddrInet4{Port: tcp.Addr().(*net.TCPAddr).Port, Addr: [4]byte{127, 0, 0, 1}}
	if err := windows.Connect(handle, to); err != nil {
		t.Fatal(err)
	}
	accepted, err := tcp.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = accepted.Close() })
	return rawSocket{handle}, accepted
}

func connect(t *testing.T) (*net.TCPConn, net.Conn) {
	t.Helper()
	tcp, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tcp.Close() }()
	dialled, err := net.Dial("tcp4", tcp.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	accepted, err := tcp.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = dialled.Close(), accepted.Close() })
	return dialled.(*net.TCPConn), accepted
}

func sendRaw(socket windows.Handle, text string) error {
	bytes := []byte(text)
	var sent uint32
	buffer := windows.WSABuf{Len: uint32(len(bytes)), Buf: &bytes[0]}
	return windows.WSASend(socket, &buffer, 1, &sent, 0, nil, nil)
}

// onlyOnWindows passes over a test that Wine cannot run, and says what it needs.
func onlyOnWindows(t *testing.T, needs string) {
	t.Helper()
	if windows.NewLazySystemDLL("ntdll.dll").NewProc("wine_get_version").Find() == nil {
		t.Skip("needs a real Windows:", needs)
	}
}
