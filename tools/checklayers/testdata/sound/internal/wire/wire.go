package wire

import _ "encoding/binary"
