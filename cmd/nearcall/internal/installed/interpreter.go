package installed

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// A Language is one in which a program can be kept ready without a line in it.
type Language string

// The languages.
const (
	Python Language = "python"
	Perl   Language = "perl"
)

// firstBytes are what the kernel reads of a file for its first line, and what pip writes
// in place of a longer one.
const firstBytes = 4096

// pipLine is the second line of programs whose interpreter's path is too long for the
// kernel: the first one names a shell, which executes this.
var pipLine = regexp.MustCompile(`^'''exec' "?([^"]+?)"? "\$0" "\$@"$`)

// interpreterOf returns the command that the kernel, or env, makes of a script's first
// line: the interpreter, and what stands behind it.
func interpreterOf(program string) ([]string, error) {
	file, err := os.Open(program)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	lines := bufio.NewScanner(io.LimitReader(file, firstBytes))
	lines.Scan()
	first, isScript := strings.CutPrefix(lines.Text(), "#!")
	if !isScript {
		return nil, fmt.Errorf("%s is no script: programs in Go become resident by one line in them (resident.Main), others cannot", program)
	}
	lines.Scan()
	if pip := pipLine.FindStringSubmatch(lines.Text()); pip != nil {
		return []string{pip[1]}, nil
	}
	path, argument, _ := strings.Cut(strings.TrimSpace(first), " ")
	argument = strings.TrimSpace(argument)
	switch {
	case filepath.Base(path) == "env":
		return interpreterOfEnv(program, argument)
	case argument == "":
		return []string{path}, nil
	}
	return []string{path, argument}, nil
}

func interpreterOfEnv(program, argument string) ([]string, error) {
	words := []string{argument}
	if rest, splits := strings.CutPrefix(argument, "-S"); splits {
		words = strings.Fields(rest)
	}
	if len(words) == 0 || words[0] == "" || strings.HasPrefix(words[0], "-") || strings.Contains(words[0], "=") {
		return nil, fmt.Errorf("%s: its first line is one of env with more than a name; name the interpreter there", program)
	}
	path, err := exec.LookPath(words[0])
	if err != nil {
		return nil, fmt.Errorf("%s: %w", program, err)
	}
	return append([]string{path}, words[1:]...), nil
}

var errLanguage = errors.New("it is in neither Perl nor Python by its first line; --perl or --python says which it is")

// LanguageOf returns that of a program by its first line; "" where it is in neither.
func LanguageOf(program string) Language {
	interpreter, err := interpreterOf(program)
	if err != nil {
		return ""
	}
	language, _ := languageOf(interpreter)
	return language
}

// languageOf tells by the interpreter's name, as python3.12.
func languageOf(interpreter []string) (Language, error) {
	name := filepath.Base(interpreter[0])
	switch {
	case strings.HasPrefix(name, "python"), strings.HasPrefix(name, "pypy"):
		return Python, nil
	case strings.HasPrefix(name, "perl"):
		return Perl, nil
	}
	return "", errLanguage
}
