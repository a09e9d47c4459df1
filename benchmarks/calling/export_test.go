package calling

import (
	"time"

	"github.com/nearcall/nearcall/internal/windows"
)

// A FakeTimer is what time it is made to be.
type FakeTimer struct {
	Now  time.Duration
	Late time.Duration // how late it wakes who sleeps
}

func (f *FakeTimer) now() int64 { return int64(f.Now) }

func (f *FakeTimer) sleepUntil(dueNS int64) { f.Now = time.Duration(dueNS) + f.Late }

// Sustained lets call be made from 0 to length, with windows as long as that.
func (f *FakeTimer) Sustained(call Call, length, window time.Duration) (samples []uint64, counter *windows.Counter, err error) {
	counter = windows.NewCounter(0, length, window)
	samples, err = call.sustained(f, nil, 0, int64(length), counter)
	return samples, counter, err
}

// Paced lets call be made at that pace from 0 to length by the timer's time.
func (f *FakeTimer) Paced(call Call, length, pace time.Duration) ([]uint64, error) {
	return call.paced(f, nil, 0, int64(length), int64(pace))
}
