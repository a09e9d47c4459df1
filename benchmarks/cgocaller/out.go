package main

// #include <stdlib.h>
// #include "functions.h"
import "C"

import (
	"errors"
	"fmt"
	"time"
)

const hoge = "ea703e7aa1efda0064eaa507d9e8ab7e"

// openOut returns calls of functions in C, their answers checked.
func openOut(name string) (mode, error) {
	text := C.CString("hoge") // as long as the process
	hex := (*C.char)(C.malloc(C.MD5_HEX_BYTES))
	call, found := map[string]func() bool{
		"out-one": func() bool { return C.one() == 1 },
		"out-ack": func() bool { return C.ack(3, 4) == 125 },
		"out-md5": func() bool {
			C.md5(text, 4, hex)
			return C.GoStringN(hex, C.MD5_HEX_BYTES) == hoge
		},
	}[name]
	if !found {
		return mode{}, fmt.Errorf("mode %q", name)
	}
	return mode{call: func() (uint64, bool, error) {
		begin := time.Since(zero)
		good := call()
		ns := uint64(time.Since(zero) - begin)
		if !good {
			return 0, false, errors.New(name + " answered what it never does")
		}
		return ns, true, nil
	}}, nil
}
