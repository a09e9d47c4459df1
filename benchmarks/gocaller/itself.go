package main

import (
	"fmt"

	"github.com/nearcall/nearcall/benchmarks/calling"
	"github.com/nearcall/nearcall/benchmarks/protocol"
	"github.com/nearcall/nearcall/tests/programs/demo"
)

// itselfBatch is how many calls one sample is of, where a call takes no longer than
// reading the clock does.
const itselfBatch = 10_000

// An itself is a function that is called without anything between.
type itself struct {
	call           calling.Call
	callsPerSample int
}

// The compiler makes of one() what it always makes of such a function: its result stands
// where it is called.
func one() int64 { return 1 }

//go:noinline
func oneCalled() int64 { return 1 }

// itselves are the functions of the published account; one() also as a call that the
// compiler may not leave out.
var itselves = map[string]itself{
	"one": {func() error {
		sum := int64(0)
		for range itselfBatch {
			sum += one()
		}
		return differs(sum != itselfBatch)
	}, itselfBatch},
	"called": {func() error {
		sum := int64(0)
		for range itselfBatch {
			sum += oneCalled()
		}
		return differs(sum != itselfBatch)
	}, itselfBatch},
	"ack": {func() error { return differs(demo.Ackermann(3, 4) != 125) }, 1},
	"md5": {func() error {
		for range itselfBatch {
			if demo.Digest("hoge") != "ea703e7aa1efda0064eaa507d9e8ab7e" {
				return calling.ErrDiffers
			}
		}
		return nil
	}, itselfBatch},
}

func differs(is bool) error {
	if is {
		return calling.ErrDiffers
	}
	return nil
}

func serveItself(function string) error {
	f, found := itselves[function]
	if !found {
		return fmt.Errorf("itself-%s; see gocaller/itself.go", function)
	}
	if err := f.call(); err != nil {
		return err
	}
	return serveTogether(f.call, f.callsPerSample)
}

// serveTogether lets calls be measured so many of which are timed together.
func serveTogether(call calling.Call, callsPerSample int) error {
	caller := calling.New([]calling.Call{call})
	return protocol.Serve(protocol.AsFastAsItCan(func(c protocol.Command) (protocol.Report, error) {
		r, err := caller.Measure(c, 0)
		r.CallsPerSample = callsPerSample
		return r, err
	}))
}
