package front

import (
	"fmt"
	"syscall"

	"github.com/nearcall/nearcall/cmd/nearcall/internal/front/config"
)

// descriptorsShort is what to do where there are none.
const descriptorsShort = "; all descriptors that the process may have are in use, and what comes waits in the kernel:" +
	" raise the limit, as by LimitNOFILE= of systemd or ulimit -n, or lower held_max"

// descriptorsBesides are those of the runtime, the log, metrics and control, and some that
// are open for moments.
const descriptorsBesides = 32

// descriptorsNeeded is how many a configuration can make the front hold.
func descriptorsNeeded(c *config.Config) uint64 {
	needed := descriptorsBesides + c.Limits.HeldMax
	const each = 2 // of a listener: what a successor gets, and what is accepted from
	needed += each * len(c.Listens)
	for _, b := range c.Backends {
		needed += len(b.Sockets)
	}
	return uint64(needed)
}

// checkDescriptors warns of a limit that would be met before held_max is.
func (f *Front) checkDescriptors(c *config.Config) {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		f.log.Warn("the limit of descriptors is not known", "error", err)
		return
	}
	if needed := descriptorsNeeded(c); limit.Cur < needed {
		f.log.Warn(fmt.Sprintf("held_max is %d, which takes %d descriptors, and the process may have %d: raise the limit, as by LimitNOFILE= of systemd or ulimit -n, or lower held_max",
			c.Limits.HeldMax, needed, limit.Cur))
	}
}
