package sharedmemory_test

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nearcall/nearcall/internal/transport/sharedmemory"
	"github.com/nearcall/nearcall/internal/transport/sharedmemory/memorytest"
	"github.com/nearcall/nearcall/internal/wire"
)

var testGeometry = sharedmemory.Geometry{Slots: 32, Marks: 512, ArenaBytes: 128 << 10}

// pair returns both ends of the same memory, awake, through mappings of their
// own.
func pair(t testing.TB, g sharedmemory.Geometry) (caller, server *sharedmemory.End) {
	t.Helper()
	regions, callerFile, serverFile, err := sharedmemory.Create(g)
	if err != nil {
		t.Fatal(err)
	}
	defer callerFile.Close()
	defer serverFile.Close()
	attached, err := sharedmemory.Attach(g, int(callerFile.Fd()), int(serverFile.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := regions.Close(); err != nil {
			t.Error(err)
		}
		if err := attached.Close(); err != nil {
			t.Error(err)
		}
	})
	caller, server = attached.CallerEnd(), regions.ServerEnd()
	caller.Awake()
	server.Awake()
	return caller, server
}

func put(end *sharedmemory.End, id uint64, body []byte) bool {
	header := wire.Header{Type: wire.Ping, CallID: id, Length: uint32(len(body))}
	half := len(body) / 2
	return end.Put(&header, body[:half], body[half:])
}

func grow(n int) []byte { return make([]byte, n) }

func take(t testing.TB, end *sharedmemory.End) (id uint64, body []byte, found bool) {
	t.Helper()
	record, err := end.Take(make([]byte, sharedmemory.RecordBytesMin), wire.FrameBytesMaxCeiling, grow)
	if err != nil {
		t.Fatal(err)
	}
	if record == nil {
		return 0, nil, false
	}
	header := wire.ParseHeader(record)
	return header.CallID, record[wire.HeaderBytes:], true
}

// content makes a body that is wrong wherever a byte of another frame is.
func content(id uint64, n int) []byte {
	body := make([]byte, n)
	for i := range body[:min(n, 256)] {
		body[i] = byte(id) ^ byte(i*7)
	}
	// The rest repeats it: byte by byte the race detector makes that slow.
	for filled := 256; filled < n; filled *= 2 {
		copy(body[filled:], body[:filled])
	}
	return body
}

