package machine

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// A Load is what else a machine has to do, at one moment. Measurements look at it
// before and after.
type Load struct {
	// Average is how many threads ran or were about to, over 1, 5 and 15 minutes; what
	// measures is among them.
	Average [3]float64 `json:"average"`
	// StealS is how long all CPUs together, since the machine began, had something to do
	// and a hypervisor did not let them, in seconds.
	StealS float64 `json:"steal_s"`
}

// PresentLoad returns the load at this moment.
func PresentLoad() (Load, error) {
	averages, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return Load{}, err
	}
	counters, err := os.ReadFile("/proc/stat")
	if err != nil {
		return Load{}, err
	}
	return ParseLoad(string(averages), string(counters))
}

// stealField is where the line "cpu" of /proc/stat has it.
const stealField = 8

// tick is the unit of /proc/stat: sysconf(_SC_CLK_TCK), which is 100 on all that Go
// runs on.
const tick = 10 * time.Millisecond

// ParseLoad reads a load from the text of /proc/loadavg and of /proc/stat.
func ParseLoad(averages, counters string) (load Load, err error) {
	fields := strings.Fields(averages)
	if len(fields) < len(load.Average) {
		return load, fmt.Errorf("/proc/loadavg is %q", averages)
	}
	for i := range load.Average {
		if load.Average[i], err = strconv.ParseFloat(fields[i], 64); err != nil {
			return load, fmt.Errorf("/proc/loadavg: %w", err)
		}
	}
	first, _, _ := strings.Cut(counters, "\n")
	fields = strings.Fields(first)
	if len(fields) <= stealField || fields[0] != "cpu" {
		return load, fmt.Errorf("/proc/stat begins with %q", first)
	}
	ticks, err := strconv.ParseInt(fields[stealField], 10, 64)
	if err != nil {
		return load, fmt.Errorf("/proc/stat: %w", err)
	}
	load.StealS = (time.Duration(ticks) * tick).Seconds()
	return load, nil
}
