package server

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"unicode"
)

// A Describer says more about a service's methods than Go's reflection can tell. `nearcall
// gen service`, run by a go:generate line, writes it from the source.
type Describer interface {
	// DescribeFunctions returns options by method name; a method without any may be left out.
	DescribeFunctions() map[string][]FunctionOption
}

// RegisterService serves the exported methods of a value, each under the prefix and its
// name in lower case, with an underscore between words: GetOrder of a service that is
// registered with the prefix "orders." is called as orders.get_order, and ParseURL as
// orders.parse_url. The options are those of each function. A value that is a Describer adds
// its own to them, and its method DescribeFunctions is not served. It fails like Register,
// also for a value without methods; the same failure is returned by Serve.
//
//	s.RegisterService("orders.", &Orders{database})
func (s *Server) RegisterService(prefix string, service any, options ...FunctionOption) error {
	value := reflect.ValueOf(service)
	if !value.IsValid() || value.NumMethod() == 0 {
		return s.fail(fmt.Errorf("nearcall: register service %q: %T has no exported methods; pass a pointer where they have a pointer receiver", prefix, service))
	}
	var described map[string][]FunctionOption
	if describer, ok := service.(Describer); ok {
		described = describer.DescribeFunctions()
	}
	var failures []error
	for i := range value.NumMethod() {
		name := value.Type().Method(i).Name
		if described != nil && name == "DescribeFunctions" {
			continue
		}
		own := slices.Concat(options, described[name])
		failures = append(failures, s.Register(prefix+functionName(name), value.Method(i).Interface(), own...))
	}
	return errors.Join(failures...)
}

// fail keeps what failed for Serve, and returns it.
func (s *Server) fail(err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failures = append(s.failures, err)
	return err
}

// functionName writes a method's name as functions are named: words in lower case with an
// underscore between. A run of capitals is one word, but for its last one where a small
// letter follows: HTTPServer is http_server.
func functionName(method string) string {
	letters := []rune(method)
	var name strings.Builder
	for i, letter := range letters {
		if i > 0 && unicode.IsUpper(letter) && letters[i-1] != '_' {
			next := i+1 < len(letters) && unicode.IsLower(letters[i+1])
			if !unicode.IsUpper(letters[i-1]) || next {
				name.WriteByte('_')
			}
		}
		name.WriteRune(unicode.ToLower(letter))
	}
	return name.String()
}
