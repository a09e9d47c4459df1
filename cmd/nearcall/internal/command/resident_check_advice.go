package command

import (
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/nearcall/nearcall/cmd/nearcall/internal/installed"
	"github.com/nearcall/nearcall/cmd/nearcall/internal/residentcheck"
)

// printTouched shows what was done before the run and what is left to do in it, with the line
// to add.
func printTouched(out io.Writer, report *residentcheck.Report, k kept) {
	language := k.Language
	if language == "" {
		language = installed.LanguageOf(k.Program)
	}
	if len(report.Before) > 0 {
		fmt.Fprintln(out, "Touched before the run:")
	}
	var files []string
	shown := map[string]int{}
	for _, note := range report.Before {
		if isConfiguration(note) {
			files = append(files, note.Name)
		}
		if shown[note.Kind]++; shown[note.Kind] > notesShown {
			continue
		}
		name := printable(note.Name)
		if note.By != "" {
			name = strings.TrimSpace(name + "  (" + printable(note.By) + ")")
		}
		fmt.Fprintf(out, "  %-11s %s\n", note.Kind, name)
	}
	for _, kind := range slices.Sorted(maps.Keys(shown)) {
		if more := shown[kind] - notesShown; more > 0 {
			fmt.Fprintf(out, "  %-11s and %d more: --json has them\n", kind, more)
		}
	}
	if len(files) > 0 {
		fmt.Fprintf(out, "Files that were read before the run are not read again. To have the resident leave when they change:\n    %s\n", watchLine(files, language, k))
	}
	if len(report.Loaded) > 0 {
		fmt.Fprintf(out, "Loaded in each run: %s\n", printable(strings.Join(report.Loaded, " ")))
		fmt.Fprintf(out, "To load it once:\n    %s\n", loadLine(report, language, k))
	}
	fmt.Fprintf(out, "Not seen: %s.\n", unseen(language))
}

// notesShown of a kind are enough to see what it is about.
const notesShown = 12

// isConfiguration tells of files that somebody may change.
func isConfiguration(note residentcheck.Note) bool {
	if note.Kind != "file" || !filepath.IsAbs(note.Name) || strings.HasPrefix(note.Name, "/proc/") || strings.HasPrefix(note.Name, "/sys/") {
		return false
	}
	info, err := os.Stat(note.Name)
	return err == nil && info.Mode().IsRegular()
}

func watchLine(files []string, language installed.Language, k kept) string {
	switch {
	case k.foreign:
		return "nearcall resident install" + flagsOf(k, nil, files) + " " + forShells(k.Program)
	case language == installed.Python:
		return "resident.main(..., watch=[" + quotedAll(files) + "])"
	case language == installed.Perl:
		return "resident { ... } watch => [" + quotedAll(files) + "];"
	}
	return "resident.Options{Watch: []string{" + quotedAll(files) + "}}"
}

// plainWord is what no shell reads as anything else.
var plainWord = regexp.MustCompile(`^[\w@%+=:,./-]+$`)

// forShells are words of a command line as a shell takes them.
func forShells(words ...string) string {
	quoted := make([]string, len(words))
	for i, word := range words {
		if quoted[i] = word; !plainWord.MatchString(word) {
			quoted[i] = installed.Quoted(word)
		}
	}
	return strings.Join(quoted, " ")
}

func quotedAll(texts []string) string {
	quoted := make([]string, len(texts))
	for i, text := range texts {
		quoted[i] = strconv.Quote(text)
	}
	return strings.Join(quoted, ", ")
}

func loadLine(report *residentcheck.Report, language installed.Language, k kept) string {
	switch {
	case k.foreign:
		return "nearcall resident check" + flagsOf(k, report.Loaded, nil) + " " + forShells(append([]string{report.Program}, report.Arguments...)...)
	case language == installed.Perl:
		return "use " + strings.Join(report.Loaded, " (); use ") + " ();"
	}
	return "import " + strings.Join(report.Loaded, ", ")
}

// flagsOf are those of a program that is kept like this, with more to load and to watch.
func flagsOf(k kept, load, watch []string) string {
	var flags strings.Builder
	add := func(name string, values ...string) {
		if len(values) > 0 && values[0] != "" {
			fmt.Fprintf(&flags, " --%s %s", name, forShells(strings.Join(values, ",")))
		}
	}
	add("entry", k.Entry)
	add("path", k.Path...)
	add("preload", append(k.Preload[:len(k.Preload):len(k.Preload)], load...)...)
	add("environment", k.Environment...)
	add("reread", k.Reread...)
	for _, choice := range []struct {
		name  string
		value *bool
	}{{"same-directory", k.SameDirectory}, {"early-input", k.EarlyInput}} {
		if choice.value != nil {
			fmt.Fprintf(&flags, " --%s=%t", choice.name, *choice.value)
		}
	}
	add("watch", append(k.Watch[:len(k.Watch):len(k.Watch)], watch...)...)
	return flags.String()
}

func unseen(language installed.Language) string {
	switch language {
	case installed.Python:
		return "what extensions in C do before the run, os.stat of absolute paths, datetime.now(), what a run loads that ends by os._exit or a signal"
	case installed.Perl:
		return "what modules in C do before the run, as Time::HiRes::time, variables under -T, what a run loads that ends by POSIX::_exit or a signal"
	}
	return "what the program does before its run, but for what it has open; the run of another caller shows what is left of it"
}
