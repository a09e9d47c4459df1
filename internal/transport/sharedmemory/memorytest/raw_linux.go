package memorytest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"syscall"
)

// Where a caller's slots lie, by spec/transports.md.
const (
	slotsOffset = 4096
	slotBytes   = 128
)

// Raw is both regions from end to end, for tests that damage the one and search
// the other. It is mapped beside whatever else is.
type Raw struct {
	// Caller may be written, Server only read.
	Caller, Server []byte
}

// Map maps the regions from their files, which stay the caller's.
func Map(callerFile, serverFile *os.File) (*Raw, error) {
	var r Raw
	var err error
	if r.Caller, err = mapFile(callerFile, syscall.PROT_READ|syscall.PROT_WRITE); err == nil {
		r.Server, err = mapFile(serverFile, syscall.PROT_READ)
	}
	if err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return &r, nil
}

func mapFile(file *os.File, protection int) ([]byte, error) {
	status, err := file.Stat()
	if err != nil {
		return nil, err
	}
	region, err := syscall.Mmap(int(file.Fd()), 0, int(status.Size()), protection, syscall.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("mmap: %w", err)
	}
	return region, nil
}

// Close unmaps them.
func (r *Raw) Close() error {
	var failures []error
	for _, region := range []*[]byte{&r.Caller, &r.Server} {
		if *region != nil {
			failures = append(failures, syscall.Munmap(*region))
			*region = nil
		}
	}
	return errors.Join(failures...)
}

// Slot returns slot n of the caller's ring.
func (r *Raw) Slot(n int) []byte { return r.Caller[slotsOffset+n*slotBytes:][:slotBytes] }

// Publish publishes slot n, as the n-th frame. A server that looks at the ring
// meanwhile may see it in parts.
func (r *Raw) Publish(n int) { binary.LittleEndian.PutUint32(r.Slot(n), uint32(n+1)) }
