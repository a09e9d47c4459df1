package sharedmemory

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"sync"

	"golang.org/x/sys/unix"
)

const (
	// The payload of a store begins behind this head, the first word of which says for which
	// use of the store its contents are valid.
	storeHeadBytes   = 4096
	storeSerialBytes = 8
	// Sizes of stores are multiples of this, and of an eighth of the next power of two, so that
	// a store that has been made is often large enough for the next payload.
	storeGranule = 1 << 20
	storeParts   = 8
)

// Errors of stores.
var (
	ErrStoreClosed = errors.New("nearcall: the store is closed")
	errStoreSize   = errors.New("nearcall: the store is smaller than what it is to hold")
)

// StoreBytes returns how many bytes a store takes, with its head, that is made for a payload.
func StoreBytes(payload int64) int64 {
	power := int64(1)
	for power < payload {
		power <<= 1
	}
	step := max(power/storeParts, storeGranule)
	return storeHeadBytes + (payload+step-1)/step*step
}

// A Store is a file in memory that holds one payload, of which the server has made it and the
// caller has a descriptor. One of them writes there, and the other reads.
//
// A peer that can write to the file can also hold the lock that every other write needs, and that
// FALLOC_FL_PUNCH_HOLE needs, for as long as it likes: one of its threads waits within a write for a
// page that another process is to provide. Nobody can end a thread that waits for this lock. So a
// side uses it only if no distrusted peer can write: see trusted. Reads, mappings and faults do
// without the lock. A peer whose descriptor can only be read from cannot hold it.
//
// Writing, reading and closing may be done by several goroutines at the same time; who writes
// where is the owner's to settle.
type Store struct {
	file  *os.File
	bytes int64 // room for the payload
	// trusted is set if only this side, or a peer that it trusts, can write to the file.
	trusted bool
	// writable is set if this side can.
	writable bool

	// mu is held for reading while the mapping is used.
	mu     sync.RWMutex
	closed bool
	region []byte // the mapping of the whole file, nil until it is needed
	// The pages of so many bytes of the payload exist, because this side has written there,
	// or are in the mapping too.
	written, mapped int64
}

// CreateStore makes a store that takes a payload of so many bytes. trusted is as in Store. Pages are
// allocated when they are written.
func CreateStore(payload int64, trusted bool) (*Store, error) {
	size := StoreBytes(payload)
	if err := checkFileLimit(size); err != nil {
		return nil, err
	}
	fd, err := memfd("nearcall-store")
	if err != nil {
		return nil, err
	}
	s := &Store{file: os.NewFile(uintptr(fd), "nearcall-store"), bytes: size - storeHeadBytes, trusted: trusted, writable: true}
	if err = unix.Fchmod(fd, regionMode); err == nil {
		err = unix.Ftruncate(fd, size)
	}
	if err == nil {
		_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, sealsOfBoth)
	}
	if err != nil {
		s.file.Close()
		return nil, fmt.Errorf("a store of %d bytes: %w", size, err)
	}
	return s, nil
}

// AttachStore makes a store of a descriptor that has come, which is the store's from then on
// unless there is an error. It checks that the file is one in memory whose size cannot change.
func AttachStore(fd int, writable, trusted bool) (*Store, error) {
	size, err := sealedBytes(fd)
	if err != nil {
		return nil, err
	}
	if size <= storeHeadBytes {
		return nil, fmt.Errorf("a store has %d bytes", size)
	}
	if writable && trusted {
		if err := checkFileLimit(size); err != nil {
			return nil, err
		}
	}
	return &Store{file: os.NewFile(uintptr(fd), "nearcall-store"), bytes: size - storeHeadBytes, trusted: trusted, writable: writable}, nil
}

// checkFileLimit makes sure that writing so far sends no SIGXFSZ, which would end the process.
func checkFileLimit(bytes int64) error {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_FSIZE, &limit); err != nil {
		return fmt.Errorf("getrlimit: %w", err)
	}
	if limit.Cur < uint64(bytes) {
		return fmt.Errorf("this process may write files of at most %d bytes (RLIMIT_FSIZE, ulimit -f), and a store has %d", limit.Cur, bytes)
	}
	return nil
}

// Bytes returns how large a payload may be.
func (s *Store) Bytes() int64 { return s.bytes }

// Send calls send with the store's descriptor, which stays open meanwhile even if somebody closes
// the store. It fails if that has happened before.
func (s *Store) Send(send func(descriptor int) error) error {
	raw, err := s.file.SyscallConn()
	if err != nil {
		return err
	}
	var failure error
	err = raw.Control(func(fd uintptr) { failure = send(int(fd)) })
	return errors.Join(err, failure)
}

