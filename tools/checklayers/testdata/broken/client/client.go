package client

import _ "github.com/nearcall/nearcall/server"
