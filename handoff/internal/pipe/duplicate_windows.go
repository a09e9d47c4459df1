package pipe

import (
	"encoding/binary"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/windows"
)

// Bytes that stand for what travels, as spec/handoff.md has them.
const (
	SocketResourceBytes = 628 // a WSAPROTOCOL_INFOW
	FileResourceBytes   = 8   // a handle
)

// DuplicateSocket duplicates a socket into a process and returns the bytes with
// which that process opens it, once. If it never does, the duplicate stays until it
// ends: Windows does not tell what to close there. Nothing may be pending on the socket, and
// no completion port may be bound to it: what net.TCPConn.File returns is so.
func DuplicateSocket(socket syscall.Conn, process uint32) (resource []byte, err error) {
	var info windows.WSAProtocolInfo
	err = control(socket, func(handle windows.Handle) error {
		return os.NewSyscallError("WSADuplicateSocket", windows.WSADuplicateSocket(handle, process, &info))
	})
	if err != nil {
		return nil, fmt.Errorf("pipe: duplicate a socket for process %d: %w", process, err)
	}
	return binary.Append(nil, binary.LittleEndian, &info)
}

// OpenSocket opens a socket that was duplicated for this process. The result is
// the caller's to close.
func OpenSocket(resource []byte) (windows.Handle, error) {
	var info windows.WSAProtocolInfo
	if len(resource) != SocketResourceBytes {
		return 0, fmt.Errorf("pipe: a socket of %d bytes: it has %d", len(resource), SocketResourceBytes)
	}
	if _, err := binary.Decode(resource, binary.LittleEndian, &info); err != nil {
		return 0, err
	}
	const fromInfo = -1
	handle, err := windows.WSASocket(fromInfo, fromInfo, fromInfo, &info, 0,
		windows.WSA_FLAG_OVERLAPPED|windows.WSA_FLAG_NO_HANDLE_INHERIT)
	return handle, os.NewSyscallError("WSASocket", err)
}

// A DuplicatedFile is a file in another process that does not know of it yet. One of
// Keep and Withdraw follows.
type DuplicatedFile struct {
	Resource []byte // with which that process opens it

	process windows.Handle
	handle  windows.Handle // in that process
}

// DuplicateFile duplicates a file, not a socket, into a process. If the process is
// told and never opens it, the handle stays open there until it ends.
func DuplicateFile(file syscall.Conn, process uint32) (*DuplicatedFile, error) {
	target, err := windows.OpenProcess(windows.PROCESS_DUP_HANDLE, false, process)
	if err != nil {
		return nil, fmt.Errorf("pipe: open process %d to give it a file: %w", process, err)
	}
	d := &DuplicatedFile{process: target}
	err = control(file, func(handle windows.Handle) error {
		return os.NewSyscallError("DuplicateHandle", windows.DuplicateHandle(windows.CurrentProcess(), handle,
			target, &d.handle, 0, false, windows.DUPLICATE_SAME_ACCESS))
	})
	if err != nil {
		_ = windows.CloseHandle(target)
		return nil, fmt.Errorf("pipe: duplicate a file for process %d: %w", process, err)
	}
	d.Resource = binary.LittleEndian.AppendUint64(nil, uint64(d.handle))
	return d, nil
}

// Keep leaves the file to the process, which was told of it.
func (d *DuplicatedFile) Keep() { _ = windows.CloseHandle(d.process) }

// Withdraw closes the file in the process, which was not told of it: it may have
// opened something else under a number that it closed itself.
func (d *DuplicatedFile) Withdraw() error {
	defer func() { _ = windows.CloseHandle(d.process) }()
	var here windows.Handle // Wine reports an error where there is no target
	err := windows.DuplicateHandle(d.process, d.handle, windows.CurrentProcess(), &here, 0, false,
		windows.DUPLICATE_CLOSE_SOURCE|windows.DUPLICATE_SAME_ACCESS)
	if err != nil {
		return os.NewSyscallError("DuplicateHandle", err)
	}
	return os.NewSyscallError("CloseHandle", windows.CloseHandle(here))
}

// OpenFile opens a file that was duplicated for this process. Whether the handle
// means a file is checked, because the bytes are a peer's claim.
func OpenFile(resource []byte, name string) (*os.File, error) {
	if len(resource) != FileResourceBytes {
		return nil, fmt.Errorf("pipe: a file of %d bytes: it has %d", len(resource), FileResourceBytes)
	}
	handle := windows.Handle(binary.LittleEndian.Uint64(resource))
	if _, err := windows.GetFileType(handle); err != nil {
		return nil, fmt.Errorf("pipe: the handle %#x is not a file of this process: %w", uint64(handle), err)
	}
	return os.NewFile(uintptr(handle), name), nil
}

func control(conn syscall.Conn, use func(windows.Handle) error) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var useErr error
	if err := raw.Control(func(handle uintptr) { useErr = use(windows.Handle(handle)) }); err != nil {
		return err
	}
	return useErr
}
