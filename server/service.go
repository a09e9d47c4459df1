package server

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"unicode"
)

// A Describer says more about the methods of a service than reflection can find: their
// documentation and the names of their parameters. A go:generate line with the command
// `nearcall gen service` writes the method from the source.
type Describer interface {
	// DescribeFunctions returns options by method name. Methods without options may be left
	// out.
	DescribeFunctions() map[string][]FunctionOption
}

// RegisterService serves the exported methods of a value. Their names are written in lower
// case behind the prefix, with an underscore between words: GetOrder of a service that is
// registered with the prefix "orders." is called as orders.get_order, and ParseURL as
// orders.parse_url. The options apply to each method. If the value is a Describer, the
// options that it returns come after them, and its method DescribeFunctions is not served.
//
// RegisterService fails as Register does, and if the value has no exported methods. Serve
// returns the same error.
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
