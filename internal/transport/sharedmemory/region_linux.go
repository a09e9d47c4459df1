package sharedmemory

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

const (
	sealsOfBoth   = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_SEAL
	sealsOfServer = sealsOfBoth | unix.F_SEAL_FUTURE_WRITE
	regionMode    = 0o600
)

// Regions are the two mappings of one connection.
type Regions struct {
	geometry       Geometry
	caller, server []byte
}

// Create makes the regions of a connection and maps them for the server. The files are
// for the caller of the connection; the code that calls Create closes them. Afterwards every
// page exists except those of the arenas, so touching one cannot fail.
func Create(g Geometry) (_ *Regions, callerFile, serverFile *os.File, err error) {
	r := &Regions{geometry: g}
	callerFile, r.caller, err = create("nearcall-caller", g.callerRegion(), sealsOfBoth)
	if err == nil {
		serverFile, r.server, err = create("nearcall-server", g.serverRegion(), sealsOfServer)
	}
	if err != nil {
		if callerFile != nil {
			callerFile.Close()
		}
		return nil, nil, nil, errors.Join(err, r.Close())
	}
	// Both sides wait for the socket until they say otherwise.
	word64(r.caller, sleepsOffset).Store(1)
	word64(r.server, sleepsOffset).Store(1)
	return r, callerFile, serverFile, nil
}

func create(name string, l layout, seals int) (_ *os.File, _ []byte, err error) {
	fd, err := memfd(name)
	if err != nil {
		return nil, nil, err
	}
	file := os.NewFile(uintptr(fd), name)
	region, err := prepare(fd, l, seals)
	if err != nil {
		file.Close()
		return nil, nil, err
	}
	return file, region, nil
}

// memfd makes a file from which no program can be run, if the kernel supports that
// (6.3).
func memfd(name string) (int, error) {
	const flags = unix.MFD_CLOEXEC | unix.MFD_ALLOW_SEALING
	fd, err := unix.MemfdCreate(name, flags|unix.MFD_NOEXEC_SEAL)
	if errors.Is(err, unix.EINVAL) {
		fd, err = unix.MemfdCreate(name, flags)
	}
	if err != nil {
		return -1, fmt.Errorf("memfd_create: %w", err)
	}
	return fd, nil
}

// prepare sizes, allocates, maps and seals a region, in this order, because a seal
// against future writing does not affect a mapping that exists.
func prepare(fd int, l layout, seals int) ([]byte, error) {
	if err := unix.Fchmod(fd, regionMode); err != nil {
		return nil, fmt.Errorf("fchmod: %w", err)
	}
	if err := unix.Ftruncate(fd, int64(l.bytes)); err != nil {
		return nil, fmt.Errorf("ftruncate: %w", err)
	}
	if err := unix.Fallocate(fd, 0, 0, int64(l.arena)); err != nil {
		return nil, fmt.Errorf("fallocate: %w", err)
	}
	region, err := mapRegion(fd, l.bytes, unix.PROT_READ|unix.PROT_WRITE)
	if err != nil {
		return nil, err
	}
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals); err != nil {
		return nil, errors.Join(fmt.Errorf("F_ADD_SEALS: %w", err), unix.Munmap(region))
	}
	return region, nil
}

func mapRegion(fd, bytes, protection int) ([]byte, error) {
	region, err := unix.Mmap(fd, 0, bytes, protection, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("mmap: %w", err)
	}
	if err := unix.Madvise(region, unix.MADV_DONTFORK); err != nil {
		return nil, errors.Join(fmt.Errorf("madvise(MADV_DONTFORK): %w", err), unix.Munmap(region))
	}
	return region, nil
}

// Attach maps the regions of a MEMORY for the caller. It checks that they can neither
// shrink nor be smaller than announced. The code that calls Attach closes the descriptors.
func Attach(g Geometry, callerFD, serverFD int) (*Regions, error) {
	r := &Regions{geometry: g}
	var err error
	r.caller, err = attach(callerFD, g.callerRegion().bytes, unix.PROT_READ|unix.PROT_WRITE)
	if err == nil {
		r.server, err = attach(serverFD, g.serverRegion().bytes, unix.PROT_READ)
	}
	if err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

func attach(fd, bytes, protection int) ([]byte, error) {
	size, err := sealedBytes(fd)
	if err != nil {
		return nil, err
	}
	if size != int64(bytes) {
		return nil, fmt.Errorf("a region has %d bytes, announced were %d", size, bytes)
	}
	return mapRegion(fd, bytes, protection)
}

// Close unmaps the regions. Nobody may use them after that, nor what was taken from
// them in place.
func (r *Regions) Close() error {
	var failures []error
	for _, region := range []*[]byte{&r.caller, &r.server} {
		if *region != nil {
			failures = append(failures, unix.Munmap(*region))
			*region = nil
		}
	}
	return errors.Join(failures...)
}

// populate makes pages exist. If memory is short, touching a page that does not exist
// would end the process by a signal.
func populate(pages []byte) error { return unix.Madvise(pages, unix.MADV_POPULATE_WRITE) }
