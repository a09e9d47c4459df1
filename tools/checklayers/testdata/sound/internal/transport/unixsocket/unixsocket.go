package unixsocket

import (
	_ "net"

	_ "github.com/nearcall/nearcall/internal/wire"
	_ "github.com/nearcall/nearcall/status"
)
