package calling

import "time"

// A FakeTimer is what time it is made to be.
type FakeTimer struct {
	Now  time.Duration
	Late time.Duration // how late it wakes who sleeps
}

func (f *FakeTimer) now() int64 { return int64(f.Now) }

func (f *FakeTimer) sleepUntil(dueNS int64) { f.Now = time.Duration(dueNS) + f.Late }

// Paced lets call be made at that pace from 0 to length by the timer's time.
func (f *FakeTimer) Paced(call Call, length, pace time.Duration) ([]uint64, error) {
	return call.paced(f, nil, 0, int64(length), int64(pace))
}