// TestRing puts and takes bodies of all sizes at random, against a queue.
func TestRing(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Log("seed", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	caller, server := pair(t, testGeometry)
	for _, ends := range [][2]*sharedmemory.End{{caller, server}, {server, caller}} {
		var next, oldest uint64
		sizes := make(map[uint64]int)
		refused := 0
		for next < 20000 {
			if random.IntN(2) == 0 {
				size := []int{random.IntN(100), random.IntN(5000), random.IntN(testGeometry.ArenaBytes + 100)}[random.IntN(3)]
				if put(ends[0], next, content(next, size)) {
					sizes[next] = size
					next++
				} else {
					refused++
				}
				continue
			}
			id, body, found := take(t, ends[1])
			if found != (oldest < next) {
				t.Fatalf("frame found: %v; put %d, taken %d", found, next, oldest)
			}
			if !found {
				continue
			}
			if id != oldest || !bytes.Equal(body, content(id, sizes[id])) {
				t.Fatalf("frame %d with %d bytes, want %d with %d", id, len(body), oldest, sizes[oldest])
			}
			delete(sizes, id)
			oldest++
		}
		if refused == 0 {
			t.Error("the ring was never full: the test is too weak")
		}
	}
}

// TestSleepAndWake: two sides that sleep whenever they can lose no frame. The
// socket is a channel.
func TestSleepAndWake(t *testing.T) {
	caller, server := pair(t, testGeometry)
	wakes := make(chan struct{}, 1)
	var sent atomic.Uint64
	const frames = 200000
	go func() {
		for id := uint64(0); id < frames; {
			switch {
			case caller.PeerSleeps():
				select {
				case wakes <- struct{}{}:
				default:
					runtime.Gosched()
				}
			case put(caller, id, nil):
				id++
				sent.Store(id)
				if caller.MustWake() {
					wakes <- struct{}{}
				}
			default:
				runtime.Gosched() // the ring is full
			}
		}
	}()
	for want := uint64(0); want < frames; {
		if id, _, found := take(t, server); found {
			if id != want {
				t.Fatalf("frame %d, want %d", id, want)
			}
			want++
		} else if server.FallAsleep() {
			select {
			case <-wakes:
			case <-time.After(time.Minute):
				t.Fatalf("asleep for ever: %d sent, %d taken", sent.Load(), want)
			}
			server.Awake()
		}
	}
}

// A frame may be put into the ring of a side that sleeps. Who takes it there has used up the
// WAKE for that sleep, and must be woken again for what comes in the next.
func TestFramesTakenAsleep(t *testing.T) {
	caller, server := pair(t, testGeometry)
	buffer := make([]byte, 0, sharedmemory.RecordBytesMin)
	for i := range 5 {
		for range 2 { // the second time it sleeps already
			if !caller.FallAsleep() {
				t.Fatal("a frame is there")
			}
		}
		if !server.Put(&wire.Header{Type: wire.Wake}, nil, nil) || !server.MustWake() {
			t.Fatalf("frame %d: no WAKE for a sleeper", i)
		}
		if frame, err := caller.Take(buffer, wire.FrameBytesMax, nil); frame == nil || err != nil {
			t.Fatalf("frame %d: %v, %v", i, frame, err)
		}
	}
}

func TestMarks(t *testing.T) {
	caller, server := pair(t, testGeometry)
	marks, seen := server.Marks(), caller.Marks()
	if stage := seen.Stage(5); stage != sharedmemory.StageNone {
		t.Errorf("stage %d of a call nobody made", stage)
	}
	for _, stage := range []sharedmemory.Stage{sharedmemory.StageReceived, sharedmemory.StageStarted, sharedmemory.StageFinished} {
		marks.Set(5, stage)
		if got := seen.Stage(5); got != stage {
			t.Errorf("stage %d, want %d", got, stage)
		}
	}
	later := uint64(5 + testGeometry.Marks)
	if stage := seen.Stage(later); stage != sharedmemory.StageNone {
		t.Errorf("stage %d of a later call with the same mark", stage)
	}
	marks.Set(later, sharedmemory.StageStarted)
	marks.Set(5, sharedmemory.StageFinished)
	if stage := seen.Stage(5); stage != sharedmemory.StageOverwritten {
		t.Errorf("stage %d of an earlier call, want overwritten", stage)
	}
	if stage := seen.Stage(later); stage != sharedmemory.StageStarted {
		t.Errorf("stage %d: an earlier call took a later one's mark", stage)
	}
	(*sharedmemory.Marks)(nil).Set(1, sharedmemory.StageStarted)
}

// TestAttachRefuses: memory that could change its size, or has another than was
// said, is not mapped.
func TestAttachRefuses(t *testing.T) {
	_, callerFile, serverFile, err := sharedmemory.Create(testGeometry)
	if err != nil {
		t.Fatal(err)
	}
	defer callerFile.Close()
	defer serverFile.Close()
	unsealed := memfd(t, int64(fileSize(t, callerFile)))
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	larger := testGeometry
	larger.ArenaBytes *= 2
	cases := map[string]struct {
		geometry       sharedmemory.Geometry
		caller, server *os.File
	}{
		"not sealed":     {testGeometry, unsealed, serverFile},
		"no memory":      {testGeometry, callerFile, null},
		"another size":   {larger, callerFile, serverFile},
		"the wrong ways": {testGeometry, serverFile, callerFile},
	}
	for name, c := range cases {
		if _, err := sharedmemory.Attach(c.geometry, int(c.caller.Fd()), int(c.server.Fd())); err == nil {
			t.Errorf("%s: attached", name)
		}
	}
}

// TestAttachRefusesHugePages: they are refused before they are mapped, for which a machine may have some.
func TestAttachRefusesHugePages(t *testing.T) {
	large := sharedmemory.Geometry{Slots: 64, Marks: 512, ArenaBytes: hugePageBytes - 4*4096}
	_, callerFile, serverFile, err := sharedmemory.Create(large)
	if err != nil {
		t.Fatal(err)
	}
	defer callerFile.Close()
	defer serverFile.Close()
	if bytes := fileSize(t, serverFile); bytes != hugePageBytes {
		t.Fatalf("the server's region has %d bytes, not those of a page", bytes)
	}
	page := hugePage(t)
	if _, err := sharedmemory.Attach(large, int(callerFile.Fd()), int(page.Fd())); err == nil || !strings.Contains(err.Error(), "no file in memory") {
		t.Error("a region:", err)
	}
	if _, err := sharedmemory.AttachStore(int(page.Fd()), false, true); err == nil || !strings.Contains(err.Error(), "no file in memory") {
		t.Error("a store:", err)
	}
}

const hugePageBytes = 2 << 20

func hugePage(t *testing.T) *os.File {
	t.Helper()
	fd, err := unix.MemfdCreate("test", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING|unix.MFD_HUGETLB|unix.MFD_HUGE_2MB)
	if err != nil {
		t.Fatal(err)
	}
	file := os.NewFile(uintptr(fd), "test")
	t.Cleanup(func() { file.Close() })
	seals := unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_SEAL
	if err = file.Truncate(hugePageBytes); err == nil {
		_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals)
	}
	if err != nil {
		t.Fatal(err)
	}
	return file
}

