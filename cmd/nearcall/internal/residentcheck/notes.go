package residentcheck

import (
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"
)

// A Note is of something that a program has touched before its runs, as its language's part
// of this project has seen it: spec/resident.md, notes.
type Note struct {
	Kind string `json:"kind"` // variable, directory, input, file, socket, process, time, randomness or open
	Name string `json:"name"`
	By   string `json:"by"` // the place in the program, with what each language calls it
}

// The fields of a line, and what the first and second of them may be.
const (
	noteFields = 4
	noteBefore = "before"
	noteRun    = "run"
	noteModule = "module"
	noteOpen   = "open" // while it waits: seen from outside, in every language
)

// readNotes returns what was touched before runs, and the modules that runs have loaded, each once.
func readNotes(path string) (before []Note, loaded []string, err error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	for line := range strings.Lines(string(text)) {
		fields := strings.SplitN(strings.TrimSuffix(line, "\n"), "\t", noteFields)
		if len(fields) != noteFields {
			continue
		}
		note := Note{Kind: fields[1], By: fields[2], Name: fields[3]}
		switch {
		case fields[0] == noteBefore && !slices.Contains(before, note):
			before = append(before, note)
		case fields[0] == noteRun && note.Kind == noteModule && !slices.Contains(loaded, note.Name):
			loaded = append(loaded, note.Name)
		}
	}
	return before, loaded, nil
}
