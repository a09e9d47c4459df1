package handoff

import (
	"errors"
	"fmt"
)

func prepareInherited(int) (listening bool, err error) {
	return false, fmt.Errorf("%w: no service manager of Windows leaves sockets open", errors.ErrUnsupported)
}