func fileSize(t *testing.T, file *os.File) int {
	status, err := file.Stat()
	if err != nil {
		t.Fatal(err)
	}
	return int(status.Size())
}

func memfd(t *testing.T, bytes int64) *os.File {
	t.Helper()
	fd, err := unix.MemfdCreate("test", unix.MFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	file := os.NewFile(uintptr(fd), "test")
	t.Cleanup(func() { file.Close() })
	if err := file.Truncate(bytes); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestFaultLosesNoBuffer: what was lent for a frame that cannot be read comes back.
func TestFaultLosesNoBuffer(t *testing.T) {
	const bytes = 100 << 10
	caller, server := pair(t, testGeometry)
	if !put(caller, 1, content(1, bytes)) {
		t.Fatal("no room")
	}
	if err := server.HideArena(); err != nil {
		t.Fatal(err)
	}
	var lent []byte
	record, err := server.Take(make([]byte, sharedmemory.RecordBytesMin), wire.FrameBytesMaxCeiling, func(n int) []byte {
		lent = make([]byte, n)
		return lent
	})
	if !errors.Is(err, sharedmemory.ErrFault) || lent == nil || cap(record) != cap(lent) {
		t.Errorf("%d of %d bytes come back: %v", cap(record), cap(lent), err)
	}
}

// TestCallerCannotWriteServerRegion: not by mapping it, nor by writing, nor by
// removing pages.
func TestCallerCannotWriteServerRegion(t *testing.T) {
	regions, callerFile, serverFile, err := sharedmemory.Create(testGeometry)
	if err != nil {
		t.Fatal(err)
	}
	defer regions.Close()
	defer callerFile.Close()
	defer serverFile.Close()
	fd := int(serverFile.Fd())
	if _, err := unix.Mmap(fd, 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err == nil {
		t.Error("mapped for writing")
	}
	if _, err := unix.Pwrite(fd, []byte{1}, 0); err == nil {
		t.Error("written")
	}
	if err := unix.Fallocate(fd, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, 0, 4096); err == nil {
		t.Error("a hole was punched")
	}
	for _, file := range []*os.File{callerFile, serverFile} {
		if err := file.Truncate(0); err == nil {
			t.Errorf("%s was truncated", file.Name())
		}
	}
}

func TestGeometryOf(t *testing.T) {
	good := testGeometry.Offer(20)
	if g, err := sharedmemory.GeometryOf(good); err != nil || g != testGeometry {
		t.Errorf("GeometryOf = %v, %v", g, err)
	}
	for _, offer := range []wire.MemoryOffer{
		{Slots: 0, Marks: 512}, {Slots: 48, Marks: 512}, {Slots: 16, Marks: 512}, {Slots: 8192, Marks: 512}, {Slots: 32, Marks: 0}, {Slots: 32, Marks: 768},
		{Slots: 32, Marks: 131072}, {Slots: 32, Marks: 512, ArenaBytes: 100}, {Slots: 32, Marks: 512, ArenaBytes: 1 << 30},
	} {
		if g, err := sharedmemory.GeometryOf(offer); err == nil {
			t.Errorf("GeometryOf(%+v) = %v", offer, g)
		}
	}
}

func TestSpinLimit(t *testing.T) {
	if limit := sharedmemory.SpinLimit(); limit < 20*time.Microsecond || limit > wire.SpinUsMax*time.Microsecond {
		t.Errorf("spin limit %v", limit)
	}
}

// FuzzTake: whatever a caller writes into a slot and its neighbours, the server
// reads nothing outside the region and does not panic.
func FuzzTake(f *testing.F) {
	f.Add(make([]byte, 128))
	slot := make([]byte, 128)
	slot[4], slot[5], slot[8], slot[9] = 0, 0x20, 0xFF, 0xFF
	f.Add(slot)
	regions, callerFile, serverFile, err := sharedmemory.Create(testGeometry)
	if err != nil {
		f.Fatal(err)
	}
	raw, err := memorytest.Map(callerFile, serverFile)
	if err != nil {
		f.Fatal(err)
	}
	callerFile.Close()
	serverFile.Close()
	f.Cleanup(func() {
		regions.Close()
		raw.Close()
	})
	f.Fuzz(func(t *testing.T, data []byte) {
		end := regions.ServerEnd()
		copy(raw.Slot(0), data)
		raw.Publish(0)
		record, err := end.Take(make([]byte, sharedmemory.RecordBytesMin), 1<<20, grow)
		if (record == nil) == (err == nil) {
			t.Errorf("record of %d bytes and error %v", len(record), err)
		}
		if len(record) > wire.HeaderBytes+1<<20 {
			t.Errorf("a record of %d bytes", len(record))
		}
	})
}

// A body that goes apart is appended where the taker wants it, and leaves the header.
func TestBodiesApart(t *testing.T) {
	for _, read := range []bool{false, true} {
		testBodiesApart(t, read)
	}
}

func testBodiesApart(t *testing.T, read bool) {
	caller, server := pair(t, sharedmemory.Geometry{Slots: 32, Marks: 512, ArenaBytes: 64 << 10})
	for n, bytes := range []int{89, 4095, 4096, 40 << 10} {
		id := uint64(n + 1)
		header := wire.Header{Type: wire.Ping, CallID: id, Length: uint32(bytes)}
		body := content(id, bytes)
		if put := caller.PutParts(&header, [][]byte{body[:bytes/3], nil, body[bytes/3:]}); !put {
			t.Fatalf("there was no room for %d bytes", bytes)
		}
		asked, apart := 0, []byte("before")
		frame, err := server.TakeApart(make([]byte, sharedmemory.RecordBytesMin), wire.FrameBytesMaxCeiling, grow, func(head []byte, announced int) sharedmemory.Place {
			asked++
			if wire.ParseHeader(head) != header || announced != bytes {
				t.Errorf("%d bytes were announced as %d", bytes, announced)
			}
			if read {
				return sharedmemory.Place{Read: func(body []byte) { apart = append(apart, body...) }}
			}
			return sharedmemory.Place{To: &apart}
		})
		if err != nil || wire.ParseHeader(frame) != header {
			t.Fatalf("%d bytes: %v", bytes, err)
		}
		got := append([]byte("before"), frame[wire.HeaderBytes:]...)
		if bytes >= 4096 {
			got = apart
		}
		if asked != min(1, bytes/4096) || string(got) != "before"+string(body) {
			t.Errorf("%d bytes: asked %d times, %d bytes came", bytes, asked, len(got))
		}
	}
}

// TestBodiesThatNobodyWants: the header is all that is taken.
func TestBodiesThatNobodyWants(t *testing.T) {
	caller, server := pair(t, testGeometry)
	for id := range uint64(100) {
		if !put(caller, id+1, content(id, 40<<10)) {
			t.Fatal("no room")
		}
		noRoom := func(int) []byte { t.Error("room for a body was asked for"); return nil }
		frame, err := server.TakeApart(make([]byte, sharedmemory.RecordBytesMin), wire.FrameBytesMaxCeiling, noRoom, func([]byte, int) sharedmemory.Place {
			return sharedmemory.Place{Drop: true}
		})
		if err != nil || len(frame) != wire.HeaderBytes || wire.ParseHeader(frame).CallID != id+1 {
			t.Fatalf("frame %d: %d bytes, %v", id, len(frame), err)
		}
	}
}

// TestAReaderThatIsLedAstray: a peer that changes a body while it is read where it lies may lead its
// reader beyond what it has, which counts as a fault of that memory. The reader's own panics go on.
func TestAReaderThatIsLedAstray(t *testing.T) {
	const bytes = 8 << 10
	takeWith := func(read func([]byte)) (cause any, err error) {
		defer func() { cause = recover() }()
		caller, server := pair(t, testGeometry)
		if !put(caller, 1, content(1, bytes)) {
			t.Fatal("no room")
		}
		_, err = server.TakeApart(make([]byte, sharedmemory.RecordBytesMin), wire.FrameBytesMaxCeiling, grow, func([]byte, int) sharedmemory.Place {
			return sharedmemory.Place{Read: read}
		})
		return nil, err
	}
	for what, read := range map[string]func([]byte){
		"an index": func(body []byte) { body[len(body)+int(body[0])] = 0 },
		"a slice":  func(body []byte) { _ = body[len(body)+int(body[0]):] },
		"a size":   func(body []byte) { _ = make([]byte, -1-int(body[0])) },
	} {
		if cause, err := takeWith(read); cause != nil || !errors.Is(err, sharedmemory.ErrFault) {
			t.Errorf("%s that is out of range: %v, panic %v", what, err, cause)
		}
	}
	if cause, err := takeWith(func([]byte) { panic("its own") }); cause != "its own" {
		t.Errorf("a panic of the reader's own: %v, panic %v", err, cause)
	}
}
