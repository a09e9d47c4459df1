package residentcheck

import (
	"context"
	"io"
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
	status, err := r.status(ctx, report.Program)
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

// status asks that of a program. What this starts itself may be resident as well.
func (r residents) status(ctx context.Context, program string) (*inspect.Report, error) {
	places, err := inspect.PlacesIn(r.directory)
	if err != nil {
		return nil, err
	}
	err = inspect.ErrNotRunning
	for _, place := range places {
		status, failed := place.Status(ctx)
		if failed != nil {
			err = failed
		} else if filepath.Base(status.Program) == filepath.Base(program) {
			return status, nil
		}
	}
	return nil, err
}

// stop ends them, as nobody else has any, and waits for their end. Those that do not answer, as
// they hang while they load, are killed.
func (r residents) stop() {
	r.stopThoseThatAnswer()
	ctx, cancel := context.WithTimeout(context.Background(), answerTimeout)
	defer cancel()
	killStartedWith(ctx, "NEARCALL_RESIDENT_LOCK="+r.directory+"/")
}

func (r residents) stopThoseThatAnswer() {
	ctx, cancel := context.WithTimeout(context.Background(), answerTimeout)
	defer cancel()
	places, _ := inspect.PlacesIn(r.directory)
	for _, place := range places {
		if report, err := place.Status(ctx); err == nil {
			end(ctx, report.ProcessID, func() error { _, err := place.Stop(ctx); return err })
		}
	}
}

// said is what a resident said last, to stand behind something.
func (r residents) said() string {
	places, _ := inspect.PlacesIn(r.directory)
	for _, place := range places {
		if last := lastLine(endOf(place.Log)); last != "" {
			return "; its resident said: " + last
		}
	}
	return ""
}

// logBytesShown is where a last line is looked for: a log may be of any size.
const logBytesShown = 64 << 10

// endOf is that of a file, or "" where it cannot be read.
func endOf(path string) string {
	file, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return ""
	}
	text, _ := io.ReadAll(io.NewSectionReader(file, max(0, info.Size()-logBytesShown), logBytesShown))
	return string(text)
}
