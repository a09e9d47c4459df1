package server

import _ "unsafe"
