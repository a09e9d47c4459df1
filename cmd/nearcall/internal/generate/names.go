package generate

import (
	"fmt"
	"regexp"
	"strings"
)

// A namespace gives names that are identifiers and not taken.
type namespace struct {
	taken    map[string]bool
	reserved map[string]bool
}

func newNamespace(reserved ...string) *namespace {
	n := &namespace{taken: map[string]bool{}, reserved: map[string]bool{}}
	for _, name := range reserved {
		n.reserved[name] = true
	}
	return n
}

// take returns the wanted name, changed as far as it must be.
func (n *namespace) take(wanted string) string {
	name := identifier(wanted)
	if n.reserved[name] {
		name += "_"
	}
	unique := name
	for i := 2; n.taken[unique]; i++ {
		unique = fmt.Sprintf("%s_%d", name, i)
	}
	n.taken[unique] = true
	return unique
}

// identifier replaces what an identifier cannot hold.
func identifier(text string) string {
	name := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' {
			return r
		}
		return '_'
	}, text)
	if strings.Trim(name, "_") == "" {
		return "x" + name
	}
	if name[0] >= '0' && name[0] <= '9' {
		return "x" + name
	}
	return name
}

// camel makes "word_count" WordCount.
func camel(text string) string {
	var name strings.Builder
	for word := range strings.SplitSeq(identifier(text), "_") {
		if word != "" {
			name.WriteString(strings.ToUpper(word[:1]) + word[1:])
		}
	}
	return name.String()
}

// lowerCamel makes "bytes_count" bytesCount.
func lowerCamel(text string) string {
	name := camel(text)
	return strings.ToLower(name[:1]) + name[1:]
}

var modulePattern = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_]*$`)

// checkModule refuses names that cannot be a module's.
func checkModule(name string, pattern *regexp.Regexp, example string) error {
	if !pattern.MatchString(name) {
		return fmt.Errorf("--package %q cannot be a name here; use one as %s", name, example)
	}
	return nil
}
