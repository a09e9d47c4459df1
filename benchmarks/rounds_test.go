package main

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nearcall/nearcall/benchmarks/protocol"
	"github.com/nearcall/nearcall/benchmarks/result"
)

// As a caller of its own the test's program calls nothing, and reports what its last
// argument says.
const asCaller = "NEARCALL_BENCHMARKS_TEST_CALLER"

func TestMain(m *testing.M) {
	if os.Getenv(asCaller) == "" {
		os.Exit(m.Run())
	}
	if err := callerMain(os.Args[len(os.Args)-1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// fakeTimes are the samples of each round of a caller in these tests, in ns.
var fakeTimes = []uint64{300, 100, 200, 400}

func callerMain(behaviour string) error {
	fmt.Println("ready")
	lines := bufio.NewScanner(os.Stdin)
	for n := 0; lines.Scan(); n++ {
		head, samples, err := fakeReport(behaviour, n, lines.Text())
		if err != nil {
			return err
		}
		head.Calls, head.Samples = uint64(len(samples)), uint64(len(samples))
		if err := binary.Write(os.Stdout, binary.NativeEndian, head); err != nil {
			return err
		}
		if err := binary.Write(os.Stdout, binary.NativeEndian, samples); err != nil {
			return err
		}
	}
	return lines.Err()
}

// fakeSamplesMany are so many that a pipe holds few of them.
const fakeSamplesMany = 4 << 20

// fakeReport is what a caller reports of its nth run: 0 is the warm-up.
func fakeReport(behaviour string, n int, command string) (protocol.Head, []uint64, error) {
	head := protocol.Head{ElapsedNS: 1000, CPUNS: 1000, Transport: protocol.SharedMemory}
	switch behaviour {
	case "dies":
		if n == 2 {
			return head, nil, errors.New("the caller had enough")
		}
	case "falls back":
		if n == 2 {
			head.Transport = protocol.Socket
		}
	case "in no time":
		head.ElapsedNS = 0
	case "stalls":
		if n == 2 {
			return head, []uint64{5_000, 5_000, 5_000, 5_000}, nil
		}
	case "cannot tell":
		head.CPUNS, head.Allocations, head.Transport = protocol.NotCounted, protocol.NotCounted, protocol.Unknown
	case "many samples":
		return head, make([]uint64, fakeSamplesMany), nil
	case "tells":
		told := make([]uint64, 3) // the numbers of its command
		_, err := fmt.Sscanf(command, "run %d %d %d", &told[0], &told[1], &told[2])
		return head, told, err
	}
	if noticed, ok := strings.CutPrefix(behaviour, interrupts); ok && n == 1 {
		return head, fakeTimes, interrupt(noticed)
	}
	return head, fakeTimes, nil
}

// interrupts begins the behaviour of a caller that ends the run in the first round. The
// rest is a file that is there when the run knows.
const interrupts = "interrupts:"

func interrupt(noticed string) error {
	if err := syscall.Kill(os.Getppid(), syscall.SIGTERM); err != nil {
		return err
	}
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		if _, err := os.Stat(noticed); err == nil || time.Now().After(deadline) {
			return err
		}
	}
}

func fakeRow(t *testing.T, name, behaviour string) rowPlan {
	t.Helper()
	row := plan(name, smallBytes, noServer, "", []string{os.Args[0]})
	row.arguments = []string{behaviour}
	return row
}

const fakeRounds = 3

// discard is a file that forgets what is written to it.
func discard(t *testing.T) *os.File {
	t.Helper()
	file, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	check(t, err)
	t.Cleanup(func() { file.Close() })
	return file
}

// measureFakes measures rows of fake callers.
func measureFakes(t *testing.T, plans ...rowPlan) []measuredRow {
	t.Helper()
	t.Setenv(asCaller, "1")
	rows, err := tools{}.runGroup(t.Context(), group{name: "fakes", rows: plans}, t.TempDir(), pace{rounds: fakeRounds, length: time.Millisecond, warmUp: time.Millisecond}, newProgress(discard(t), time.Second))
	check(t, err)
	return rows
}

func TestRowThatFailsDoesNotEndTheRun(t *testing.T) {
	missing := plan("missing", smallBytes, noServer, "", []string{"/nonexistent"})
	rows := measureFakes(t, fakeRow(t, "dies", "dies"), fakeRow(t, "lives", ""), missing)
	if row := rows[1].reduced(); row.Failed != "" || row.Rounds != fakeRounds || row.RoundMS != 1 || row.WarmUpMS != 1 {
		t.Errorf("the row beside those that failed: %+v", row)
	}
	for i, want := range map[int]string{0: "round 2: no report: EOF: the caller had enough", 2: "/nonexistent"} {
		if row := rows[i].reduced(); !strings.Contains(row.Failed, want) || row.P50NS != 0 || row.Rounds != 0 || row.Histogram != nil {
			t.Errorf("a row that failed (%q): %+v", want, row)
		}
	}
}

func TestRowTellsAllSamples(t *testing.T) {
	row := measureFakes(t, fakeRow(t, "lives", ""))[0].reduced()
	if row.Group != "fakes" || row.MinNS != 100 || row.MeanNS != 250 || row.MaxNS != 400 || row.P95NS != 400 || row.P999NS != 400 || row.StdDevNS != 117 {
		t.Errorf("got %+v", row)
	}
	if order := []int64{row.MinNS, row.P50NS, row.P95NS, row.P99NS, row.P999NS, row.MaxNS}; !slices.IsSorted(order) || row.P50NS != 200 {
		t.Errorf("percentiles are not in order: %v", order)
	}
	counted := int64(0)
	for _, count := range row.Histogram.Counts {
		counted += count
	}
	if counted != row.Calls || row.Calls != int64(fakeRounds*len(fakeTimes)) {
		t.Errorf("%d samples are counted, %d calls were made", counted, row.Calls)
	}
}

func TestComparisonIsOfRoundsThatBothHave(t *testing.T) {
	// The run was ended when one had its turn in the last round, and the other had not.
	rows := []measuredRow{{plan: fakeRow(t, "b", ""), rounds: []round{{p50: 2}, {p50: 9}}}, {plan: fakeRow(t, "a", ""), rounds: []round{{p50: 1}}}}
	for names, want := range map[[2]string]float64{{"b", "a"}: 2, {"a", "b"}: 0.5} {
		got, err := compared(comparisonsIn("p50_ns " + names[0] + " / " + names[1])[0], rows)
		if err != nil || got.Value != want {
			t.Errorf("got %+v, %v", got, err)
		}
	}
}

func TestPercentilesAreOfEveryCall(t *testing.T) {
	row := measureFakes(t, fakeRow(t, "stalls", "stalls"))[0].reduced()
	if want := (result.Percentiles{P50NS: 200, P99NS: 400}); row.MedianOfRounds != want {
		t.Errorf("of the rounds: %+v", row.MedianOfRounds)
	}
	if row.P50NS != 300 || row.P95NS != 5_000 || row.P99NS != 5_000 || row.P999NS != 5_000 {
		t.Errorf("of every call: %+v", row)
	}
}

func TestComparisonWithRowThatFailedSaysSo(t *testing.T) {
	rows := []measuredRow{{plan: fakeRow(t, "b", ""), rounds: []round{{p50: 2}}}, {plan: fakeRow(t, "a", ""), failed: "it died"}}
	got, err := compared(comparisonsIn("p50_ns b / a <= 1")[0], rows)
	if err != nil || got.NotMeasured != "a failed: it died" || got.Goal.Met {
		t.Errorf("got %+v, %v", got, err)
	}
}

// staying is a confinement that cannot be undone.
type staying struct{}

func (staying) pinning() string { return "" }

func (staying) enter() ([]string, func() error, error) {
	return nil, func() error { return errors.New("the control group stays") }, nil
}

func TestConfinementThatStaysIsTold(t *testing.T) {
	g := group{name: "confined", confined: staying{}}
	_, err := tools{}.runGroup(t.Context(), g, t.TempDir(), pace{}, newProgress(discard(t), time.Second))
	if err == nil || err.Error() != "the control group stays" {
		t.Errorf("got %v", err)
	}
}

// check ends a test by an error.
func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