// SendToRead is Send with a descriptor that can only be read from. A process of another user cannot
// make one of it that can be written to.
func (s *Store) SendToRead(send func(descriptor int) error) error {
	return s.Send(func(descriptor int) error {
		reading, err := unix.Open(fmt.Sprintf("/proc/self/fd/%d", descriptor), unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			return fmt.Errorf("opening a store for reading, by /proc: %w", err)
		}
		defer unix.Close(reading)
		return send(reading)
	})
}

// Write writes a part of the payload. What is written for the first time goes through the
// kernel, which need not clear the pages that it allocates; later the mapping is quicker. With a
// distrusted peer it is always the mapping.
func (s *Store) Write(at int64, data []byte) error {
	end := at + int64(len(data))
	if at < 0 || end > s.bytes {
		return errStoreSize
	}
	if !s.trusted || s.wasWritten(end) {
		if err := s.populate(end, unix.MADV_POPULATE_WRITE); err != nil {
			return err
		}
		return s.inRegion(at, func(region []byte) { copy(region, data) })
	}
	if _, err := s.file.WriteAt(data, storeHeadBytes+at); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if at <= s.written {
		s.written = max(s.written, end)
	}
	return nil
}

func (s *Store) wasWritten(end int64) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return end <= s.written
}

// Read reads a part of the payload.
func (s *Store) Read(at int64, into []byte) error {
	end := at + int64(len(into))
	if at < 0 || end > s.bytes {
		return errStoreSize
	}
	if !s.trusted {
		_, err := s.file.ReadAt(into, storeHeadBytes+at)
		return err
	}
	if err := s.populate(end, unix.MADV_POPULATE_READ); err != nil {
		return err
	}
	return s.inRegion(at, func(region []byte) { copy(into, region) })
}

// View returns the beginning of the payload where it lies. It is valid until the store is closed,
// which its owner must not do before. The peer may change it meanwhile, and a read of it may
// fault if the machine has no memory left (see debug.SetPanicOnFault).
func (s *Store) View(bytes int64) ([]byte, error) {
	if bytes > s.bytes {
		return nil, errStoreSize
	}
	if err := s.populate(bytes, unix.MADV_POPULATE_READ); err != nil {
		return nil, err
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.closed {
		return nil, ErrStoreClosed
	}
	end := storeHeadBytes + bytes
	return s.region[storeHeadBytes:end:end], nil
}

// inRegion calls use with the payload from at on.
func (s *Store) inRegion(at int64, use func(payload []byte)) (err error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.closed {
		return ErrStoreClosed
	}
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if recover() != nil {
			err = ErrFault
		}
	}()
	use(s.region[storeHeadBytes+at:])
	return nil
}

// populate maps the store, and brings the pages of the payload up to end into the mapping at
// once, which takes a fraction of the time of a fault for each. A kernel before Linux 5.14, or with
// pages that are larger than the head, refuses that. Then each page comes by its fault.
func (s *Store) populate(end int64, advice int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return ErrStoreClosed
	}
	if s.region == nil {
		protection := unix.PROT_READ
		if s.writable {
			protection |= unix.PROT_WRITE
		}
		region, err := mapRegion(int(s.file.Fd()), int(storeHeadBytes+s.bytes), protection)
		if err != nil {
			return err
		}
		s.region = region
	}
	if end <= s.mapped {
		return nil
	}
	from := s.mapped &^ (storeHeadBytes - 1)
	if err := unix.Madvise(s.region[storeHeadBytes+from:storeHeadBytes+end], advice); err != nil && !errors.Is(err, unix.EINVAL) {
		return fmt.Errorf("madvise: %w", err)
	}
	s.mapped = end
	return nil
}

// SetSerial says for which use of the store its contents are valid; 0 is none.
func (s *Store) SetSerial(serial uint32) error {
	var word [storeSerialBytes]byte
	binary.LittleEndian.PutUint64(word[:], uint64(serial))
	_, err := s.file.WriteAt(word[:], 0)
	return err
}

// Serial returns what SetSerial has written. A caller asks after it has read a payload: as long
// as the serial is right, the server had not begun to empty the store.
func (s *Store) Serial() (uint32, error) {
	var word [storeSerialBytes]byte
	_, err := s.file.ReadAt(word[:], 0)
	return uint32(binary.LittleEndian.Uint64(word[:])), err
}

// Close unmaps and closes the store. The file lives on as long as the peer has it.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	err := s.file.Close()
	if s.region != nil {
		err = errors.Join(err, unix.Munmap(s.region))
		s.region = nil
	}
	return err
}

// Destroy gives the memory of the store back to the system, even if the peer still has the file,
// and closes it. A reader notices by Serial. Preconditions: the store is trusted.
func (s *Store) Destroy() error {
	err := s.SetSerial(0)
	if err == nil {
		err = unix.Fallocate(int(s.file.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, storeHeadBytes, s.bytes)
	}
	return errors.Join(err, s.Close())
}
