package peercred

import _ "golang.org/x/sys/unix"
