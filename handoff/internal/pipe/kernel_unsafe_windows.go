package pipe

import (
	"unsafe"

	"golang.org/x/sys/windows"
)

// busyWaitMs bounds one wait for an instance, so that a context that ended is
// noticed.
const busyWaitMs = 100

func securityAttributes(sddl string) (*windows.SecurityAttributes, error) {
	descriptor, err := windows.SecurityDescriptorFromString(sddl)
	if err != nil {
		return nil, err
	}
	return &windows.SecurityAttributes{
		Length:             uint32(unsafe.Sizeof(windows.SecurityAttributes{})),
		SecurityDescriptor: descriptor,
	}, nil
}

// waitForInstance returns when an instance of the pipe is free, or after
// busyWaitMs; whoever calls it tries again either way.
func waitForInstance(path *uint16) {
	wait := windows.NewLazySystemDLL("kernel32.dll").NewProc("WaitNamedPipeW")
	_, _, _ = wait.Call(uintptr(unsafe.Pointer(path)), busyWaitMs)
}
