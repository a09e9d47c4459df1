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
// which that process opens it, once. Nothing may be pending on the socket, and
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

// DuplicateFile duplicates a file, not a socket, into a process and returns the
// bytes with which that process opens it. If the process never does, the handle
// stays open there until it ends.
func DuplicateFile(file syscall.Conn, process uint32) (resource []byte, err error) {
	target, err := windows.OpenProcess(windows.PROCESS_DUP_HANDLE, false, process)
	if err != nil {
		return nil, fmt.Errorf("pipe: open process %d to give it a file: %w", process, err)
	}
	defer func() { _ = windows.CloseHandle(target) }()
	var duplicate windows.Handle
	err = control(file, func(handle windows.Handle) error {
		return os.NewSyscallError("DuplicateHandle", windows.DuplicateHandle(windows.CurrentProcess(), handle,
			target, &duplicate, 0, false, windows.DUPLICATE_SAME_ACCESS))
	})
	if err != nil {
		return nil, fmt.Errorf("pipe: duplicate a file for process %d: %w", process, err)
	}
	return binary.LittleEndian.AppendUint64(nil, uint64(duplicate)), nil
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
