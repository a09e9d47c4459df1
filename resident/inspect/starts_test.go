package inspect_test

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/nearcall/nearcall/resident/inspect"
)

// A program is run plainly for twice as long with each start that comes to nothing, as
// nearcall-run does it.
func TestFailedStarts(t *testing.T) {
	at := time.Unix(1_700_000_000, 0)
	for starts, want := range map[int]time.Duration{
		1: -1, 2: 30 * time.Second, 3: time.Minute, 5: 4 * time.Minute, 8: 32 * time.Minute, 9: time.Hour, 999: time.Hour,
	} {
		lock := filepath.Join(t.TempDir(), "lock")
		if err := os.WriteFile(lock, []byte(strconv.Itoa(starts)+"\n/a/program\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(lock, at, at); err != nil {
			t.Fatal(err)
		}
		count, until, err := inspect.Place{Lock: lock}.FailedStarts()
		if err != nil || count != starts || want < 0 != until.IsZero() || want > 0 && until.Sub(at) != want {
			t.Errorf("%d starts: %d, plainly for %v, %v", starts, count, until.Sub(at), err)
		}
	}
}
