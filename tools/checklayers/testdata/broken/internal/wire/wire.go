package wire

import _ "github.com/tinylib/msgp/msgp"
