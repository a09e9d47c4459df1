package wire

import "time"

// DeadlineField encodes a deadline that is remaining away, for a sender whose
// monotonic clock shows clockMs, as spec/wire-format.md has it: absolute when
// the clock is shared, relative otherwise. It rounds up, so that a call never
// expires early. Distances beyond 24 days, which the field cannot hold, become
// "none".
func DeadlineField(clockMs uint64, remaining time.Duration, shared bool) uint32 {
	ms := int64((remaining + time.Millisecond - 1) / time.Millisecond)
	if ms >= 1<<31-1 {
		return 0
	}
	ms = max(ms, 0)
	field := uint32(ms)
	if shared {
		field = uint32(clockMs) + uint32(ms)
	}
	return max(field, 1)
}

// DeadlineRemaining decodes a deadline field that is not 0: the time left at
// clockMs of the receiver's monotonic clock, negative when it has passed.
func DeadlineRemaining(field uint32, clockMs uint64, shared bool) time.Duration {
	if !shared {
		return time.Duration(field) * time.Millisecond
	}
	return time.Duration(int32(field-uint32(clockMs))) * time.Millisecond
}
