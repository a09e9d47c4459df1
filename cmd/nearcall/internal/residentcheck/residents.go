package residentcheck

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/nearcall/nearcall/resident/inspect"
)

// residents are those of one runtime directory.
type residents struct{ runtime, directory string }

func newResidents(runtime string) (residents, error) {
	return residents{runtime, filepath.Join(runtime, "nearcall-resident")}, os.Mkdir(runtime, 0o700)
}

// environment is what lets launchers use them, say why they do not, and wait for one that
// takes long to start.
func (r residents) environment() []string {
	return []string{"XDG_RUNTIME_DIR=" + r.runtime, "NEARCALL_RUN_DEBUG=1", "NEARCALL_RUN_ANSWER_MS=60000"}
}

// answerTimeout bounds what a resident that hangs keeps waiting.
const answerTimeout = 10 * time.Second

func (r residents) reads(ctx context.Context) (Reads, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	places, err := inspect.PlacesIn(r.directory)
	if err == nil && len(places) == 0 {
		err = inspect.ErrNotRunning
	}
	if err != nil {
		return Reads{}, err
	}
	report, err := places[0].Status(ctx)
	if err != nil {
		return Reads{}, err
	}
	return Reads{append([]string{}, report.Reads...), report.ReadsDirectory != "", report.ReadsInput}, nil
}

// stop ends them, as nobody else has any, and waits for their end.
func (r residents) stop() {
	ctx, cancel := context.WithTimeout(context.Background(), answerTimeout)
	defer cancel()
	places, _ := inspect.PlacesIn(r.directory)
	for _, place := range places {
		report, err := place.Status(ctx)
		if err != nil {
			continue
		}
		ended, err := endOf(report.ProcessID)
		if err != nil {
			continue
		}
		if _, err := place.Stop(ctx); err == nil {
			ended(ctx)
		}
	}
}

// lastLine is what a resident said last.
func (r residents) lastLine() string {
	places, _ := inspect.PlacesIn(r.directory)
	for _, place := range places {
		text, _ := os.ReadFile(place.Log)
		lines := strings.Split(strings.TrimSpace(string(text)), "\n")
		if last := lines[len(lines)-1]; last != "" {
			return last
		}
	}
	return ""
}
