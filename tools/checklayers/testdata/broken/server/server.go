package server

import (
	_ "github.com/nearcall/nearcall/internal/transport/eventloop"
	_ "github.com/nearcall/nearcall/internal/transport/unixsocket"
)
