package calling

import (
	"errors"
	"time"

	"github.com/nearcall/nearcall/benchmarks/protocol"
)

// A Timed call times itself, in ns. ok is false where it was not of the kind that is measured.
type Timed func() (ns uint64, ok bool, err error)

// ErrNoCall is that none of the calls was of the kind that is measured.
var ErrNoCall = errors.New("none of the calls was of the kind that is measured")

// zero is what times are counted from: a difference reads one clock, not two.
var zero = time.Now()

// Repeat makes calls for so long, and one at least. Its samples are kept in the memory of samples.
func (call Timed) Repeat(length time.Duration, samples []uint64) (protocol.Report, error) {
	cpu, err := protocol.OwnCPU()
	if err != nil {
		return protocol.Report{}, err
	}
	begin := time.Since(zero)
	for until := begin + length; ; {
		ns, ok, err := call()
		if err != nil {
			return protocol.Report{}, err
		}
		if ok {
			samples = append(samples, ns)
		}
		if time.Since(zero) > until {
			break
		}
	}
	if len(samples) == 0 {
		return protocol.Report{}, ErrNoCall
	}
	elapsed := time.Since(zero) - begin
	cpuAfter, err := protocol.OwnCPU()
	return protocol.Report{Samples: [][]uint64{samples}, Elapsed: elapsed, CPU: cpuAfter - cpu}, err
}
