package unixsocket

import (
	_ "unsafe"

	_ "golang.org/x/sys/unix"
)
