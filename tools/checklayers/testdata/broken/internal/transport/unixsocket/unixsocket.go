package unixsocket

import _ "github.com/nearcall/nearcall/server"
