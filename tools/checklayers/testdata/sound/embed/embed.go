package embed

import "C"
