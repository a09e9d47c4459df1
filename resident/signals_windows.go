package resident

import (
	"os"
	"syscall"
)

func passedOn() []os.Signal { return []os.Signal{os.Interrupt, syscall.SIGTERM} }
