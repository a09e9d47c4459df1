package residentcheck

import (
	"context"
	"os"
	"path/filepath"
	"slices"
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
	return []string{"XDG_RUNTIME_DIR=" + r.runtime, "NEARCALL_RUN_DEBUG=1", "NEARCALL_RUN_ANSWER_MS=60000", "NEARCALL_RESIDENT_NOTES=" + r.notes()}
}

func (r residents) notes() string { return filepath.Join(r.runtime, "notes") }

// answerTimeout bounds what a resident that hangs keeps waiting.
const answerTimeout = 10 * time.Second

// look asks the resident, reads what its language's part has noted, and sees what it has open.
func (r residents) look(ctx context.Context, report *Report) error {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	places, err := inspect.PlacesIn(r.directory)
	if err == nil && len(places) == 0 {
		err = inspect.ErrNotRunning
	}
	if err != nil {
		return err
	}
	status, err := places[0].Status(ctx)
	if err != nil {
		return err
	}
	report.Reads = Reads{append([]string{}, status.Reads...), status.ReadsDirectory != "", status.ReadsInput}
	before, loaded, err := readNotes(r.notes())
	for _, name := range openOf(status.ProcessID, r.runtime) {
		before = append(before, Note{Kind: noteOpen, Name: name})
	}
	// The program's own file is what a resident is of.
	before = slices.DeleteFunc(before, func(note Note) bool { return note.Name == report.Program })
	report.Before, report.Loaded = append([]Note{}, before...), append([]string{}, loaded...)
	return err
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

// said is what a resident said last, to stand behind something.
func (r residents) said() string {
	places, _ := inspect.PlacesIn(r.directory)
	for _, place := range places {
		text, _ := os.ReadFile(place.Log)
		if last := lastLine(string(text)); last != "" {
			return "; its resident said: " + last
		}
	}
	return ""
}
