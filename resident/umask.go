package resident

import "runtime"

// residentUmask is the umask with which residents are started.
const residentUmask = 0o077

// WithUmask calls f. The files and directories that f makes, and the commands that it
// starts, get the caller's umask. In mode Concurrent f runs in a goroutine of its own,
// on a thread that ends with it, which costs some tens of microseconds; goroutines that
// f starts have the umask of the process, 077. In the other modes this is a plain call,
// because the process has the caller's umask. A panic of f panics out of WithUmask, and
// Exit in f ends the run.
func (inv *Invocation) WithUmask(f func()) error {
	if !inv.foreignUmask() {
		f()
		return nil
	}
	var failure error
	var panicked any
	returned := false
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // never unlocked, so that nobody else gets this thread
		if failure = borrowUmask(inv.Umask); failure != nil {
			return
		}
		defer func() { panicked = recover() }()
		f()
		returned = true
	}()
	<-done
	switch {
	case panicked != nil:
		panic(panicked)
	case failure == nil && !returned:
		runtime.Goexit()
	}
	return failure
}

// foreignUmask reports whether the umask of the process is not that of the run.
func (inv *Invocation) foreignUmask() bool {
	return inv.concurrent && inv.Umask != residentUmask
}
