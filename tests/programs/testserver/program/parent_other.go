//go:build !linux

package program

import "errors"

func endWithParent() { fail(errors.New("-with-parent needs Linux")) }
