package resident

import "runtime"

// residentUmask is what residents are started with.
const residentUmask = 0o077

// WithUmask calls f so that files and directories that it makes, and commands that it
// starts, have the caller's umask. In mode Concurrent f runs in a goroutine of its
// own, on a thread that ends with it, which costs some tens of microseconds; what f
// starts with go has the process's umask, 077. Otherwise it is a plain call, for the
// umask is the process's own then. A panic of f is one of WithUmask, and so is Exit.
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
		runtime.LockOSThread() // and never unlocked: nobody else gets this thread
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

// foreignUmask tells whether the process has another umask than the run.
func (inv *Invocation) foreignUmask() bool {
	return inv.concurrent && inv.Umask != residentUmask
}
